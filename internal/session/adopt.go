package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

const (
	adoptRetry  = time.Second     // between attempts while the driver cannot list
	pingTimeout = 2 * time.Second // for an adopted runner to answer
	// adoptPatience is how long everybody waits for the sandboxes of a crash
	// to be removed. One that cannot be must not keep the daemon from serving.
	adoptPatience = 10 * time.Second
)

// Run adopts the sessions of an earlier daemon and then writes activity to the
// store from time to time, until ctx is done. It returns an error only if the
// store cannot be read. Sandboxes live on when it returns.
func (m *Manager) Run(ctx context.Context) error {
	c := m.core
	defer c.networks.Close()
	defer c.watch.Close()
	if err := errors.Join(c.load(ctx), c.workspaces.Load(ctx), c.snapshots.Abandon(ctx), failpoint.Hit("adopt.loaded")); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it began
		}
		return err
	}
	adopted, absent := c.adoptUntil(ctx)
	if adopted == nil {
		return nil
	}
	select {
	case <-adopted:
	case <-time.After(adoptPatience):
		// What is left is locked one by one, and holds up nobody else.
		c.log.WarnContext(ctx, "some sessions are not in order yet; going on with the others")
	}
	if err := errors.Join(c.workspaces.CheckVolumes(ctx, adoptPatience), failpoint.Hit("adopt.volumes")); err != nil {
		c.log.ErrorContext(ctx, "cannot compare the workspaces with the driver's", "err", err)
	}
	c.ready.Store(true)
	c.opts.Settled()
	late := make(chan struct{})
	go func() {
		defer close(late)
		c.adoptLate(ctx, absent)
	}()
	c.flushUntil(ctx)
	<-adopted
	<-late
	return nil
}

