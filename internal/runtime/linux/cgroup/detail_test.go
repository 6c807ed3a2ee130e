package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the two kinds of trees call the same figures.
func TestDetails(t *testing.T) {
	for name, c := range map[string]struct {
		hybrid bool
		files  map[string]string // below the group's directories
	}{
		"v2": {false, map[string]string{
			"unified/memory.stat":         "anon 1048576\nfile 2097152\nshmem 4096\ninactive_file 8192\nslab_reclaimable 16384\n",
			"unified/cpu.stat":            "usage_usec 5000000\nuser_usec 3000000\nsystem_usec 2000000\n",
			"unified/cgroup.procs":        "12\n0\n",
			"unified/part-0/cgroup.procs": "34\n",
		}},
		"hybrid": {true, map[string]string{
			"memory/memory.stat":          "cache 1\nrss 1\ntotal_cache 2097152\ntotal_rss 1048576\ntotal_shmem 4096\ntotal_inactive_file 8192\n",
			"cpuacct/cpuacct.stat":        "user 300\nsystem 200\n",
			"unified/cgroup.procs":        "12\n",
			"unified/part-0/cgroup.procs": "34\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			m := &Manager{unified: filepath.Join(root, "unified"), v1: map[string]string{}, name: "ours"}
			if c.hybrid {
				for _, controller := range controllers {
					m.v1[controller] = filepath.Join(root, controller)
				}
			}
			for file, text := range c.files {
				tree, rest, _ := strings.Cut(file, "/")
				path := filepath.Join(root, tree, "ours", "a", rest)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			g := m.Group("a")
			use := g.MemoryUse()
			if use.Anon != 1<<20 || use.File != 2<<20 || use.Shmem != 4096 || use.InactiveFile != 8192 || !c.hybrid && use.SlabReclaimable != 16384 {
				t.Errorf("memory %+v", use)
			}
			if user, system := g.CPUTimes(); user != 3*time.Second || system != 2*time.Second {
				t.Errorf("%s in programs and %s in the kernel", user, system)
			}
			pids, err := g.PIDs()
			slices.Sort(pids)
			if err != nil || !slices.Equal(slices.DeleteFunc(pids, func(pid int) bool { return pid == 0 }), []int{12, 34}) {
				t.Errorf("processes %v, %v", pids, err)
			}
		})
	}
	if use := (&Manager{unified: t.TempDir(), name: "ours"}).Group("gone").MemoryUse(); use != (MemoryUse{}) {
		t.Errorf("of a group that is not there: %+v", use)
	}
}

// Each limit that somebody changes is found, those of swap and of sockets too, but for
// that of a group that is swapped out. What a kernel does not have is no difference.
func TestDeviations(t *testing.T) {
	for name, c := range map[string]struct {
		hybrid bool
		files  map[string]string // below the group's directories, changed
	}{
		"v2": {false, map[string]string{
			"unified/memory.max": "max", "unified/pids.max": "max", "unified/cpu.max": "max 100000",
		}},
		"hybrid": {true, map[string]string{
			"memory/memory.limit_in_bytes": "1", "memory/memory.memsw.limit_in_bytes": "9223372036854771712",
			"memory/memory.kmem.tcp.limit_in_bytes": "9223372036854771712", "pids/pids.max": "max",
			"cpu/cpu.cfs_period_us": "1", "cpu/cpu.cfs_quota_us": "-1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := tree(t, c.hybrid).Group("a")
			path := func(file string) string {
				root, base := filepath.Split(file)
				if !c.hybrid {
					return filepath.Join(g.unified(), base)
				}
				return filepath.Join(g.v1(filepath.Clean(root)), base)
			}
			for file := range c.files {
				touch(t, path(file))
			}
			if err := g.Limit(someLimits); err != nil {
				t.Fatal(err)
			}
			if found, err := g.Deviations(someLimits); err != nil || len(found) > 0 {
				t.Fatalf("of what was just set differs %q, %v", found, err)
			}
			if !c.hybrid {
				touch(t, path("unified/memory.swap.max"))
				if err := g.SwapOut(func() bool { return false }); err != nil {
					t.Fatal(err)
				}
			}
			for file, changed := range c.files {
				was := content(t, path(file))
				if err := os.WriteFile(path(file), []byte(changed), 0o600); err != nil {
					t.Fatal(err)
				}
				want := []string{filepath.Base(file) + " is " + changed + " instead of " + was}
				if found, err := g.Deviations(someLimits); err != nil || !slices.Equal(found, want) {
					t.Errorf("found %q, %v; want %q", found, err, want)
				}
				if err := os.Remove(path(file)); err != nil {
					t.Fatal(err)
				}
				if found, err := g.Deviations(someLimits); err != nil || len(found) > 0 {
					t.Errorf("without %s differs %q, %v", file, found, err)
				}
				if err := os.WriteFile(path(file), []byte(was), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
