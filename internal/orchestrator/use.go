package orchestrator

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// Use has do look at what a session runs in, in the name that it is given. A session
// that has ended begins anew before, with its files, and so does one that is ending. It
// is in use until do returns.
func (s *Service) Use(ctx context.Context, p auth.Principal, ref string, do func(p auth.Principal, id session.ID) error) error {
	x, end, err := s.beginUse(ctx, p, ref)
	if err != nil {
		return err
	}
	defer end()
	return do(ownerOf(x), x.Core)
}

// Change is Use for what writes. It fails, although do has not, where the session began
// to end meanwhile: what was written then may be in no snapshot.
func (s *Service) Change(ctx context.Context, p auth.Principal, ref string, do func(p auth.Principal, id session.ID) error) error {
	x, end, err := s.beginUse(ctx, p, ref)
	if err != nil {
		return err
	}
	err = do(ownerOf(x), x.Core)
	if overtaken := end(); overtaken && err == nil {
		return errdefs.New(errdefs.Unavailable, "the session ended while this was under way, and what it wrote may not be among its saved files; do it again")
	}
	return err
}

// beginUse returns a ready session in which an operation has begun, until end is called.
func (s *Service) beginUse(ctx context.Context, p auth.Principal, ref string) (Session, func() bool, error) {
	for {
		x, err := s.ensureReady(ctx, p, ref)
		if err != nil {
			return x, nil, err
		}
		if end, ok := s.begin(x.ID); ok {
			return x, end, nil
		}
		release, err := s.locks.Acquire(ctx, x.ID) // which its end holds
		if err != nil {
			return x, nil, err
		}
		release()
	}
}

// ensureReady returns a ready session.
func (s *Service) ensureReady(ctx context.Context, p auth.Principal, ref string) (Session, error) {
	x, err := s.Get(ctx, p, ref)
	if err != nil || x.Status == Ready {
		return x, err
	}
	ready, _, err := s.Create(ctx, p, CreateRequest{ID: x.ID})
	if err != nil {
		return x, notRestored(err)
	}
	return ready, nil
}

// notRestored says of a failure that it is that of a session to begin anew.
func notRestored(err error) error {
	code := errdefs.CodeOf(err)
	if errors.Is(err, context.Canceled) || code == errdefs.Internal {
		return err
	}
	return errdefs.Wrap(err, code, "Sandbox was not ready and auto-restore failed: %s", errdefs.MessageOf(err))
}

// Heartbeat keeps a session from being idle. It begins none anew.
func (s *Service) Heartbeat(ctx context.Context, p auth.Principal, ref string) (Session, error) {
	x, err := s.Get(ctx, p, ref)
	if err != nil {
		return Session{}, err
	}
	s.saw(x.ID, false)
	if x.Status == Ready {
		if _, err := s.opts.Sessions.Heartbeat(ctx, ownerOf(x), x.Core); err != nil {
			s.opts.Log.DebugContext(ctx, "a heartbeat came too late", "session", x.ID, "err", err)
		}
	}
	return s.withSeen(x), nil
}

// Stop saves the files of a session and ends it. Its row stays. Files that cannot be
// saved now are kept, and saved later. With force they are not saved, and those that
// an earlier end has kept are removed. It may be repeated.
func (s *Service) Stop(ctx context.Context, p auth.Principal, ref string, force bool) error {
	x, err := s.find(ctx, p, ref)
	if err != nil {
		return err
	}
	// Half a stop helps nobody.
	ctx = context.WithoutCancel(ctx)
	release, err := s.locks.Acquire(ctx, x.ID)
	if err != nil {
		return err
	}
	defer release()
	x, err = s.find(ctx, p, x.ID)
	switch {
	case err != nil, x.Status == Terminated && !x.Unsaved():
		return err
	case x.Unsaved():
		return s.terminate(ctx, &x, labelOf(x), "", force)
	}
	return s.terminate(ctx, &x, labelStop, "", force)
}

// SnapshotRequest asks for a snapshot on demand.
type SnapshotRequest struct {
	Label   string
	Include []string
	Exclude []string
}

// Snapshot saves files of a session, which begins anew before if it has ended.
func (s *Service) Snapshot(ctx context.Context, p auth.Principal, ref string, req SnapshotRequest) (snapshots.Snapshot, error) {
	x, end, err := s.beginUse(ctx, p, ref)
	if err != nil {
		return snapshots.Snapshot{}, err
	}
	defer end()
	release, err := s.locks.Acquire(ctx, x.ID)
	if err != nil {
		return snapshots.Snapshot{}, err
	}
	defer release()
	if x, err = s.find(ctx, p, x.ID); err != nil {
		return snapshots.Snapshot{}, err
	}
	made, err := s.opts.Snapshots.Create(ctx, ownerOf(x), string(x.Core), snapshots.Request{
		Name: x.ID, Label: req.Label, Include: req.Include, Exclude: req.Exclude, MustMatch: true, Key: s.archiveKey(x.ID),
	})
	if err != nil {
		return snapshots.Snapshot{}, err
	}
	x.LatestSnapshot = made.ID
	return made, s.put(ctx, &x)
}

// Snapshots returns the snapshots of a session, newest first. It begins none anew.
func (s *Service) Snapshots(ctx context.Context, p auth.Principal, ref string) (Session, []snapshots.Snapshot, error) {
	x, err := s.find(ctx, p, ref)
	if err != nil {
		return Session{}, nil, err
	}
	all, err := s.snapshotsOf(ctx, x)
	return x, all, err
}

// SnapshotsByName are the snapshots of all sessions of p, newest first, by the ID
// of their session.
func (s *Service) SnapshotsByName(ctx context.Context, p auth.Principal) (map[string][]snapshots.Snapshot, error) {
	named := map[string][]snapshots.Snapshot{}
	if !s.opts.Snapshots.Enabled() {
		return named, nil
	}
	all, err := s.opts.Snapshots.List(ctx, p, snapshots.Filter{})
	for i := len(all) - 1; i >= 0; i-- {
		named[all[i].Name] = append(named[all[i].Name], all[i])
	}
	return named, err
}
