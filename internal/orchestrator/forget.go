package orchestrator

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// archiveKey names the archives of a session's snapshots as clients of the original
// look for them in their bucket.
func (s *Service) archiveKey(session string) func(id string) string {
	return func(id string) string {
		return "snapshots/" + session + "/" + SnapshotUUID(id) + ".tar.gz" + s.opts.ArchiveSuffix
	}
}

// SessionOfArchive is the ID of the session whose snapshot has an archive of that key,
// or "".
func SessionOfArchive(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) != 3 || parts[0] != "snapshots" || !strings.Contains(parts[2], ".tar.gz") {
		return ""
	}
	id, ok := ParseUUID(parts[1])
	if !ok || id != parts[1] {
		return ""
	}
	return id
}

// forgetOld forgets the sessions that ended longer ago than Retention, with all that
// is kept of them.
func (s *Service) forgetOld(ctx context.Context) error {
	if s.opts.Retention == 0 {
		return nil
	}
	return s.forgetEach(ctx, s.opts.Retention, s.opts.Store.EndedOrchestrated, s.forgetWhole)
}

// emptyRetention is for how long a session that ended is known of which nothing is kept, where
// sessions are kept for ever. Its row would keep its UUID from all others, and is all there is to it.
const emptyRetention = 30 * 24 * time.Hour

// forgetEmpty forgets the sessions that ended long ago and of which nothing is kept.
func (s *Service) forgetEmpty(ctx context.Context) error {
	return s.forgetEach(ctx, emptyRetention, s.opts.Store.EmptyOrchestrated, s.forgetRow)
}

// forgetEach has forget do so to each session that list finds, that ended longer than a time ago, and
// that nobody changes.
func (s *Service) forgetEach(ctx context.Context, age time.Duration, list func(context.Context, time.Time) ([]string, error), forget func(context.Context, Session) error) error {
	before := time.Now().Add(-age)
	found, err := list(ctx, before)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range found {
		errs = append(errs, s.forgetIfOld(ctx, id, before, forget))
	}
	return errors.Join(errs...)
}

// forgetIfOld forgets a session that nobody changes, unless it has begun anew.
func (s *Service) forgetIfOld(ctx context.Context, id string, before time.Time, forget func(context.Context, Session) error) error {
	release, free := s.locks.Try(id)
	if !free {
		return nil
	}
	defer release()
	x, err := s.opts.Store.GetOrchestrated(ctx, id)
	if errdefs.Is(err, errdefs.NotFound) {
		return nil
	}
	if err != nil || x.Unsaved() || x.Status != Terminated && x.Status != Failed || !x.UpdatedAt.Before(before) {
		return err
	}
	return forget(ctx, x)
}

// forgetRow forgets a session that has nothing else.
func (s *Service) forgetRow(ctx context.Context, x Session) error {
	if all, err := s.snapshotsOf(ctx, x); err != nil || len(all) > 0 {
		return err
	}
	return s.opts.Store.DeleteOrchestrated(ctx, x.ID)
}

// forgetWhole forgets a session with its snapshots and artifacts. Its row goes last, so that the
// next round goes on where this one fails.
func (s *Service) forgetWhole(ctx context.Context, x Session) error {
	all, err := s.snapshotsOf(ctx, x)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := s.opts.Snapshots.Delete(ctx, ownerOf(x), one.ID); err != nil && !errdefs.Is(err, errdefs.NotFound) {
			return err
		}
	}
	if err := s.opts.Forget(ctx, x.ID); err != nil {
		return err
	}
	return s.opts.Store.DeleteOrchestrated(ctx, x.ID)
}

// RemoveOwner forgets the sessions of an owner whose requests have all ended. What
// they run in and their snapshots are the core's to remove. It returns Unavailable, and
// forgets none, as long as one has files that could not be saved. It may be repeated.
func (s *Service) RemoveOwner(ctx context.Context, owner string) error {
	all, err := s.opts.Store.OrchestratedOf(ctx, &owner)
	if err != nil {
		return err
	}
	if err := s.awaitSaved(ctx, all); err != nil {
		return err
	}
	for _, x := range all {
		if err := s.removeRow(ctx, x.ID); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) removeRow(ctx context.Context, id string) error {
	release, err := s.locks.Acquire(ctx, id) // of a create or the reaper, which would write it again
	if err != nil {
		return err
	}
	defer release()
	return s.opts.Store.DeleteOrchestrated(ctx, id)
}
