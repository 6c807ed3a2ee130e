package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/procview"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// How often the views of sandboxes at work are renewed, or more seldom where there are
// so many that to look at all would cost more than a hundredth of a processor. One in
// which nothing runs is what it was, and costs a look.
const (
	viewInterval   = time.Second
	viewPerSandbox = time.Millisecond
	decayInterval  = 15 * time.Second // of the load of one in which nothing runs any more
)

// views keeps the files that tell the sandboxes of a driver how large their machine is
// and what they use of it, since the kernel's own tell of the host.
type views struct {
	host hostView

	renewing sync.Mutex // held while one is renewed; taken before mu

	mu  sync.Mutex
	all map[runtime.ID]*view // guarded by mu
}

// view is what is known of one sandbox. What changes is of the one goroutine that renews
// it; cpus and cores are guarded by mu as well.
type view struct {
	group   cgroup.Group
	process process
	limits  runtime.Limits
	born    time.Time

	used    time.Duration // processor time, at the last renewal
	renewed time.Time
	load    procview.Load

	cpus  unix.CPUSet // that it is placed on; empty: on all
	cores float64     // that it used of late
}

// hostView is what is the same for all.
type hostView struct {
	cpus     []int // that the daemon may run on
	memory   int64
	bootTime int64
	cpuinfo  string
}

func newViews() (*views, error) {
	v := &views{all: map[runtime.ID]*view{}}
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &allowed); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			v.host.cpus = append(v.host.cpus, cpu)
		}
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, os.NewSyscallError("sysinfo", err)
	}
	v.host.memory = int64(info.Totalram) * int64(info.Unit)
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return nil, err
	}
	v.host.cpuinfo = string(text)
	v.host.bootTime, err = hostBootTime()
	return v, err
}

// hostBootTime is what the kernel says in /proc/stat.
func hostBootTime() (int64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\nbtime ")
	line, _, _ := strings.Cut(rest, "\n")
	at, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/stat: %w", err)
	}
	return at, nil
}

// shownCPUs is how many processors a sandbox is shown.
func (h *hostView) shownCPUs(l runtime.Limits) int {
	return max(min(int(math.Ceil(l.CPU)), len(h.cpus)), 1)
}

// blank is the files of a sandbox in which nothing has run.
func (h *hostView) blank(l runtime.Limits) map[string]string {
	files := procview.Files(procview.Facts{
		CPUs: h.shownCPUs(l), Memory: procview.Memory{Limit: min(l.MemoryMB<<20, h.memory)}, BootTime: h.bootTime,
	})
	files[procview.CPUInfo] = procview.FirstCPUs(h.cpuinfo, h.shownCPUs(l))
	return files
}

// track has a sandbox's view renewed from here on, as of one that began at a time.
func (v *views) track(s *state, group cgroup.Group, born time.Time) {
	one := &view{
		group: group, process: s.Process, limits: s.Spec.Limits, born: born, renewed: time.Now(),
		cpus: v.host.placeOf(s.Process.PID),
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all[s.ID] = one
}

// forget ends that. A renewal that is under way has ended, too, when it returns.
func (v *views) forget(id runtime.ID) {
	v.renewing.Lock()
	defer v.renewing.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.all, id)
}

// tracked is a copy of what is tracked.
func (v *views) tracked() map[runtime.ID]*view {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make(map[runtime.ID]*view, len(v.all))
	for id, one := range v.all {
		all[id] = one
	}
	return all
}

// renewViews renews the views of sandboxes at work until the driver is closed.
func (d *Driver) renewViews() {
	wait := viewInterval
	var total time.Duration
	for {
		select {
		case <-d.quit:
			return
		case <-time.After(wait):
		}
		used := d.cgroups.CPU()
		if used == total && used != 0 { // 0 is of a kernel that does not say
			continue
		}
		total = used
		all := d.views.tracked()
		for id, v := range all {
			if d.closing() { // with many at work the rest would take seconds
				return
			}
			if err := d.renewTracked(id, v); err != nil {
				d.forgetView(id, v, err)
			}
		}
		wait = max(viewInterval, time.Duration(len(all))*viewPerSandbox)
	}
}

// closing reports whether Close has begun.
func (d *Driver) closing() bool {
	select {
	case <-d.quit:
		return true
	default:
		return false
	}
}

