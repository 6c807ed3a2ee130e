package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// Labels of the snapshots that sessions which end have taken.
const (
	labelAuto     = "auto-"
	labelStop     = labelAuto + "stop"
	labelIdle     = labelAuto + ReasonIdle
	labelLifetime = labelAuto + ReasonLifetime
	labelMemory   = labelAuto + "interval" // of files in memory
)

// terminate saves x's files and ends it. If they cannot be saved, it ends all the same
// and they are kept: see Session.UnsavedSince. With force nothing is saved. The caller
// has its lock.
func (s *Service) terminate(ctx context.Context, x *Session, label, reason string, force bool) error {
	if x.Status == Starting {
		if err := s.clear(ctx, *x); err != nil {
			return err
		}
	}
	core, err := s.opts.Sessions.Get(ctx, ownerOf(*x), x.Core)
	if err != nil && !errdefs.Is(err, errdefs.NotFound) {
		return err
	}
	outcome := unsavedLost
	if gone := err != nil || core.State.Ended(); gone && x.Unsaved() {
		s.noteLost(ctx, x)
	} else if !gone {
		defer s.beginEnd(x.ID)() // before the snapshot: what is acknowledged after it would be lost
		s.measure(ctx, x)
		if outcome, err = s.saveOr(ctx, x, label, force); err != nil {
			return s.keep(ctx, x, reason)
		}
		// Snapshot and reason are known before the files go and it looks ended.
		x.TerminatedReason = cmp.Or(reason, x.TerminatedReason)
		if err := s.put(ctx, x); err != nil {
			return err
		}
		if err := s.destroy(ctx, *x); err != nil {
			return err
		}
	}
	s.settle(ctx, x, outcome)
	x.TerminatedReason = cmp.Or(reason, x.TerminatedReason)
	if x.Status != Terminated {
		if err := x.to(Terminated); err != nil {
			return err
		}
	}
	return s.put(ctx, x)
}

// saveOr saves x, or finds that nothing is lost if it is not saved: its client wants
// that, or its files are in a workspace that stays.
func (s *Service) saveOr(ctx context.Context, x *Session, label string, force bool) (outcome string, err error) {
	if force {
		if x.Unsaved() {
			x.Error = ""
		}
		return unsavedDiscarded, nil
	}
	switch err := s.save(ctx, x, label); {
	case err == nil:
		x.Error = ""
	case s.keptWorkspace(*x) == "":
		return "", err
	}
	return unsavedSaved, nil
}

// destroy removes what x ran in. What is not removed at once is removed by the core.
func (s *Service) destroy(ctx context.Context, x Session) error {
	err := s.opts.Sessions.Destroy(ctx, ownerOf(x), x.Core)
	switch {
	case errdefs.Is(err, errdefs.NotFound):
		return nil
	case errdefs.Is(err, errdefs.Unavailable):
		s.opts.Log.WarnContext(ctx, "a session has ended and is not removed yet", "session", x.ID, "err", err)
		return nil
	}
	return err
}

// save takes the snapshot of a session that ends.
func (s *Service) save(ctx context.Context, x *Session, label string) error {
	if !s.opts.Snapshots.Enabled() {
		return nil
	}
	made, err := s.makeSnapshot(ctx, *x, label)
	if err != nil {
		s.opts.Log.ErrorContext(ctx, "a session that is to end has no snapshot", "session", x.ID, "err", err)
		x.Error = "Snapshot " + label + " failed: " + errdefs.MessageOf(err)
		return err
	}
	x.LatestSnapshot = made.ID
	if err := s.thin(ctx, *x); err != nil {
		s.opts.Log.WarnContext(ctx, "cannot remove old snapshots of a session", "session", x.ID, "err", err)
	}
	return nil
}

// makeSnapshot takes a snapshot of what x runs in. Where the files of what has stopped
// cannot be read, as those of a container, it is started for that. Whoever calls ends it.
func (s *Service) makeSnapshot(ctx context.Context, x Session, label string) (snapshots.Snapshot, error) {
	p, req := ownerOf(x), snapshots.Request{Name: x.ID, Label: label, Key: s.archiveKey(x.ID), Ends: true}
	made, err := s.opts.Snapshots.Create(ctx, p, string(x.Core), req)
	if !errdefs.Is(err, errdefs.Unimplemented) {
		return made, err
	}
	core, getErr := s.opts.Sessions.Get(ctx, p, x.Core)
	if getErr != nil || core.State != session.Stopped {
		return made, errors.Join(err, getErr)
	}
	if _, err := s.opts.Sessions.Start(ctx, p, x.Core); err != nil {
		return made, err
	}
	return s.opts.Snapshots.Create(ctx, p, string(x.Core), req)
}

