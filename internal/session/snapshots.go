package session

import (
	"context"
	"errors"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/access"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// Admit implements snapshots.Sessions.
func (h host) Admit(ctx context.Context) error { return h.core.opts.Admit(ctx, Admission{}) }

// CheckKnown implements snapshots.Sessions.
func (h host) CheckKnown(ctx context.Context, p auth.Principal, id string) error {
	_, _, err := h.core.known(ctx, p, ID(id), access.Use)
	return err
}

// StandStill implements snapshots.Sessions: it calls do while the programs of a session stand still, if the
// driver can pause them, and nobody changes its state but to destroy it, which
// ends do. A paused session stays paused, and a stopped one stopped.
func (h host) StandStill(ctx context.Context, p auth.Principal, id string, do func(context.Context, snapshots.Source) error) error {
	c := h.core
	e, err := c.living(ctx, p, ID(id))
	if err == nil && e.snapshot().State != Stopped {
		err = c.reachable(ctx, e)
	}
	if err != nil {
		return err
	}
	stopped, err := c.still(ctx, e, do)
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() == nil:
		return errdefs.Wrap(err, errdefs.Conflict, "session %s was destroyed while its snapshot was made", id)
	case stopped && runnerclient.Failed(err):
		return errdefs.Wrap(err, errdefs.Unavailable, "the files of session %s could not be read to their end; try again", id)
	case stopped:
		return err
	}
	return c.lost(ctx, e, err)
}

// still is StandStill but for what its errors mean, which depends on whether
// the session was stopped.
func (c *core) still(ctx context.Context, e *entry, do func(context.Context, snapshots.Source) error) (stopped bool, err error) {
	patience, cancel := context.WithTimeout(ctx, stillTimeout)
	defer cancel()
	if err := e.Acquire(patience); err != nil {
		return false, err
	}
	defer e.Release()
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	defer e.Interruptible(cancel)()
	if e.snapshot().State == Stopped {
		return true, c.whileStopped(ctx, e, do)
	}
	return false, c.whilePaused(ctx, e, do)
}

// stillTimeout is how long a snapshot waits for whatever else changes its
// session.
const stillTimeout = time.Minute

// whileStopped boots a stopped session without its programs for do. A daemon
// that dies meanwhile leaves what one leaves that dies while it starts one.
func (c *core) whileStopped(ctx context.Context, e *entry, do func(context.Context, snapshots.Source) error) (err error) {
	quiet, ok := c.driver.(runtime.QuietStarter)
	if !ok {
		return errdefs.New(errdefs.Unimplemented, "this daemon's driver cannot read the files of a stopped session: start it first")
	}
	s := e.snapshot()
	if err := c.commit(ctx, e, Starting, "its files are being read for a snapshot"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end(ctx, e, as(Stopped, s.EndReason))) }()
	if err := failpoint.Hit("snapshot.starting"); err != nil {
		return err
	}
	booting, cancel := context.WithTimeout(ctx, c.opts.CreateTimeout)
	defer cancel()
	sandbox, err := quiet.StartQuiet(booting, s.Sandbox)
	if err != nil {
		return err
	}
	client := &runnerclient.Client{Dial: sandbox.DialRunner}
	defer func() { err = errors.Join(err, client.Close()) }()
	e.use()
	if err := failpoint.Hit("snapshot.started"); err != nil {
		return err
	}
	return do(ctx, sourceOf(s, client))
}

func sourceOf(s Session, client *runnerclient.Client) snapshots.Source {
	return snapshots.Source{Client: client, Image: s.Image, ImageDigest: s.ImageDigest, Cwd: s.Cwd, ReadonlyRoot: s.ReadonlyRoot}
}

// whilePaused pauses a running session for do.
func (c *core) whilePaused(ctx context.Context, e *entry, do func(context.Context, snapshots.Source) error) (err error) {
	s := e.snapshot()
	if !s.State.Alive() {
		return notRunning(s)
	}
	if p, missing := pauserOf(e); s.State == Running && missing == nil {
		end, err := e.begin()
		if err != nil {
			return err
		}
		defer end()
		if err := p.Pause(ctx); err != nil {
			return errdefs.Wrap(err, errdefs.Unavailable, "the programs of session %s cannot be made to stand still now; try again", s.ID)
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), switchTimeout)
			defer cancel()
			err = errors.Join(err, p.Resume(ctx))
		}()
	}
	e.use()
	if err := failpoint.Hit("snapshot.still"); err != nil {
		return err
	}
	return do(ctx, sourceOf(s, e.box().client))
}

// findSnapshot looks up what the session is to begin with. The session gets its
// image, if its client named none.
func (m *creation) findSnapshot(ctx context.Context, s *Session) error {
	if m.req.RestoreSnapshotID == "" {
		return nil
	}
	from, err := m.core.snapshots.Get(ctx, s.Owner, m.req.RestoreSnapshotID)
	if err != nil {
		return errdefs.OfField("restore_snapshot_id", err)
	}
	m.from = &from
	s.Image, err = from.ImageFor(ctx, m.req.Image, s.ReadonlyRoot, m.core.opts.ImagesOf(s.Driver()).Resolve)
	return err
}

// restore brings the files of the snapshot into the new sandbox.
func (m *creation) restore(ctx context.Context) error {
	if s := m.entry.snapshot(); s.WorkspaceID != "" && !m.madeWorkspace {
		return errdefs.OfField("workspace_id", errdefs.New(errdefs.Conflict, "workspace %s is there already, and a snapshot is restored to a new one only; choose another id", s.WorkspaceID))
	}
	err := m.core.snapshots.Restore(ctx, *m.from, m.entry.box().client)
	switch {
	case runnerclient.Failed(err):
		err = errdefs.Wrap(err, errdefs.Unavailable, "the sandbox ended while the snapshot was restored, perhaps for want of memory; try again with more")
	case err != nil:
		err = errdefs.OfField("restore_snapshot_id", err)
	}
	return err
}
