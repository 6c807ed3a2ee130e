package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const (
	writeEvery  = time.Minute      // between two writings of what keys were last used
	leaveWithin = 20 * time.Second // for requests that were cut
)

// DeleteUser ends a user's keys at once, removes what the user owns, and forgets the
// user. Only admins may, and not with a key of that user. What a failure or a crash
// interrupts is repeated by Run: the user stays Deleting until then.
func (a *Accounts) DeleteUser(ctx context.Context, p auth.Principal, name string) error {
	c, err := a.callerOf(p)
	if err != nil {
		return err
	}
	if _, err := a.find(c, name); err != nil {
		return err
	}
	if !c.admin {
		return errAdminsOnly("delete users")
	}
	if c.user != nil && c.user.Name == name {
		return errdefs.New(errdefs.Conflict, "nobody deletes themselves: use the key of another admin")
	}
	u, err := a.beginDeletion(ctx, c, name)
	if err != nil {
		return err
	}
	return a.finishDeletion(context.WithoutCancel(ctx), u)
}

// beginDeletion makes a user Deleting, which nothing undoes.
func (a *Accounts) beginDeletion(ctx context.Context, c caller, name string) (User, error) {
	a.changes.Lock()
	defer a.changes.Unlock()
	found, err := a.find(c, name)
	if err != nil {
		return User{}, err
	}
	u := found.User
	u.State = Deleting
	return a.putUser(ctx, u)
}

// finishDeletion removes what a user has who is Deleting.
func (a *Accounts) finishDeletion(ctx context.Context, u User) error {
	a.deletions.Lock()
	defer a.deletions.Unlock()
	if now, err := a.find(caller{admin: true}, u.Name); err != nil || now.ID != u.ID {
		return nil // somebody else has finished it
	}
	a.awaitLeaving(u.ID)
	if err := a.opts.RemoveOwned(ctx, u.Name); err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "what user %s owns could not all be removed yet: %s; the daemon goes on with it, or try again", u.Name, errdefs.MessageOf(err))
	}
	a.changes.Lock()
	defer a.changes.Unlock()
	if err := a.opts.Store.DeleteUser(ctx, u.ID); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.own[u.ID] {
		a.drop(k)
	}
	delete(a.own, u.ID)
	delete(a.users, u.Name)
	a.opts.Changed(u.Name, "")
	return nil
}

// awaitLeaving waits for the requests of a user that were cut: one of them may be
// about to make something.
func (a *Accounts) awaitLeaving(userID string) {
	patience := time.After(leaveWithin)
	for a.inUse(userID) {
		select {
		case <-a.left:
		case <-patience:
			return
		}
	}
}

// Run writes when keys were used, and finishes deletions that were interrupted once
// ready is closed. It returns when ctx is done.
func (a *Accounts) Run(ctx context.Context, ready <-chan struct{}) error {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			a.writeUses(context.WithoutCancel(ctx))
			return nil
		case <-ready:
			ready = nil // once is enough
			a.finishDeletions(ctx)
		case <-tick.C:
			a.writeUses(ctx)
			if ready == nil {
				a.finishDeletions(ctx)
			}
		}
	}
}

func (a *Accounts) finishDeletions(ctx context.Context) {
	a.mu.RLock()
	var left []User
	for _, u := range a.users {
		if u.State == Deleting {
			left = append(left, u.User)
		}
	}
	a.mu.RUnlock()
	for _, u := range left {
		if err := a.finishDeletion(ctx, u); err != nil && ctx.Err() == nil {
			a.opts.Log.ErrorContext(ctx, "cannot delete a user yet", "user", u.Name, "err", err)
		}
	}
}

// writeUses stores the last uses of keys that have been used since.
func (a *Accounts) writeUses(ctx context.Context) {
	a.changes.Lock()
	defer a.changes.Unlock()
	used := make(map[string]time.Time)
	a.mu.RLock()
	for id, k := range a.keys {
		if at := time.UnixMicro(k.lastUsed.Load()).UTC(); at.After(k.LastUsed) && at.UnixMicro() > 0 {
			used[id] = at
		}
	}
	a.mu.RUnlock()
	if len(used) == 0 {
		return
	}
	if err := a.opts.Store.TouchKeys(ctx, used); err != nil {
		if !errors.Is(err, context.Canceled) {
			a.opts.Log.ErrorContext(ctx, "cannot write when keys were used", "err", err)
		}
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, at := range used {
		a.keys[id].LastUsed = at
	}
}
