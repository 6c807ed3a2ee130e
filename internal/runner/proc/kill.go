package proc

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// Times of killing.
const (
	lookAgain   = 10 * time.Millisecond // while processes are given time
	killRounds  = 100                   // of looking for processes and killing them
	plainRounds = 10                    // after so many, everything is frozen first
	roundTime   = 2 * time.Millisecond
)

// Killing ends the processes that belong to an exec.
type Killing struct {
	Table   Table
	Init    bool             // this process is PID 1 of the sandbox
	Members func() []Process // those that live now
	Strike  func() error     // kills all of them at once; nil, or an error, where only one by one is possible
}

// Terminate asks the processes to end by sig and waits until they have, but
// not longer than grace. In between it calls asked.
func (k Killing) Terminate(sig unix.Signal, grace time.Duration, asked func()) {
	deadline := time.Now().Add(grace)
	k.Signal(sig)
	asked()
	if !protection.Off(protection.KillResume) {
		k.Signal(unix.SIGCONT) // or those that are stopped would not notice
	}
	for time.Now().Before(deadline) && len(k.Members()) > 0 {
		time.Sleep(lookAgain) //nolint:forbidigo // the processes are nobody's children here: only looking tells
	}
}

// Signal sends sig to each, and returns how many there were.
func (k Killing) Signal(sig unix.Signal) int {
	all := k.Members()
	for _, pr := range all {
		k.Table.Signal(pr, sig)
	}
	return len(all)
}

// Others is k without one process.
func (k Killing) Others(pid int) Killing {
	all := k.Members
	k.Members = func() []Process {
		return slices.DeleteFunc(all(), func(pr Process) bool { return pr.PID == pid })
	}
	return k
}

// Kill kills the processes until there are none. One look at the process
// table does not see those that are forked meanwhile, so it looks again. Some
// fork and die faster than that; they are frozen with everything else first.
func (k Killing) Kill() {
	if protection.Off(protection.KillHard) {
		return
	}
	for round := range killRounds {
		if k.Strike != nil && k.Strike() == nil {
			if len(k.Members()) == 0 {
				return
			}
		} else if !k.killOnce(round >= plainRounds) {
			return
		}
		time.Sleep(roundTime) //nolint:forbidigo // as above
	}
}

// killOnce kills the processes that there are, and reports whether any were.
func (k Killing) killOnce(frozen bool) bool {
	tree := k.Members()
	if len(tree) == 0 {
		return false
	}
	if frozen {
		defer k.freeze()()
		tree = k.Members()
	}
	for _, pr := range tree {
		k.Table.Signal(pr, unix.SIGKILL)
	}
	return true
}

// freeze stops every process of the sandbox at once and returns what lets
// them go on. Only PID 1 can do that: to it, -1 is the whole sandbox.
func (k Killing) freeze() (thaw func()) {
	if !k.Init {
		return func() {}
	}
	before, err := k.Table.List()
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
		now, err := k.Table.List()
		if err != nil {
			return
		}
		for _, pr := range now {
			if stopped[pr.PID] != pr.Start {
				k.Table.Signal(pr, unix.SIGCONT)
			}
		}
	}
}
