package session

import (
	"cmp"
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

// What callers of the Manager need of snapshots.
type (
	// Snapshot is what package snapshots keeps.
	Snapshot = snapshots.Snapshot
	// SnapshotRequest asks for one.
	SnapshotRequest = snapshots.Request
	// SnapshotUpload brings one.
	SnapshotUpload = snapshots.UploadRequest
	// SnapshotFilter selects some.
	SnapshotFilter = snapshots.Filter
	// SnapshotOptions configures them.
	SnapshotOptions = snapshots.Options
	// SnapshotStore remembers them.
	SnapshotStore = snapshots.Store
	// SnapshotScope is how much one has.
	SnapshotScope = snapshot.Scope
)

// standStill calls do while the programs of a session stand still, if the
// driver can pause them, and nobody changes its state but to destroy it, which
// ends do. A paused session stays paused.
func (m *Manager) standStill(ctx context.Context, id string, do func(context.Context, snapshots.Source) error) error {
	e, err := m.running(ctx, ID(id))
	if err != nil {
		return err
	}
	err = m.still(ctx, e, do)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return errdefs.Wrap(err, errdefs.Conflict, "session %s was destroyed while its snapshot was made", id)
	}
	return m.lost(ctx, e, err)
}

func (m *Manager) still(ctx context.Context, e *entry, do func(context.Context, snapshots.Source) error) (err error) {
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer e.interruptible(cancel)()
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
	return do(ctx, snapshots.Source{Client: e.box().client, Image: s.Image, ImageDigest: s.ImageDigest, Cwd: s.Cwd})
}

// planRestore looks up what e is to be restored from. The session gets its
// image, if its client named none.
func (m *Manager) planRestore(ctx context.Context, e *entry, s *Session) error {
	if e.restoreID == "" {
		return nil
	}
	from, err := m.GetSnapshot(ctx, s.Owner, e.restoreID)
	if err != nil {
		return field("restore_snapshot_id", err)
	}
	if _, root := from.Manifest.Part(snapshot.Root); root {
		if s.ReadonlyRoot {
			return errdefs.Invalid("readonly_rootfs", "must be off: the snapshot has files of the root, too")
		}
		s.Image = cmp.Or(e.image, from.Manifest.ImageDigest)
	} else {
		s.Image = cmp.Or(e.image, from.Manifest.Image)
	}
	e.restore = &from
	return nil
}

// restore brings the files of e's snapshot into its new sandbox.
func (m *Manager) restore(ctx context.Context, e *entry) error {
	if e.restore == nil {
		return nil
	}
	if s := e.snapshot(); s.WorkspaceID != "" && !e.madeWorkspace {
		err := errdefs.New(errdefs.Conflict, "workspace %s is there already, and a snapshot is restored to a new one only; choose another id", s.WorkspaceID)
		err.Field = "workspace_id"
		return err
	}
	err := m.RestoreSnapshot(ctx, *e.restore, e.box().client)
	switch {
	case errors.Is(err, runnerclient.ErrUnreachable), errors.Is(err, runnerclient.ErrLost), errors.Is(err, runnerclient.ErrProtocol):
		err = errdefs.Wrap(err, errdefs.Unavailable, "the sandbox ended while the snapshot was restored, perhaps for want of memory; try again with more")
	case err != nil:
		err = field("restore_snapshot_id", err)
	}
	return errors.Join(err, failpoint.Hit("create.restored"))
}

// field says which field of the request an error that the client is told is
// about.
func field(name string, err error) error {
	if told, ok := errors.AsType[*errdefs.Error](err); ok && told.Field == "" {
		named := *told
		named.Field = name
		return &named
	}
	return err
}
