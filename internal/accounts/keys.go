package accounts

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/ids"
)

// KeyRequest is a key to make.
type KeyRequest struct {
	User  string        // whose; "" is the caller's own
	Name  string        // for people; may be empty
	Scope Scope         // "" is ScopeRun, or ScopeRead if that is the caller's
	Life  time.Duration // 0 is as long as it may be: for ever, or as long as the key that makes it
}

// NewKey is a key that was just made, with what opens it, which is nowhere else.
type NewKey struct {
	KeyInfo

	Text string
}

// KeyInfo is a key, and of whom it is.
type KeyInfo struct {
	Key

	User string
}

// info is k for others. The caller holds mu.
func (k *key) info() KeyInfo {
	out := KeyInfo{Key: k.Key, User: k.user.Name}
	if used := k.lastUsed.Load(); used > 0 {
		out.LastUsed = time.UnixMicro(used).UTC()
	}
	return out
}

// CreateKey makes a key. One that a key makes for its own user is its child: it may
// do no more, lives no longer and is revoked with it. Admins make keys of other
// users, which are nobody's children, unless the admin's own key ends some day. An access
// token makes none.
func (a *Accounts) CreateKey(ctx context.Context, p auth.Principal, req KeyRequest) (NewKey, error) {
	if err := checkKey(req); err != nil {
		return NewKey{}, err
	}
	a.changes.Lock()
	defer a.changes.Unlock()
	c, err := a.callerOf(p) // whose key cannot be revoked any more before it has a child
	if err != nil {
		return NewKey{}, err
	}
	name := req.User
	if name == "" {
		if c.user == nil {
			return NewKey{}, errdefs.Invalid("user", "must name one: the key of this request belongs to no user")
		}
		name = c.user.Name
	}
	u, err := a.find(c, name)
	if err != nil {
		return NewKey{}, err
	}
	if u.State == Deleting {
		return NewKey{}, errDeleting(name)
	}
	text := auth.NewKey()
	now := time.Now().UTC().Truncate(time.Microsecond)
	k := Key{ID: ids.New(), UserID: u.ID, Name: req.Name, Hash: auth.HashKey(text), Scope: req.Scope, CreatedAt: now}
	if req.Life > 0 {
		k.ExpiresAt = now.Add(req.Life)
	}
	if err := c.grant(&k, u); err != nil {
		return NewKey{}, err
	}
	if u, err = a.openedWithKey(ctx, c, u); err != nil {
		return NewKey{}, err
	}
	old, err := a.replaced(u, now)
	if err != nil {
		return NewKey{}, err
	}
	return NewKey{KeyInfo: KeyInfo{Key: k, User: name}, Text: text}, a.putKey(ctx, k, u, old)
}

// grant sets what k may, if that is c's to give.
func (c caller) grant(k *Key, u *user) error {
	if c.token {
		return errdefs.New(errdefs.PermissionDenied, "an access token makes no keys, which would outlive it; sign in to make one")
	}
	if c.key != nil && !c.browser && (c.user.ID == u.ID || c.ends()) {
		if err := inherit(k, c.key.Key); err != nil {
			return err
		}
	}
	if k.Scope == "" {
		k.Scope = ScopeRun
	}
	if k.Scope == ScopeAdmin && u.Role != RoleAdmin {
		return errdefs.Invalid("scope", "must not be admin: %s has not that role", u.Name)
	}
	return nil
}

// inherit makes k a child of parent.
func inherit(k *Key, parent Key) error {
	k.ParentID = parent.ID
	if k.Scope == "" && parent.Scope == ScopeRead {
		k.Scope = ScopeRead
	}
	if k.Scope.rank() > parent.Scope.rank() {
		err := errdefs.New(errdefs.PermissionDenied, "a key makes keys of its own scope at most, which is %s", parent.Scope)
		err.Field = "scope"
		return err
	}
	switch {
	case parent.ExpiresAt.IsZero():
	case k.ExpiresAt.IsZero():
		k.ExpiresAt = parent.ExpiresAt
	case k.ExpiresAt.After(parent.ExpiresAt):
		err := errdefs.New(errdefs.PermissionDenied, "a key makes keys that end before it at most, at %s", parent.ExpiresAt.Format(time.RFC3339))
		err.Field = "ttl_seconds"
		return err
	}
	return nil
}

// replaced returns the oldest key of a user that has ended, if the user has as many
// as there may be, and nil if not.
func (a *Accounts) replaced(u *user, now time.Time) (*key, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	all := a.own[u.ID]
	if len(all) < MaxKeys {
		return nil, nil
	}
	for _, k := range all {
		if k.ended(now) {
			return k, nil
		}
	}
	return nil, errdefs.New(errdefs.ResourceExhausted, "the maximum of %d keys of a user is reached; revoke one", MaxKeys)
}

