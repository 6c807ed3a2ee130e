// Package accounts keeps users and their API keys, which admins make while the
// daemon runs, beside the owners and keys of the configuration. It says who a key
// is, who may see and change whom, and ends what a key was used for when the key
// ends. What belongs to a user is known by the user's name as its owner, and is no
// business of this package.
package accounts

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/ids"
)

// What there may be. The API's document says the same, which a test of it compares.
const (
	MaxUsers    = 10_000
	MaxKeys     = 1000 // of one user, with those that are revoked
	MaxEmail    = 254  // bytes
	MaxKeyName  = 255  // characters
	MinPassword = 8    // characters
	MaxPassword = 1024
	MaxKeyLife  = 10 * 365 * 24 * time.Hour
)

// EmailPattern is of e-mail addresses and of no address, as a regular expression.
const EmailPattern = `^([A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*)?$`

// Role is what a user may do in general.
type Role string

// The roles.
const (
	RoleUser  Role = "user"
	RoleAdmin Role = "admin" // with a key of ScopeAdmin: see and end everything, and change users
)

// State is whether a user's keys are taken.
type State string

// The states.
const (
	Active   State = "active"
	Disabled State = "disabled"
	Deleting State = "deleting" // for good: what the user owns is being removed
)

// Scope is what a key may do of what its user may.
type Scope string

// The scopes. Each has what those before it have.
const (
	ScopeRead  Scope = "read"  // look at things and change nothing
	ScopeRun   Scope = "run"   // use and make sessions and whatever else the user owns
	ScopeAdmin Scope = "admin" // what the role admin may
)

// rank orders scopes; 0 is none of them.
func (s Scope) rank() int { return map[Scope]int{ScopeRead: 1, ScopeRun: 2, ScopeAdmin: 3}[s] }

// User is somebody who has keys.
type User struct {
	ID           string
	Name         string // the owner of what they make; it never changes
	Email        string // "" if not known
	Role         Role
	State        State
	PasswordHash string // "" is no password
	Quota        Quota
	Rights       Rights
	CreatedAt    time.Time
}

// Key is an API key without its text, which nobody has but whom it was shown to.
type Key struct {
	ID        string
	UserID    string
	Name      string // for people
	Hash      auth.Hash
	Scope     Scope
	ParentID  string    // of the key that made it, with which it ends; "" if an admin did
	CreatedAt time.Time // the other times may be zero
	ExpiresAt time.Time
	RevokedAt time.Time
	LastUsed  time.Time // a minute old at most
}

// ended reports whether k is for nothing any more.
func (k Key) ended(now time.Time) bool {
	return !k.RevokedAt.IsZero() || !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}

// Store remembers users and keys. As with session.Store, what it has written
// survives a crash from the moment the method returns.
type Store interface {
	// Accounts returns all users and keys.
	Accounts(ctx context.Context) ([]User, []Key, error)
	// PutUser inserts a user or replaces the one of that id.
	PutUser(ctx context.Context, u User) error
	// DeleteUser forgets a user, with the user's keys and the subjects of providers
	// that signed in as the user.
	DeleteUser(ctx context.Context, id string) error
	// PutKey inserts a key and, in the same step, forgets the one with the id
	// instead, if that is not empty.
	PutKey(ctx context.Context, k Key, instead string) error
	// RevokeKeys sets the time at which keys were revoked.
	RevokeKeys(ctx context.Context, ids []string, at time.Time) error
	// TouchKeys sets the last use of keys by their ids.
	TouchKeys(ctx context.Context, used map[string]time.Time) error
}

// Options configures accounts. Store and RemoveOwned are required.
type Options struct {
	Store Store
	Log   *slog.Logger // silence

	// Reserved reports whether a name is that of an owner whom the configuration
	// knows, so that no user may have it.
	Reserved func(name string) bool

	// EmailsOpen says that a provider signs in who has a verified e-mail address as the user
	// with that address, so that nobody but an admin may give a user one.
	EmailsOpen bool

	// RemoveOwned removes what an owner has: sessions and all that is kept. It is
	// repeated after a failure, also by later daemons, and called for several owners at
	// once. When ctx is done it returns soon, with an error if something is left.
	RemoveOwned func(ctx context.Context, owner string) error

	// Opened is called before a user holds a key, password or e-mail address that another
	// sets, who could use it. An error keeps that from being. Nil tells nobody.
	Opened func(ctx context.Context, by, user, what string) error

	// Changed is told whose account is another than before, or which of the user's keys
	// if that is not empty. It must not block. Nil is told nothing.
	Changed func(user, keyID string)
}

// SignIns are the browsers in which users are signed in, which package browser keeps.
type SignIns interface {
	// EndOf ends all sign-ins of a user at once, and what is under way in them.
	EndOf(ctx context.Context, userID string)
	// Guess counts an attempt at a user's password that is no sign-in, and is refused
	// while that would be. The caller says with done how it ended.
	Guess(userID string) (done func(error), err error)
	// InUse reports whether requests of a user's browsers are under way.
	InUse(userID string) bool
	// HashOf returns the hash of the token of a sign-in, and whether it opens anything
	// now.
	HashOf(id string) (hash auth.Hash, ok bool)
}

// noSignIns is a daemon in which nobody signs in.
type noSignIns struct{}

func (noSignIns) EndOf(context.Context, string)           {}
func (noSignIns) Guess(string) (func(error), error)       { return func(error) {}, nil }
func (noSignIns) InUse(string) bool                       { return false }
func (noSignIns) HashOf(string) (hash auth.Hash, ok bool) { return hash, false }

