// Package access says what a principal may do with a session that somebody else may
// own. It knows principals and owners, and nothing of how sessions are found or of
// what is done with them.
package access

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Need is what an operation does with a session.
type Need int

// The needs.
const (
	See Need = iota // know of it, what it uses and how it ended; stop and destroy it
	Use             // change it otherwise, run something in it, and read what is in it
)

// May reports whether p may do with a session of owner what need says. A helper is
// hidden behind the files of a workspace.
func May(p auth.Principal, need Need, owner string, helper bool) bool {
	own := owner == p.Owner || p.Has(auth.ScopeEveryOwner) || protection.Off(protection.Owner)
	sees := p.Oversees() && (need == See || protection.Off(protection.Inspect))
	return (own || sees) && (!helper || p.Has(auth.ScopeHelpers))
}

// KnowsAll reports whether p may know of the sessions of every owner.
func KnowsAll(p auth.Principal) bool { return p.Oversees() || protection.Off(protection.Owner) }

// LookIn tells an owner that p looks into a session of the owner's, by the right to do so.
// It is called before anything is done, which its error keeps from being. Nil tells nobody.
type LookIn func(ctx context.Context, p auth.Principal, owner, session string) error

// Tell tells owner of p, if p uses what is another's by the right. The daemon's own parts,
// and a daemon without keys, need no right.
func (l LookIn) Tell(ctx context.Context, p auth.Principal, owner, session string) error {
	if l == nil || owner == p.Owner || !p.Has(auth.ScopeOversee|auth.ScopeEveryOwner) {
		return nil
	}
	return l(ctx, p, owner, session)
}

// ToWatch is what p needs to follow the events of one session. Who has the right to look in
// sees what runs in it, too.
func ToWatch(p auth.Principal) Need {
	if p.Has(auth.ScopeOversee | auth.ScopeEveryOwner) {
		return Use
	}
	return See
}

// ErrNoSession is of a session that never was, or that its principal may not know of.
func ErrNoSession() error {
	return errdefs.New(errdefs.NotFound, "no such session").Because(errdefs.NoSuchSession)
}

// Refusal is the answer to p who may not do with a session what it needs: an admin sees
// it in lists and learns why, and to all others it does not exist.
func Refusal(p auth.Principal, owner string, helper bool) error {
	if !May(p, See, owner, helper) {
		return ErrNoSession()
	}
	return errdefs.New(errdefs.PermissionDenied, "this session is %s's: an admin sees it, and may stop and destroy it. To look into it, or to change it otherwise, is a right of its own, which only the daemon's own key gives: sandkasten user set NAME --inspect", owner)
}

// By names p, who ends a session of owner, for whom reads why it ended.
func By(p auth.Principal, owner string) string {
	if owner == p.Owner || !p.Has(auth.ScopeOversee) {
		return "a client"
	}
	return "the admin " + p.Owner
}
