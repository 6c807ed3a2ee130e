package artifacts

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RemoveSession removes the artifacts of a session. It may be repeated.
func (s *Service) RemoveSession(ctx context.Context, id string) error {
	return s.removeAll(ctx, Selection{SessionID: id})
}

// RemoveOwner removes the artifacts of an owner. It may be repeated.
func (s *Service) RemoveOwner(ctx context.Context, owner string) error {
	return s.removeAll(ctx, Selection{Owner: owner})
}

func (s *Service) removeAll(ctx context.Context, sel Selection) error {
	if err := s.opts.Store.DropArtifacts(ctx, sel); err != nil {
		return err
	}
	return s.finish(ctx, sel)
}

// finish takes the content and the rows away of what is Deleting.
func (s *Service) finish(ctx context.Context, sel Selection) error {
	dropped, err := s.opts.Store.DroppedArtifacts(ctx, sel)
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range dropped {
		release, err := s.locks.Acquire(ctx, a.key())
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if err := s.remove(ctx, a); err != nil {
			errs = append(errs, fmt.Errorf("remove artifact %s: %w", a.ID, err))
		}
		release()
	}
	return errors.Join(errs...)
}

// Run gives up what an earlier daemon has not finished, and removes what is old,
// until ctx is done. What goes wrong in a round is logged and tried again in the
// next one.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.opts.Every)
	defer tick.Stop()
	for {
		if err := s.Round(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.ErrorContext(ctx, "cannot remove all artifacts that are due; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Recover gives up the exports that an earlier daemon has not finished. It is called
// before the first export.
func (s *Service) Recover(ctx context.Context) error {
	return s.opts.Store.DropArtifacts(ctx, Selection{State: Creating})
}

// Round removes what is older than Retention, and what an earlier removal has left.
func (s *Service) Round(ctx context.Context) error {
	if s.opts.Retention > 0 {
		if err := s.opts.Store.DropArtifacts(ctx, Selection{State: Ready, Before: time.Now().Add(-s.opts.Retention)}); err != nil {
			return err
		}
	}
	return s.finish(ctx, Selection{})
}
