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
	e, first, err := c.claim(s, cancel, c.roomFor(p))
	if err != nil {
		return Session{}, err
	}
	if !first {
		return follow(ctx, e, s)
	}
	e.restoreID, e.image = req.RestoreSnapshotID, req.Image
	e.planReach = c.askedNetwork(req)
	err = c.create(making, e)
	if err != nil && e.madeWorkspace {
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

// create makes e's sandbox. It owns e's lock, which newEntry took, and gives
// it back.
func (c *core) create(ctx context.Context, e *entry) error {
	defer e.Release()
	first, err := c.record(ctx, e)
	if err != nil || !first {
		return err
	}
	s := e.snapshot()
	err = c.keepNetwork(ctx, e)
	if err == nil {
		err = failpoint.Hit("create.row")
	}
	var volume runtime.WorkspaceID
	if err == nil {
		volume, e.madeWorkspace, err = c.workspaces.Attachable(ctx, userOf(s))
	}
	var sandbox runtime.Sandbox
	if err == nil {
		making, span := tracing.Start(ctx, tracing.Driver, "create")
		sandbox, err = c.opts.Creator.Create(making, s.Sandbox, c.spec(s, volume))
		span.End(err)
	}
	if err != nil {
		return c.undo(ctx, e, err)
	}
	err = c.open(ctx, e, sandbox)
	if err == nil {
		err = c.checkIdleOf(e, s.OnIdle)
	}
	if err == nil {
		err = failpoint.Hit("create.sandbox")
	}
	if err == nil {
		err = c.restore(ctx, e)
	}
	if err != nil {
		return c.undo(ctx, e, err)
	}
	if !e.Wanted() {
		return c.undo(ctx, e, context.Canceled)
	}
	if err := c.commit(ctx, e, Running, ""); err != nil {
		return c.undo(ctx, e, err)
	}
	return failpoint.Hit("create.running")
}

// record asks whether there is room for e, resolves its image unless that is
// known, and writes its first row. If it is not the first because a session
// that has ended has e's idempotency key, e becomes that session. When it fails there is no row, and e is an entry of nothing.
func (c *core) record(ctx context.Context, e *entry) (first bool, err error) {
	s := e.snapshot()
	if err = c.opts.Admit(ctx, s.payer()); err == nil {
		err = c.planRestore(ctx, e, &s)
	}
	if err == nil && s.ImageDigest == "" {
		s.ImageDigest, err = c.opts.Images.Resolve(ctx, s.Image)
	}
	if err == nil {
		err = c.planNetwork(ctx, e, &s)
	}
	if err == nil {
		err = c.put(ctx, s)
	}
	if err == nil {
		e.replace(s)
		return true, nil
	}

	defer c.forget(e)
	if s.IdempotencyKey != "" && errdefs.Is(err, errdefs.AlreadyExists) {
		earlier, err := c.store.FindKey(ctx, s.Owner, s.IdempotencyKey)
		if err != nil {
			return false, err
		}
		e.become(c.withRetention(earlier))
		_, err = sameRequest(earlier, s)
		return false, err
	}
	if toErr := s.To(Failed, ""); toErr != nil {
		return false, errors.Join(err, toErr)
	}
	e.replace(s)
	return false, err
}

// undo removes what create made of e after the row, and returns the
// error for the client.
func (c *core) undo(ctx context.Context, e *entry, cause error) error {
	s := e.snapshot()
	end, reason := Failed, "its sandbox could not be made: "+errdefs.MessageOf(cause)
	switch {
	case !e.Wanted():
		end, reason = Destroyed, "a client destroyed it"
		cause = errdefs.Wrap(cause, errdefs.Conflict, "session %s was destroyed while it was created", s.ID)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		reason = "its sandbox was not ready in time"
		cause = errdefs.Wrap(cause, errdefs.Unavailable, "the sandbox was not ready in time; try again")
	}
	if err := c.end(ctx, e, as(end, reason)); err != nil {
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
		Env:          networks.Environment(s.Env, s.NetworkPolicy),
		Hostname:     s.Hostname,
		Labels:       s.Labels,
		Owner:        s.Owner,
	}
}
