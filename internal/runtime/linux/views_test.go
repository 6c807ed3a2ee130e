package linux

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/procview"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// machine is what programs take their machine for: its memory in KiB, and its
// processors by several ways of asking.
const machine = `sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo; free -k | sed -n 's/^Mem: *\([0-9]*\).*/\1/p'
	nproc; getconf _NPROCESSORS_ONLN; grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat`

func wantMachine(d *Driver, memoryMB int64, cpus int) string {
	cpus = min(cpus, len(d.views.host.cpus))
	return fmt.Sprintf("%d\n%[1]d\n%d\n%[2]d\n%[2]d\n%[2]d\n", memoryMB<<10, cpus)
}

// A sandbox sees a machine of its limits' size, however it came to be.
func TestSandboxSeesItsLimits(t *testing.T) {
	d := root(t)
	small := runtime.Limits{CPU: 0.5, MemoryMB: 200, Pids: 100, DiskMB: 256}
	large := runtime.Limits{CPU: 1.5, MemoryMB: 300, Pids: 100, DiskMB: 256}
	a := create(t, d, "a", runtime.Spec{Limits: small})
	if got, want := a(machine), wantMachine(d, 200, 1); got != want {
		t.Errorf("created: %q, want %q", got, want)
	}
	create(t, d, "ready", runtime.Spec{Limits: small})
	before := d.views.tracked()["ready"]
	if _, err := d.Claim(t.Context(), "ready", "claimed", runtime.Spec{Image: "test", Limits: large}); err != nil {
		t.Fatal(err)
	}
	// A renewal that began before the claim changes nothing behind it.
	claimed := session(t, d, "claimed")
	claimed("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
	if err := d.renewTracked("ready", before); err != nil {
		t.Error(err)
	}
	if got, want := claimed(machine), wantMachine(d, 300, 2); got != want {
		t.Errorf("claimed with other limits: %q, want %q", got, want)
	}
	for _, fork := range fork(t, d, "a", runtime.Spec{Limits: large}, "c").Sandboxes {
		if got, want := command(t, fork, machine), wantMachine(d, 300, 2); got != want {
			t.Errorf("forked with other limits: %q, want %q", got, want)
		}
	}
	if err := d.Stop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	again, err := d.Start(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := command(t, again, machine), wantMachine(d, 200, 1); got != want {
		t.Errorf("started again: %q, want %q", got, want)
	}
}

// What the sandbox uses shows within seconds, also to a daemon that has not made it.
func TestSandboxSeesItsUse(t *testing.T) {
	d := root(t)
	sh := create(t, d, "a", runtime.Spec{Limits: runtime.Limits{CPU: 1, MemoryMB: 400, Pids: 100, DiskMB: 256}})
	used := func() (mib int) {
		if _, err := fmt.Sscan(sh(`free -m | sed -n 's/^Mem: *[0-9]* *\([0-9]*\).*/\1/p'`), &mib); err != nil {
			t.Fatal(err)
		}
		return mib
	}
	before := used()
	sh(`(timeout 90 python3 -c '
held = b"x" * (200 << 20)
while True: pass' >/dev/null 2>&1 &)`)
	during := before
	for end := time.Now().Add(20 * time.Second); during < 180 && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		during = used()
	}
	if before > 60 || during < 180 {
		t.Errorf("%d MiB were in use, and %d with 200 more", before, during)
	}
	var load float64
	for end := time.Now().Add(20 * time.Second); load == 0 && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if _, err := fmt.Sscan(sh("cat /proc/loadavg"), &load); err != nil {
			t.Fatal(err)
		}
	}
	if load == 0 {
		t.Error("a busy sandbox has no load")
	}
	again, err := New(d.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
	if len(again.views.tracked()) != 1 {
		t.Error("a later daemon does not know of it")
	}
	// As user, nice, system and idle: all of a processor since the sandbox is there.
	var user, nice, system, idle int
	if _, err := fmt.Sscanf(sh("grep '^cpu ' /proc/stat"), "cpu %d %d %d %d", &user, &nice, &system, &idle); err != nil || user+system == 0 {
		t.Errorf("%d ticks in programs and %d in the kernel, %v", user, system, err)
	}
}

// Nothing inside can write to what it is shown.
func TestViewsCannotBeWritten(t *testing.T) {
	sh := create(t, root(t), "a", runtime.Spec{})
	for _, file := range []string{"meminfo", "stat", "loadavg", "cpuinfo", "diskstats"} {
		file = "/proc/" + file
		if out := sh("(echo x >" + file + " || chmod 666 " + file + " || truncate -s 0 " + file + " || rm -f " + file + " || umount " + file + ") 2>/dev/null && echo did"); out != "" {
			t.Errorf("%s: %q", file, out)
		}
	}
}

// Two sandboxes that work hard on one processor are put on two.
func TestBusySandboxesArePlacedApart(t *testing.T) {
	d := root(t)
	if len(d.views.host.cpus) < 2 {
		testenv.Unsupported(t, "needs two processors")
	}
	limits := runtime.Limits{CPU: 1, MemoryMB: 200, Pids: 100, DiskMB: 256}
	first := create(t, d, "a", runtime.Spec{Limits: limits})
	second := create(t, d, "b", runtime.Spec{Limits: limits})
	const where = `taskset -pc $BASHPID | sed 's/.*: //'`
	placeTogether(t, d)
	for end := time.Now().Add(20 * time.Second); first(where) != second(where); {
		if time.Now().After(end) {
			t.Fatal("the two cannot be put on one processor")
		}
		placeTogether(t, d) // a shell that was just being started was in no list
	}
	for _, sh := range []func(string) string{first, second} {
		sh(`(timeout 330 python3 -c 'while True: pass' >/dev/null 2>&1 &)`)
	}
	// While the host itself is busy on both processors, none is better than the other.
	var a, b string
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if a, b = first(where), second(where); a != b {
			return
		}
	}
	t.Errorf("both stay on %s and %s", strings.TrimSpace(a), strings.TrimSpace(b))
}

