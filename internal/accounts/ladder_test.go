package accounts_test

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const oldPassword = "correct horse battery"

// What a credential can make of itself, by each way in which the API makes credentials
// or what one signs in by: none is stronger than it, and none lives longer. A sign-in
// counts as what its user gets by the password, which is for ever and all of the role. The
// other user's password comes before the other key: it is the first, which every admin may
// set, and after it a key is for who may look into what others have.
func TestNoCredentialMakesAStrongerOne(t *testing.T) {
	t.Parallel()
	const (
		gets    = errdefs.Code("")
		refused = errdefs.PermissionDenied
		absent  = errdefs.NotFound // of others, for who may not know of them
		invalid = errdefs.InvalidArgument
	)
	// What each operation answers, in the order of ladder below.
	for name, want := range map[string][]errdefs.Code{
		//                        admin key own key  other pw other mail promote  other key user  admin user own mail own pw with old
		"the daemon's":          {"none", "none", gets, gets, gets, gets, gets, gets, "none", "none", "none"},
		"admin":                 {gets, gets, gets, gets, gets, refused, gets, gets, gets, gets, gets},
		"admin, inspects":       {gets, gets, gets, gets, gets, gets, gets, gets, gets, gets, gets},
		"admin, child":          {gets, gets, gets, gets, gets, refused, gets, gets, refused, refused, gets},
		"admin, ends":           {gets, gets, refused, refused, refused, gets, refused, refused, refused, refused, gets},
		"admin's run":           {refused, gets, absent, absent, absent, absent, refused, refused, refused, refused, gets},
		"admin's read":          {refused, refused, absent, absent, absent, absent, refused, refused, refused, refused, refused},
		"admin, signed in":      {gets, gets, gets, gets, gets, refused, gets, gets, refused, refused, gets},
		"admin's token":         {refused, refused, refused, refused, refused, refused, refused, refused, refused, refused, gets},
		"user":                  {refused, gets, absent, absent, absent, absent, refused, refused, gets, gets, gets},
		"user, child":           {refused, gets, absent, absent, absent, absent, refused, refused, refused, refused, gets},
		"user, ends":            {refused, gets, absent, absent, absent, absent, refused, refused, refused, refused, gets},
		"user, signed in":       {invalid, gets, absent, absent, absent, absent, refused, refused, refused, refused, gets},
		"user without password": {invalid, gets, absent, absent, absent, absent, refused, refused, gets, gets, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			eve := s.eve(name)
			for i, step := range ladder {
				if want[i] == "none" {
					continue
				}
				from := s.credential(name, eve)
				made, err := step.try(t.Context(), s, from)
				if got := codeOf(err); got != want[i] {
					t.Errorf("%s: %v, want %q", step.name, err, want[i])
				}
				if err == nil && made != nil {
					s.checkChild(step.name, from, *made)
				}
			}
		})
	}
}

func codeOf(err error) errdefs.Code {
	if err == nil {
		return ""
	}
	return errdefs.CodeOf(err)
}

// ladder is every way from a credential to another one.
var ladder = []struct {
	name string
	try  func(ctx context.Context, s *service, from held) (*accounts.NewKey, error)
}{
	{"own key of scope admin", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		return s.tryKey(ctx, from, accounts.KeyRequest{Scope: accounts.ScopeAdmin})
	}},
	{"own key of scope run", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		return s.tryKey(ctx, from, accounts.KeyRequest{Scope: accounts.ScopeRun})
	}},
	{"another's password", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		return nil, s.change(ctx, from, "other", accounts.UserUpdate{Password: new(oldPassword)})
	}},
	{"another's e-mail address", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		return nil, s.change(ctx, from, "other", accounts.UserUpdate{Email: new("other@example.org")})
	}},
	{"another's role", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		return nil, s.change(ctx, from, "bystander", accounts.UserUpdate{Role: new(accounts.RoleAdmin)})
	}},
	{"another's key", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		return s.tryKey(ctx, from, accounts.KeyRequest{User: "other", Scope: accounts.ScopeAdmin})
	}},
	{"a user with a password", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		_, err := s.CreateUser(ctx, from.p, accounts.UserRequest{Name: "made", Password: oldPassword})
		return nil, err
	}},
	{"a user who is an admin", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		_, err := s.CreateUser(ctx, from.p, accounts.UserRequest{Name: "top", Role: accounts.RoleAdmin})
		return nil, err
	}},
	{"own e-mail address", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		return nil, s.change(ctx, from, from.user, accounts.UserUpdate{Email: new("eve@example.org")})
	}},
	{"own password", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		return nil, s.change(ctx, from, from.user, accounts.UserUpdate{Password: new(oldPassword)})
	}},
	{"own password with the old one", func(ctx context.Context, s *service, from held) (*accounts.NewKey, error) {
		err := s.change(ctx, from, from.user, accounts.UserUpdate{Password: new(oldPassword), CurrentPassword: "not the password"})
		if from.password != "" && errdefs.CodeOf(err) != errdefs.PermissionDenied {
			s.t.Errorf("with a wrong old password: %v", err)
		}
		return nil, s.change(ctx, from, from.user, accounts.UserUpdate{Password: new(oldPassword), CurrentPassword: from.password})
	}},
}

