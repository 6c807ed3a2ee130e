package session

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/quota"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// filesTTL is how long the hidden session behind the file calls of a workspace
// waits for the next call.
const filesTTL = 15 * time.Second

// OfWorkspace returns a session through which a workspace's files can be
// reached. It is nobody's: hidden, counted like any other, and it expires by
// itself soon after its last use.
func (c *Sessions) OfWorkspace(ctx context.Context, p auth.Principal, id string) (ID, error) {
	if err := c.checkReady(); err != nil {
		return "", err
	}
	unlock, err := c.workspaces.LockFiles(ctx, p.Owner, id)
	if err != nil {
		return "", err
	}
	defer unlock()
	for e, s := range c.users() {
		if s.Helper && s.Owner == p.Owner && s.WorkspaceID == id {
			if end, err := e.begin(); err == nil { // its time begins anew
				end()
				return s.ID, nil
			}
		}
	}
	s, err := c.createFor(ctx, p, CreateRequest{WorkspaceID: id, TTL: min(filesTTL, c.opts.Maxima.TTL), OnExpiry: OnExpiryDestroy, helper: true})
	return s.ID, err
}

// Workspace returns the workspace of a session that has one.
func (c *Sessions) Workspace(ctx context.Context, p auth.Principal, id ID) (workspaces.WorkspaceUse, error) {
	s, err := c.Get(ctx, p, id)
	if err != nil {
		return workspaces.WorkspaceUse{}, err
	}
	return c.workspaces.Get(ctx, s.Owner, s.WorkspaceID)
}

// users yields the sessions that have a workspace, or are about to.
func (c *core) users() iter.Seq2[*entry, Session] {
	return func(yield func(*entry, Session) bool) {
		for _, e := range c.entries() {
			if s := e.snapshot(); s.WorkspaceID != "" && !yield(e, s) {
				return
			}
		}
	}
}

// Users implements workspaces.Sessions.
func (h host) Users() iter.Seq[workspaces.User] {
	return func(yield func(workspaces.User) bool) {
		for _, s := range h.core.users() {
			if !yield(userOf(s)) {
				return
			}
		}
	}
}

// Keep implements workspaces.Sessions. Whatever is made counts in one place: of creates
// and workspaces at once no more succeed than there is room for.
func (h host) Keep(ctx context.Context, owner string, sizeMB int64, most int) error {
	q := h.core.opts.Quotas.QuotaOf(auth.Principal{Owner: owner, Quota: owner})
	fits := func(_ int, there quota.Sum) bool { return there.DiskMB+sizeMB <= q.DiskMB }
	for {
		h.core.mu.Lock()
		err := h.core.kept.Add(q, h.core.heldBy(owner), owner, sizeMB, most)
		h.core.mu.Unlock()
		if !errdefs.Is(err, errdefs.InsufficientSpace) || !h.core.makeRoom(ctx, owner, anywhere, fits, err) {
			return err
		}
	}
}

// Count implements workspaces.Sessions.
func (h host) Count(owner string, count int, sizeMB int64) {
	h.core.mu.Lock()
	defer h.core.mu.Unlock()
	h.core.kept.Count(owner, count, sizeMB)
}

func userOf(s Session) workspaces.User {
	return workspaces.User{Owner: s.Owner, WorkspaceID: s.WorkspaceID, Helper: s.Helper}
}

// EndUsers implements workspaces.Sessions: it destroys the sessions that have a
// workspace.
func (h host) EndUsers(ctx context.Context, owner, id string) error {
	var errs []error
	for e, s := range h.core.users() {
		if s.Owner == owner && s.WorkspaceID == id {
			errs = append(errs, h.core.destroy(ctx, e, "a client"))
		}
	}
	return errors.Join(errs...)
}
