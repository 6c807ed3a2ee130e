package orchestrator

import (
	"cmp"
	"context"
	"errors"
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
)

// savePatience is for how long a session that is due lives on because its files cannot be
// saved now.
const savePatience = 15 * time.Minute

// terminate saves x's files and ends it. That they cannot be saved keeps it from ending
// if it waits, for savePatience at most: its Error says so. The caller has its lock.
func (s *Service) terminate(ctx context.Context, x *Session, label, reason string, waits bool) error {
	p := ownerOf(*x)
	if x.Status == Starting {
		if err := s.clear(ctx, *x); err != nil {
			return err
		}
	}
	core, err := s.opts.Sessions.Get(ctx, p, x.Core)
	if err != nil && !errdefs.Is(err, errdefs.NotFound) {
		return err
	}
	if err == nil && !core.State.Ended() {
		s.measure(ctx, x)
		if err := s.save(ctx, x, label); err != nil && waits && s.mayPass(x.ID, err) {
			return err
		}
		// Snapshot and reason are known before the files go and it looks ended.
		x.TerminatedReason = cmp.Or(reason, x.TerminatedReason)
		if err := s.put(ctx, x); err != nil {
			return err
		}
		if err := s.opts.Sessions.Destroy(ctx, p, x.Core); err != nil && !errdefs.Is(err, errdefs.NotFound) {
			if !errdefs.Is(err, errdefs.Unavailable) {
				return err
			}
			s.opts.Log.WarnContext(ctx, "a session has ended and is not removed yet", "session", x.ID, "err", err)
		}
	}
	s.mu.Lock()
	delete(s.unsaved, x.ID)
	s.mu.Unlock()
	x.TerminatedReason = cmp.Or(reason, x.TerminatedReason)
	if err := x.to(Terminated); err != nil {
		return err
	}
	return s.put(ctx, x)
}

// mayPass reports whether a session that could not be saved may still be saved later.
func (s *Service) mayPass(id string, err error) bool {
	if !errdefs.Is(err, errdefs.Unavailable) && !errdefs.Is(err, errdefs.ResourceExhausted) && !errdefs.Is(err, errdefs.InsufficientSpace) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first, known := s.unsaved[id]
	if !known {
		first = time.Now()
		s.unsaved[id] = first
	}
	return time.Since(first) < savePatience
}

// save takes the snapshot of a session that ends.
func (s *Service) save(ctx context.Context, x *Session, label string) error {
	if !s.opts.Snapshots.Enabled() {
		return nil
	}
	made, err := s.opts.Snapshots.Create(ctx, ownerOf(*x), string(x.Core), snapshots.Request{Name: x.ID, Label: label, Key: s.archiveKey(x.ID)})
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

// thin removes the oldest snapshots that no client has asked for.
func (s *Service) thin(ctx context.Context, x Session) error {
	all, err := s.snapshotsOf(ctx, x)
	if err != nil {
		return err
	}
	kept := 0
	var errs []error
	for _, one := range all {
		if !strings.HasPrefix(one.Label, labelAuto) {
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

// Round looks at every session that has not ended once.
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
	return errors.Join(ending.Wait(), s.forgetOld(ctx))
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
	if row.Status == Starting { // and nobody is at it
		return errors.Join(s.clear(ctx, row), s.fail(ctx, &row, "", errInterrupted))
	}
	now, err := s.current(ctx, row)
	if err != nil || row.Status != Ready {
		return err
	}
	switch due := s.due(now, time.Now()); {
	case due == ReasonLifetime:
		return s.terminate(ctx, &row, labelLifetime, due, true)
	case due == ReasonIdle:
		return s.terminate(ctx, &row, labelIdle, due, true)
	case now.Status == Failed:
		return s.put(ctx, &now)
	case now.Status == Terminated:
		return s.adopt(ctx, &row)
	}
	return nil
}

// adopt ends a session whose sandbox somebody else has ended or stopped. The files
// of one that is stopped are still there, and are saved.
func (s *Service) adopt(ctx context.Context, x *Session) error {
	core, err := s.opts.Sessions.Get(ctx, ownerOf(*x), x.Core)
	if err == nil && core.State == session.Stopping {
		return nil // in a later round
	}
	return s.terminate(ctx, x, labelStop, "", true)
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
