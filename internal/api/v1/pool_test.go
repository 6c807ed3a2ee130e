package v1_test

import (
	"strings"
	"testing"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/pool"
)

func TestPoolStatus(t *testing.T) {
	const none = `{"enabled":false,"ready":0,"max_ready":0,"unmatched":0,"images":[]}`
	if a := start(t).do(t, "GET", "/v1/pool/status", ""); strings.TrimSpace(string(a.body)) != none {
		t.Errorf("without a pool: %s", a.body)
	}
	s := start(t, func(o *setup) { // that does nothing yet
		o.v1.Pool = pool.New(pool.Options{Images: map[string]int{"python": 2, "base": pool.Auto}, MaxReady: 7})
	})
	var got v1.PoolStatus
	s.do(t, "GET", "/v1/pool/status", "").into(t, 200, &got)
	if !got.Enabled || got.MaxReady != 7 || len(got.Images) != 2 {
		t.Fatalf("%+v", got)
	}
	if base, python := got.Images[0], got.Images[1]; base != (v1.PoolImage{Image: "base", Auto: true}) || python != (v1.PoolImage{Image: "python", Wanted: 2}) {
		t.Errorf("%+v", got.Images)
	}
}
