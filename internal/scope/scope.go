// Package scope knows to which run of a workflow, agent or user of an application
// sessions belong, and ends those of a run that is complete, also over restarts of
// the daemon. How a session ends, and who may end it, is the core's.
package scope

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/check"
)

// Label is the label of a session that says its scope. agents/tools sets it.
const Label = check.ScopeLabel

// Pattern is of all scopes.
const Pattern = check.ScopePattern

// MaxRetention is how long the sessions of a complete scope can be kept.
const MaxRetention = 30 * 24 * time.Hour

// MaxPending is how many complete scopes of one owner can wait for their end.
const MaxPending = 1000

// Check refuses what is no scope.
func Check(field, scope string) error { return check.Scope(field, scope) }

// Completion is a scope whose sessions end at a time.
type Completion struct {
	Owner string
	Scope string
	Due   time.Time
}

// Store remembers completions. What Put has written survives a crash from the moment
// it returns.
type Store interface {
	// PutCompletion returns ResourceExhausted if the owner has most others.
	PutCompletion(ctx context.Context, c Completion, most int) error
	Completions(ctx context.Context) ([]Completion, error)
	// DeleteCompletion forgets one, unless it was put anew with another time.
	DeleteCompletion(ctx context.Context, c Completion) error
	// DeleteCompletions forgets those of an owner.
	DeleteCompletions(ctx context.Context, owner string) error
}

// Sessions is what the core does for it.
type Sessions interface {
	List(ctx context.Context, p auth.Principal, req session.ListRequest) ([]session.Session, error)
	Destroy(ctx context.Context, p auth.Principal, id session.ID) error
}

// Options configures a Service. Store and Sessions are required.
type Options struct {
	Store    Store
	Sessions Sessions
	Ready    func() bool   // whether the core has its sessions; nil is always
	Every    time.Duration // between two rounds: 15 s
	Grace    time.Duration // in which sessions are ended that were on their way when their scope was due: a minute
	Quiet    time.Duration // after the start of Run, in which those who waited for the daemon can put a time off: a minute
	Log      *slog.Logger  // silence
}

// Service is what clients do with scopes. A scope is its owner's: another owner's of
// the same name is another one. Its methods may be called concurrently.
//
// It is a collector of metrics, for a registry.
type Service struct {
	opts    Options
	cleaned *prometheus.HistogramVec
}

// New returns the service of what the store has. Run ends what is due.
func New(o Options) *Service {
	o.Every = cmp.Or(o.Every, 15*time.Second)
	o.Grace = cmp.Or(o.Grace, time.Minute)
	o.Quiet = cmp.Or(o.Quiet, time.Minute)
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{o, newCleaned()}
}

// List returns the sessions of a scope of the principal's own, oldest first.
func (s *Service) List(ctx context.Context, p auth.Principal, scope string, includeEnded bool) ([]session.Session, error) {
	if err := Check("scope", scope); err != nil {
		return nil, err
	}
	p.Scopes &^= auth.ScopeEveryOwner | auth.ScopeOversee
	all, err := s.opts.Sessions.List(ctx, p, session.ListRequest{IncludeEnded: includeEnded})
	if err != nil {
		return nil, err
	}
	var found []session.Session
	for _, one := range all {
		if one.Labels[Label] == scope {
			found = append(found, one)
		}
	}
	return found, nil
}

// Complete ends the sessions that a scope has, after a retention. It returns when
// they are ended or, with a retention, when it is certain that they will be; and how
// many are left.
func (s *Service) Complete(ctx context.Context, p auth.Principal, scope string, retention time.Duration) (c Completion, left int, err error) {
	if err := Check("id", scope); err != nil {
		return c, 0, err
	}
	if p.ReadOnly {
		return c, 0, errdefs.New(errdefs.PermissionDenied, "this key only reads; complete the scope with another one")
	}
	c = Completion{Owner: p.Owner, Scope: scope, Due: time.Now().UTC().Add(retention).Truncate(time.Microsecond)}
	if err := s.opts.Store.PutCompletion(ctx, c, MaxPending); err != nil {
		return c, 0, err
	}
	if retention <= 0 {
		left, err = s.end(ctx, c)
		return c, left, err
	}
	all, err := s.List(ctx, p, scope, false)
	return c, len(all), err
}

// Forget forgets the completions of an owner who is no more, and whose sessions are
// none. The next owner of that name keeps theirs.
func (s *Service) Forget(ctx context.Context, owner string) error {
	return s.opts.Store.DeleteCompletions(ctx, owner)
}

// atOnce bounds the sessions that end at the same time.
const atOnce = 8

// end ends the sessions that were there when c was due, and returns how many are
// left. Those that cannot be ended now are ended by a later round.
func (s *Service) end(ctx context.Context, c Completion) (left int, err error) {
	p := auth.Principal{Owner: c.Owner, ID: "daemon/scope", Quota: c.Owner}
	all, err := s.List(ctx, p, c.Scope, false)
	if err != nil {
		return 0, err
	}
	var ending errgroup.Group
	ending.SetLimit(atOnce)
	failed := make([]bool, len(all))
	for i, one := range all {
		if one.CreatedAt.After(c.Due) {
			continue // of a run that has begun since
		}
		ending.Go(func() error {
			err := s.opts.Sessions.Destroy(ctx, p, one.ID)
			if failed[i] = err != nil && !errdefs.Is(err, errdefs.NotFound); failed[i] {
				s.opts.Log.WarnContext(ctx, "cannot end a session of a complete scope yet", "session", one.ID, "scope", c.Scope, "err", err)
				return nil
			}
			s.cleaned.WithLabelValues(of(c.Scope)).Observe(max(0, time.Since(c.Due).Seconds()))
			return nil
		})
	}
	if err := ending.Wait(); err != nil {
		return 0, err
	}
	for _, f := range failed {
		if f {
			left++
		}
	}
	if left > 0 || time.Since(c.Due) < s.opts.Grace {
		return left, nil
	}
	return 0, s.opts.Store.DeleteCompletion(ctx, c)
}

// Run ends what is due until ctx is done. What goes wrong in a round is logged and
// tried again in the next one.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.opts.Every)
	defer tick.Stop()
	began := time.Now()
	for {
		if s.opts.Ready() && time.Since(began) >= s.opts.Quiet {
			if err := s.Round(ctx); err != nil && ctx.Err() == nil {
				s.opts.Log.ErrorContext(ctx, "cannot end all sessions of complete scopes", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Round ends once what is due. It goes on behind a scope that it cannot end; the error
// names that.
func (s *Service) Round(ctx context.Context) error {
	all, err := s.opts.Store.Completions(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, c := range all {
		if time.Now().Before(c.Due) {
			continue
		}
		if _, err := s.end(ctx, c); err != nil {
			failed = append(failed, fmt.Errorf("end scope %s of %s: %w", c.Scope, c.Owner, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}
