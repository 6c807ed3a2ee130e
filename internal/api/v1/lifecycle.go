package v1

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session"
)

// Policy is how long a session may live and what happens when nothing uses it.
type Policy struct {
	TTLSeconds      int64  `json:"ttl_seconds,omitempty" minimum:"1" maximum:"31536000" doc:"Idle time after which on_expiry happens, also when the session is paused. A stopped session is kept for stopped_retention_seconds." example:"1800"`
	OnExpiry        string `json:"on_expiry,omitempty" enum:"stop,destroy" doc:"What happens after ttl_seconds: the session is stopped and keeps its files, or is destroyed. Without it what the configuration says, which is stop for a session with a name, and destroy for others, unless the operator has set one. Where a stop would not keep the files it is destroy." example:"stop"`
	LifetimeSeconds int64  `json:"lifetime_seconds,omitempty" minimum:"1" maximum:"315360000" doc:"Age at which the session expires, active, stopped or not." example:"86400"`
	OnIdle          string `json:"on_idle,omitempty" enum:"pause,stop,destroy" doc:"What happens when nothing has used the session for idle_timeout_seconds." example:"pause"`
	IdleTimeout     int64  `json:"idle_timeout_seconds,omitempty" minimum:"1" maximum:"31536000" doc:"Less than ttl_seconds, or as much to destroy. To pause or stop, 300 if it is not given, or half of ttl_seconds if that is less." example:"300"`
	AutoResume      *bool  `json:"auto_resume,omitempty" doc:"Whether a request that needs the session's programs wakes it when it is paused, as it does by default."`
}

// policy gives the manager's. Numbers are in the schema's range, so that no
// conversion can overflow.
func (p Policy) policy() session.Policy {
	return session.Policy{
		TTL:         time.Duration(p.TTLSeconds) * time.Second,
		Lifetime:    time.Duration(p.LifetimeSeconds) * time.Second,
		IdleTimeout: time.Duration(p.IdleTimeout) * time.Second,
		OnIdle:      session.OnIdle(p.OnIdle),
		OnExpiry:    session.OnExpiry(p.OnExpiry),
		AutoResume:  p.AutoResume,
	}
}

type updateInput struct {
	SessionPath
	Body UpdateRequest
}

// UpdateRequest is what a client may change of a session.
type UpdateRequest struct {
	Policy
	Labels map[string]string `json:"labels,omitempty" maxProperties:"64" doc:"Instead of all that there are." example:"{\"task\":\"42\"}"`
}

func (s *surface) updateSession(ctx context.Context, in *updateInput) (*sessionOutput, error) {
	return s.change(ctx, in.SessionPath, func(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error) {
		return s.manager.Sessions.Update(ctx, p, id, session.UpdateRequest{Policy: in.Body.policy(), Labels: in.Body.Labels})
	})
}

type pauseInput struct {
	SessionPath
	Body *PauseRequest
}

// PauseRequest says where the session's memory goes.
type PauseRequest struct {
	Memory string `json:"memory,omitempty" enum:"ram,disk" doc:"ram keeps it where it is, and lets the host swap it out. disk is not available: 501." example:"ram"`
}

func (s *surface) pauseSession(ctx context.Context, in *pauseInput) (*sessionOutput, error) {
	memory := session.MemoryRAM
	if in.Body != nil && in.Body.Memory != "" {
		memory = session.Memory(in.Body.Memory)
	}
	return s.change(ctx, in.SessionPath, func(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error) {
		return s.manager.Sessions.Pause(ctx, p, id, memory)
	})
}

func (s *surface) resumeSession(ctx context.Context, in *SessionPath) (*sessionOutput, error) {
	return s.change(ctx, *in, s.manager.Sessions.Resume)
}

func (s *surface) stopSession(ctx context.Context, in *SessionPath) (*sessionOutput, error) {
	return s.change(ctx, *in, s.manager.Sessions.Stop)
}

func (s *surface) startSession(ctx context.Context, in *SessionPath) (*sessionOutput, error) {
	return s.change(ctx, *in, s.manager.Sessions.Start)
}

func (s *surface) heartbeat(ctx context.Context, in *SessionPath) (*sessionOutput, error) {
	return s.change(ctx, *in, s.manager.Sessions.Heartbeat)
}

// change does something to a session of the caller's and answers with what it
// is then.
func (s *surface) change(ctx context.Context, in SessionPath, do func(context.Context, auth.Principal, session.ID) (session.Session, error)) (*sessionOutput, error) {
	id, err := s.find(ctx, in)
	if err != nil {
		return nil, err
	}
	changed, err := do(ctx, api.Caller(ctx), id)
	if err != nil {
		return nil, err
	}
	return &sessionOutput{view(changed)}, nil
}
