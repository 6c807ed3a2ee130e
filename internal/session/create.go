package session

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/tracing"
	"github.com/sandkasten/sandkasten/internal/weaken"
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
func (m *Manager) Create(ctx context.Context, req CreateRequest) (_ Session, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "create")
	defer func() { span.End(err) }()
	if err := m.checkReady(); err != nil {
		return Session{}, err
	}
	s, err := m.plan(req)
	if err != nil {
		return Session{}, err
	}
	if m.opts.FetchImage != nil && (req.RestoreSnapshotID == "" || req.Image != "") {
		if err := m.opts.FetchImage(ctx, ImageFetch{Owner: s.Owner, Driver: s.Driver(), Image: s.Image}); err != nil {
			return Session{}, err
		}
	}
	making := ctx
	if req.IdempotencyKey != "" {
		making = context.WithoutCancel(ctx)
	}
	timeout := m.opts.CreateTimeout
	if req.RestoreSnapshotID != "" {
		timeout += m.opts.RestoreTimeout
	}
	making, cancel := context.WithTimeout(making, timeout)
	defer cancel()
	e, first, err := m.claim(s, cancel)
	if err != nil {
		return Session{}, err
	}
	if !first {
		return follow(ctx, e, s)
	}
	e.restoreID, e.image = req.RestoreSnapshotID, req.Image
	err = m.create(making, e)
	if err != nil && e.madeWorkspace {
		err = errors.Join(err, m.UnmakeWorkspace(ctx, userOf(e.snapshot())))
	}
	e.finishCreate(err)
	if err != nil {
		return Session{}, err
	}
	return e.snapshot(), nil
}

// claim enters s into the live sessions, within the maxima, or returns the
// entry that already has its idempotency key. It is the one place where two
// creates meet, and does no I/O.
func (m *Manager) claim(s Session, cancel context.CancelFunc) (e *entry, first bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := key{s.Owner, s.IdempotencyKey}
	if e := m.byKey[k]; e != nil {
		return e, false, nil
	}
	if err := m.checkRoom(s.Owner); err != nil {
		return nil, false, err
	}
	n := named{s.Owner, s.Name}
	if other := m.byName[n]; other != nil {
		return nil, false, errTaken(s.Name, other.id)
	}
	e = newEntry(s)
	e.cancelCreate = cancel
	m.live[s.ID] = e
	if k.key != "" {
		m.byKey[k] = e
	}
	if n.name != "" {
		m.byName[n] = e
	}
	return e, true, nil
}

// checkRoom refuses a session over the maxima. The caller holds mu.
func (m *Manager) checkRoom(owner string) error {
	_, x := m.Limits(owner)
	if x.Sessions > 0 && len(m.live) >= x.Sessions {
		return errdefs.New(errdefs.ResourceExhausted, "the daemon's maximum of %d sessions is reached; destroy one or wait for one to expire", x.Sessions)
	}
	if x.SessionsPerOwner == 0 {
		return nil
	}
	n := 0
	for _, e := range m.live {
		if e.owner == owner {
			n++
		}
	}
	if n >= x.SessionsPerOwner {
		return errdefs.New(errdefs.ResourceExhausted, "the maximum of %d sessions for this key is reached; destroy one or wait for one to expire", x.SessionsPerOwner)
	}
	return nil
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
	if earlier.RequestHash != s.RequestHash && !weaken.Off(weaken.SameRequest) {
		return Session{}, errdefs.New(errdefs.Unprocessable, "this Idempotency-Key was used with another request; send a new key")
	}
	return earlier, nil
}

// create makes e's sandbox. It owns e's lock, which newEntry took, and gives
// it back.
func (m *Manager) create(ctx context.Context, e *entry) error {
	defer e.unlock()
	first, err := m.record(ctx, e)
	if err != nil || !first {
		return err
	}
	s := e.snapshot()
	err = failpoint.Hit("create.row")
	var volume runtime.WorkspaceID
	if err == nil {
		volume, e.madeWorkspace, err = m.Attachable(ctx, userOf(s))
	}
	var sandbox runtime.Sandbox
	if err == nil {
		making, span := tracing.Start(ctx, tracing.Driver, "create")
		sandbox, err = m.opts.Creator.Create(making, s.Sandbox, m.spec(s, volume))
		span.End(err)
	}
	if err != nil {
		return m.undo(ctx, e, err)
	}
	e.open(sandbox)
	if s.OnIdle == OnIdlePause {
		if _, err := pauserOf(e); err != nil {
			return m.undo(ctx, e, err)
		}
	}
	err = failpoint.Hit("create.sandbox")
	if err == nil {
		err = m.restore(ctx, e)
	}
	if err != nil {
		return m.undo(ctx, e, err)
	}
	if !e.wanted() {
		return m.undo(ctx, e, context.Canceled)
	}
	if err := m.commit(ctx, e, Running, ""); err != nil {
		return m.undo(ctx, e, err)
	}
	return failpoint.Hit("create.running")
}

// record asks whether there is room for e, resolves its image unless that is
// known, and writes its first row. If it is not the first because a session
// that has ended has e's idempotency key, e becomes that session. When it fails there is no row, and e is an entry of nothing.
func (m *Manager) record(ctx context.Context, e *entry) (first bool, err error) {
	s := e.snapshot()
	if err = m.opts.Admit(ctx); err == nil {
		err = m.planRestore(ctx, e, &s)
	}
	if err == nil && s.ImageDigest == "" {
		s.ImageDigest, err = m.opts.Images.Resolve(ctx, s.Image)
	}
	if err == nil {
		err = m.put(ctx, s)
	}
	if err == nil {
		e.replace(s)
		return true, nil
	}

	defer m.forget(e)
	if s.IdempotencyKey != "" && errdefs.Is(err, errdefs.AlreadyExists) {
		earlier, err := m.store.FindKey(ctx, s.Owner, s.IdempotencyKey)
		if err != nil {
			return false, err
		}
		e.become(m.withRetention(earlier))
		_, err = sameRequest(earlier, s)
		return false, err
	}
	if toErr := s.To(Failed, ""); toErr != nil {
		return false, errors.Join(err, toErr)
	}
	e.replace(s)
	return false, err
}

// undo removes what create made of e after the row, and returns what the
// client of the create is told.
func (m *Manager) undo(ctx context.Context, e *entry, cause error) error {
	s := e.snapshot()
	end, reason := Failed, "its sandbox could not be made: "+errdefs.MessageOf(cause)
	switch {
	case !e.wanted():
		end, reason = Destroyed, reasonDestroyed
		cause = errdefs.Wrap(cause, errdefs.Conflict, "session %s was destroyed while it was created", s.ID)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		reason = "its sandbox was not ready in time"
		cause = errdefs.Wrap(cause, errdefs.Unavailable, "the sandbox was not ready in time; try again")
	}
	if err := m.end(ctx, e, as(end, reason)); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

// spec is what the driver makes for s. Sessions of equal requests have equal
// specs but for Workspace, Env and Hostname, so a pool can serve them.
func (m *Manager) spec(s Session, volume runtime.WorkspaceID) runtime.Spec {
	return runtime.Spec{
		Image:        s.ImageDigest,
		Limits:       s.Limits,
		ReadonlyRoot: s.ReadonlyRoot,
		Network:      s.Network,
		Seccomp:      m.opts.Seccomp,
		Workspace:    volume,
		Env:          s.Env,
		Hostname:     s.Hostname,
	}
}