// adoptUntil tries to adopt until the driver can tell what there is, and
// returns what adopt does. The channel is nil if ctx is done first.
func (c *core) adoptUntil(ctx context.Context) (adopted <-chan struct{}, absent map[string]error) {
	for {
		adopted, absent, err := c.adopt(ctx)
		if err == nil {
			return adopted, absent
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		c.log.ErrorContext(ctx, "cannot take up the sessions yet", "err", err)
		select {
		case <-time.After(adoptRetry):
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// load makes an entry, locked, of every row that has not ended.
func (c *core) load(ctx context.Context) error {
	rows, err := c.store.List(ctx, ListFilter{Helpers: true})
	if err != nil {
		return fmt.Errorf("read the sessions: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := clock()
	for _, s := range rows {
		s.CreatedAt, s.LastActivity = rebase(s.CreatedAt, now), rebase(s.LastActivity, now)
		s = c.withRetention(s)
		e := c.newEntry(s)
		e.known = true // to whoever lists sessions
		c.add(e)
	}
	return nil
}

// rebase puts a time of the wall clock on this process's monotonic clock, so
// that later jumps of the wall clock end no session. A time in the future,
// from before the clock was set back, becomes now.
func rebase(t, now time.Time) time.Time {
	ago := now.Round(0).Sub(t.Round(0))
	return now.Add(-max(ago, 0))
}

// adopt compares the entries with what the driver sees, and starts to make
// them agree; the channel is closed when they do. Sessions of an absent driver
// stay as they are: see adoptLate. It returns an error, having changed nothing,
// if the driver cannot tell.
func (c *core) adopt(ctx context.Context) (adopted <-chan struct{}, absent map[string]error, err error) {
	seen, err := c.survey(ctx)
	if err = errors.Join(err, failpoint.Hit("adopt.surveyed")); err != nil {
		return nil, nil, err
	}
	var work []func()
	for _, e := range c.entries() {
		s := e.snapshot()
		status, there := seen.Sandboxes[s.Sandbox]
		delete(seen.Sandboxes, s.Sandbox)
		work = append(work, func() {
			switch _, away := seen.Absent[s.Driver()]; {
			case there:
				c.adoptOne(ctx, e, &status)
			case away && s.State.settled():
				close(e.created)
				e.Release()
			default:
				c.adoptOne(ctx, e, nil)
			}
		})
	}
	orphans := c.orphans(ctx, seen.Sandboxes)
	sessions := len(work)

	start := time.Now()
	done := make(chan struct{})
	go func() { // Run waits for it
		defer close(done)
		c.doAll(append(work, orphans...))
		c.log.InfoContext(ctx, "took up the sessions of the last run", "sessions", sessions, "orphans", len(orphans), "took_ms", time.Since(start).Milliseconds())
	}()
	return done, seen.Absent, nil
}

// orphans are the removals of sandboxes that have no entry.
func (c *core) orphans(ctx context.Context, left map[runtime.ID]runtime.Status) (work []func()) {
	for id := range left {
		if !c.opts.Reserved(id) {
			work = append(work, func() { c.removeOrphan(ctx, id) })
		}
	}
	return work
}

func (c *core) doAll(work []func()) {
	var all errgroup.Group
	all.SetLimit(c.opts.AdoptParallel)
	for _, do := range work {
		all.Go(func() error { do(); return nil })
	}
	_ = all.Wait() // nothing that is done here can fail
}

// adoptLate takes up the sessions of the drivers that were absent at the start,
// each when it answers, until ctx is done.
func (c *core) adoptLate(ctx context.Context, absent map[string]error) {
	for len(absent) > 0 {
		select {
		case <-time.After(adoptRetry):
		case <-ctx.Done():
			return
		}
		seen, err := c.survey(ctx)
		if err != nil {
			continue // the reaper says so
		}
		for name := range absent {
			if _, still := seen.Absent[name]; !still {
				delete(absent, name)
				c.adoptDriver(ctx, name, seen.Sandboxes)
			}
		}
	}
}

// adoptDriver takes up the sessions of one driver. There may be new ones and
// more sandboxes than in seen by now, but none in seen is of an entry that is
// still to come: an entry is first.
func (c *core) adoptDriver(ctx context.Context, name string, seen map[runtime.ID]runtime.Status) {
	left := maps.Clone(seen)
	maps.DeleteFunc(left, func(id runtime.ID, _ runtime.Status) bool { return id.Driver() != name })
	var work []func()
	for _, e := range c.entries() {
		s := e.snapshot()
		delete(left, s.Sandbox)
		if s.Driver() == name && s.State.Alive() {
			work = append(work, func() { c.adoptAgain(ctx, e) })
		}
	}
	c.doAll(append(work, c.orphans(ctx, left)...))
}

// adoptAgain is adoptOne for a session that seemed to be alive when its driver
// was absent.
func (c *core) adoptAgain(ctx context.Context, e *entry) {
	err := c.checkAlive(ctx, e)
	if err == nil {
		err = e.Acquire(ctx)
	}
	if err != nil {
		c.log.ErrorContext(ctx, "a session is not in order after its driver came back; the reaper goes on", "session", e.id, "err", err)
		return
	}
	defer e.Release()
	if e.snapshot().State.Alive() && e.box().sandbox == nil {
		if err := c.reopen(ctx, e); err != nil {
			c.log.WarnContext(ctx, "a session does not answer after its driver came back", "session", e.id, "err", err)
		}
	}
}

// adoptOne brings one entry, which is locked, in line with its sandbox, and
// unlocks it. The status is nil if the driver sees no sandbox.
func (c *core) adoptOne(ctx context.Context, e *entry, status *runtime.Status) {
	defer e.Release()
	defer close(e.created)
	var err error
	switch s := e.snapshot(); {
	case s.State == Creating:
		// No client knows of it, and what was made of it is not known.
		e.createErr = errdefs.New(errdefs.Unavailable, "the daemon stopped while it created this session; try again")
		err = c.end(ctx, e, as(Failed, "the daemon stopped while it was created"))
	case s.State.Alive() && status != nil && status.Alive:
		err = c.reopen(ctx, e)
	case s.State.Alive() && status != nil && status.Startable && !s.Helper:
		err = c.end(ctx, e, as(Stopped, c.whyDead(ctx, s.Sandbox, "its processes were gone when the daemon started")))
	case s.State.Alive():
		err = c.end(ctx, e, as(Crashed, "its sandbox was gone when the daemon started"))
	case s.State == Starting:
		err = c.end(ctx, e, as(Stopped, "the daemon stopped while it was started"))
	case s.State == Stopped && status == nil:
		err = c.end(ctx, e, as(Crashed, "its files were gone when the daemon started"))
	case s.State == Stopping:
		err = c.end(ctx, e, as(s.End, s.EndReason))
	}
	if err = errors.Join(err, failpoint.Hit("adopt.session")); err != nil {
		c.log.ErrorContext(ctx, "a session is not in order after the start; the reaper goes on", "session", e.id, "err", err)
	}
}

// reopen gives a running session its way into the sandbox. A runner that does
// not answer is not dead: only the driver can say so.
func (c *core) reopen(ctx context.Context, e *entry) error {
	sandbox, err := runtime.OpenInTime(ctx, c.driver, e.snapshot().Sandbox)
	if errdefs.Is(err, errdefs.NotFound) {
		return c.end(ctx, e, as(c.endOfDead(ctx, e.snapshot())))
	}
	if err != nil {
		return fmt.Errorf("open the sandbox: %w", err)
	}
	if err := c.open(ctx, e, sandbox); err != nil { // it is tried again when the session is used
		c.log.ErrorContext(ctx, "a session reaches nothing", "session", e.id, "err", err)
	}
	if err := c.conform(ctx, e); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := e.box().client.Ping(ctx); err != nil {
		return fmt.Errorf("ping the runner: %w", err)
	}
	return nil
}

// removeOrphan destroys a sandbox that no row names. It is left from a crash;
// if it cannot be removed now, the next start tries again.
func (c *core) removeOrphan(ctx context.Context, id runtime.ID) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.DestroyTimeout)
	defer cancel()
	err := errors.Join(c.driver.Destroy(ctx, id), failpoint.Hit("adopt.orphan"))
	if err != nil && !errors.Is(err, context.Canceled) {
		c.log.ErrorContext(ctx, "cannot remove a sandbox that belongs to no session", "sandbox", id, "err", err)
	}
}
