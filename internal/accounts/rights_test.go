package accounts_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// told records of whom somebody opened what.
type told struct {
	all  []string
	fail error
}

func (o *told) opened(_ context.Context, by, user, what string) error {
	o.all = append(o.all, by+" "+user+" "+what)
	return o.fail
}

func (s *service) admin(name string, inspect bool) auth.Principal {
	s.t.Helper()
	s.user(name, accounts.RoleAdmin)
	if inspect {
		if _, err := s.UpdateUser(s.t.Context(), operator, name, accounts.UserUpdate{Inspect: new(true)}); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.as(s.key(operator, accounts.KeyRequest{User: name, Scope: accounts.ScopeAdmin}))
}

// An admin gives a user the first key or password, and no later one: that would open what
// the user has made. With the right to look into it the admin may, and the user is told.
func TestAnAdminOpensNoUser(t *testing.T) {
	t.Parallel()
	o := &told{}
	s := start(t, func(a *accounts.Options) { a.Opened, a.EmailsOpen = o.opened, true })
	ctx := t.Context()
	root, spy := s.admin("root", false), s.admin("spy", true)
	restricted := s.as(s.key(spy, accounts.KeyRequest{Scope: accounts.ScopeRun})) // of an admin with the right
	ends := s.as(s.key(spy, accounts.KeyRequest{Scope: accounts.ScopeAdmin, Life: time.Hour}))
	o.all = nil
	for name, first := range map[string]func(user string) error{
		"key": func(user string) error {
			_, err := s.CreateKey(ctx, root, accounts.KeyRequest{User: user})
			return err
		},
		"password": func(user string) error {
			_, err := s.UpdateUser(ctx, root, user, accounts.UserUpdate{Password: new(oldPassword)})
			return err
		},
	} {
		user := "first-" + name
		s.user(user, "")
		if err := first(user); err != nil {
			t.Errorf("the first %s: %v", name, err)
		}
		for _, s := range []*service{s, s.restarted()} {
			_, err := s.CreateKey(ctx, root, accounts.KeyRequest{User: user})
			wantCode(t, "a key of a user who had a "+name, err, errdefs.PermissionDenied)
			_, err = s.UpdateUser(ctx, root, user, accounts.UserUpdate{Password: new("another password")})
			wantCode(t, "a password of a user who had a "+name, err, errdefs.PermissionDenied)
		}
		_, err := s.UpdateUser(ctx, root, user, accounts.UserUpdate{Email: new("root@example.org")})
		wantCode(t, "an address that signs in as the user", err, errdefs.PermissionDenied)
	}
	if len(o.all) != 2 {
		t.Errorf("told are %q, of two first ones", o.all)
	}
	// A revoked key and a password that is taken away leave what was made.
	keys, err := s.Keys(ctx, root, "first-key")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RevokeKey(ctx, root, keys[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.UpdateUser(ctx, root, "first-password", accounts.UserUpdate{Password: new("")}); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"first-key", "first-password"} {
		_, err := s.CreateKey(ctx, root, accounts.KeyRequest{User: user})
		wantCode(t, "a key of "+user+", who has none now", err, errdefs.PermissionDenied)
	}
	o.all = nil
	_, err = s.CreateKey(ctx, restricted, accounts.KeyRequest{User: "first-key"})
	wantCode(t, "a key by a run key of an admin with the right", err, errdefs.NotFound)
	if len(o.all) != 0 {
		t.Errorf("told are %q, of nothing", o.all)
	}
	made := s.key(spy, accounts.KeyRequest{User: "first-key"})
	if child := s.key(ends, accounts.KeyRequest{User: "first-key"}); child.ExpiresAt.IsZero() || child.ParentID == "" {
		t.Errorf("a key that ends made %+v", child)
	}
	if !slices.Equal(o.all, []string{"spy first-key a key", "spy first-key a key"}) {
		t.Errorf("told are %q", o.all)
	}
	s.as(made)
	o.fail = errors.New("the user cannot be told")
	if _, err := s.CreateKey(ctx, spy, accounts.KeyRequest{User: "first-key"}); !errors.Is(err, o.fail) {
		t.Errorf("a key of which the user is not told: %v", err)
	}
	before := len(o.all)
	s.key(s.as(made), accounts.KeyRequest{})
	if len(o.all) != before {
		t.Errorf("a user is told of their own key: %q", o.all)
	}
}

// Who came by a provider, or with a password from the start, has made something that no
// admin saw: there is no first key for others to make.
func TestAUserWhoSignedInIsNotOpenToAFirstKey(t *testing.T) {
	t.Parallel()
	s := start(t, func(a *accounts.Options) { a.EmailsOpen = true })
	root := s.admin("root", false)
	for name, req := range map[string]accounts.UserRequest{
		"by-provider":  {SelfMade: true, Verified: true, Email: "p@example.org"},
		"by-password":  {Password: oldPassword},
		"with-address": {Email: "a@example.org"},
	} {
		req.Name = name
		if _, err := s.CreateUser(t.Context(), operator, req); err != nil {
			t.Fatal(err)
		}
		_, err := s.CreateKey(t.Context(), root, accounts.KeyRequest{User: name})
		wantCode(t, name, err, errdefs.PermissionDenied)
	}
}

// Nobody had a key of a user who may look into what others have, or who signs in by an e-mail
// address: an admin opens them all the same no more than others.
func TestAnAdminOpensNobodyWhoseAccountOpensMore(t *testing.T) {
	t.Parallel()
	s := start(t, func(a *accounts.Options) { a.EmailsOpen = true })
	ctx := t.Context()
	root := s.admin("root", false)
	s.user("watch", accounts.RoleAdmin)
	if _, err := s.UpdateUser(ctx, operator, "watch", accounts.UserUpdate{Inspect: new(true)}); err != nil {
		t.Fatal(err)
	}
	for _, made := range []accounts.UserRequest{{Name: "linked", Email: "linked@example.org"}, {Name: "adopted"}} {
		if _, err := s.CreateUser(ctx, operator, made); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Adopt(ctx, "adopted"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.UpdateUser(ctx, root, "linked", accounts.UserUpdate{Email: new("")}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"watch", "linked", "adopted"} {
		_, err := s.CreateKey(ctx, root, accounts.KeyRequest{User: name})
		wantCode(t, "a key of "+name, err, errdefs.PermissionDenied)
		_, err = s.UpdateUser(ctx, root, name, accounts.UserUpdate{Password: new(oldPassword)})
		wantCode(t, "a password of "+name, err, errdefs.PermissionDenied)
	}
}

// The right to look into what others have is the daemon's own key's to give: no admin has
// it by role, by promotion or by their own doing, and it goes with the role.
func TestOnlyTheDaemonsKeyGivesTheRightToInspect(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx := t.Context()
	root, spy := s.admin("root", false), s.admin("spy", true)
	if root.Has(auth.ScopeEveryOwner) || !spy.Has(auth.ScopeEveryOwner) || !root.Oversees() {
		t.Errorf("root is %+v and spy %+v", root, spy)
	}
	u, err := s.GetUser(ctx, operator, "spy")
	if err != nil {
		t.Fatal(err)
	}
	signedIn := u.Principal("a-sign-in")
	s.user("eve", "")
	for who, p := range map[string]auth.Principal{
		"an admin": root, "an admin with it": spy, "that admin in a browser": signedIn,
		"an admin's run key": s.as(s.key(root, accounts.KeyRequest{Scope: accounts.ScopeRun})),
		"a user":             s.as(s.key(operator, accounts.KeyRequest{User: "eve"})), "another owner": configured,
	} {
		for _, user := range []string{"root", p.Owner, "eve"} {
			if _, err := s.UpdateUser(ctx, p, user, accounts.UserUpdate{Inspect: new(true)}); err == nil {
				t.Errorf("%s gives %s the right", who, user)
			}
		}
	}
	_, err = s.UpdateUser(ctx, operator, "eve", accounts.UserUpdate{Inspect: new(true)})
	wantCode(t, "the right of a user who is no admin", err, errdefs.InvalidArgument)

	// With the role it goes, and does not come back with it. What was under way ends.
	watched, stop := s.Authenticator(nil).Watch(ctx, spy)
	defer stop()
	for _, role := range []accounts.Role{accounts.RoleUser, accounts.RoleAdmin} {
		if _, err := s.UpdateUser(ctx, operator, "spy", accounts.UserUpdate{Role: &role}); err != nil {
			t.Fatal(err)
		}
	}
	if watched.Err() == nil {
		t.Error("a request goes on whose right is gone")
	}
	again, err := s.GetUser(ctx, operator, "spy")
	if err != nil || again.Rights.Inspect || again.Principal("x").Has(auth.ScopeEveryOwner) {
		t.Errorf("after a demotion spy has %+v, %v", again.Rights, err)
	}
	if _, err := s.Me(ctx, signedIn); !errdefs.Is(err, errdefs.Unauthenticated) {
		t.Errorf("the browser of before: %v", err)
	}
}

// What was made by the right, as a token of a preview, ends with it: the hash that it hangs
// on is another.
func TestTheHashOfAKeyChangesWithTheRight(t *testing.T) {
	t.Parallel()
	s := start(t)
	spy := s.admin("spy", true)
	known := s.Authenticator(nil)
	with, ok := known.HashOf(spy.ID)
	if !ok {
		t.Fatal("the key opens nothing")
	}
	if _, err := s.UpdateUser(t.Context(), operator, "spy", accounts.UserUpdate{Inspect: new(false)}); err != nil {
		t.Fatal(err)
	}
	if without, ok := known.HashOf(spy.ID); !ok || without == with {
		t.Errorf("without the right the hash is the same, or the key ended: %t", ok)
	}
}
