package session

import (
	"cmp"
	"context"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/access"
	"github.com/sandkasten/sandkasten/internal/session/networks"
)

func checkNetworkMode(req CreateRequest) error {
	switch req.NetworkMode {
	case "":
		return nil
	case network.None, network.Allow, network.Internet, network.Full:
	default:
		return errdefs.Invalid("network_mode", "must be none, allow, internet or full")
	}
	if asked := req.NetworkPolicy; asked != nil && req.NetworkMode != cmp.Or(asked.Policy.Mode, network.None) {
		return errdefs.Invalid("network_mode", "must be left out, or the same as network.mode")
	}
	return nil
}

// askedNetwork plans what a client asks for.
func (c *core) askedNetwork(req CreateRequest) func(context.Context, Session) (networks.Planned, error) {
	asked := req.NetworkPolicy
	if asked == nil && (req.NetworkMode != "" || req.helper) {
		asked = &networks.Asked{Policy: network.Policy{Mode: req.NetworkMode}}
	}
	return func(ctx context.Context, s Session) (networks.Planned, error) {
		return c.networks.Plan(ctx, subjectOf(s, box{}), asked)
	}
}

// copiedNetwork plans what a fork may reach: what its source may.
func (c *core) copiedNetwork(source *entry) func(context.Context, Session) (networks.Planned, error) {
	return func(ctx context.Context, _ Session) (networks.Planned, error) {
		return c.networks.Copy(ctx, source.subject())
	}
}

// planNetwork decides what e may reach, before its row is written.
func (c *core) planNetwork(ctx context.Context, e *entry, s *Session) (err error) {
	if e.planned, err = e.planReach(ctx, *s); err == nil {
		s.NetworkPolicy = e.planned.Policy
	}
	return err
}

// keepNetwork records what e may reach, where it may reach anything.
func (c *core) keepNetwork(ctx context.Context, e *entry) error {
	if e.planned.Policy.Plain() {
		return nil
	}
	return c.networks.Keep(ctx, string(e.id), e.planned)
}

// open makes e usable through its sandbox, with the way out that it may have.
func (c *core) open(ctx context.Context, e *entry, sandbox runtime.Sandbox) error {
	e.open(sandbox)
	return c.networks.Attach(ctx, e.subject())
}

// attachAgain opens the way out of a session that lost it, as after a failure of the
// host. The session is used without one if that fails: its programs are refused.
func (c *core) attachAgain(ctx context.Context, e *entry, s Session) {
	if !s.NetworkPolicy.Opens() || c.networks.Attached(string(e.id)) || e.Acquire(ctx) != nil {
		return
	}
	defer e.Release()
	if err := c.networks.Attach(ctx, e.subject()); err != nil {
		c.log.WarnContext(ctx, "a session reaches nothing", "session", e.id, "err", err)
	}
}

func (e *entry) subject() networks.Subject { return subjectOf(e.snapshot(), e.box()) }

func subjectOf(s Session, b box) networks.Subject {
	return networks.Subject{
		ID: string(s.ID), Owner: s.Owner, Image: s.Image, ImageDigest: s.ImageDigest,
		Ended: s.State.Ended(), Network: s.Network, Policy: s.NetworkPolicy, Sandbox: b.sandbox, Client: b.client,
	}
}

// Subject implements networks.Sessions.
func (h host) Subject(ctx context.Context, p auth.Principal, id string, need access.Need) (networks.Subject, error) {
	e, s, err := h.core.known(ctx, p, ID(id), need)
	if e != nil && err == nil {
		return e.subject(), nil
	}
	return subjectOf(s, box{}), err
}

// Repolicy implements networks.Sessions.
func (h host) Repolicy(ctx context.Context, p auth.Principal, id string, do func(context.Context, networks.Subject) (networks.Policy, error)) error {
	c := h.core
	e, err := c.living(ctx, p, ID(id))
	if err != nil {
		return err
	}
	if e.snapshot().State.Alive() {
		if err := c.reachable(ctx, e); err != nil {
			return err
		}
	}
	if err := e.Acquire(ctx); err != nil {
		return err
	}
	defer e.Release()
	s := e.snapshot()
	if !s.State.settled() {
		return notRunning(s)
	}
	if s.NetworkPolicy, err = do(context.WithoutCancel(ctx), e.subject()); err != nil {
		return err
	}
	e.replace(s)
	return nil
}
