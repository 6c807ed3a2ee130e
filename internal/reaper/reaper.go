// Package reaper keeps time and order among running sessions: it ends those
// whose time is up or whose runner has died, pauses or stops the idle, goes on
// with stops and removals that did not finish, and forgets what ended, or was
// left unused, long ago. How a session is ended is the
// session package's business, and so are the sandboxes that a crash of the
// daemon left behind: they are swept once, at its start.
package reaper

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
)

// Options configures a Reaper. Manager is required.
type Options struct {
	Manager *session.Manager
	Log     *slog.Logger                // silence
	Every   time.Duration               // between two rounds: 5 s
	Align   func(context.Context) error // before a round compares times with the clock; nothing
	Keep    time.Duration               // of the rows of sessions that ended: 24 h
}

// keepMost is how many rows of sessions that ended an owner has, whatever Keep is.
const keepMost = 10_000

// reaper is in whose name sessions are ended.
var reaper = auth.System("reaper")

// atOnce bounds the sessions that one round ends at the same time.
const atOnce = 16

// Reaper works in rounds.
type Reaper struct {
	opts   Options
	pruned time.Time // when rows were last forgotten
}

// New returns a Reaper that does nothing yet: Run starts it.
func New(o Options) *Reaper {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Align == nil {
		o.Align = func(context.Context) error { return nil }
	}
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	if o.Keep == 0 {
		o.Keep = 24 * time.Hour
	}
	return &Reaper{opts: o}
}

// Run works until ctx is done and the round that is running has ended. What
// goes wrong in a round is logged and tried again in the next one.
func (r *Reaper) Run(ctx context.Context) error {
	tick := time.NewTicker(r.opts.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !r.opts.Manager.Ready() {
			continue // its entries are being compared with the sandboxes
		}
		if err := r.Round(ctx); err != nil && ctx.Err() == nil {
			r.opts.Log.ErrorContext(ctx, "a round of the reaper is incomplete", "err", err)
		}
	}
}

// Round looks at every session once. A second round right after it finds
// nothing to do.
func (r *Reaper) Round(ctx context.Context) error {
	if err := r.opts.Align(ctx); err != nil {
		return err
	}
	sessions, err := r.opts.Manager.Sessions.List(ctx, reaper, session.ListRequest{Helpers: true})
	if err != nil {
		return fmt.Errorf("list the sessions: %w", err)
	}
	seen, err := r.opts.Manager.Upkeep.Survey(ctx, reaper)
	if err != nil {
		return err
	}
	var ending errgroup.Group
	ending.SetLimit(atOnce)
	now := time.Now()
	for _, s := range sessions {
		if _, absent := seen.Absent[s.Driver()]; absent {
			continue // nothing can be done to it, and nothing is known of it
		}
		end := r.judge(s, now, seen.Sandboxes[s.Sandbox])
		if end == nil {
			continue
		}
		ending.Go(func() error {
			if err := end(ctx, reaper, s.ID); err != nil {
				r.opts.Log.ErrorContext(ctx, "cannot end, stop or pause a session yet", "session", s.ID, "state", s.State, "err", err)
			}
			return nil
		})
	}
	if err := ending.Wait(); err != nil {
		return err
	}
	return r.prune(ctx, now)
}

// judge returns what is to be done to s, or nil. Those methods look again
// before they act, so what has changed since the list was made does not matter.
func (r *Reaper) judge(s session.Session, now time.Time, sandbox runtime.Status) func(context.Context, auth.Principal, session.ID) error {
	switch {
	case s.State == session.Stopping:
		return r.opts.Manager.Upkeep.Finish
	case s.State.Alive() && !sandbox.Alive:
		return r.opts.Manager.Upkeep.CheckAlive
	case s.State.Alive() && sandbox.Failing != "":
		return func(ctx context.Context, p auth.Principal, id session.ID) error {
			return r.opts.Manager.Upkeep.StopFailing(ctx, p, id, sandbox.Failing)
		}
	case (s.State.Alive() || s.State == session.Stopped) && !now.Before(s.ExpiresAt()):
		return r.opts.Manager.Upkeep.Expire
	case !s.IdleAt().IsZero() && !now.Before(s.IdleAt()):
		return r.opts.Manager.Upkeep.Idle
	}
	return nil
}

// pruneEvery is how often rows are forgotten: it writes, so not every round.
const pruneEvery = 10 * time.Minute

func (r *Reaper) prune(ctx context.Context, now time.Time) error {
	if now.Sub(r.pruned) < pruneEvery {
		return nil
	}
	n, err := r.opts.Manager.Upkeep.Prune(ctx, reaper, now.Add(-r.opts.Keep), keepMost)
	if err != nil {
		return fmt.Errorf("forget ended sessions: %w", err)
	}
	r.pruned = now
	if n > 0 {
		r.opts.Log.DebugContext(ctx, "forgot ended sessions", "sessions", n)
	}
	removed, err := r.opts.Manager.Upkeep.PruneWorkspaces(ctx, reaper)
	if removed > 0 {
		r.opts.Log.InfoContext(ctx, "removed workspaces", "workspaces", removed)
	}
	if err != nil {
		return fmt.Errorf("remove workspaces: %w", err)
	}
	removed, err = r.opts.Manager.Upkeep.PruneSnapshots(ctx, reaper)
	if removed > 0 {
		r.opts.Log.InfoContext(ctx, "removed snapshots", "snapshots", removed)
	}
	if err != nil {
		return fmt.Errorf("remove snapshots: %w", err)
	}
	return nil
}
