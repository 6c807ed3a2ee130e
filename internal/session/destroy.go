package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

const (
	reasonDestroyed = "a client destroyed it"
	reasonDied      = "its runner died"
	reasonKept      = "its runner died; its files are kept"
	reasonBroke     = "its runner broke the protocol"
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
func (m *Manager) Destroy(ctx context.Context, id ID) (err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "destroy")
	defer func() { span.End(err) }()
	if err := m.checkReady(); err != nil {
		return err
	}
	e := m.entry(id)
	if e == nil {
		_, err := m.store.Get(ctx, id) // ended before, or never was
		return err
	}
	e.refuse()
	e.cancelCreate()
	return m.endLocked(ctx, e, as(Destroyed, reasonDestroyed))
}

// Finish goes on with a stop or an end that could not be finished.
func (m *Manager) Finish(ctx context.Context, id ID) error {
	e := m.entry(id)
	if e == nil {
		return nil
	}
	return m.endLocked(ctx, e, func(s Session) (State, string) { return s.End, s.EndReason })
}

// Expire ends a session whose time is up. It looks again first: an operation
// that came in time keeps the session alive.
func (m *Manager) Expire(ctx context.Context, id ID) error {
	e := m.entry(id)
	if e == nil {
		return nil
	}
	return m.endLocked(ctx, e, func(s Session) (State, string) {
		now := time.Now()
		switch {
		case !s.State.settled() || now.Before(s.ExpiresAt()):
			return "", ""
		case s.MaxLifetime > 0 && !now.Before(s.CreatedAt.Add(s.MaxLifetime)):
			return Expired, "it reached its maximum lifetime of " + s.MaxLifetime.String()
		default:
			return Expired, idleFor(s.ExpiresAt().Sub(s.LastActivity))
		}
	})
}

func idleFor(d time.Duration) string { return "it was idle for " + d.String() }

// CheckAlive ends a running session whose runner has died: as stopped if the
// driver has kept its files, else as crashed. It acts on the driver's positive
// word only: an error is not death.
func (m *Manager) CheckAlive(ctx context.Context, id ID) error {
	e := m.entry(id)
	if e == nil {
		return nil
	}
	seen := e.snapshot()
	if !seen.State.Alive() {
		return nil
	}
	_, err := m.driver.Open(ctx, seen.Sandbox)
	if !errdefs.Is(err, errdefs.NotFound) {
		return nil // the driver does not know it to be dead
	}
	how, reason := m.endOfDead(ctx, seen)
	return m.endLocked(ctx, e, func(s Session) (State, string) {
		if !s.State.Alive() || s.BootID != seen.BootID {
			return "", ""
		}
		return how, reason // the dead stay dead: no need to look again
	})
}

// StopFailing stops a session whose sandbox cannot go on, as the driver says with the
// reason, and keeps its files. Where files cannot be kept the session has failed.
func (m *Manager) StopFailing(ctx context.Context, id ID, reason string) error {
	e := m.entry(id)
	if e == nil {
		return nil
	}
	end := Stopped
	if m.stops == nil {
		end = Failed
	}
	return m.endLocked(ctx, e, func(s Session) (State, string) {
		if !s.State.Alive() {
			return "", ""
		}
		return end, reason
	})
}

// whyDead is what is known of the end of a sandbox that the driver calls dead, or
// else what the caller thinks.
func (m *Manager) whyDead(ctx context.Context, id runtime.ID, otherwise string) string {
	if _, err := m.driver.Open(ctx, id); errors.Is(err, runtime.ErrCutOff) {
		return runtime.ErrCutOff.Error()
	}
	return otherwise
}

// endOfDead is the end of a session whose runner has died: stopped if the driver
// says that it can go on with the files, else crashed. Nobody knows a helper, so
// nobody would start it.
func (m *Manager) endOfDead(ctx context.Context, s Session) (State, string) {
	end, reason := Crashed, reasonDied
	if seen, err := m.Survey(ctx); err == nil && m.stops != nil && !s.Helper && seen.Sandboxes[s.Sandbox].Startable {
		end, reason = Stopped, reasonKept
	}
	reason = m.whyDead(ctx, s.Sandbox, reason)
	m.log.ErrorContext(ctx, "the runner of a session died", "session", s.ID, "sandbox", s.Sandbox, "end", end, "reason", reason)
	return end, reason
}

// endLocked is end for a caller who does not hold e's lock. A session that has
// ended meanwhile is not an error.
func (m *Manager) endLocked(ctx context.Context, e *entry, how ending) error {
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	if e.snapshot().State.Ended() {
		return nil
	}
	return m.end(ctx, e, how)
}

