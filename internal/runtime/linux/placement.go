package linux

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

// A sandbox runs on as many processors as its limit rounds up to, so that programs
// start as many threads as they have time for: nproc, Go, Java and others ask for the
// affinity. It is the kernel's only word on that. Which processors these are is
// decided by what the other sandboxes use, and again while several that work hard
// share one (decision 33). A sandbox as large as the host has no affinity.

// idleWeight is what a sandbox counts in which nothing runs: new ones go where there
// are fewer.
const idleWeight = 0.01

// unfair is how many cores a sandbox has to have less of on its processors than on
// others before it is moved.
const unfair = 0.25

// place chooses processors for a new sandbox. The empty set is all.
func (v *views) place(l runtime.Limits) unix.CPUSet {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.host.shownCPUs(l)
	if n >= len(v.host.cpus) {
		return unix.CPUSet{}
	}
	return leastUsed(v.host.cpus, v.weights(nil), n)
}

// weights are the cores that sandboxes use of each processor, as far as they are placed,
// without those of one. v.mu is held.
func (v *views) weights(without *view) map[int]float64 {
	sum := map[int]float64{}
	for _, one := range v.all {
		n := one.cpus.Count()
		if one == without || n == 0 {
			continue
		}
		for _, cpu := range v.host.cpus {
			if one.cpus.IsSet(cpu) {
				sum[cpu] += max(one.cores, idleWeight) / float64(n)
			}
		}
	}
	return sum
}

// leastUsed returns the n processors of least weight.
func leastUsed(cpus []int, weights map[int]float64, n int) unix.CPUSet {
	sorted := slices.SortedStableFunc(slices.Values(cpus), func(a, b int) int { return cmp.Compare(weights[a], weights[b]) })
	var set unix.CPUSet
	for _, cpu := range sorted[:n] {
		set.Set(cpu)
	}
	return set
}

// betterPlace returns other processors for a sandbox if it shares its own with others
// that work hard, and some have more to spare.
func (v *views) betterPlace(one *view) (unix.CPUSet, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := one.cpus.Count()
	if n == 0 || one.cores < unfair {
		return unix.CPUSet{}, false
	}
	others := v.weights(one)
	better := leastUsed(v.host.cpus, others, n)
	burden := func(set *unix.CPUSet) (sum float64) {
		for _, cpu := range v.host.cpus {
			if set.IsSet(cpu) {
				sum += others[cpu]
			}
		}
		return sum
	}
	return better, burden(&one.cpus)-burden(&better) > unfair
}

// rebalance moves a sandbox to a better place, if there is one.
func (d *Driver) rebalance(one *view) error {
	better, move := d.views.betterPlace(one)
	if !move {
		return nil
	}
	d.views.mu.Lock()
	from := one.cpus
	one.cpus = better
	d.views.mu.Unlock()
	return moveSandbox(one.group, one.process.PID, from, better)
}

// moveSandbox gives what runs in a sandbox, and what its runner starts from here on,
// another affinity. The launcher goes first: what it started before is in the list.
func moveSandbox(group cgroup.Group, runner int, from, to unix.CPUSet) error {
	if err := moveLauncher(runner, to); err != nil {
		return err
	}
	pids, err := group.PIDs()
	for _, pid := range pids {
		if pid > 0 { // 0 is of another namespace
			err = errors.Join(err, moveThreads(pid, from, to))
		}
	}
	return err
}

// moveThreads gives the threads of a process another affinity that have the one from.
// A thread that a program has given another is left alone.
func moveThreads(pid int, from, to unix.CPUSet) error {
	tids, err := listThreads(pid)
	errs := []error{gone(err)}
	for _, tid := range tids {
		var has unix.CPUSet
		err := unix.SchedGetaffinity(tid, &has)
		if err == nil && has == from {
			err = unix.SchedSetaffinity(tid, &to)
		}
		errs = append(errs, gone(err))
	}
	return errors.Join(errs...)
}

// moveLauncher has the programs that a runner starts from here on begin with another
// affinity.
func moveLauncher(runner int, to unix.CPUSet) error {
	tid, err := launcher(runner)
	if err != nil || tid == 0 {
		return gone(err)
	}
	return gone(unix.SchedSetaffinity(tid, &to))
}

// placeOf is the affinity of the programs that a runner starts.
func (h *hostView) placeOf(runner int) unix.CPUSet {
	var set unix.CPUSet
	tid, err := launcher(runner)
	if err != nil || tid == 0 || unix.SchedGetaffinity(tid, &set) != nil || set.Count() >= len(h.cpus) {
		return unix.CPUSet{}
	}
	return set
}

// launcherTries is how often threads are listed: the kernel ends a listing early when
// a thread ends that it has come to.
const launcherTries = 10

// launcher finds the thread of a runner that starts programs, or 0.
func launcher(runner int) (int, error) {
	for range launcherTries {
		tids, err := listThreads(runner)
		if err != nil {
			return 0, err
		}
		for _, tid := range tids {
			name, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", runner, tid))
			if err == nil && string(name) == stage.LauncherName+"\n" {
				return tid, nil
			}
		}
	}
	return 0, nil
}

func listThreads(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	tids := make([]int, 0, len(entries))
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, err
}

// gone forgives that a thread has ended.
func gone(err error) error {
	if err == nil || errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("move a thread to another processor: %w", err)
}

// replace gives a sandbox that is claimed the number of processors that its new limit
// is, and its shell where that has begun already.
func (d *Driver) replace(group cgroup.Group, runner int, l runtime.Limits) error {
	from, to := d.views.host.placeOf(runner), d.views.place(l)
	if to.Count() == 0 {
		for _, cpu := range d.views.host.cpus {
			to.Set(cpu)
		}
	}
	return moveSandbox(group, runner, from, to)
}