// placeTogether puts all sandboxes on the host's first processor, wherever their
// threads are, as if they were placed there.
func placeTogether(t *testing.T, d *Driver) {
	t.Helper()
	var one unix.CPUSet
	one.Set(d.views.host.cpus[0])
	for _, v := range d.views.tracked() {
		d.views.mu.Lock()
		v.cpus = one
		d.views.mu.Unlock()
		if err := moveLauncher(v.process.PID, one); err != nil {
			t.Fatal(err)
		}
		pids, err := v.group.PIDs()
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			tids, err := listThreads(pid)
			if err := gone(err); err != nil {
				t.Fatal(err)
			}
			for _, tid := range tids {
				if err := gone(unix.SchedSetaffinity(tid, &one)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestPlace(t *testing.T) {
	v := &views{host: hostView{cpus: []int{0, 1, 2, 3}}, all: map[runtime.ID]*view{}}
	for i := range 8 {
		set := v.place(runtime.Limits{CPU: 1})
		if set.Count() != 1 {
			t.Fatalf("placed on %d processors", set.Count())
		}
		v.all[runtime.ID(fmt.Sprint(i))] = &view{cpus: set}
	}
	for cpu, weight := range v.weights(nil) {
		if weight != 2*idleWeight {
			t.Errorf("processor %d has %v of eight sandboxes", cpu, weight)
		}
	}
	if set := v.place(runtime.Limits{CPU: 4}); set.Count() != 0 {
		t.Errorf("one as large as the host is placed on %d", set.Count())
	}
	var both unix.CPUSet
	both.Set(2)
	v.all = map[runtime.ID]*view{"a": {cpus: both, cores: 0.5}, "b": {cpus: both, cores: 0.5}, "idle": {cpus: both}}
	if set, move := v.betterPlace(v.all["a"]); !move || set.IsSet(2) {
		t.Errorf("one of two that share a processor: %v, %v", set, move)
	}
	if _, move := v.betterPlace(v.all["idle"]); move {
		t.Error("an idle one is moved")
	}
}

func TestBlankViews(t *testing.T) {
	host, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	h := hostView{cpus: []int{0, 1}, memory: 1 << 30, cpuinfo: string(host)}
	files := h.blank(runtime.Limits{CPU: 64, MemoryMB: 1 << 20})
	if !strings.Contains(files[procview.Meminfo], "MemTotal:        1048576 kB") || strings.Count(files[procview.Stat], "\ncpu") != 2 {
		t.Errorf("a sandbox sees more than the host has: %q", files)
	}
}
