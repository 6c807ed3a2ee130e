package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/check"
)

// Policy is how long a session may live and what happens when nothing uses it.
// Zero fields leave what there is.
type Policy struct {
	TTL         time.Duration // idle time after which OnExpiry happens
	Lifetime    time.Duration // from its creation on, active or not
	IdleTimeout time.Duration // idle time after which OnIdle happens
	OnIdle      OnIdle
	OnExpiry    OnExpiry `json:",omitempty"` // without it a fork's request has the hash that it had before
	AutoResume  *bool
}

// UpdateRequest changes a session. Zero fields leave what there is.
type UpdateRequest struct {
	Policy
	Labels map[string]string // instead of all that there are
}

// Update changes a session that has not ended, and returns it. It is not
// activity.
func (c *Sessions) Update(ctx context.Context, p auth.Principal, id ID, req UpdateRequest) (Session, error) {
	if err := check.Labels(req.Labels); err != nil {
		return Session{}, err
	}
	e, err := c.living(ctx, p, id)
	if err != nil {
		return Session{}, err
	}
	if err := e.Acquire(ctx); err != nil {
		return Session{}, err
	}
	defer e.Release()
	s := e.snapshot()
	if !s.State.settled() {
		return Session{}, notRunning(s)
	}
	if s, err = c.decide(s, req.Policy); err != nil {
		return Session{}, err
	}
	if err := c.checkIdleOf(e, s.OnIdle); err != nil && s.State.Alive() {
		return Session{}, err
	}
	if c.stoppable(e) != nil {
		s.OnExpiry = OnExpiryDestroy
	}
	if req.Labels != nil {
		s.Labels = req.Labels
	}
	if err := c.put(ctx, s); err != nil {
		return Session{}, err
	}
	e.replace(s)
	return e.snapshot(), nil
}

// Heartbeat is activity, and nothing else: it does not wake what is paused.
func (c *Sessions) Heartbeat(ctx context.Context, p auth.Principal, id ID) (Session, error) {
	e, err := c.living(ctx, p, id)
	if err != nil {
		return Session{}, err
	}
	if s := e.snapshot(); !s.State.settled() {
		return Session{}, notRunning(s)
	}
	e.use()
	return e.snapshot(), nil
}

// decide returns s with a policy, if it is one that s may have.
func (c *core) decide(s Session, p Policy) (Session, error) {
	err := errors.Join(
		check.Seconds("ttl_seconds", p.TTL, c.opts.Maxima.TTL),
		check.Seconds("lifetime_seconds", p.Lifetime, c.opts.Maxima.Lifetime),
		check.Seconds("idle_timeout_seconds", p.IdleTimeout, c.opts.Maxima.TTL),
		c.checkOnIdle(p.OnIdle),
		checkOnExpiry(p.OnExpiry),
	)
	if err != nil {
		return s, err
	}
	s.TTL = cmp.Or(p.TTL, s.TTL)
	s.MaxLifetime = cmp.Or(p.Lifetime, s.MaxLifetime)
	s.IdleTimeout = cmp.Or(p.IdleTimeout, s.IdleTimeout)
	s.OnIdle = cmp.Or(p.OnIdle, s.OnIdle)
	if s.OnExpiry = cmp.Or(p.OnExpiry, s.OnExpiry); c.stops == nil {
		s.OnExpiry = OnExpiryDestroy
	}
	if p.AutoResume != nil {
		s.AutoResume = *p.AutoResume
	}
	if s.OnIdle == OnIdleDestroy {
		return s, check.Idle(s.IdleTimeout, s.TTL)
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = max(time.Second, min(c.opts.Defaults.IdleTimeout, s.TTL/2).Truncate(time.Second))
	}
	return s, check.Idle(s.IdleTimeout+1, s.TTL) // it has to come before the end
}

// withRetention returns a session that was read with what the configuration says
// of it.
func (c *core) withRetention(s Session) Session {
	s.Retention = c.defaultsOf(s.Owner).Retention
	if c.stops == nil {
		s.OnExpiry = OnExpiryDestroy
	}
	return s
}

// checkIdleOf reports why e, which has a sandbox, cannot do what it is to do when idle.
func (c *core) checkIdleOf(e *entry, what OnIdle) (err error) {
	if what == OnIdlePause {
		_, err = pauserOf(e)
	} else if what == OnIdleStop {
		err = c.stoppable(e)
	}
	return err
}

func (c *core) checkOnIdle(what OnIdle) error {
	if !slices.Contains([]OnIdle{"", OnIdlePause, OnIdleStop, OnIdleDestroy}, what) {
		return errdefs.Invalid("on_idle", "must be pause, stop or destroy")
	}
	if what == OnIdleStop && c.stops == nil {
		return errdefs.OfField("on_idle", errCannotStop)
	}
	return nil
}
