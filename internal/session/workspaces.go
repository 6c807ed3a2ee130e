package session

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// What callers of the Manager need of workspaces.
type (
	Workspace        = workspaces.Workspace
	WorkspaceUse     = workspaces.WorkspaceUse
	WorkspaceRequest = workspaces.WorkspaceRequest
	WorkspaceOptions = workspaces.WorkspaceOptions
	WorkspaceStore   = workspaces.WorkspaceStore
)

// filesTTL is how long the hidden session behind the file calls of a workspace
// waits for the next call.
const filesTTL = 15 * time.Second

// WorkspaceFiles returns a session through which a workspace's files can be
// reached. It is nobody's: hidden, counted like any other, and it expires by
// itself soon after its last use.
func (m *Manager) WorkspaceFiles(ctx context.Context, owner, id string) (ID, error) {
	if err := m.checkReady(); err != nil {
		return "", err
	}
	unlock, err := m.LockFiles(ctx, owner, id)
	if err != nil {
		return "", err
	}
	defer unlock()
	for e, s := range m.users() {
		if s.Helper && s.Owner == owner && s.WorkspaceID == id {
			if end, err := e.begin(); err == nil { // its time begins anew
				end()
				return s.ID, nil
			}
		}
	}
	s, err := m.Create(ctx, CreateRequest{
		Owner: owner, WorkspaceID: id, TTL: min(filesTTL, m.opts.Maxima.TTL), helper: true,
	})
	return s.ID, err
}

// users yields the sessions that have a workspace, or are about to.
func (m *Manager) users() iter.Seq2[*entry, Session] {
	return func(yield func(*entry, Session) bool) {
		for _, e := range m.entries() {
			if s := e.snapshot(); s.WorkspaceID != "" && !yield(e, s) {
				return
			}
		}
	}
}

// workspaceUsers is users as package workspaces sees them.
func (m *Manager) workspaceUsers() iter.Seq[workspaces.User] {
	return func(yield func(workspaces.User) bool) {
		for _, s := range m.users() {
			if !yield(userOf(s)) {
				return
			}
		}
	}
}

func userOf(s Session) workspaces.User {
	return workspaces.User{Owner: s.Owner, WorkspaceID: s.WorkspaceID, Helper: s.Helper}
}

// endUsers destroys the sessions that have a workspace.
func (m *Manager) endUsers(ctx context.Context, owner, id string) error {
	var errs []error
	for _, s := range m.users() {
		if s.Owner == owner && s.WorkspaceID == id {
			errs = append(errs, m.Destroy(ctx, s.ID))
		}
	}
	return errors.Join(errs...)
}
