package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/test/bench/machine"
	"github.com/sandkasten/sandkasten/test/bench/report"
)

func TestPublishWritesTheReportOnlyWhenItIsWhole(t *testing.T) {
	dir := t.TempDir()
	r := report.Results{
		Exec:    map[string]report.Summary{report.Ours: {N: 100, P50: 300 * time.Microsecond}},
		Fork:    map[string]map[string]report.Summary{"pool": {report.ForkSettled: {N: 1, P50: time.Second}}},
		Density: []report.Density{{N: 200, Memory: report.Memory{Slab: 1000}}},
		Restart: &report.Restart{N: 200, Ready: time.Second},
	}
	o := options{report: filepath.Join(dir, "benchmarks.md"), json: filepath.Join(dir, "results.json"), only: []string{"crun"}}
	if err := publish(o, r); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.report); err == nil {
		t.Error("a part was published as the whole")
	}
	var back report.Results
	if err := json.Unmarshal([]byte(machine.Text(o.json)), &back); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("results.json: %s", diff)
	}
	o.only, o.scale = nil, 0.5
	if err := publish(o, r); err != nil || machine.Text(o.report) != "" {
		t.Errorf("a run with fewer rounds was published: %v", err)
	}
	o.scale = 1
	if err := publish(o, r); err != nil || machine.Text(o.report) == "" {
		t.Errorf("the whole was not published: %v", err)
	}
}

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]string{"-parts", "create,exec", "-only", "crun", "-scale", "0.5", "-seed", "7"})
	if err != nil || len(o.parts) != 2 || !o.wants("crun run") || o.wants("runc run") || o.seed != 7 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-parts", "creat"}, {"-scale", "0"}, {"extra"}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
