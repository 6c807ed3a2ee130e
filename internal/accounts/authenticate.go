package accounts

import (
	"context"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/ids"
)

// errNoSuchCredential is the same for all keys that are not valid.
func errNoSuchCredential() error {
	return errdefs.New(errdefs.Unauthenticated, "the API key is not valid")
}

// Authenticator asks first, which knows the keys of the configuration, and then the
// accounts.
func (a *Accounts) Authenticator(first auth.Authenticator) Authenticator {
	return Authenticator{first: first, accounts: a}
}

// Authenticator knows the keys of the configuration and those of users.
type Authenticator struct {
	first    auth.Authenticator
	accounts *Accounts
}

var (
	_ auth.Watcher     = Authenticator{}
	_ auth.Credentials = Authenticator{}
)

// Authenticate implements auth.Authenticator.
func (a Authenticator) Authenticate(ctx context.Context, credential string) (auth.Principal, error) {
	p, err := a.first.Authenticate(ctx, credential)
	if errdefs.Is(err, errdefs.Unauthenticated) {
		return a.accounts.Authenticate(ctx, credential)
	}
	return p, err
}

// AuthenticateHash implements auth.HashAuthenticator, if first does.
func (a Authenticator) AuthenticateHash(hash auth.Hash) (auth.Principal, error) {
	if first, ok := a.first.(auth.HashAuthenticator); ok {
		if p, err := first.AuthenticateHash(hash); err == nil {
			return p, nil
		}
	}
	return a.accounts.AuthenticateHash(hash)
}

// HashOf implements auth.Credentials, of keys and of users who have signed in.
func (a Authenticator) HashOf(id string) (hash auth.Hash, ok bool) {
	if ids.Is(id) {
		return a.accounts.hashOfKey(id)
	}
	if signIn, is := strings.CutPrefix(id, signInPrefix); is {
		return a.accounts.signIns.HashOf(signIn)
	}
	if first, is := a.first.(auth.Credentials); is {
		return first.HashOf(id)
	}
	return hash, false
}

func (a *Accounts) hashOfKey(id string) (hash auth.Hash, ok bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	k := a.keys[id]
	if k == nil {
		return hash, false
	}
	hash = k.Hash
	if k.principal().Has(auth.ScopeEveryOwner) {
		hash[0]++ // what was made by the right ends with it
	}
	return hash, k.usable(time.Now())
}

// Watch implements auth.Watcher.
func (a Authenticator) Watch(ctx context.Context, p auth.Principal) (context.Context, func()) {
	return a.accounts.Watch(ctx, p)
}

// Authenticate implements auth.Authenticator. Its time depends on nothing but the
// hash of the key that it is given, of which nobody learns another key.
func (a *Accounts) Authenticate(_ context.Context, credential string) (auth.Principal, error) {
	return a.AuthenticateHash(auth.HashKey(credential))
}

// AuthenticateHash is Authenticate for who has kept the hash of a key.
func (a *Accounts) AuthenticateHash(hash auth.Hash) (auth.Principal, error) {
	now := time.Now()
	a.mu.RLock()
	defer a.mu.RUnlock()
	k := a.byHash[hash]
	if k == nil || !k.usable(now) {
		return auth.Principal{}, errNoSuchCredential()
	}
	k.lastUsed.Store(now.UnixMicro())
	return k.principal(), nil
}

// usable reports whether k opens anything. The caller holds mu.
func (k *key) usable(now time.Time) bool { return k.user.State == Active && !k.ended(now) }

// principal is who shows k. The caller holds mu.
func (k *key) principal() auth.Principal {
	p := auth.Principal{Owner: k.user.Name, ID: k.ID, Quota: k.user.Name, ReadOnly: k.Scope == ScopeRead}
	if k.Scope == ScopeAdmin {
		p.Scopes = k.user.scopes()
	}
	return p
}

// use is a request under way.
type use struct{ cancel context.CancelCauseFunc }

// Watch implements auth.Watcher.
func (a *Accounts) Watch(ctx context.Context, p auth.Principal) (context.Context, func()) {
	switch {
	case ids.Is(p.ID):
		return a.watchKey(ctx, p)
	case strings.HasPrefix(p.ID, tokenPrefix):
		return a.watchUser(ctx, p)
	default: // of the configuration, which changes with the process, or of a browser
		return ctx, func() {}
	}
}

func (a *Accounts) watchKey(ctx context.Context, p auth.Principal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.keys[p.ID]
	if k == nil || !k.usable(now) || k.principal() != p {
		cancel(auth.ErrEnded)
		return ctx, func() {}
	}
	expire := func() bool { return true }
	if !k.ExpiresAt.IsZero() {
		expire = time.AfterFunc(k.ExpiresAt.Sub(now), func() { cancel(auth.ErrEnded) }).Stop
	}
	done := a.under(k.ID, cancel)
	return ctx, func() {
		expire()
		done()
	}
}

// watchUser is Watch of who shows an access token.
func (a *Accounts) watchUser(ctx context.Context, p auth.Principal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.users[p.Owner]
	if u == nil || u.State != Active || u.Principal("").Scopes != p.Scopes {
		cancel(auth.ErrEnded)
		return ctx, func() {}
	}
	return ctx, a.under(u.ID, cancel)
}

// under notes a request that is under way in the name of a credential, which is a key or
// the user. The caller holds mu, and calls done without it.
func (a *Accounts) under(credential string, cancel context.CancelCauseFunc) (done func()) {
	one := &use{cancel}
	if a.open[credential] == nil {
		a.open[credential] = make(map[*use]bool)
	}
	a.open[credential][one] = true
	return func() {
		cancel(nil)
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.open[credential], one)
		if len(a.open[credential]) == 0 {
			delete(a.open, credential)
		}
	}
}

// cut ends the requests that are under way in the name of a credential. The caller holds
// mu.
func (a *Accounts) cut(credential string) {
	for one := range a.open[credential] {
		one.cancel(auth.ErrEnded)
	}
}

// inUse reports whether requests of a user are under way.
func (a *Accounts) inUse(userID string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(a.open[userID]) > 0 {
		return true
	}
	for _, k := range a.own[userID] {
		if len(a.open[k.ID]) > 0 {
			return true
		}
	}
	return a.signIns.InUse(userID)
}