// thin removes the oldest snapshots that no client has asked for. Those that x could not
// begin with stay, and do not count: what was saved since began without their files.
func (s *Service) thin(ctx context.Context, x Session) error {
	all, err := s.snapshotsOf(ctx, x)
	if err != nil {
		return err
	}
	kept := 0
	var errs []error
	for _, one := range all {
		if !strings.HasPrefix(one.Label, labelAuto) || one.ID == x.Suspect || slices.Contains(x.BadSnapshots, one.ID) {
			continue
		}
		if kept++; kept > s.opts.KeepAuto {
			errs = append(errs, s.opts.Snapshots.Delete(ctx, ownerOf(x), one.ID))
		}
	}
	return errors.Join(errs...)
}

// measure notes what a session has used that ends.
func (s *Service) measure(ctx context.Context, x *Session) {
	stats, err := s.opts.Sessions.Stats(ctx, ownerOf(*x), x.Core)
	if err != nil {
		s.opts.Log.DebugContext(ctx, "cannot measure a session that ends", "session", x.ID, "err", err)
		return
	}
	x.CPUSeconds += time.Duration(stats.CPUUsageUsec * int64(time.Microsecond)).Seconds()
	x.StorageBytes = stats.DiskBytes
}

const (
	flushEvery = time.Second // between writes of use
	atOnce     = 8           // sessions that one round ends at the same time
)

// Run writes what is used and ends what is due, until ctx is done. What goes wrong
// in a round is logged and tried again in the next one.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return s.flush(context.WithoutCancel(ctx))
		case <-tick.C:
		}
		if err := s.flush(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.ErrorContext(ctx, "cannot write the use of sessions; trying again", "err", err)
		}
		if !s.opts.Ready() || time.Since(last) < s.opts.Every {
			continue
		}
		last = time.Now()
		if err := s.Round(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.ErrorContext(ctx, "a round of the orchestrator's reaper is incomplete", "err", err)
		}
	}
}

// Round looks once at every session that has not ended or is unsaved.
func (s *Service) Round(ctx context.Context) error {
	live, err := s.opts.Store.LiveOrchestrated(ctx)
	if err != nil {
		return err
	}
	var ending errgroup.Group
	ending.SetLimit(atOnce)
	for _, x := range live {
		ending.Go(func() error {
			if err := s.reap(ctx, x.ID); err != nil {
				s.opts.Log.ErrorContext(ctx, "cannot end a session yet", "session", x.ID, "err", err)
			}
			return nil
		})
	}
	return errors.Join(ending.Wait(), s.forgetOld(ctx), s.forgetEmpty(ctx))
}

// reap ends a session if it is due. One that somebody changes is for the next
// round.
func (s *Service) reap(ctx context.Context, id string) error {
	release, free := s.locks.Try(id)
	if !free {
		return nil
	}
	defer release()
	row, err := s.opts.Store.GetOrchestrated(ctx, id)
	if err != nil {
		return err
	}
	row = s.withSeen(row)
	switch {
	case row.Status == Starting: // and nobody is at it
		return errors.Join(s.clear(ctx, row), s.fail(ctx, &row, "", errInterrupted))
	case row.Unsaved():
		return s.saveLater(ctx, &row)
	}
	now, err := s.current(ctx, row)
	if err != nil || row.Status != Ready {
		return err
	}
	switch due := s.due(now, time.Now()); {
	case due == ReasonLifetime:
		return s.terminate(ctx, &row, labelLifetime, due, false)
	case due == ReasonIdle:
		return s.terminate(ctx, &row, labelIdle, due, false)
	case now.Status == Failed:
		s.forgetShot(now.ID)
		now.Error = cmp.Or(s.lostInMemory(ctx, now), now.Error)
		return s.put(ctx, &now)
	case now.Status == Terminated:
		return s.adopt(ctx, &row)
	}
	return s.saveMemory(ctx, &row)
}

// adopt ends a session whose sandbox somebody else has ended or stopped. The files
// of one that is stopped are still there, and are saved.
func (s *Service) adopt(ctx context.Context, x *Session) error {
	core, err := s.opts.Sessions.Get(ctx, ownerOf(*x), x.Core)
	if err == nil && core.State == session.Stopping {
		return nil // in a later round
	}
	return s.terminate(ctx, x, labelStop, "", false)
}

var errInterrupted = errdefs.New(errdefs.Unavailable, "the daemon ended while the session was starting")

// due is why a ready session is to end at a time, or "".
func (s *Service) due(x Session, now time.Time) string {
	switch {
	case x.Status != Ready:
		return ""
	case !now.Before(x.ExpiresAt):
		return ReasonLifetime
	case !s.isBusy(x.ID) && !now.Before(latest(x.LastActivity, x.LastHeartbeat).Add(x.IdleTimeout)):
		return ReasonIdle
	}
	return ""
}
