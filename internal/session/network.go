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

// askedNetwork is what a client asks for, or nil for the default.
func askedNetwork(req CreateRequest) *networks.Asked {
	if req.NetworkPolicy == nil && (req.NetworkMode != "" || req.helper) {
		return &networks.Asked{Policy: network.Policy{Mode: req.NetworkMode}}
	}
	return req.NetworkPolicy
}

// keepNetwork records what e may reach, where it may reach anything.
func (c *core) keepNetwork(ctx context.Context, e *entry, planned networks.Planned) error {
	if planned.Policy.Plain() {
		return nil
	}
	return c.networks.Keep(ctx, string(e.id), planned)
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

// Lock implements networks.Sessions. It refuses a session on its way to another state.
func (h host) Lock(ctx context.Context, p auth.Principal, id string) (networks.Held, error) {
	c := h.core
	e, err := c.living(ctx, p, ID(id))
	if err != nil {
		return nil, err
	}
	if e.snapshot().State.Alive() {
		if err := c.reachable(ctx, e); err != nil {
			return nil, err
		}
	}
	if err := e.Acquire(ctx); err != nil {
		return nil, err
	}
	if s := e.snapshot(); !s.State.settled() {
		e.Release()
		return nil, notRunning(s)
	}
	return held{e}, nil
}

// held is an entry whose lock package networks holds.
type held struct{ *entry }

// Subject implements networks.Held.
func (h held) Subject() networks.Subject { return h.subject() }

// SetPolicy implements networks.Held.
func (h held) SetPolicy(p networks.Policy) {
	s := h.snapshot()
	s.NetworkPolicy = p
	h.replace(s)
}
