package main

import (
	"testing"
)

func TestCgroupMode(t *testing.T) {
	const v1 = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n"
	const v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
	for mounts, want := range map[string]string{"": "none", v1: "v1", v2: "v2", v1 + v2: "hybrid (v1 controllers)"} {
		if got := cgroupMode(mounts); got != want {
			t.Errorf("%q: %s, want %s", mounts, got, want)
		}
	}
}

func TestDescribeMachine(t *testing.T) {
	m := describeMachine(t.Context(), "/", map[string][]string{"go": {"go", "version"}, "none": {"/no/such/tool"}})
	if m.Cores < 1 || m.Kernel == "" || m.MemoryMB == 0 || m.Versions["go"] == "" {
		t.Errorf("%+v", m)
	}
	if _, ok := m.Versions["none"]; ok {
		t.Error("a tool that is not there has a version")
	}
	if got := field("a: 1\nmodel name\t: Some CPU\n", "model name", ":"); got != "Some CPU" {
		t.Errorf("field: %q", got)
	}
}
