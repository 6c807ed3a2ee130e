package accounts

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/sandkasten/sandkasten/internal/auth"
)

// signInPrefix begins the ids of principals that are users in a browser.
const signInPrefix = "browser/"

// IsSignIn reports whether p is a user who has signed in, and shows no key.
func IsSignIn(p auth.Principal) bool { return strings.HasPrefix(p.ID, signInPrefix) }

// tokenPrefix begins the ids of principals that are users with an access token.
const tokenPrefix = signInPrefix + "token-"

// TokenPrincipal is u as who shows an access token, of which name tells no more than that
// it is the same one.
func (u User) TokenPrincipal(name string) auth.Principal { return u.Principal("token-" + name) }

// Principal is u as who has signed in, which signIn names. It may what the user's
// role may.
func (u User) Principal(signIn string) auth.Principal {
	return auth.Principal{Owner: u.Name, ID: signInPrefix + signIn, Quota: u.Name, Scopes: u.scopes()}
}

// signedIn is the caller behind the principal of a browser.
func (a *Accounts) signedIn(p auth.Principal) (caller, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	u := a.users[p.Owner]
	if u == nil || u.State != Active || u.Principal("").Scopes != p.Scopes {
		return caller{}, errNoSuchCredential()
	}
	return caller{
		admin: u.Role == RoleAdmin, user: u, key: &key{Key: Key{UserID: u.ID, Scope: u.signInScope()}, user: u},
		browser: true, token: strings.HasPrefix(p.ID, tokenPrefix),
	}, nil
}

// signInScope is what signing in gives a user.
func (u User) signInScope() Scope {
	if u.Role == RoleAdmin {
		return ScopeAdmin
	}
	return ScopeRun
}

// Stamp is what a sign-in depends on: with another role, state, password or right to look into what others have the user
// has to sign in again. It tells nothing of the password.
type Stamp [sha256.Size]byte

func (u User) stamp() Stamp {
	text := fmt.Appendf(nil, "%s %s %s %s", u.ID, u.Role, u.State, u.PasswordHash)
	if u.Rights.Inspect {
		text = append(text, " inspect"...)
	}
	return sha256.Sum256(text)
}

// StampOf returns the stamp of a user who is active.
func (a *Accounts) StampOf(userID, name string) (User, Stamp, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	u := a.users[name]
	if u == nil || u.ID != userID || u.State != Active {
		return User{}, Stamp{}, false
	}
	return u.User, u.stamp(), true
}

// named returns the user of a name, or of an e-mail address that nobody else has.
// The caller holds mu.
func (a *Accounts) named(name string) *user {
	if !strings.Contains(name, "@") {
		return a.users[name]
	}
	if found := a.withEmail(name); len(found) == 1 {
		return found[0]
	}
	return nil
}

// withEmail returns the users with an e-mail address; earlier versions let several have one.
// The caller holds mu.
func (a *Accounts) withEmail(email string) (found []*user) {
	for _, u := range a.users {
		if strings.EqualFold(u.Email, email) {
			found = append(found, u)
		}
	}
	return found
}

// HasEmail reports whether a user has an e-mail address.
func (a *Accounts) HasEmail(email string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.withEmail(email)) > 0
}

// Known returns the user whom VerifyPassword takes a name for.
func (a *Accounts) Known(name string) (User, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	u := a.named(name)
	if u == nil {
		return User{}, false
	}
	return u.User, true
}
