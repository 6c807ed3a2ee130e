package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/access"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

const (
	reasonDied  = "its runner died"
	reasonKept  = "its runner died; its files are kept"
	reasonBroke = "its runner broke the protocol"
)

// ending says, of a session as it is, to what end it comes and why. "" is none:
// it lives on. It is asked at the moment of the change and does no I/O.
type ending func(Session) (end State, reason string)

func as(end State, reason string) ending {
	return func(Session) (State, string) { return end, reason }
}

// Destroy ends a session from any state and returns when its sandbox is gone.
// It may be repeated. It wins over a Create that is not through. If the driver
// cannot remove the sandbox now, it returns Unavailable, the session stays in
// state stopping and the next Destroy, of a client or the reaper, goes on.
func (c *Sessions) Destroy(ctx context.Context, p auth.Principal, id ID) (err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "destroy")
	defer func() { span.End(err) }()
	if err := c.checkReady(); err != nil {
		return err
	}
	e, _, err := c.known(ctx, p, id, access.See)
	if e == nil {
		return err // it ended before, or never was
	}
	return c.destroy(ctx, e, access.By(p, e.owner))
}

// destroy is Destroy of a session that has not ended, in the name of by.
func (c *core) destroy(ctx context.Context, e *entry, by string) error {
	e.Refuse()
	e.cancelCreate()
	return c.endLocked(ctx, e, as(Destroyed, by+" destroyed it"))
}

// whyDead is what is known of the end of a sandbox that the driver calls dead, or
// else what the caller thinks.
func (c *core) whyDead(ctx context.Context, id runtime.ID, otherwise string) string {
	if _, err := runtime.OpenInTime(ctx, c.driver, id); errors.Is(err, runtime.ErrCutOff) {
		return runtime.ErrCutOff.Error()
	}
	return otherwise
}

// endOfDead is the end of a session whose runner has died: stopped if the driver
// says that it can go on with the files, else crashed. Nobody knows a helper, so
// nobody would start it.
func (c *core) endOfDead(ctx context.Context, s Session) (State, string) {
	end, reason := Crashed, reasonDied
	if seen, err := c.survey(ctx); err == nil && c.stops != nil && !s.Helper && seen.Sandboxes[s.Sandbox].Startable {
		end, reason = Stopped, reasonKept
	}
	reason = c.whyDead(ctx, s.Sandbox, reason)
	c.log.ErrorContext(ctx, "the runner of a session died", "session", s.ID, "sandbox", s.Sandbox, "end", end, "reason", reason)
	return end, reason
}

// endLocked is end for a caller who does not hold e's lock. A session that has
// ended meanwhile is not an error.
func (c *core) endLocked(ctx context.Context, e *entry, how ending) error {
	if err := e.Acquire(ctx); err != nil {
		return err
	}
	defer e.Release()
	if e.snapshot().State.Ended() {
		return nil
	}
	return c.end(ctx, e, how)
}

// end removes or stops e's sandbox: the row in state stopping, the sandbox, the
// row in the state that how said. It goes on where an earlier end stopped, and
// to the state that the earlier one was for. It does not stop when ctx is done.
// The caller holds e's lock.
func (c *core) end(ctx context.Context, e *entry, how ending) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.DestroyTimeout)
	defer cancel()
	s, err := e.stop(how)
	if err != nil || s.State != Stopping {
		return err
	}
	// A row that cannot be written is no reason to keep the sandbox: on a full
	// disk its removal is what makes room for the row.
	if err := c.put(ctx, s); err != nil {
		c.log.WarnContext(ctx, "cannot record that a session is stopping; removing its sandbox all the same", "session", s.ID, "err", err)
	}
	name, remove := "destroy", c.driver.Destroy
	if s.End == Stopped {
		name, remove = "stop", c.halt
	}
	if err := failpoint.Hit(name + ".row"); err != nil {
		return err
	}
	c.networks.Detach(string(s.ID), s.End.Ended())
	if err := e.box().close(); err != nil {
		c.log.DebugContext(ctx, "closing connections to a runner", "session", s.ID, "err", err)
	}
	err = tracing.Do(ctx, tracing.Driver, name, func(ctx context.Context) error { return remove(ctx, s.Sandbox) })
	if s.End == Stopped && errdefs.Is(err, errdefs.NotFound) {
		return c.end(ctx, e, as(Crashed, "its files are lost: "+errdefs.MessageOf(err)))
	}
	if err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "session %s is not stopped completely yet; the daemon goes on trying", s.ID)
	}
	if err := failpoint.Hit(name + ".sandbox"); err != nil {
		return err
	}
	e.shut()
	c.workspaces.Left(ctx, userOf(s))
	if s.End == Stopped {
		e.use() // it is kept from now on
	}
	if err := c.commit(ctx, e, s.End, s.EndReason); err != nil {
		return err
	}
	if s.End.Ended() {
		c.forget(e)
	}
	return failpoint.Hit(name + ".done")
}

