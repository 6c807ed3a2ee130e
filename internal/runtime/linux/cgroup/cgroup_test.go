package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

const (
	// Captures, shortened to the lines that matter.
	mountinfoV2     = "31 24 0:27 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
	mountinfoHybrid = "33 24 0:30 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw\n" +
		"34 24 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:11 - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 24 0:32 / /sys/fs/cgroup/memory rw,nosuid shared:12 - cgroup cgroup rw,memory\n" +
		"36 24 0:33 / /sys/fs/cgroup/pids rw,nosuid shared:13 - cgroup cgroup rw,pids\n" +
		"37 24 0:34 / /sys/fs/cgroup/systemd rw,nosuid shared:9 - cgroup cgroup rw,xattr,name=systemd\n"
)

func TestDetect(t *testing.T) {
	m, err := detectHierarchy(mountinfoV2)
	if err != nil || m.Hybrid() || m.unified != "/sys/fs/cgroup" {
		t.Fatalf("v2: %+v, %v", m, err)
	}
	m, err = detectHierarchy(mountinfoHybrid)
	if err != nil || !m.Hybrid() || m.unified != "/sys/fs/cgroup/unified" {
		t.Fatalf("hybrid: %+v, %v", m, err)
	}
	// cpu and cpuacct share a mount: one directory serves both.
	if got := strings.Join(m.roots(), " "); got != "/sys/fs/cgroup/unified /sys/fs/cgroup/memory /sys/fs/cgroup/cpu,cpuacct /sys/fs/cgroup/pids" {
		t.Fatalf("roots: %s", got)
	}
}