// forgetView forgets a sandbox that has ended. Of another one the next renewal may
// succeed.
func (d *Driver) forgetView(id runtime.ID, v *view, err error) {
	if v.process.alive(d.bootID) {
		d.opts.Log.Debug("renew what a sandbox sees of its machine", "sandbox", id, "err", err)
		return
	}
	d.views.mu.Lock()
	defer d.views.mu.Unlock()
	if d.views.all[id] == v {
		delete(d.views.all, id)
	}
}

// renewTracked renews a view that has not been forgotten since it was looked up: a
// claim gives its sandbox other limits.
func (d *Driver) renewTracked(id runtime.ID, v *view) error {
	d.views.renewing.Lock()
	defer d.views.renewing.Unlock()
	d.views.mu.Lock()
	tracked := d.views.all[id] == v
	d.views.mu.Unlock()
	if !tracked {
		return nil
	}
	return d.renewIfBusy(v)
}

// renewIfBusy renews a view if the sandbox has used processor time since, or if its
// load is still to decay.
func (d *Driver) renewIfBusy(v *view) error {
	used, now := v.group.CPU(), time.Now()
	elapsed := now.Sub(v.renewed)
	cores := float64(used-v.used) / float64(elapsed)
	d.views.mu.Lock()
	v.cores = cores
	d.views.mu.Unlock()
	if used == v.used && (v.load.Quiet() || elapsed < decayInterval) {
		if used == 0 && !v.process.alive(d.bootID) {
			return errSandboxEnded
		}
		return nil
	}
	v.load = v.load.Add(cores, elapsed)
	v.used, v.renewed = used, now
	return errors.Join(d.renewView(v), d.rebalance(v))
}

var errSandboxEnded = errors.New("the sandbox has ended")

// renewView writes what the sandbox's files in /proc say now.
func (d *Driver) renewView(v *view) error {
	usage, use := v.group.Usage(), v.group.MemoryUse()
	user, system := v.group.CPUTimes()
	files := procview.Files(procview.Facts{
		CPUs: d.views.host.shownCPUs(v.limits),
		Memory: procview.Memory{
			Limit: min(v.limits.MemoryMB<<20, d.views.host.memory), Usage: usage.Memory,
			Anon: use.Anon, File: use.File, Shmem: use.Shmem, Mapped: use.Mapped, Dirty: use.Dirty, Writeback: use.Writeback,
			ActiveAnon: use.ActiveAnon, InactiveAnon: use.InactiveAnon, ActiveFile: use.ActiveFile, InactiveFile: use.InactiveFile,
			Locked: use.Unevictable, SlabReclaimable: use.SlabReclaimable, SlabUnreclaimable: use.SlabUnreclaimable,
			KernelStack: use.KernelStack, PageTable: use.PageTables,
		},
		User: user, System: system, Age: time.Since(v.born), BootTime: d.views.host.bootTime, Load: v.load, Tasks: usage.Pids,
	})
	return d.writeView(v.process, files)
}

// writeView replaces files in the /proc of a running sandbox, which are the facade's.
func (d *Driver) writeView(p process, files map[string]string) error {
	if !p.alive(d.bootID) {
		return errSandboxEnded
	}
	root, err := openRoot(p.PID)
	if err != nil {
		return err
	}
	defer sys.Close(root)
	for name, text := range files {
		if err := replaceFace(root, "proc/"+name, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// replaceFace writes to a file of a facade that is mounted below root. Anything else
// that is found there stays as it is.
func replaceFace(root int, path, text string) error {
	fd, err := sys.Openat2(root, path, unix.O_WRONLY|unix.O_NOFOLLOW, 0, belowRoot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer sys.Close(fd)
	var file unix.Statfs_t
	if err := unix.Fstatfs(fd, &file); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if file.Type != unix.TMPFS_MAGIC {
		return nil
	}
	return setText(fd, text)
}

// setText leaves no moment in which the file is empty.
func setText(fd int, text string) error {
	if _, err := unix.Pwrite(fd, []byte(text), 0); err != nil {
		return os.NewSyscallError("pwrite", err)
	}
	return os.NewSyscallError("ftruncate", unix.Ftruncate(fd, int64(len(text))))
}
