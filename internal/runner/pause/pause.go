// Package pause makes the programs of a container stand still from inside, for
// drivers without a control group of their own to freeze. It stops them by
// signals: nothing that is stopped can let itself or others go on. The runner,
// which is not stopped, is told to start nothing meanwhile.
package pause

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/protocol"
)

// Programs are all processes of the pid namespace but its first and those that
// were started from outside of it, which is seen by their lack of a parent.
type Programs struct {
	Table  proc.Table
	Runner func() (net.Conn, error) // connects to the runner that starts them
}

// runnerTime is how long the runner may take to answer.
const runnerTime = 5 * time.Second

// roundTime is between two looks at the processes.
const roundTime = time.Millisecond

// Pause stops every program and returns when one look at all of them found
// none that runs. From then on none is started. When it fails, none is stopped.
func (p Programs) Pause(ctx context.Context) error {
	on := true
	if _, err := p.hold(&on); err != nil {
		return errors.Join(err, p.Resume())
	}
	return p.stop(ctx)
}

// stop stops those that there are.
func (p Programs) stop(ctx context.Context) error {
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
	on := false
	_, err = p.hold(&on)
	return err
}

// Paused reports which of the two was last, as the runner remembers it.
func (p Programs) Paused() (bool, error) { return p.hold(nil) }

// hold tells the runner whether it may start programs, or asks it.
func (p Programs) hold(on *bool) (held bool, err error) {
	conn, err := p.Runner()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(runnerTime)); err != nil {
		return false, err
	}
	if err := protocol.NewWriter(conn).Send(protocol.TypeHold, protocol.Hold{On: on}, nil); err != nil {
		return false, err
	}
	head, err := protocol.NewReader(conn, protocol.Runner).Next()
	if err != nil {
		return false, err
	}
	var answer protocol.Held
	if err := head.Decode(&answer); err != nil || head.Type != protocol.TypeHeld {
		return false, errors.Join(fmt.Errorf("the runner answers with a %s frame", head.Type), err)
	}
	return answer.On, nil
}

func (p Programs) list() ([]proc.Process, error) {
	list, err := p.Table.List()
	return slices.DeleteFunc(list, func(pr proc.Process) bool { return pr.PID == 1 || pr.Parent == 0 }), err
}
