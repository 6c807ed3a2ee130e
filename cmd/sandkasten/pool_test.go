package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/sdk/go"
)

func TestPoolStatusOfNone(t *testing.T) {
	tm := startDaemon(t)
	if r := tm.run("pool", "status"); r.code != 0 || r.out != "" || !strings.Contains(r.errOut, "pool: {enabled: true}") {
		t.Errorf("%+v", r)
	}
	var st sandkasten.PoolStatus
	if err := json.Unmarshal([]byte(tm.want("pool", "status", "--json")), &st); err != nil || st.Enabled || len(st.Images) != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestPoolRows(t *testing.T) {
	got := poolRows(sandkasten.PoolStatus{Images: []sandkasten.PoolImage{
		{Image: "base", Wanted: 4, Ready: 3, Hits: 10, Misses: 2, MakeMS: 9.14},
		{Image: "node", Auto: true, Error: "no image node"},
	}})
	want := [][]string{
		{"IMAGE", "READY", "WANTED", "HITS", "MISSES", "MAKE MS", "ERROR"},
		{"base", "3", "4", "10", "2", "9.1", ""},
		{"node", "0", "0 (auto)", "0", "0", "0.0", "no image node"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
