// Package pause makes the programs of a container stand still from inside, for
// drivers without a control group of their own to freeze. It stops them by
// signals: nothing that is stopped can let itself or others go on.
package pause

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/proc"
)

// Programs are all processes of the pid namespace but its first and those that
// were started from outside of it, which is seen by their lack of a parent.
type Programs struct{ Table proc.Table }

// roundTime is between two looks at the processes.
const roundTime = time.Millisecond

// Pause stops every program and returns when one look at all of them found
// none that runs. When it fails, none is stopped.
func (p Programs) Pause(ctx context.Context) error {
	for {
		list, err := p.list()
		if err != nil {
			return errors.Join(err, p.Resume())
		}
		running := slices.DeleteFunc(list, func(pr proc.Process) bool { return pr.Stopped })
		if len(running) == 0 {
			return nil
		}
		for _, pr := range running {
			p.Table.Signal(pr, unix.SIGSTOP)
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("a program cannot be stopped now: it waits in the kernel"), p.Resume())
		case <-time.After(roundTime):
		}
	}
}

// Resume lets every stopped program go on, the youngest first: one that waits
// for its children finds them running.
func (p Programs) Resume() error {
	list, err := p.list()
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b proc.Process) int { return -cmp.Compare(a.Start, b.Start) })
	for _, pr := range list {
		if pr.Stopped {
			p.Table.Signal(pr, unix.SIGCONT)
		}
	}
	return nil
}

// Paused reports whether there are programs, and all are stopped.
func (p Programs) Paused() (bool, error) {
	list, err := p.list()
	if err != nil {
		return false, err
	}
	running := slices.ContainsFunc(list, func(pr proc.Process) bool { return !pr.Stopped })
	return len(list) > 0 && !running, nil
}

func (p Programs) list() ([]proc.Process, error) {
	list, err := p.Table.List()
	return slices.DeleteFunc(list, func(pr proc.Process) bool { return pr.PID == 1 || pr.Parent == 0 }), err
}
