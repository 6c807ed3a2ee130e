package accounts

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const (
	answerWithin    = time.Second           // for a request that deletes a user
	deletionsAtOnce = 4                     // of users, whose things are removed
	leaveWithin     = 20 * time.Second      // for requests that were cut
	leaveEvery      = 20 * time.Millisecond // between two looks whether they have ended
)

// deletion removes a user for good, and what the user owns.
type deletion struct {
	user   User
	cancel context.CancelFunc
	done   chan struct{} // closed when it is over
	err    error         // why something is left; not to be read before done

	awaited bool // guarded by Accounts.mu; whoever waits takes err
}

// DeleteUser ends a user's keys at once, removes what the user owns, and forgets the
// user. Only admins may, and not with a key of that user. If there is much to remove it
// returns after a moment and is not done: the user stays Deleting, and the name taken,
// until all is gone. What a failure or a crash interrupts is repeated by Run.
func (a *Accounts) DeleteUser(ctx context.Context, p auth.Principal, name string) (done bool, err error) {
	c, err := a.callerOf(p)
	if err != nil {
		return false, err
	}
	if _, err := a.find(c, name); err != nil {
		return false, err
	}
	if !c.admin {
		return false, errAdminsOnly("delete users")
	}
	if c.user != nil && c.user.Name == name {
		return false, errdefs.New(errdefs.Conflict, "nobody deletes themselves: use the key of another admin")
	}
	u, err := a.beginDeletion(ctx, c, name)
	if err != nil {
		return false, err
	}
	d := a.deletionOf(ctx, u, true)
	if d == nil {
		return false, errdefs.New(errdefs.Unavailable, "the daemon stops: what user %s owns is removed when it runs again", name)
	}
	select {
	case <-d.done:
		return d.err == nil, d.err
	case <-time.After(answerWithin):
	case <-ctx.Done():
	}
	if a.leave(d) {
		return d.err == nil, d.err // it has come to its end meanwhile
	}
	return false, nil
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
	if u.State == Deleting {
		return u, nil
	}
	u.State = Deleting
	return a.putUser(ctx, u)
}

// deletionOf returns the deletion of a user that is under way, which begins if there is
// none. It goes on when ctx is done, until stopDeletions, after which it is nil. Who awaits
// it calls leave unless it is done.
func (a *Accounts) deletionOf(ctx context.Context, u User, awaited bool) *deletion {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	d := a.ending[u.ID]
	if d == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		d = &deletion{user: u, cancel: cancel, done: make(chan struct{})}
		a.ending[u.ID] = d
		a.removal.Go(func() { a.finish(ctx, d) })
	}
	d.awaited = d.awaited || awaited
	return d
}

// leave is for who waits for a deletion no more, and reports whether it is over: its error
// is for who left first, else for the log.
func (a *Accounts) leave(d *deletion) (over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d.awaited = false
	return a.ending[d.user.ID] != d
}

// finish takes a deletion to its end, as far as that is possible now.
func (a *Accounts) finish(ctx context.Context, d *deletion) {
	defer d.cancel()
	err := a.finishDeletion(ctx, d.user)
	a.mu.Lock()
	delete(a.ending, d.user.ID)
	awaited := d.awaited
	d.err = err
	a.mu.Unlock()
	close(d.done)
	if err != nil && !awaited && ctx.Err() == nil {
		a.opts.Log.ErrorContext(ctx, "cannot delete a user yet", "user", d.user.Name, "err", err)
	}
}

// finishDeletion removes what a user has who is Deleting.
func (a *Accounts) finishDeletion(ctx context.Context, u User) error {
	select {
	case a.turns <- struct{}{}:
		defer func() { <-a.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if now, err := a.find(caller{admin: true}, u.Name); err != nil || now.ID != u.ID {
		return nil // another one has finished it
	}
	a.awaitLeaving(ctx, u.ID)
	err := a.opts.RemoveOwned(ctx, u.Name)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
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
func (a *Accounts) awaitLeaving(ctx context.Context, userID string) {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	for a.inUse(userID) {
		select {
		case <-time.After(leaveEvery):
		case <-ctx.Done():
			return
		}
	}
}

// finishDeletions has those go on that were interrupted.
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
		a.deletionOf(ctx, u, false)
	}
}

// stopDeletions interrupts what is under way, and waits for it.
func (a *Accounts) stopDeletions() {
	a.mu.Lock()
	a.closed = true
	for _, d := range a.ending {
		d.cancel()
	}
	a.mu.Unlock()
	a.removal.Wait()
}