func TestDetect_SaysWhatIsMissing(t *testing.T) {
	for _, tc := range []struct{ mountinfo, want string }{
		{"", "mount -t cgroup2"},
		{"malformed\n", "mount -t cgroup2"},
		{strings.ReplaceAll(mountinfoHybrid, "rw,memory", "rw,hugetlb"), "only [cpu cpuacct pids] are mounted"},
	} {
		if _, err := detectHierarchy(tc.mountinfo); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}

// tree is a Manager over ordinary directories: enough to see which files are
// written with what.
func tree(t *testing.T, hybrid bool) *Manager {
	t.Helper()
	root := t.TempDir()
	m := &Manager{unified: filepath.Join(root, "unified"), v1: map[string]string{}, name: "sandkasten/test"}
	if hybrid {
		for _, c := range controllers {
			m.v1[c] = filepath.Join(root, c)
		}
	}
	for _, r := range m.roots() {
		if err := os.MkdirAll(filepath.Join(r, m.name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// touch makes the control files that the kernel would make.
func touch(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// delegable makes those that delegate writes to.
func delegable(t *testing.T, g Group) {
	t.Helper()
	for _, file := range []string{"cgroup.procs", "cgroup.max.descendants", "cgroup.max.depth"} {
		touch(t, filepath.Join(g.unified(), file))
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var someLimits = Limits{Memory: 110 << 20, CPU: 1.5, Pids: 77}

func TestCreate_V2Limits(t *testing.T) {
	m := tree(t, false)
	g := m.Group("a")
	u := g.unified()
	delegable(t, g)
	touch(t, u+"/memory.max", u+"/pids.max", u+"/cpu.max")
	if err := g.Create(someLimits, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"memory.max": "115343360",
		"pids.max":   "77",
		"cpu.max":    "150000 100000",

		// What the sandbox's runner may make below.
		"cgroup.max.descendants": "256",
		"cgroup.max.depth":       "1",
	} {
		if got := content(t, filepath.Join(u, path)); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestCreate_HybridLimits(t *testing.T) {
	m := tree(t, true)
	g := m.Group("a")
	delegable(t, g)
	touch(t, g.v1("memory")+"/memory.limit_in_bytes", g.v1("memory")+"/memory.memsw.limit_in_bytes",
		g.v1("memory")+"/memory.kmem.tcp.limit_in_bytes", g.v1("pids")+"/pids.max", g.v1("cpu")+"/cpu.cfs_period_us", g.v1("cpu")+"/cpu.cfs_quota_us")
	if err := g.Create(someLimits, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	if got := content(t, g.v1("memory")+"/memory.memsw.limit_in_bytes"); got != "115343360" {
		t.Errorf("swap is not counted in: %q", got)
	}
	if got := content(t, g.v1("memory")+"/memory.kmem.tcp.limit_in_bytes"); got != "28835840" {
		t.Errorf("sockets are not bounded: %q", got)
	}
	if got := content(t, g.v1("cpu")+"/cpu.cfs_quota_us"); got != "150000" {
		t.Errorf("cpu quota: %q", got)
	}
}

func TestQuotaIsNeverBelowTheKernelsMinimum(t *testing.T) {
	if got := quota(0.001); got != 1000 {
		t.Fatalf("got %d", got)
	}
}

func TestRemoveTakesWhatIsBelow(t *testing.T) {
	m := tree(t, true)
	g := m.Group("a")
	for _, root := range m.roots() {
		if err := os.MkdirAll(g.dir(root), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(g.unified(), "part-0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if left, err := m.List(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestKillAndPopulatedOfAbsentGroup(t *testing.T) {
	g := tree(t, false).Group("absent")
	if err := g.Kill(); err != nil {
		t.Errorf("kill: %v", err)
	}
	if busy, err := g.Populated(); busy || err != nil {
		t.Errorf("populated: %v, %v", busy, err)
	}
	if err := g.Remove(time.Millisecond); err != nil {
		t.Errorf("remove: %v", err)
	}
}

func TestPopulatedReadsEvents(t *testing.T) {
	g := tree(t, false).Group("a")
	touch(t, g.unified()+"/cgroup.events")
	for text, want := range map[string]bool{"populated 1\nfrozen 0\n": true, "populated 0\nfrozen 0\n": false} {
		if err := os.WriteFile(g.unified()+"/cgroup.events", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := g.Populated(); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestRemoveAndList(t *testing.T) {
	for _, hybrid := range []bool{false, true} {
		m := tree(t, hybrid)
		g := m.Group("a")
		dirs := []string{g.unified()}
		if hybrid {
			dirs = append(dirs, g.v1("memory"), g.v1("pids"), filepath.Join(m.v1["memory"], m.name, runners))
		}
		for _, d := range dirs {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if ids, err := m.List(); err != nil || len(ids) != 1 || ids[0] != "a" {
			t.Fatalf("list: %v, %v", ids, err)
		}
		if err := g.Remove(time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if ids, err := m.List(); err != nil || len(ids) != 0 {
			t.Fatalf("after remove: %v, %v", ids, err)
		}
	}
}

func TestCloseLeavesDirectoriesInUse(t *testing.T) {
	m := tree(t, true)
	if err := os.Mkdir(m.Group("a").unified(), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for root, kept := range map[string]bool{m.unified: true, m.v1["memory"]: false} {
		if _, err := os.Stat(filepath.Join(root, m.name)); (err == nil) != kept {
			t.Errorf("%s: %v", root, err)
		}
	}
}

func TestUsage(t *testing.T) {
	m := tree(t, false)
	g := m.Group("a")
	files := map[string]string{
		"memory.current": "4096\n", "memory.peak": "8192\n", "memory.events": "low 0\noom 3\noom_kill 2\n",
		"cpu.stat": "usage_usec 1234\nuser_usec 1000\n", "pids.current": "5\n",
	}
	for name, text := range files {
		p := filepath.Join(g.unified(), name)
		touch(t, p)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := Usage{Memory: 4096, MemoryPeak: 8192, CPUUsec: 1234, Pids: 5, OOMKills: 2}
	if got := g.Usage(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := m.Group("absent").Usage(); got != (Usage{}) {
		t.Errorf("absent: %+v", got)
	}
}

// SwapOut asks for one piece after the other until it is told to stop, and
// leaves the group without swap again after SwapIn.
func TestSwapOut(t *testing.T) {
	m := tree(t, false)
	g := m.Group("a")
	file := func(name string) string { return filepath.Join(g.unified(), name) }
	touch(t, file("memory.swap.max"), file("memory.reclaim"))
	if err := os.WriteFile(file("memory.current"), []byte("100\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	pieces := 0
	if err := g.SwapOut(func() bool { pieces++; return pieces < 3 }); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.swap.max": "max", "memory.reclaim": "16777216"} {
		if got, err := os.ReadFile(file(name)); err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if pieces != 3 {
		t.Errorf("it asked %d times whether to go on", pieces)
	}
	if err := os.WriteFile(file("memory.current"), []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := g.SwapOut(func() bool { pieces++; return pieces < 100 }); err != nil || pieces != 4 {
		t.Errorf("with nothing left it asked %d times, %v", pieces, err)
	}
	if err := g.SwapIn(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file("memory.swap.max")); err != nil || !strings.HasPrefix(string(got), "0") {
		t.Errorf("memory.swap.max is %q, %v", got, err)
	}

	// A kernel without swap, and a host without the controller in v2.
	if err := os.Remove(file("memory.swap.max")); err != nil {
		t.Fatal(err)
	}
	for _, g := range []Group{g, tree(t, true).Group("a")} {
		if err := errors.Join(g.SwapOut(func() bool { return true }), g.SwapIn()); err != nil {
			t.Error(err)
		}
	}
}

// The kernel takes no limit on memory and swap together that is below the one
// on memory alone, whatever they were before.
func TestLimit_HybridAgain(t *testing.T) {
	for name, was := range map[string]int64{"raised": 64 << 20, "lowered": 512 << 20, "unlimited": 1 << 62, "without swap": -1} {
		t.Run(name, func(t *testing.T) {
			m := tree(t, true)
			g := m.Group("a")
			memory := g.v1("memory")
			touch(t, memory+"/memory.limit_in_bytes", g.v1("pids")+"/pids.max", g.v1("cpu")+"/cpu.cfs_period_us", g.v1("cpu")+"/cpu.cfs_quota_us")
			if was >= 0 {
				touch(t, memory+"/memory.memsw.limit_in_bytes")
				if err := writeNumber(memory, "memory.memsw.limit_in_bytes", was); err != nil {
					t.Fatal(err)
				}
			}
			if err := g.Limit(someLimits); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"} {
				if was < 0 && strings.Contains(file, "memsw") {
					continue
				}
				if got := content(t, memory+"/"+file); !strings.HasPrefix(got, "115343360") {
					t.Errorf("%s is %q", file, got)
				}
			}
		})
	}
}

// Both trees have it, and older kernels have something near.
func TestYield(t *testing.T) {
	for _, hybrid := range []bool{false, true} {
		g := tree(t, hybrid).Group("a")
		dir, old, low, usual := g.unified(), "cpu.weight", "1", "100"
		if hybrid {
			dir, old, low, usual = g.v1("cpu"), "cpu.shares", "2", "1024"
		}
		touch(t, filepath.Join(dir, old))
		for _, file := range []string{old, "cpu.idle"} {
			want := map[bool]string{true: low, false: usual}
			if file == "cpu.idle" {
				touch(t, filepath.Join(dir, file))
				want = map[bool]string{true: "1", false: "0"}
			}
			for _, on := range []bool{true, false} {
				// A write to a plain file leaves what is behind it.
				if err := os.Truncate(filepath.Join(dir, file), 0); err != nil {
					t.Fatal(err)
				}
				if err := g.Yield(on); err != nil {
					t.Fatal(err)
				}
				if got := content(t, filepath.Join(dir, file)); got != want[on] {
					t.Errorf("hybrid %v, %s, %v: %q", hybrid, file, on, got)
				}
				if g.Yields() != (on && file == "cpu.idle") {
					t.Errorf("hybrid %v, %s: yields %v", hybrid, file, !on)
				}
			}
		}
	}
	if err := tree(t, true).Group("gone").Yield(true); err != nil {
		t.Error(err)
	}
}

// All runners together are one group beside those of the sandboxes, and have
// more than the share of one.
func TestRunnersWeight(t *testing.T) {
	m := tree(t, false)
	weight := filepath.Join(m.unified, m.name, runners, "cpu.weight")
	touch(t, weight)
	dir, tasks, err := m.Runners()
	if err != nil {
		t.Fatal(err)
	}
	sys.Close(append(tasks, dir)...)
	if got := content(t, weight); got != "2000" {
		t.Errorf("weight %q", got)
	}
}
