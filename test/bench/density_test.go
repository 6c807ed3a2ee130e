package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPerSession(t *testing.T) {
	before := host{memory: map[string]int64{"MemAvailable": 9000, "Slab": 100}, tasks: 200, disk: 50, daemonBytes: 1000, descriptors: 20}
	after := host{memory: map[string]int64{"MemAvailable": 5000, "Slab": 1100}, tasks: 310, disk: 450, daemonBytes: 1200, descriptors: 31}
	want := density{
		N: 10, Memory: memory{N: 10, Available: 400, Slab: 100}, Disk: 40, Tasks: 11,
		Daemon: usage{Bytes: 20, Descriptors: 1.1},
	}
	if diff := cmp.Diff(want, perSession(before, after, 10)); diff != "" {
		t.Error(diff)
	}
}

func TestParseTasks(t *testing.T) {
	if n, err := parseTasks("0.65 2.20 2.40 2/138 30107\n"); n != 138 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, text := range []string{"", "0.65 2.20 2.40", "0.65 2.20 2.40 138 30107"} {
		if n, err := parseTasks(text); err == nil {
			t.Errorf("%q has %d tasks", text, n)
		}
	}
}

func TestDiskUseLeavesOutHoles(t *testing.T) {
	dir := t.TempDir()
	empty, err := diskUse(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "sparse"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if got, err := diskUse(dir); err != nil || got-empty > 1<<20 {
		t.Errorf("a hole takes %d bytes, %v", got-empty, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := diskUse(dir); err != nil || got-empty < 4<<20 {
		t.Errorf("4 MiB take %d bytes, %v", got-empty, err)
	}
}
