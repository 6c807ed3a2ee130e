package session

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/access"
	"github.com/sandkasten/sandkasten/internal/session/ids"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

// Stop ends a session's processes and keeps its files, and returns the
// session. Operations in progress end as when the sandbox dies. To stop what is
// stopped is not an error, and keeps it from making room for others; to stop what has its files in memory is Unimplemented. If the
// driver cannot do it now, it returns Unavailable and the session stays in state stopping:
// the next Stop, or the reaper, goes on. If the files are lost, the session crashed.
func (c *Sessions) Stop(ctx context.Context, p auth.Principal, id ID) (_ Session, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "stop")
	defer func() { span.End(err) }()
	e, err := c.livingTo(ctx, p, id, access.See)
	if err != nil {
		return Session{}, err
	}
	if err := e.Acquire(ctx); err != nil {
		return Session{}, err
	}
	defer e.Release()
	switch s := e.snapshot(); {
	case s.State == Stopped && s.ByHand:
	case s.State == Stopped:
		s.ByHand = true
		if err = c.put(ctx, s); err == nil {
			e.replace(s)
		}
	case s.State.Alive(), s.State == Stopping && s.End == Stopped:
		if err = c.stoppable(e); err == nil {
			e.stopByHand()
			err = c.end(ctx, e, as(Stopped, access.By(p, e.owner)+" stopped it"))
		}
	default:
		err = notRunning(s)
	}
	s := e.snapshot()
	if err == nil && s.State != Stopped {
		err = notRunning(s)
	}
	return s, err
}

// Start boots a stopped session on its files and returns it running, with
// another BootID, new shells and the limits and environment that it had. To
// start what runs, or is paused, is not an error. When it fails the session is
// stopped as before. It does not stop when ctx is done.
func (c *Sessions) Start(ctx context.Context, p auth.Principal, id ID) (_ Session, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "start")
	defer func() { span.End(err) }()
	e, err := c.living(ctx, p, id)
	if err != nil {
		return Session{}, err
	}
	if c.stops == nil {
		return Session{}, errCannotStop
	}
	if err := e.Acquire(ctx); err != nil {
		return Session{}, err
	}
	defer e.Release()
	switch s := e.snapshot(); {
	case s.State.Alive():
	case s.State == Stopped:
		err = c.boot(ctx, e)
	case s.State == Stopping && s.End == Stopped:
		err = errdefs.New(errdefs.Unavailable, "session %s is being stopped; try again", s.ID)
	default:
		err = notRunning(s)
	}
	return e.snapshot(), err
}

// boot is Start of a stopped session for a caller who holds e's lock: the row
// in state starting, the sandbox, the row in state running.
func (c *core) boot(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.CreateTimeout)
	defer cancel()
	if err := c.admit(ctx, e.snapshot()); err != nil {
		return err
	}
	leave, err := c.admitStart(e, c.opts.Quotas.QuotaOf(auth.Principal{Owner: e.owner, Quota: e.owner}))
	if err != nil {
		return err
	}
	defer leave()
	if err := c.commit(ctx, e, Starting, ""); err != nil {
		return err
	}
	err = failpoint.Hit("start.row")
	var sandbox runtime.Sandbox
	if err == nil {
		starting, span := tracing.Start(ctx, tracing.Driver, "start")
		sandbox, err = c.stops.Start(starting, e.snapshot().Sandbox)
		span.End(err)
	}
	if err == nil {
		err = failpoint.Hit("start.sandbox")
	}
	if err == nil {
		e.reopen(sandbox, ids.New())
		err = c.networks.Attach(ctx, e.subject())
	}
	if err == nil {
		err = c.commit(ctx, e, Running, "")
	}
	if err != nil {
		reason := "it could not be started: " + errdefs.MessageOf(err)
		return errors.Join(err, c.end(ctx, e, as(Stopped, reason)))
	}
	return failpoint.Hit("start.running")
}

// stoppable returns why a stop would not keep the files of e, or nil.
func (c *core) stoppable(e *entry) error {
	if c.stops == nil {
		return errCannotStop
	}
	if isVolatile(e.box().sandbox) {
		return errdefs.New(errdefs.Unimplemented, "the files of this session are in memory, and a stop would lose them: take a snapshot, and destroy it")
	}
	return nil
}

// isVolatile reports whether a stop would lose the files of a sandbox. nil is none.
func isVolatile(sandbox runtime.Sandbox) bool {
	v, ok := sandbox.(runtime.Volatile)
	return ok && v.Volatile()
}

// halt stops a sandbox.
func (c *core) halt(ctx context.Context, id runtime.ID) error {
	if c.stops == nil { // this daemon has another driver than the last one
		return errdefs.New(errdefs.NotFound, "this daemon's driver keeps no stopped sandboxes")
	}
	return c.stops.Stop(ctx, id)
}

var errCannotStop = errdefs.New(errdefs.Unimplemented, "this daemon's driver cannot stop a session and keep its files; pause it, or destroy it")
