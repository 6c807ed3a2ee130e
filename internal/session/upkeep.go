package session

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/access"
)

// ofAll does what is for every owner's sessions at once, and refuses who may not.
func ofAll[T any](p auth.Principal, do func() (T, error)) (done T, err error) {
	if !p.Has(auth.ScopeEveryOwner) {
		return done, errdefs.New(errdefs.PermissionDenied, "this is for the sessions of all owners")
	}
	return do()
}

// Survey asks the driver what there is, and notes for Manager.Absent which of
// several drivers do not answer.
func (c *Upkeep) Survey(ctx context.Context, p auth.Principal) (runtime.Seen, error) {
	return ofAll(p, func() (runtime.Seen, error) { return c.survey(ctx) })
}

func (c *core) survey(ctx context.Context) (runtime.Seen, error) {
	seen, err := runtime.Survey(ctx, c.driver)
	if err != nil {
		return runtime.Seen{}, err
	}
	gone, back := c.absent.Note(slices.Sorted(maps.Keys(seen.Absent)))
	for _, name := range gone {
		c.log.WarnContext(ctx, "a driver does not answer: its sessions wait for it", "driver", name, "err", seen.Absent[name])
	}
	for _, name := range back {
		c.log.InfoContext(ctx, "a driver answers again", "driver", name)
	}
	return seen, nil
}

// Finish goes on with a stop or an end that could not be finished.
func (c *Upkeep) Finish(ctx context.Context, p auth.Principal, id ID) error {
	e, _, err := c.known(ctx, p, id, access.Use) // no entry and no error: it has ended, which leaves nothing to do
	if e == nil {
		return err
	}
	return c.endLocked(ctx, e, func(s Session) (State, string) { return s.End, s.EndReason })
}

// Expire ends a session whose time is up, or stops it as its OnExpiry says. It looks
// again first: an operation that came in time keeps the session alive.
func (c *Upkeep) Expire(ctx context.Context, p auth.Principal, id ID) error {
	e, _, err := c.known(ctx, p, id, access.Use)
	if e == nil || c.opts.Held(ctx, id) {
		return err
	}
	return c.endLocked(ctx, e, func(s Session) (State, string) { return s.expiry(time.Now()) })
}

func idleFor(d time.Duration) string { return "it was idle for " + d.String() }

// CheckAlive ends a running session whose runner has died: as stopped if the
// driver has kept its files, else as crashed. It acts on the driver's positive
// word only: an error is not death.
func (c *Upkeep) CheckAlive(ctx context.Context, p auth.Principal, id ID) error {
	e, _, err := c.known(ctx, p, id, access.Use)
	if e == nil {
		return err
	}
	return c.checkAlive(ctx, e)
}

// checkAlive is CheckAlive of a session that has not ended.
func (c *core) checkAlive(ctx context.Context, e *entry) error {
	seen := e.snapshot()
	if !seen.State.Alive() {
		return nil
	}
	_, err := runtime.OpenInTime(ctx, c.driver, seen.Sandbox)
	if !errdefs.Is(err, errdefs.NotFound) {
		return nil // the driver does not know it to be dead
	}
	how, reason := c.endOfDead(ctx, seen)
	return c.endLocked(ctx, e, func(s Session) (State, string) {
		if !s.State.Alive() || s.BootID != seen.BootID {
			return "", ""
		}
		return how, reason // the dead stay dead: no need to look again
	})
}

// StopFailing stops a session whose sandbox cannot go on, as the driver says with the
// reason, and keeps its files. Where files cannot be kept the session has failed.
func (c *Upkeep) StopFailing(ctx context.Context, p auth.Principal, id ID, reason string) error {
	e, _, err := c.known(ctx, p, id, access.Use)
	if e == nil {
		return err
	}
	end := Stopped
	if c.stoppable(e) != nil {
		end = Failed
	}
	return c.endLocked(ctx, e, func(s Session) (State, string) {
		if !s.State.Alive() {
			return "", ""
		}
		return end, reason
	})
}

// Idle pauses or stops a session that nothing has used for its idle timeout,
// as it wants. It looks again first: an operation that came in time keeps the
// session as it is.
func (c *Upkeep) Idle(ctx context.Context, p auth.Principal, id ID) error {
	e, _, err := c.known(ctx, p, id, access.Use)
	if e == nil {
		return err
	}
	if err := c.reachable(ctx, e); errdefs.Is(err, errdefs.Conflict) {
		return nil // it is not idle but gone
	} else if err != nil {
		return err
	}
	if err := e.Acquire(ctx); err != nil {
		return err
	}
	defer e.Release()
	due := func(s Session) string {
		if at := s.IdleAt(); at.IsZero() || time.Now().Before(at) {
			return ""
		}
		return idleFor(s.IdleTimeout)
	}
	if e.snapshot().OnIdle == OnIdlePause {
		return c.pause(ctx, e, due)
	}
	return c.end(ctx, e, func(s Session) (State, string) {
		if reason := due(s); reason != "" {
			return Stopped, reason
		}
		return "", ""
	})
}

// Prune forgets the sessions that ended before a time, and of each owner the oldest of more
// than most that have ended. It says how many.
func (c *Upkeep) Prune(ctx context.Context, p auth.Principal, endedBefore time.Time, most int) (int64, error) {
	return ofAll(p, func() (int64, error) { return c.store.Prune(ctx, endedBefore, most) })
}

// PruneWorkspaces goes on with removals of workspaces that did not finish, and
// removes those that no session has used for long. It says how many are gone.
func (c *Upkeep) PruneWorkspaces(ctx context.Context, p auth.Principal) (removed int, err error) {
	return ofAll(p, func() (int, error) { return c.workspaces.Prune(ctx) })
}

// PruneSnapshots goes on with removals of snapshots that did not finish, and
// removes those that are too old. It says how many are gone.
func (c *Upkeep) PruneSnapshots(ctx context.Context, p auth.Principal) (removed int, err error) {
	return ofAll(p, func() (int, error) { return c.snapshots.Prune(ctx) })
}