// end removes or stops e's sandbox: the row in state stopping, the sandbox, the
// row in the state that how said. It goes on where an earlier end stopped, and
// to the state that the earlier one was for. It does not stop when ctx is done.
// The caller holds e's lock.
func (m *Manager) end(ctx context.Context, e *entry, how ending) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.DestroyTimeout)
	defer cancel()
	s, err := e.stop(how)
	if err != nil || s.State != Stopping {
		return err
	}
	// A row that cannot be written is no reason to keep the sandbox: on a full
	// disk its removal is what makes room for the row.
	if err := m.put(ctx, s); err != nil {
		m.log.WarnContext(ctx, "cannot record that a session is stopping; removing its sandbox all the same", "session", s.ID, "err", err)
	}
	name, remove := "destroy", m.driver.Destroy
	if s.End == Stopped {
		name, remove = "stop", m.halt
	}
	if err := failpoint.Hit(name + ".row"); err != nil {
		return err
	}
	if err := e.box().close(); err != nil {
		m.log.DebugContext(ctx, "closing connections to a runner", "session", s.ID, "err", err)
	}
	err = tracing.Do(ctx, tracing.Driver, name, func(ctx context.Context) error { return remove(ctx, s.Sandbox) })
	if s.End == Stopped && errdefs.Is(err, errdefs.NotFound) {
		return m.end(ctx, e, as(Crashed, "its files are lost: "+errdefs.MessageOf(err)))
	}
	if err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "session %s is not stopped completely yet; the daemon goes on trying", s.ID)
	}
	if err := failpoint.Hit(name + ".sandbox"); err != nil {
		return err
	}
	e.shut()
	m.Left(ctx, userOf(s))
	if s.End == Stopped {
		e.use() // it is kept from now on
	}
	if err := m.commit(ctx, e, s.End, s.EndReason); err != nil {
		return err
	}
	if s.End.Ended() {
		m.forget(e)
	}
	return failpoint.Hit(name + ".done")
}

// commit changes e's state in its row and then in memory.
func (m *Manager) commit(ctx context.Context, e *entry, to State, reason string) error {
	s := e.snapshot()
	if err := s.To(to, reason); err != nil {
		return err
	}
	s.End = ""
	if to.Ended() {
		s.EndedAt = clock()
	}
	if err := m.put(ctx, s); err != nil {
		return fmt.Errorf("record session %s as %s: %w", s.ID, to, err)
	}
	e.replace(s)
	return nil
}

// put writes a row. It takes no notice of ctx's end, for a write that is cut
// off may or may not have happened; the store bounds how long it takes.
func (m *Manager) put(ctx context.Context, s Session) error {
	return m.store.Put(context.WithoutCancel(ctx), s)
}

// forget takes e out of the live sessions. Its row stays.
func (m *Manager) forget(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, e.id)
	e.overOnce.Do(func() { close(e.over) })
	k := key{e.owner, e.key}
	if m.byKey[k] == e {
		delete(m.byKey, k)
	}
	if n := (named{e.owner, e.name}); m.byName[n] == e {
		delete(m.byName, n)
	}
}

// lost returns what the failure of an operation on e means, having ended e if
// its runner has died or is not to be trusted. Other errors it returns as
// they are.
func (m *Manager) lost(ctx context.Context, e *entry, err error) error {
	ctx = context.WithoutCancel(ctx)
	switch {
	case errors.Is(err, runnerclient.ErrProtocol):
		m.log.ErrorContext(ctx, "ending a session whose runner broke the protocol", "session", e.id, "err", err)
		return m.quarantine(ctx, e, err)
	case errors.Is(err, runnerclient.ErrUnreachable) && errdefs.Is(err, errdefs.Unavailable):
		return err // so the driver says: nobody has died
	case errors.Is(err, runnerclient.ErrUnreachable), errors.Is(err, runnerclient.ErrLost):
		if m.died(ctx, e) {
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
// files if the driver can. It returns what a client is told.
func (m *Manager) quarantine(ctx context.Context, e *entry, err error) error {
	end, told := Failed, "was ended; create a new one"
	if m.stops != nil && !e.snapshot().Helper {
		end, told = Stopped, "was stopped; its files are kept, and it can be started again"
	}
	endErr := m.endLocked(ctx, e, as(end, reasonBroke))
	return errors.Join(errdefs.Wrap(err, errdefs.Conflict, "session %s misbehaved and %s", e.id, told), endErr)
}

// died reports whether e no longer runs, and ends it if its runner has died.
// The kernel closes a dying runner's connections a moment before the driver
// can see its death, so it looks for a second before it believes in life.
func (m *Manager) died(ctx context.Context, e *entry) bool {
	const first, last = 5 * time.Millisecond, 640 * time.Millisecond
	for wait := first; ; wait *= 2 {
		if err := m.CheckAlive(ctx, e.id); err != nil {
			m.log.ErrorContext(ctx, "a session died and is not removed yet", "session", e.id, "err", err)
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