// SetSignIns has sign-ins end with what they stand for. It is called before the
// accounts are used.
func (a *Accounts) SetSignIns(s SignIns) { a.signIns = s }

// Accounts is all users and keys. It has them in memory, and writes each change
// before it holds. Its methods may be called concurrently.
type Accounts struct {
	opts    Options
	signIns SignIns

	changes sync.Mutex // held by what changes users and keys, from its checks to its end

	turns   chan struct{}  // has something for each deletion that removes things now
	removal sync.WaitGroup // of the deletions that are under way

	mu     sync.RWMutex
	users  map[string]*user         // guarded by mu; by name
	keys   map[string]*key          // guarded by mu; by id
	byHash map[auth.Hash]*key       // guarded by mu; those that are not revoked
	own    map[string][]*key        // guarded by mu; by the user's id, the oldest first
	open   map[string]map[*use]bool // guarded by mu; requests under way, by the id of a key or a user
	ending map[string]*deletion     // guarded by mu; by the id of a user
	closed bool                     // guarded by mu; no deletion begins any more
}

// user is a User in memory. It is replaced as a whole, under mu.
type user struct{ User }

// key is a Key in memory, with whom it is of.
type key struct {
	Key // guarded by Accounts.mu

	user     *user        // guarded by Accounts.mu
	lastUsed atomic.Int64 // in microseconds of Unix time
}

// New returns the accounts of a store.
func New(ctx context.Context, o Options) (*Accounts, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(string, string) {}
	}
	if o.Opened == nil {
		o.Opened = func(context.Context, string, string, string) error { return nil }
	}
	if o.Reserved == nil {
		o.Reserved = func(string) bool { return false }
	}
	a := &Accounts{
		opts: o, signIns: noSignIns{}, users: make(map[string]*user), keys: make(map[string]*key), byHash: make(map[auth.Hash]*key),
		own: make(map[string][]*key), open: make(map[string]map[*use]bool),
		turns: make(chan struct{}, deletionsAtOnce), ending: make(map[string]*deletion),
	}
	users, keys, err := o.Store.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*user)
	for _, u := range users {
		if o.Reserved(u.Name) {
			o.Log.WarnContext(ctx, "a user has the name of an owner of the configuration: what both make belongs to both", "user", u.Name)
		}
		byID[u.ID] = &user{u}
		a.users[u.Name] = byID[u.ID]
	}
	for _, k := range keys {
		if u := byID[k.UserID]; u != nil {
			a.add(k, u)
		}
	}
	return a, nil
}

// add enters a key. The caller holds mu, or is New.
func (a *Accounts) add(k Key, u *user) {
	one := &key{Key: k, user: u}
	if !k.LastUsed.IsZero() {
		one.lastUsed.Store(k.LastUsed.UnixMicro())
	}
	a.keys[k.ID] = one
	a.own[u.ID] = append(a.own[u.ID], one)
	if k.RevokedAt.IsZero() {
		a.byHash[k.Hash] = one
	}
}

// drop forgets a key. The caller holds mu.
func (a *Accounts) drop(k *key) {
	delete(a.keys, k.ID)
	if a.byHash[k.Hash] == k {
		delete(a.byHash, k.Hash)
	}
}

// caller is who asks for something.
type caller struct {
	admin bool
	user  *user // nil for an owner of the configuration
	key   *key  // nil for one of the configuration

	browser bool // the user has signed in, or shows an access token: key stands for that and is nobody's parent
	token   bool // it is an access token, which ends and which nobody here can revoke
}

// ends reports whether what c shows is for nothing some day, whatever anybody does. What
// such a caller gives somebody must end with it: see lends.
func (c caller) ends() bool { return c.token || c.key != nil && !c.key.ExpiresAt.IsZero() }

// lends refuses c to give what would open more, or for longer, than c does: a password
// and an e-mail address sign in, and a role is what signing in gives.
func (c caller) lends(what string) error {
	if !c.ends() {
		return nil
	}
	return errdefs.New(errdefs.PermissionDenied, "a key or token that ends does not set %s, which would outlive it; use a key without an end", what)
}

// isWhole reports whether signing in as its user would give c nothing that it has not:
// c has no end, no parent with which it is revoked, and all that the user's role may. A
// sign-in is whole while there is no password to ask for.
func (c caller) isWhole() bool {
	if c.browser {
		return !c.token && c.user.PasswordHash == ""
	}
	return c.key.ParentID == "" && !c.ends() && c.key.Scope == c.user.signInScope()
}

// callerOf knows the user and key behind a principal.
func (a *Accounts) callerOf(p auth.Principal) (caller, error) {
	if IsSignIn(p) {
		return a.signedIn(p)
	}
	if !ids.Is(p.ID) {
		return caller{admin: p.Has(auth.ScopeDaemon)}, nil
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	k := a.keys[p.ID]
	if k == nil || !k.usable(time.Now()) {
		return caller{}, errNoSuchCredential()
	}
	return caller{admin: k.user.Role == RoleAdmin && k.Scope == ScopeAdmin, user: k.user, key: k}, nil
}

// sees reports whether c may know of a user.
func (c caller) sees(u *user) bool { return c.admin || c.user != nil && c.user.ID == u.ID }

// find returns a user whom c may know of.
func (a *Accounts) find(c caller, name string) (*user, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	u := a.users[name]
	if u == nil || !c.sees(u) {
		return nil, errdefs.New(errdefs.NotFound, "there is no user %q; an admin makes one with `sandkasten user add`", name)
	}
	return u, nil
}

func errAdminsOnly(what string) error {
	return errdefs.New(errdefs.PermissionDenied, "only an admin may %s: it takes a key with the scope admin", what)
}