// putKey writes a key, in the place of old if that is not nil. The caller holds
// changes.
func (a *Accounts) putKey(ctx context.Context, k Key, u *user, old *key) error {
	instead := ""
	if old != nil {
		instead = old.ID
	}
	if err := a.opts.Store.PutKey(context.WithoutCancel(ctx), k, instead); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old != nil {
		a.drop(old)
		a.own[u.ID] = slices.DeleteFunc(a.own[u.ID], func(other *key) bool { return other == old })
	}
	a.add(k, u)
	a.opts.Changed(u.Name, k.ID)
	return nil
}

// Keys returns the keys that p may know of, the oldest first: those of one user, or
// of all of them.
func (a *Accounts) Keys(_ context.Context, p auth.Principal, name string) ([]KeyInfo, error) {
	c, err := a.callerOf(p)
	if err != nil {
		return nil, err
	}
	if name != "" {
		if _, err := a.find(c, name); err != nil {
			return nil, err
		}
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	var found []KeyInfo
	for _, k := range a.keys {
		if a.manages(c, k) && (name == "" || k.user.Name == name) {
			found = append(found, k.info())
		}
	}
	slices.SortFunc(found, func(x, y KeyInfo) int {
		if c := x.CreatedAt.Compare(y.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(x.ID, y.ID)
	})
	return found, nil
}

// manages reports whether c may see and revoke k: an admin each, a user with a key
// that no other has made all their own, and such a child itself and what it has
// made. The caller holds mu.
func (a *Accounts) manages(c caller, k *key) bool {
	if c.admin {
		return true
	}
	if c.key == nil || c.user.ID != k.UserID {
		return false
	}
	return c.key.ParentID == "" || a.descends(k, c.key.ID)
}

// descends reports whether k is the key of an id, or made by it or one of its
// children. The caller holds mu.
func (a *Accounts) descends(k *key, id string) bool {
	for k != nil {
		if k.ID == id || k.ParentID == id {
			return true
		}
		k = a.keys[k.ParentID]
	}
	return false
}

// RevokeKey ends a key, its children and the requests under way in their names.
func (a *Accounts) RevokeKey(ctx context.Context, p auth.Principal, id string) error {
	c, err := a.callerOf(p)
	if err != nil {
		return err
	}
	a.changes.Lock()
	defer a.changes.Unlock()
	ending, err := a.endingWith(c, id)
	if err != nil || len(ending) == 0 {
		return err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	if err := a.opts.Store.RevokeKeys(context.WithoutCancel(ctx), ending, now); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range ending {
		k := a.keys[one]
		k.RevokedAt = now
		delete(a.byHash, k.Hash)
		a.cut(k.ID)
		a.opts.Changed(k.user.Name, k.ID)
	}
	return nil
}

// endingWith returns the ids of a key and its children that are not revoked yet.
func (a *Accounts) endingWith(c caller, id string) (ending []string, err error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	k := a.keys[id]
	switch {
	case k == nil || !a.manages(c, k):
		return nil, errdefs.New(errdefs.NotFound, "no such key")
	case !c.admin && k.Scope.rank() > c.key.Scope.rank():
		return nil, errdefs.New(errdefs.PermissionDenied, "a key revokes keys of its own scope at most, which is %s", c.key.Scope)
	}
	among := slices.Values(a.own[k.UserID])
	if k.Scope == ScopeAdmin { // with those that it, or its children, have made for others
		among = maps.Values(a.keys)
	}
	for other := range among {
		if other.RevokedAt.IsZero() && a.descends(other, id) {
			ending = append(ending, other.ID)
		}
	}
	return ending, nil
}

// Me is what a principal is.
type Me struct {
	Owner string   // of what it makes
	Admin bool     // it may see and change everything
	User  *User    // nil for an owner of the configuration
	Key   *KeyInfo // nil for a key of the configuration, and for a browser
}

// Me says who p is.
func (a *Accounts) Me(_ context.Context, p auth.Principal) (Me, error) {
	c, err := a.callerOf(p)
	if err != nil {
		return Me{}, err
	}
	me := Me{Owner: p.Owner, Admin: c.admin}
	if c.key != nil {
		a.mu.RLock()
		defer a.mu.RUnlock()
		u, k := c.key.user.User, c.key.info()
		if me.User = &u; !c.browser {
			me.Key = &k
		}
	}
	return me, nil
}

func checkKey(req KeyRequest) error {
	if utf8.RuneCountInString(req.Name) > MaxKeyName || !utf8.ValidString(req.Name) || strings.ContainsFunc(req.Name, unicode.IsControl) {
		return errdefs.Invalid("name", "must be at most %d characters, and no control characters", MaxKeyName)
	}
	if req.Scope != "" && req.Scope.rank() == 0 {
		return errdefs.Invalid("scope", "must be read, run or admin")
	}
	if req.Life < 0 || req.Life > MaxKeyLife {
		return errdefs.Invalid("ttl_seconds", "must be from 1 to %d", int64(MaxKeyLife/time.Second))
	}
	return nil
}
