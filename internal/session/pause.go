package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

// switchTimeout bounds the driver's work for a pause or resume.
const switchTimeout = 30 * time.Second

// Memory says where a paused session's memory goes. The strings are part of
// the API.
type Memory string

// The places. MemoryDisk is refused with Unimplemented: see decision 15.
const (
	MemoryRAM  Memory = "ram"
	MemoryDisk Memory = "disk"
)

// Pause stops a session's programs where they are, and returns the session.
// What they are doing waits, and so do the operations that wait for them. It
// costs no processor time and survives the daemon. To pause what is paused is
// not an error. The next operation wakes the session, unless its AutoResume is
// off. When it fails the session runs.
func (c *Sessions) Pause(ctx context.Context, p auth.Principal, id ID, memory Memory) (_ Session, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "pause")
	defer func() { span.End(err) }()
	if memory == MemoryDisk {
		return Session{}, check.Missing("memory", "memory cannot be written to disk: no tool that this host has can bring a sandbox's processes back from there; "+
			"leave memory out to keep it in RAM, or stop the session to keep its files only")
	}
	e, err := c.running(ctx, p, id)
	if err != nil {
		return Session{}, err
	}
	if err := e.Acquire(ctx); err != nil {
		return Session{}, err
	}
	defer e.Release()
	switch s := e.snapshot(); s.State {
	case Running:
		err = c.pause(ctx, e, func(Session) string { return "a client paused it" })
	case Paused:
	default:
		err = notRunning(s)
	}
	if err != nil {
		return Session{}, err
	}
	e.use()
	return e.snapshot(), nil
}

// pause is Pause for a caller who holds e's lock, if why has a reason for it:
// the row, then the programs, so that a daemon that dies in between finishes
// it.
func (c *core) pause(ctx context.Context, e *entry, why func(Session) string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), switchTimeout)
	defer cancel()
	p, err := pauserOf(e)
	if err != nil {
		return err
	}
	if paused, err := e.pause(why); err != nil || !paused {
		return err
	}
	err = c.put(ctx, e.snapshot())
	if err == nil {
		err = failpoint.Hit("pause.row")
	}
	if err == nil {
		err = p.Pause(ctx)
	}
	if err == nil {
		err = failpoint.Hit("pause.sandbox")
	}
	if err != nil {
		err = fmt.Errorf("pause session %s: %w", e.id, err)
		return errors.Join(err, c.resume(ctx, e))
	}
	return nil
}

// Resume lets a paused session's programs go on and returns the session. To
// resume what runs is not an error.
func (c *Sessions) Resume(ctx context.Context, p auth.Principal, id ID) (_ Session, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "resume")
	defer func() { span.End(err) }()
	e, err := c.running(ctx, p, id)
	if err != nil {
		return Session{}, err
	}
	if err := e.Acquire(ctx); err != nil {
		return Session{}, err
	}
	defer e.Release()
	switch s := e.snapshot(); s.State {
	case Running:
	case Paused:
		err = c.resume(ctx, e)
	default:
		err = notRunning(s)
	}
	if err != nil {
		return Session{}, err
	}
	e.use()
	return e.snapshot(), nil
}

// resume is Resume of a paused session for a caller who holds e's lock: the
// row, then the programs. When it fails the session is paused.
func (c *core) resume(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), switchTimeout)
	defer cancel()
	p, err := pauserOf(e)
	if err != nil {
		return err
	}
	paused := e.snapshot()
	s := paused
	if err := s.To(Running, ""); err != nil {
		return err
	}
	err = c.put(ctx, s)
	if err == nil {
		err = failpoint.Hit("resume.row")
	}
	if err == nil {
		err = p.Resume(ctx)
	}
	if err == nil {
		err = failpoint.Hit("resume.sandbox")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("resume session %s: %w", e.id, err), c.put(ctx, paused))
	}
	e.replace(s)
	return nil
}

// wake resumes e for an operation, and begins that.
func (c *core) wake(ctx context.Context, e *entry) (end func(), err error) {
	if err := e.Acquire(ctx); err != nil {
		return nil, err
	}
	defer e.Release()
	if s := e.snapshot(); s.State == Paused {
		if !s.AutoResume {
			return nil, errdefs.New(errdefs.Conflict, "session %s is paused and its auto_resume is off: resume it first", s.ID)
		}
		if err := c.resume(ctx, e); err != nil {
			return nil, err
		}
	}
	return e.begin()
}

// conform makes a sandbox that was just opened stand still or run, as its
// session's state says: a daemon may have died between the two.
func (c *core) conform(ctx context.Context, e *entry) error {
	p, err := pauserOf(e)
	if err != nil {
		return nil //nolint:nilerr // a driver that cannot pause has paused nothing
	}
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	if e.snapshot().State == Paused {
		return p.Pause(ctx)
	}
	return p.Resume(ctx)
}

// pauserOf returns e's sandbox if its driver can pause it.
func pauserOf(e *entry) (runtime.Pauser, error) {
	p, ok := e.box().sandbox.(runtime.Pauser)
	if !ok {
		return nil, errdefs.New(errdefs.Unimplemented, "this daemon's driver cannot pause a session; stop it, or destroy it")
	}
	return p, nil
}
