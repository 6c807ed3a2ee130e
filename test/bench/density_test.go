package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/test/bench/report"
)

func TestPerSession(t *testing.T) {
	before := host{memory: map[string]int64{"MemAvailable": 9000, "Slab": 100}, tasks: 200, disk: 50, daemonBytes: 1000, descriptors: 20}
	after := host{memory: map[string]int64{"MemAvailable": 5000, "Slab": 1100}, tasks: 310, disk: 450, daemonBytes: 1200, descriptors: 31}
	want := report.Density{
		N: 10, Memory: report.Memory{N: 10, Available: 400, Slab: 100}, Disk: 40, Tasks: 11,
		Daemon: report.Usage{Bytes: 20, Descriptors: 1.1},
	}
	if diff := cmp.Diff(want, perSession(before, after, 10)); diff != "" {
		t.Error(diff)
	}
}
