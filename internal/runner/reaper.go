package runner

import (
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/internal/spawn"
)

// reaper starts and reaps processes. As PID 1 it also reaps all that were
// orphaned; otherwise it touches only those it started.
type reaper struct {
	all   bool
	clone func(*spawn.Cmd) (*spawn.Process, error)

	mu       sync.Mutex
	children map[int]*child // guarded by mu; those not reaped yet
}

// child is a process that the runner started.
type child struct {
	pid    int
	pidfd  int
	exited chan struct{} // closed when it is reaped

	status unix.WaitStatus // valid after exited, as the next
	usage  unix.Rusage     // its own and that of the children it waited for

	r        *reaper
	released bool // guarded by r.mu
}

func newReaper(clone func(*spawn.Cmd) (*spawn.Process, error), all bool) *reaper {
	return &reaper{clone: clone, all: all, children: make(map[int]*child)}
}

// watch reaps in the background until stop, which waits for the end of that.
func (r *reaper) watch() (stop func()) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			r.reap()
			select {
			case <-died:
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(died)
		close(quit)
		<-done
	}
}

// start starts c. That its program runs is waited for without the lock: the
// sandbox may stop the process before.
func (r *reaper) start(c *spawn.Cmd) (*child, error) {
	p, ch, err := r.register(c)
	if err != nil {
		return nil, err
	}
	if err := p.Wait(); err != nil {
		r.mu.Lock()
		delete(r.children, ch.pid)
		r.mu.Unlock()
		closeFD(ch.pidfd)
		return nil, err
	}
	return ch, nil
}

// register makes the process. The lock is held from before it exists until it
// is registered: else its status could be reaped as an unknown orphan's.
func (r *reaper) register(c *spawn.Cmd) (*spawn.Process, *child, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := r.clone(c)
	if err != nil {
		return nil, nil, err
	}
	ch := &child{pid: p.PID, pidfd: p.PidFD, exited: make(chan struct{}), r: r}
	r.children[ch.pid] = ch
	return p, ch, nil
}

func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.all {
		for pid := range r.children {
			r.wait(pid)
		}
		return
	}
	for r.wait(-1) {
	}
}

// wait reaps one process if one is dead. r.mu must be held.
func (r *reaper) wait(pid int) bool {
	var ws unix.WaitStatus
	var usage unix.Rusage
	for {
		got, err := unix.Wait4(pid, &ws, unix.WNOHANG|unix.WALL, &usage)
		if err == unix.EINTR {
			continue
		}
		if err != nil || got <= 0 {
			return false
		}
		if ch, ok := r.children[got]; ok {
			delete(r.children, got)
			ch.status, ch.usage = ws, usage
			if ch.released {
				closeFD(ch.pidfd)
			}
			close(ch.exited)
		}
		return true
	}
}

// signal sends sig if the process still exists.
func (c *child) signal(sig unix.Signal) { proc.SendSignal(c.pidfd, sig) }

// signalGroup sends sig to the process group that the child leads, if the
// child has not been reaped: its number may be another's then.
func (c *child) signalGroup(sig unix.Signal) error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.dead() {
		return unix.ESRCH
	}
	return unix.Kill(-c.pid, sig)
}

// dead reports whether the child has ended and been reaped.
func (c *child) dead() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// awaitDeath waits for the end of a child that was killed, but not for ever:
// one in an uninterruptible wait may take that long. It reports whether it came.
func (c *child) awaitDeath() bool { return c.await(deathTime) }

// await waits for the end, and reports whether it came within limit.
func (c *child) await(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	}
}

// release gives the pidfd back, at the child's end if that is yet to come.
// The child must not be signalled after it.
func (c *child) release() {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.released = true; c.dead() {
		closeFD(c.pidfd)
	}
}

// owns reports whether pid is a child of ours that has not been reaped.
func (r *reaper) owns(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.children[pid]
	return ok
}

// code is what a shell would show as $?. One that cannot even be killed has
// that of KILL.
func (c *child) code() int {
	switch {
	case !c.dead():
		return 128 + int(unix.SIGKILL)
	case c.status.Signaled():
		return 128 + int(c.status.Signal())
	default:
		return c.status.ExitStatus()
	}
}

// closeFD closes a descriptor on which nothing was written, or whose writes
// were all reported: the error of such a close tells nothing.
func closeFD(fd int) {
	if err := unix.Close(fd); err != nil {
		return
	}
}
