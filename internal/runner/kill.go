package runner

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/proc"
)

// Times of killing.
const (
	lookAgain   = 10 * time.Millisecond // while processes are given time
	killRounds  = 100                   // of looking for processes and killing them
	plainRounds = 10                    // after so many, everything is frozen first
	roundTime   = 2 * time.Millisecond
	deathTime   = 2 * time.Second // from KILL to the end: a process in an uninterruptible wait takes longer, and is not waited for
)

// killing ends the processes that belong to an exec.
type killing struct {
	r       *Runner
	members func() []proc.Process // those that live now
	strike  func() error          // kills all of them at once; nil, or an error, where only one by one is possible
}

// terminate asks the processes to end by sig and waits until they have, but
// not longer than grace.
func (k killing) terminate(sig unix.Signal, grace time.Duration) {
	deadline := time.Now().Add(grace)
	k.signal(sig)
	k.signal(unix.SIGCONT) // or those that are stopped would not notice
	for time.Now().Before(deadline) && len(k.members()) > 0 {
		time.Sleep(lookAgain) //nolint:forbidigo // the processes are nobody's children here: only looking tells
	}
}

// signal sends sig to each, and returns how many there were.
func (k killing) signal(sig unix.Signal) int {
	all := k.members()
	for _, pr := range all {
		k.r.procs.Signal(pr, sig)
	}
	return len(all)
}

// others is k without one process.
func (k killing) others(pid int) killing {
	all := k.members
	k.members = func() []proc.Process {
		return slices.DeleteFunc(all(), func(pr proc.Process) bool { return pr.PID == pid })
	}
	return k
}

// kill kills the processes until there are none. One look at the process
// table does not see those that are forked meanwhile, so it looks again. Some
// fork and die faster than that; they are frozen with everything else first.
func (k killing) kill() {
	for round := range killRounds {
		if k.strike != nil && k.strike() == nil {
			if len(k.members()) == 0 {
				return
			}
		} else if !k.killOnce(round >= plainRounds) {
			return
		}
		time.Sleep(roundTime) //nolint:forbidigo // as above
	}
}

// killOnce kills the processes that there are, and reports whether any were.
func (k killing) killOnce(frozen bool) bool {
	tree := k.members()
	if len(tree) == 0 {
		return false
	}
	if frozen {
		defer k.freeze()()
		tree = k.members()
	}
	for _, pr := range tree {
		k.r.procs.Signal(pr, unix.SIGKILL)
	}
	return true
}

// freeze stops every process of the sandbox at once and returns what lets
// them go on. Only PID 1 can do that: to it, -1 is the whole sandbox.
func (k killing) freeze() (thaw func()) {
	if !k.r.opts.Init {
		return func() {}
	}
	before, err := k.r.procs.List()
	if err != nil || unix.Kill(-1, unix.SIGSTOP) != nil {
		return func() {}
	}
	stopped := make(map[int]uint64) // those that were so already
	for _, pr := range before {
		if pr.Stopped {
			stopped[pr.PID] = pr.Start
		}
	}
	return func() {
		now, err := k.r.procs.List()
		if err != nil {
			return
		}
		for _, pr := range now {
			if stopped[pr.PID] != pr.Start {
				k.r.procs.Signal(pr, unix.SIGCONT)
			}
		}
	}
}
