package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Somebody of a group is found wherever in it he is.
func TestMembers(t *testing.T) {
	dir := t.TempDir()
	g := (&Manager{unified: dir, name: "node"}).Group("id")
	if pids, err := g.Members(); err != nil || len(pids) > 0 {
		t.Errorf("of a group that is not there: %v, %v", pids, err)
	}
	for _, step := range []struct {
		file, text string
		want       []int
	}{
		{"cgroup.procs", "", nil},
		{"part/cgroup.procs", "0\n7\n", []int{7}}, // 0 is of another namespace of processes
		{"cgroup.procs", "5\n6\n", []int{5, 6}},
	} {
		path := filepath.Join(dir, "node/id", step.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(step.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if pids, err := g.Members(); err != nil || !slices.Equal(pids, step.want) {
			t.Errorf("with %q in %s: %v, %v, want %v", step.text, step.file, pids, err, step.want)
		}
	}
}
