// Package child starts processes and reaps them, as PID 1 also those of others.
// What else becomes of a sandbox's processes, which are nobody's children here,
// is the business of package proc.
package child

import (
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/fds"
	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/internal/spawn"
)

// Reaper starts and reaps processes. As PID 1 it also reaps all that were
// orphaned; otherwise it touches only those it started.
type Reaper struct {
	all   bool
	clone func(*spawn.Cmd) (*spawn.Process, error)

	mu       sync.Mutex
	children map[int]*Child // guarded by mu; those not reaped yet
	held     chan struct{}  // guarded by mu; closed when programs may start again; nil is that they may
}

// Child is a process that the runner started.
type Child struct {
	PID    int
	PidFD  int
	exited chan struct{} // closed when it is reaped

	status unix.WaitStatus // valid after exited, as the next
	usage  unix.Rusage     // its own and that of the children it waited for

	r        *Reaper
	released bool // guarded by r.mu
}

// NewReaper returns a Reaper that starts processes by clone. all says that this
// process is PID 1.
func NewReaper(clone func(*spawn.Cmd) (*spawn.Process, error), all bool) *Reaper {
	return &Reaper{clone: clone, all: all, children: make(map[int]*Child)}
}

// Watch reaps in the background until stop, which waits for the end of that.
func (r *Reaper) Watch() (stop func()) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	quit, done := make(chan struct{}), make(chan struct{})
	guard.Go(func() {
		defer close(done)
		for {
			if guard.Try(func() error { r.Reap(); return nil }) != nil {
				continue // what is dead by now must not wait for the next death
			}
			select {
			case <-died:
			case <-quit:
				return
			}
		}
	}, func(error) {})
	return func() {
		signal.Stop(died)
		close(quit)
		<-done
	}
}

// Hold makes Start wait from its return on, or lets what waits go on. To do
// again what was done last changes nothing.
func (r *Reaper) Hold(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case on && r.held == nil:
		r.held = make(chan struct{})
	case !on && r.held != nil:
		close(r.held)
		r.held = nil
	}
}

// Go calls do, which lets something that stands still go on, when nothing holds
// that up. A Hold comes before or after it. do must not use the Reaper.
func (r *Reaper) Go(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.await()
	do()
}

// await waits while r is held. r.mu must be held, and is free meanwhile.
func (r *Reaper) await() {
	for r.held != nil {
		held := r.held
		r.mu.Unlock()
		<-held
		r.mu.Lock()
	}
}

// Held reports whether Start waits.
func (r *Reaper) Held() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held != nil
}

// Start starts c, a program of the sandbox, when nothing holds that up.
func (r *Reaper) Start(c *spawn.Cmd) (*Child, error) { return r.start(c, false) }

// StartTool starts c, which works for the runner, at once.
func (r *Reaper) StartTool(c *spawn.Cmd) (*Child, error) { return r.start(c, true) }

// start starts c. That its program runs is waited for without the lock: the
// sandbox may stop the process before.
func (r *Reaper) start(c *spawn.Cmd, tool bool) (*Child, error) {
	p, ch, err := r.register(c, tool)
	if err != nil {
		return nil, err
	}
	if err := p.Wait(); err != nil {
		r.mu.Lock()
		delete(r.children, ch.PID)
		r.mu.Unlock()
		fds.Close(ch.PidFD)
		return nil, err
	}
	return ch, nil
}

// register makes the process. The lock is held from before it exists until it
// is registered: else its status could be reaped as an unknown orphan's.
func (r *Reaper) register(c *spawn.Cmd, tool bool) (*spawn.Process, *Child, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !tool {
		r.await()
	}
	p, err := r.clone(c)
	if err != nil {
		return nil, nil, err
	}
	ch := &Child{PID: p.PID, PidFD: p.PidFD, exited: make(chan struct{}), r: r}
	r.children[ch.PID] = ch
	return p, ch, nil
}

// Reap reaps what has ended, at once instead of when the signal of it has come
// through.
func (r *Reaper) Reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.all || protection.Off(protection.Reaping) {
		for pid := range r.children {
			r.wait(pid)
		}
		return
	}
	for r.wait(-1) {
	}
}

// wait reaps one process if one is dead. r.mu must be held.
func (r *Reaper) wait(pid int) bool {
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
				fds.Close(ch.PidFD)
			}
			close(ch.exited)
		}
		return true
	}
}

// Exited is closed when the child has ended and been reaped.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Status is how it ended, valid after Exited.
func (c *Child) Status() unix.WaitStatus { return c.status }

// Usage is what it and the children that it waited for took, valid after Exited.
func (c *Child) Usage() unix.Rusage { return c.usage }

// Signal sends sig if the process still exists.
func (c *Child) Signal(sig unix.Signal) { proc.SendSignal(c.PidFD, sig) }

// SignalGroup sends sig to the process group that the child leads, if the
// child has not been reaped: its number may be another's then.
func (c *Child) SignalGroup(sig unix.Signal) error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.Dead() {
		return unix.ESRCH
	}
	return unix.Kill(-c.PID, sig)
}

// Dead reports whether the child has ended and been reaped.
func (c *Child) Dead() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// deathTime is from KILL to the end: a process in an uninterruptible wait takes
// longer, and is not waited for.
const deathTime = 2 * time.Second

// AwaitDeath waits for the end of a child that was killed, but not for ever:
// one in an uninterruptible wait may take that long. It reports whether it came.
func (c *Child) AwaitDeath() bool { return c.Await(deathTime) }

// Await waits for the end, and reports whether it came within limit.
func (c *Child) Await(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	}
}

// Release gives the pidfd back, at the child's end if that is yet to come.
// The child must not be signalled after it.
func (c *Child) Release() {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.released = true; c.Dead() {
		fds.Close(c.PidFD)
	}
}

// Owns reports whether pid is a child of ours that has not been reaped.
func (r *Reaper) Owns(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.children[pid]
	return ok
}

// Code is what a shell would show as $?. One that cannot even be killed has
// that of KILL.
func (c *Child) Code() int {
	switch {
	case !c.Dead():
		return 128 + int(unix.SIGKILL)
	case c.status.Signaled() && !protection.Off(protection.SignalCodes):
		return 128 + int(c.status.Signal())
	default:
		return c.status.ExitStatus()
	}
}
