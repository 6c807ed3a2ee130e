package session

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/networks"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

// Create makes a session and returns it running. The order is the row in
// state creating, then the sandbox, then the row in state running. When it
// fails, the row says failed and nothing else is left.
//
// A request with an idempotency key makes one session however often and from
// wherever it comes, also after a restart: later calls wait for the first and
// return its session, which may have ended since. The key with another request
// gives Unprocessable. A key whose create failed is free again. With a key,
// Create goes on when ctx is done, for the client can ask again; without one
// it is undone.
func (c *Sessions) Create(ctx context.Context, p auth.Principal, req CreateRequest) (_ Session, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "create")
	defer func() { span.End(err) }()
	return c.createFor(ctx, p, req)
}

// createFor is Create, also of hidden sessions.
func (c *core) createFor(ctx context.Context, p auth.Principal, req CreateRequest) (Session, error) {
	if err := c.checkReady(); err != nil {
		return Session{}, err
	}
	s, err := c.plan(p, req)
	if err != nil {
		return Session{}, err
	}
	if c.opts.FetchImage != nil && (req.RestoreSnapshotID == "" || req.Image != "") {
		if err := c.opts.FetchImage(ctx, ImageFetch{Owner: s.Owner, Driver: s.Driver(), Image: s.Image}); err != nil {
			return Session{}, err
		}
	}
	making := ctx
	if req.IdempotencyKey != "" {
		making = context.WithoutCancel(ctx)
	}
	timeout := c.opts.CreateTimeout
	if req.RestoreSnapshotID != "" {
		timeout += c.opts.RestoreTimeout
	}
	making, cancel := context.WithTimeout(making, timeout)
	defer cancel()
	made := c.newEntry(s)
	made.cancelCreate = cancel
	m := &creation{core: c, entry: made, req: req}
	e, first, err := c.claim(ctx, made, c.roomFor(p), m.possible)
	if err != nil {
		return Session{}, err
	}
	if !first {
		return follow(ctx, e, s)
	}
	err = m.run(making)
	if err != nil && m.madeWorkspace {
		err = errors.Join(err, c.workspaces.Unmake(ctx, userOf(e.snapshot())))
	}
	e.finishCreate(err)
	if err != nil {
		return Session{}, err
	}
	return e.snapshot(), nil
}

// roomFor is what there may be when p makes a session.
func (c *core) roomFor(p auth.Principal) room {
	return room{all: c.opts.Maxima.Sessions, owner: c.opts.Quotas.QuotaOf(p)}
}

// follow waits for another request with the same idempotency key.
func follow(ctx context.Context, e *entry, s Session) (Session, error) {
	select {
	case <-e.created:
	case <-ctx.Done():
		return Session{}, ctx.Err()
	}
	if e.createErr != nil {
		return Session{}, e.createErr
	}
	return sameRequest(e.snapshot(), s)
}

// sameRequest returns the earlier session of s's idempotency key if it came
// from the same request.
func sameRequest(earlier, s Session) (Session, error) {
	if earlier.RequestHash != s.RequestHash && !protection.Off(protection.SameRequest) {
		return Session{}, errdefs.New(errdefs.Unprocessable, "this Idempotency-Key was used with another request; send a new key")
	}
	return earlier, nil
}

// creation is one Create under way: what was asked for, and what its steps hand on.
type creation struct {
	core  *core
	entry *entry
	req   CreateRequest

	from          *snapshots.Snapshot // to begin with; nil is none
	network       networks.Planned
	madeWorkspace bool // the workspace is new, and goes if the create fails
}

// run takes the steps from a claimed entry to a running session. Before there is a row,
// a failure takes back the claim. After that the way back from any step is undo. The
// crash tests stop the daemon after each step. It owns the entry's lock, which newEntry
// took, and gives it back.
func (m *creation) run(ctx context.Context) error {
	defer m.entry.Release()
	s := m.entry.snapshot()
	if err := m.prepare(ctx, &s); err != nil {
		return m.core.unclaim(m.entry, err)
	}
	if first, err := m.core.record(ctx, m.entry, s); err != nil || !first {
		return err
	}
	for _, step := range []createStep{
		{point: "create.row", do: m.keepNetwork},
		{point: "create.sandbox", do: m.makeSandbox},
		{point: "create.restored", do: m.restore, skip: m.from == nil},
		{point: "create.running", do: m.commit},
	} {
		if err := step.take(ctx); err != nil {
			return m.undo(ctx, err)
		}
	}
	return nil
}

// createStep is one step of a creation.
type createStep struct {
	point string // where the crash tests stop the daemon when the step is done
	do    func(context.Context) error
	skip  bool
}

func (s createStep) take(ctx context.Context) error {
	if s.skip {
		return nil
	}
	if err := s.do(ctx); err != nil {
		return err
	}
	return failpoint.Hit(s.point)
}

