package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzDetect reads whatever mounts there are. A tree that it finds is the fifth
// field of a line that says so, and of v1 it takes all or nothing.
func FuzzDetect(f *testing.F) {
	for _, seed := range []string{
		mountinfoV2, mountinfoHybrid, mountinfoV2 + mountinfoHybrid, "", "1 2 3 4 5 - cgroup2", "- cgroup2 a b\n", " - - cgroup cgroup memory\n",
		"31 24 0:27 / /a\\040b rw - cgroup2 cgroup2 rw\n", "0 0 0 0 0 - \fcgroup2 0 0", strings.ReplaceAll(mountinfoHybrid, "memory", "pids"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, mountinfo string) {
		m, err := detectHierarchy(mountinfo)
		if err != nil {
			return
		}
		if m.Hybrid() && len(m.v1) != len(controllers) {
			t.Errorf("of v1 only %v", m.v1)
		}
		for _, root := range m.roots() {
			listed := slices.ContainsFunc(strings.Split(mountinfo, "\n"), func(line string) bool {
				fields := words(line)
				return len(fields) > 4 && fields[4] == root && strings.Contains(line, " cgroup")
			})
			if !listed {
				t.Errorf("%q is no mount of a control group", root)
			}
		}
	})
}

// FuzzField looks for a counter in a file that has whatever else.
func FuzzField(f *testing.F) {
	f.Add("low 0\nhigh 0\n", int64(7), "oom_group_kill 3\n")
	f.Add("", int64(-1), "")
	f.Add("oom_kil 1\n oom_kill 5\n", int64(0), "oom_kill_2 9")
	file := filepath.Join(f.TempDir(), "memory.events")
	f.Fuzz(func(t *testing.T, before string, n int64, after string) {
		text := fmt.Sprintf("%s\noom_kill %d\n%s", before, n, after)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		field(filepath.Dir(file), "memory.events") // the whole of it is no number
		if strings.Contains("\n"+before, "\noom_kill ") {
			n = 0 // the first one counts, whatever it is
			if field(filepath.Dir(file), "memory.events", "oom_kill") != 0 {
				return
			}
		}
		if got := field(filepath.Dir(file), "memory.events", "oom_kill"); got != n {
			t.Errorf("%q: %d, want %d", text, got, n)
		}
	})
}