// commit changes e's state in its row and then in memory.
func (c *core) commit(ctx context.Context, e *entry, to State, reason string) error {
	s := e.snapshot()
	if err := s.To(to, reason); err != nil {
		return err
	}
	s.End = ""
	if to == Running {
		s.ByHand = false
	}
	if to.Ended() {
		s.EndedAt = clock()
	}
	if err := c.put(ctx, s); err != nil {
		return fmt.Errorf("record session %s as %s: %w", s.ID, to, err)
	}
	e.replace(s)
	return nil
}

// put writes a row. It takes no notice of ctx's end, for a write that is cut
// off may or may not have happened; the store bounds how long it takes.
func (c *core) put(ctx context.Context, s Session) error {
	return c.store.Put(context.WithoutCancel(ctx), s)
}

// lost returns what the failure of an operation on e means, having ended e if
// its runner has died or is not to be trusted. Other errors it returns as
// they are.
func (c *core) lost(ctx context.Context, e *entry, err error) error {
	ctx = context.WithoutCancel(ctx)
	switch {
	case errors.Is(err, runnerclient.ErrProtocol):
		c.log.ErrorContext(ctx, "ending a session whose runner broke the protocol", "session", e.id, "err", err)
		return c.quarantine(ctx, e, err)
	case errors.Is(err, runnerclient.ErrUnreachable) && errdefs.Is(err, errdefs.Unavailable):
		return err // so the driver says: nobody has died
	case errors.Is(err, runnerclient.ErrUnreachable), errors.Is(err, runnerclient.ErrLost):
		if c.died(ctx, e) {
			return errors.Join(notRunning(e.snapshot()), err)
		}
		return errdefs.Wrap(err, errdefs.Unavailable, "session %s does not answer now; try again", e.id)
	case errdefs.Is(err, errdefs.NotFound):
		// The end of a session removes its files before its runner has gone.
		if s := e.snapshot(); !s.State.Alive() {
			return errors.Join(notRunning(s), err)
		}
		return err
	default:
		return err
	}
}

// quarantine ends e's processes, whose runner broke the protocol, and keeps the
// files if the driver can. It returns the error for the client.
func (c *core) quarantine(ctx context.Context, e *entry, err error) error {
	end, outcome := Failed, "was ended; create a new one"
	if c.stops != nil && !e.snapshot().Helper {
		end, outcome = Stopped, "was stopped; its files are kept, and it can be started again"
	}
	endErr := c.endLocked(ctx, e, as(end, reasonBroke))
	return errors.Join(errdefs.Wrap(err, errdefs.Conflict, "session %s misbehaved and %s", e.id, outcome), endErr)
}

// died reports whether e no longer runs, and ends it if its runner has died.
// The kernel closes a dying runner's connections a moment before the driver
// can see its death, so it looks for a second before it believes in life.
func (c *core) died(ctx context.Context, e *entry) bool {
	const first, last = 5 * time.Millisecond, 640 * time.Millisecond
	for wait := first; ; wait *= 2 {
		if err := c.checkAlive(ctx, e); err != nil {
			c.log.ErrorContext(ctx, "a session died and is not removed yet", "session", e.id, "err", err)
		}
		if !e.snapshot().State.Alive() {
			return true
		}
		if wait > last {
			return false
		}
		<-time.After(wait)
	}
}