// prepare asks whether there is room for the session, and fills in what others know:
// the snapshot's image, the image's digest, and what the session may reach. It makes
// nothing.
func (m *creation) prepare(ctx context.Context, s *Session) error {
	if err := m.resolve(ctx, s); err != nil {
		return err
	}
	return m.core.admit(ctx, *s)
}

// possible reports why no session can come of the request, however much room there is: no
// other session ends for it then.
func (m *creation) possible(ctx context.Context) error {
	s := m.entry.snapshot()
	if s.IdempotencyKey != "" {
		_, err := m.core.store.FindKey(ctx, s.Owner, s.IdempotencyKey)
		if !errdefs.Is(err, errdefs.NotFound) {
			return errors.Join(err, errdefs.New(errdefs.ResourceExhausted, "an earlier request with this Idempotency-Key has made its session"))
		}
	}
	return m.resolve(ctx, &s)
}

// resolve fills in what others know. It makes nothing.
func (m *creation) resolve(ctx context.Context, s *Session) (err error) {
	if err := m.findSnapshot(ctx, s); err != nil {
		return err
	}
	if s.ImageDigest, err = m.core.opts.ImagesOf(s.Driver()).Resolve(ctx, s.Image); err != nil {
		return err
	}
	m.network, err = m.core.networks.Plan(ctx, subjectOf(*s, box{}), askedNetwork(m.req))
	s.NetworkPolicy = m.network.Policy
	return err
}

// record writes the first row of e, as s. If it is not the first because a session that
// has ended has e's idempotency key, e becomes that session. When it fails there is no
// row, and e is an entry of nothing.
func (c *core) record(ctx context.Context, e *entry, s Session) (first bool, err error) {
	err = c.put(ctx, s)
	switch {
	case err == nil:
		e.replace(s)
		return true, nil
	case s.IdempotencyKey == "" || !errdefs.Is(err, errdefs.AlreadyExists):
		return false, c.unclaim(e, err)
	}
	defer c.forget(e)
	earlier, err := c.store.FindKey(ctx, s.Owner, s.IdempotencyKey)
	if err != nil {
		return false, err
	}
	e.become(c.withRetention(earlier))
	_, err = sameRequest(earlier, s)
	return false, err
}

// unclaim takes e, which has no row, out of the live sessions, and returns why.
func (c *core) unclaim(e *entry, cause error) error {
	defer c.forget(e)
	s := e.snapshot()
	if err := s.To(Failed, ""); err != nil {
		return errors.Join(cause, err)
	}
	e.replace(s)
	return cause
}

func (m *creation) keepNetwork(ctx context.Context) error {
	return m.core.keepNetwork(ctx, m.entry, m.network)
}

// makeSandbox has the driver make the sandbox, with the session's workspace, and makes
// the session usable through it.
func (m *creation) makeSandbox(ctx context.Context) (err error) {
	c, s := m.core, m.entry.snapshot()
	var volume runtime.WorkspaceID
	if volume, m.madeWorkspace, err = c.workspaces.Attachable(ctx, userOf(s)); err != nil {
		return err
	}
	making, span := tracing.Start(ctx, tracing.Driver, "create")
	sandbox, err := c.opts.Creator.Create(making, s.Sandbox, c.spec(s, volume))
	span.End(err)
	if err != nil {
		return err
	}
	if err := c.open(ctx, m.entry, sandbox); err != nil {
		return err
	}
	return c.checkIdleOf(m.entry, s.OnIdle)
}

// commit writes the row in state running, unless a Destroy has come first.
func (m *creation) commit(ctx context.Context) error {
	if !m.entry.Wanted() {
		return context.Canceled
	}
	return m.core.commit(ctx, m.entry, Running, "")
}

// undo removes what the steps have made since the row, and returns the error for the
// client.
func (m *creation) undo(ctx context.Context, cause error) error {
	s := m.entry.snapshot()
	end, reason := Failed, "its sandbox could not be made: "+errdefs.MessageOf(cause)
	switch {
	case !m.entry.Wanted():
		end, reason = Destroyed, "a client destroyed it"
		cause = errdefs.Wrap(cause, errdefs.Conflict, "session %s was destroyed while it was created", s.ID)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		reason = "its sandbox was not ready in time"
		cause = errdefs.Wrap(cause, errdefs.Unavailable, "the sandbox was not ready in time; try again")
	}
	if err := m.core.end(ctx, m.entry, as(end, reason)); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

// spec is what the driver makes for s. Sessions of equal requests have equal
// specs but for Workspace, Env, Hostname, Labels and Owner, so a pool can serve them.
func (c *core) spec(s Session, volume runtime.WorkspaceID) runtime.Spec {
	return runtime.Spec{
		Image:        s.ImageDigest,
		Limits:       s.Limits,
		ReadonlyRoot: s.ReadonlyRoot,
		Network:      s.Network,
		Seccomp:      c.opts.Seccomp,
		Workspace:    volume,
		Env:          c.networks.Environment(s.Env, s.NetworkPolicy),
		Hostname:     s.Hostname,
		Labels:       s.Labels,
		Owner:        s.Owner,
	}
}
