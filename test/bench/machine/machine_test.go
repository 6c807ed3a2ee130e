package machine

import (
	"errors"
	"os/exec"
	"testing"
)

func TestParseMeminfo(t *testing.T) {
	got, err := Meminfo("MemTotal:       24682012 kB\nHugePages_Total:       3\nPercpu:              928 kB\n")
	if err != nil || got["MemTotal"] != 24682012*1024 || got["HugePages_Total"] != 3 || got["Percpu"] != 928*1024 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Meminfo("MemTotal\n"); err == nil {
		t.Error("a line without a value is taken")
	}
	if real, err := Meminfo(Text("/proc/meminfo")); err != nil || real["MemAvailable"] == 0 {
		t.Errorf("this host's: %v, %v", real["MemAvailable"], err)
	}
}

func TestCommandName(t *testing.T) {
	cat := exec.CommandContext(t.Context(), "cat")
	stdin, err := cat.StdinPipe()
	if err == nil {
		err = cat.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if name := CommandName(cat.Process.Pid); name != "cat" {
		t.Errorf("it is called %q", name)
	}
	if err := errors.Join(stdin.Close(), cat.Wait()); err != nil {
		t.Error(err)
	}
}

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
	m := Describe(t.Context(), "/", map[string][]string{"go": {"go", "version"}, "none": {"/no/such/tool"}})
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
