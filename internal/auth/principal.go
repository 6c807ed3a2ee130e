package auth

import (
	"context"
	"errors"
	"regexp"
)

// Principal is in whose name something is done. Every operation of the session
// core takes one, and the core alone decides what it may do.
type Principal struct {
	Owner  string // whom the sessions, workspaces and snapshots belong to that it makes
	ID     string // of the credential, for logs; never the credential itself
	Scopes Scopes
	Quota  string // what Quotas knows its quota by; credentials of one owner share one

	ReadOnly bool // it looks at things and changes none, whatever else it may
}

// Scopes is what a principal may do beside using what its owner has.
type Scopes uint8

// The scopes.
const (
	ScopeEveryOwner Scopes = 1 << iota // use what any owner has, and look into it
	ScopeHelpers                       // see the hidden sessions behind the files of workspaces
	ScopeDaemon                        // see what is the whole daemon's: metrics, the pool, all images
	ScopeOversee                       // see the sessions of every owner and end them, and look into none
)

// Has reports whether p has a scope.
func (p Principal) Has(scope Scopes) bool { return p.Scopes&scope == scope }

// Oversees reports whether p sees the sessions of every owner, and may end them.
func (p Principal) Oversees() bool { return p.Scopes&(ScopeOversee|ScopeEveryOwner) != 0 }

// OwnsAll reports whether p uses what any owner has as if it were its own, and nobody is
// told: a part of the daemon, or any client of one without keys. An admin does not.
func (p Principal) OwnsAll() bool { return p.Has(ScopeEveryOwner) && !p.Has(ScopeOversee) }

// With returns p with one scope more.
func (p Principal) With(scope Scopes) Principal {
	p.Scopes |= scope
	return p
}

// System is the principal of a part of the daemon that works for all owners.
func System(part string) Principal {
	return Principal{ID: "daemon/" + part, Scopes: ScopeEveryOwner | ScopeHelpers | ScopeDaemon}
}

// Anonymous is the principal of all clients of a daemon that asks for no keys.
func Anonymous() Principal {
	return Principal{ID: "anonymous", Scopes: ScopeEveryOwner | ScopeDaemon}
}

// Authenticator makes principals of credentials. It says Unauthenticated for any
// credential that is not valid, whatever the reason, and its time tells nothing
// of those that are.
type Authenticator interface {
	Authenticate(ctx context.Context, credential string) (Principal, error)
}

// HashAuthenticator is an Authenticator of keys by their hashes, for who has seen a
// key once and kept the hash.
type HashAuthenticator interface {
	AuthenticateHash(hash Hash) (Principal, error)
}

// Credentials knows credentials by the ids of their principals, for what was given to
// somebody else in the name of one and has to end with it.
type Credentials interface {
	// HashOf returns the hash of the credential of an id, which changes with it, and
	// whether it opens anything now.
	HashOf(id string) (hash Hash, ok bool)
}

// ErrEnded is why a context ends whose credential has.
var ErrEnded = errors.New("the credential of the request has ended")

// Watcher is an Authenticator whose credentials can end before what is done in
// their names.
type Watcher interface {
	// Watch returns a context that ends with ctx, or at once with the credential of
	// p: its cause is ErrEnded then. The caller calls stop when it is done with it.
	Watch(ctx context.Context, p Principal) (watched context.Context, stop func())
}

// OwnerPattern is of all names of owners, as a regular expression, and OwnerRule
// says the same in words.
const (
	OwnerPattern = `^[a-z0-9][a-z0-9._-]{0,62}$`
	OwnerRule    = "a name of up to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
)

var ownerForm = regexp.MustCompile(OwnerPattern)

// IsOwner reports whether name may be an owner's.
func IsOwner(name string) bool { return ownerForm.MatchString(name) }