// held is a credential, and whose.
type held struct {
	p        auth.Principal
	user     string
	password string
	key      *accounts.NewKey
	ends     time.Time
}

// eve makes the user whose credential is of a kind, and two others.
func (s *service) eve(kind string) accounts.User {
	s.t.Helper()
	role, password := accounts.RoleUser, oldPassword
	if strings.HasPrefix(kind, "admin") {
		role = accounts.RoleAdmin
	}
	if kind == "user without password" {
		password = ""
	}
	u, err := s.CreateUser(s.t.Context(), operator, accounts.UserRequest{Name: "eve", Role: role, Password: password})
	if err != nil {
		s.t.Fatal(err)
	}
	s.user("other", accounts.RoleAdmin)
	s.user("bystander", "")
	if kind == "admin, inspects" {
		if u, err = s.UpdateUser(s.t.Context(), operator, "eve", accounts.UserUpdate{Inspect: new(true)}); err != nil {
			s.t.Fatal(err)
		}
	}
	return u
}

// credential makes one of each kind.
func (s *service) credential(kind string, u accounts.User) held {
	s.t.Helper()
	from := held{user: u.Name}
	if u.PasswordHash != "" {
		from.password = oldPassword
	}
	req := accounts.KeyRequest{User: u.Name, Scope: accounts.ScopeRun}
	if u.Role == accounts.RoleAdmin {
		req.Scope = accounts.ScopeAdmin
	}
	switch kind {
	case "the daemon's":
		return held{p: operator}
	case "admin, signed in", "user, signed in", "user without password":
		from.p = u.Principal("a-sign-in")
		return from
	case "admin's token":
		from.p = u.TokenPrincipal("a-token")
		return from
	case "admin's run":
		req.Scope = accounts.ScopeRun
	case "admin's read":
		req.Scope = accounts.ScopeRead
	case "admin, ends", "user, ends":
		req.Life = time.Minute
	}
	from.key = new(s.key(operator, req))
	if strings.HasSuffix(kind, ", child") {
		from.key = new(s.key(s.as(*from.key), accounts.KeyRequest{Scope: req.Scope}))
	}
	from.p, from.ends = s.as(*from.key), from.key.ExpiresAt
	return from
}

func (s *service) change(ctx context.Context, from held, user string, update accounts.UserUpdate) error {
	_, err := s.UpdateUser(ctx, from.p, user, update)
	return err
}

func (s *service) tryKey(ctx context.Context, from held, req accounts.KeyRequest) (*accounts.NewKey, error) {
	made, err := s.CreateKey(ctx, from.p, req)
	return &made, err
}

// checkChild wants a key to end with the one that made it, and to do no more.
func (s *service) checkChild(what string, from held, made accounts.NewKey) {
	s.t.Helper()
	if !from.ends.IsZero() && (made.ExpiresAt.IsZero() || made.ExpiresAt.After(from.ends)) {
		s.t.Errorf("%s: of a key until %s comes one until %s", what, from.ends, cmp.Or(made.ExpiresAt.String(), "for ever"))
	}
	if from.key == nil || made.User != from.user && from.ends.IsZero() {
		return // of a sign-in, and what an admin gives to others
	}
	if err := s.RevokeKey(s.t.Context(), operator, from.key.ID); err != nil {
		s.t.Fatal(err)
	}
	s.wantRefused(made)
}
