package orchestrator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// secondTryAfter is the time between two looks at an archive that seems to be lost or
// damaged. A store that answers 404 for a moment, or a bit that was read wrong, is not
// to cost a client its files.
const secondTryAfter = 2 * time.Second

// awaitSecondTry waits until the archive of a suspect may be looked at again.
func awaitSecondTry(ctx context.Context, x Session, restore string) error {
	if restore == "" || restore != x.Suspect {
		return nil
	}
	wait := min(time.Until(x.SuspectAt.Add(secondTryAfter)), secondTryAfter)
	if wait <= 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail notes that x could not begin. A snapshot whose archive is lost or damaged is a
// suspect, and skipped when it is so the second time. No other failure says anything
// about a snapshot.
func (s *Service) fail(ctx context.Context, x *Session, restore string, cause error) error {
	x.Error = errdefs.MessageOf(cause)
	if restore != "" && isBadArchive(cause) {
		x.TerminatedReason = ReasonRestore
		if x.Suspect != restore {
			x.Suspect, x.SuspectAt = restore, time.Now().UTC()
		} else if err := s.skip(ctx, x, restore); err != nil {
			return err
		}
	}
	if there, err := s.hasFiles(ctx, *x); (there || err != nil) && s.keptWorkspace(*x) == "" {
		s.markUnsaved(ctx, x) // what it ran in before is still there, or may be
	}
	if err := x.to(Failed); err != nil {
		return err
	}
	return s.put(ctx, x)
}

// skip has x begin without a bad snapshot from now on.
func (s *Service) skip(ctx context.Context, x *Session, bad string) error {
	x.Suspect, x.SuspectAt = "", time.Time{}
	if !slices.Contains(x.BadSnapshots, bad) {
		x.BadSnapshots = append(x.BadSnapshots, bad)
	}
	good, err := s.choose(ctx, *x, "")
	if err != nil {
		return err
	}
	s.opts.Log.WarnContext(ctx, "the archive of a snapshot was lost or damaged twice: its session goes on without it", "session", x.ID, "snapshot", bad, "next", good)
	x.LatestSnapshot = good
	return nil
}

// ofSnapshot returns err if it is about the snapshot that a session was to begin with.
func ofSnapshot(err error) (*errdefs.Error, bool) {
	e, ok := errors.AsType[*errdefs.Error](err)
	return e, ok && e.Field == "restore_snapshot_id"
}

// isBadArchive reports whether a create failed because the archive of its snapshot is
// lost or damaged.
func isBadArchive(err error) bool {
	_, ok := ofSnapshot(err)
	return ok && errors.Is(err, snapshots.ErrBadArchive)
}

// explainRestore turns a failure that does not prove the archive bad into one that is
// worth another try: a client must not take it for the loss of its files.
func explainRestore(err error) error {
	e, ok := ofSnapshot(err)
	if !ok || isBadArchive(err) || e.Reason == errdefs.NoSuchSnapshot {
		return err
	}
	switch e.Code {
	case errdefs.Unavailable, errdefs.InsufficientSpace, errdefs.ResourceExhausted:
		return err
	}
	later := errdefs.Wrap(err, errdefs.Unavailable, "the snapshot cannot be restored now; try again: %s", e.Message)
	later.Field = e.Field
	return later
}
