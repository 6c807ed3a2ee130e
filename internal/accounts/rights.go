package accounts

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Rights is what a user may do beside what the role says. The names in JSON are of what
// is stored.
type Rights struct {
	// Inspect lets an admin look into what others have, which those are told of.
	Inspect bool `json:"inspect,omitempty"`

	Images ImageRight `json:"images,omitempty"`

	// Unopened says that nobody ever had a key or password of the user, so that an admin
	// who gives the first one opens nothing that somebody made.
	Unopened bool `json:"unopened,omitempty"`
}

// ImageRight is what a user who is no admin may make images of.
type ImageRight string

// The rights to make images. Each has what those before it have.
const (
	ImagesNone  ImageRight = ""      // none
	ImagesPull  ImageRight = "pull"  // of registries, and of the user's own sessions and snapshots
	ImagesBuild ImageRight = "build" // of recipes, whose steps the daemon's host runs
)

// check refuses what no user of a role may have.
func (r Rights) check(role Role) error {
	if r.Inspect && role != RoleAdmin {
		return errdefs.Invalid("inspect", "is for users with the role admin")
	}
	if r.Images != ImagesNone && r.Images != ImagesPull && r.Images != ImagesBuild {
		return errdefs.Invalid("images", "must be none, pull or build")
	}
	return nil
}

// scopes is what a credential may that has all of u's role.
func (u User) scopes() auth.Scopes {
	switch {
	case u.Role != RoleAdmin:
		return 0
	case u.Rights.Inspect:
		return auth.ScopeOversee | auth.ScopeDaemon | auth.ScopeEveryOwner
	}
	return auth.ScopeOversee | auth.ScopeDaemon
}

// operates reports whether c is the daemon's own key, which gives rights.
func (c caller) operates() bool { return c.admin && c.user == nil }

// inspects reports whether c may look into what others have, or may give itself the right.
func (c caller) inspects() bool { return c.operates() || c.admin && c.user.Rights.Inspect }

// opens refuses c to give a user who is there what opens the user's account: that would
// be a way to look into all that the user has. The user is told of what c does give.
func (a *Accounts) opens(ctx context.Context, c caller, u User, what string) error {
	if c.user != nil && c.user.ID == u.ID {
		return nil
	}
	// What opens somebody who may look into what others have opens all of that.
	first := u.Rights.Unopened && !u.Rights.Inspect
	if !first && !c.inspects() && !protection.Off(protection.Inspect) {
		return errdefs.New(errdefs.PermissionDenied, "to set %s of %s would open all that %s has. Only the first key or password of a user is for every admin; later ones are for the daemon's own key, and for admins who may look into what others have", what, u.Name, u.Name)
	}
	return a.opts.Opened(ctx, c.name(), u.Name, what)
}

// openedWithKey is opens of a key, after which u is never unopened again.
func (a *Accounts) openedWithKey(ctx context.Context, c caller, u *user) (*user, error) {
	if err := a.opens(ctx, c, u.User, "a key"); err != nil || !u.Rights.Unopened {
		return u, err
	}
	opened := u.User
	opened.Rights.Unopened = false
	if _, err := a.putUser(ctx, opened); err != nil {
		return u, err
	}
	return a.find(c, u.Name)
}

// name is whom others know c as.
func (c caller) name() string {
	if c.user == nil {
		return auth.Admin
	}
	return c.user.Name
}
