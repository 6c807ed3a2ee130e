package inuse

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseMeminfo(t *testing.T) {
	got, err := parseMeminfo("MemTotal:       24682012 kB\nHugePages_Total:       3\nPercpu:              928 kB\n")
	if err != nil || got["MemTotal"] != 24682012*1024 || got["HugePages_Total"] != 3 || got["Percpu"] != 928*1024 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseMeminfo("MemTotal\n"); err == nil {
		t.Error("a line without a value is taken")
	}
	if real, err := Memory(); err != nil || real["MemAvailable"] == 0 {
		t.Errorf("this host's: %v, %v", real["MemAvailable"], err)
	}
}

func TestParseStat(t *testing.T) {
	pid, parent, err := parseStat("12 (a) b (c)) S 7 12 12 0")
	if pid != 12 || parent != 7 || err != nil {
		t.Errorf("pid %d, parent %d, %v", pid, parent, err)
	}
	for _, text := range []string{"", "12 (x", "12 (x) S", "x (y) S 1"} {
		if _, _, err := parseStat(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestBelowFindsChildrenOnly(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Kill(), cmd.Wait()); err == nil {
			t.Error("sleep was not killed")
		}
	})
	child := cmd.Process.Pid
	below, err := Below(os.Getpid())
	if err != nil || !slices.Contains(below, child) || slices.Contains(below, os.Getpid()) {
		t.Errorf("below us: %v, %v; want %d", below, err, child)
	}
	if name := Name(child); name != "sleep" {
		t.Errorf("it is called %q", name)
	}
}

func TestProcessKnowsUs(t *testing.T) {
	bytes, descriptors, err := Process(os.Getpid())
	if err != nil || bytes < 1<<20 || descriptors < 3 {
		t.Errorf("we have %d bytes and %d descriptors, %v", bytes, descriptors, err)
	}
	if n, err := Tasks(); err != nil || n < 2 {
		t.Errorf("the host has %d tasks, %v", n, err)
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

func TestDiskLeavesOutHoles(t *testing.T) {
	dir := t.TempDir()
	empty, err := Disk(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "sparse"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if got, err := Disk(dir); err != nil || got-empty > 1<<20 {
		t.Errorf("a hole takes %d bytes, %v", got-empty, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Disk(dir); err != nil || got-empty < 4<<20 {
		t.Errorf("4 MiB take %d bytes, %v", got-empty, err)
	}
}
