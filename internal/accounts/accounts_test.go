package accounts_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// operator is the daemon's own key, and configured the one of another owner.
var (
	operator   = auth.Principal{Owner: auth.Admin, ID: "api_key", Scopes: auth.ScopeDaemon | auth.ScopeOversee}
	configured = auth.Principal{Owner: "carol", ID: "api_keys[0]"}
)

// service is accounts over a database that outlives them.
type service struct {
	*accounts.Accounts
	t  *testing.T
	db string

	mu      sync.Mutex
	removed []string // guarded by mu; owners whose things were removed
	fail    error    // guarded by mu; of the next removals

	gate chan struct{} // what removals wait for, if there is one
}

// remove deletes a user, whether or not that is done when it returns.
func (s *service) remove(ctx context.Context, p auth.Principal, name string) error {
	_, err := s.DeleteUser(ctx, p, name)
	return err
}

func open(t *testing.T, db string, set ...func(*accounts.Options)) *service {
	t.Helper()
	rows, err := store.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &service{t: t, db: db}
	o := accounts.Options{
		Store: rows, Reserved: func(name string) bool { return name == auth.Admin || name == "carol" },
		RemoveOwned: func(ctx context.Context, owner string) error {
			if s.gate != nil {
				select {
				case <-s.gate:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.removed = append(s.removed, owner)
			return s.fail
		},
	}
	for _, change := range set {
		change(&o)
	}
	if s.Accounts, err = accounts.New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t *testing.T, set ...func(*accounts.Options)) *service {
	t.Helper()
	return open(t, storetest.NewDB(t), set...)
}

// restarted is what a later daemon has.
func (s *service) restarted() *service { return open(s.t, s.db) }

func (s *service) user(name string, role accounts.Role) accounts.User {
	s.t.Helper()
	u, err := s.CreateUser(s.t.Context(), operator, accounts.UserRequest{Name: name, Role: role})
	if err != nil {
		s.t.Fatal(err)
	}
	return u
}

func (s *service) key(p auth.Principal, req accounts.KeyRequest) accounts.NewKey {
	s.t.Helper()
	k, err := s.CreateKey(s.t.Context(), p, req)
	if err != nil {
		s.t.Fatal(err)
	}
	return k
}

// as returns who shows the text of a key.
func (s *service) as(k accounts.NewKey) auth.Principal {
	s.t.Helper()
	p, err := s.Authenticate(s.t.Context(), k.Text)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *service) wantRefused(k accounts.NewKey) {
	s.t.Helper()
	if p, err := s.Authenticate(s.t.Context(), k.Text); !errdefs.Is(err, errdefs.Unauthenticated) || p != (auth.Principal{}) {
		s.t.Errorf("key %s of %s is taken as %+v, %v", k.Name, k.User, p, err)
	}
}

func wantCode(t *testing.T, what string, err error, code errdefs.Code) {
	t.Helper()
	if !errdefs.Is(err, code) {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func TestKeyIsItsUsers(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	s.user("root", accounts.RoleAdmin)
	tests := []struct {
		user  string
		scope accounts.Scope
		want  auth.Principal
	}{
		{"alice", "", auth.Principal{Owner: "alice", Quota: "alice"}},
		{"alice", accounts.ScopeRead, auth.Principal{Owner: "alice", Quota: "alice", ReadOnly: true}},
		{"root", accounts.ScopeRun, auth.Principal{Owner: "root", Quota: "root"}},
		{"root", accounts.ScopeRead, auth.Principal{Owner: "root", Quota: "root", ReadOnly: true}},
		{"root", accounts.ScopeAdmin, auth.Principal{Owner: "root", Quota: "root", Scopes: auth.ScopeOversee | auth.ScopeDaemon}},
	}
	later := s.restarted
	for _, tt := range tests {
		made := s.key(operator, accounts.KeyRequest{User: tt.user, Scope: tt.scope, Name: "laptop"})
		tt.want.ID = made.ID
		if got := s.as(made); got != tt.want {
			t.Errorf("%s %s is %+v, want %+v", tt.user, tt.scope, got, tt.want)
		}
		if made.ParentID != "" || made.Hash != auth.HashKey(made.Text) || made.User != tt.user {
			t.Errorf("made %+v", made)
		}
		if got := later().as(made); got != tt.want {
			t.Errorf("%s %s is %+v after a restart, want %+v", tt.user, tt.scope, got, tt.want)
		}
	}
	for _, wrong := range []string{"", "sk_", strings.Repeat("a", 100)} {
		if p, err := s.Authenticate(t.Context(), wrong); !errdefs.Is(err, errdefs.Unauthenticated) || p != (auth.Principal{}) {
			t.Errorf("%q is taken as %+v, %v", wrong, p, err)
		}
	}
}

func TestAuthenticatorAsksTheConfigurationFirst(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	k := s.key(operator, accounts.KeyRequest{User: "alice"})
	first, err := auth.NewKeys(auth.Key{ID: "api_key", Owner: auth.Admin, Hash: auth.HashKey("configured-key")})
	if err != nil {
		t.Fatal(err)
	}
	both := s.Authenticator(first)
	for text, want := range map[string]string{"configured-key": auth.Admin, k.Text: "alice", "neither": ""} {
		p, err := both.Authenticate(t.Context(), text)
		if p.Owner != want || (err == nil) != (want != "") {
			t.Errorf("%+v, %v, want %q", p, err, want)
		}
	}
}

func TestEndedKeysAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	made := func(life time.Duration) accounts.NewKey {
		return s.key(operator, accounts.KeyRequest{User: "alice", Life: life})
	}
	kept, revoked, expired := made(0), made(0), made(time.Millisecond)
	if err := s.RevokeKey(t.Context(), operator, revoked.ID); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond)
	for _, s := range []*service{s, s.restarted()} {
		s.as(kept)
		s.wantRefused(revoked)
		s.wantRefused(expired)
	}
	disabled, active := accounts.Disabled, accounts.Active
	if _, err := s.UpdateUser(t.Context(), operator, "alice", accounts.UserUpdate{State: &disabled}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused(kept)
	s.restarted().wantRefused(kept)
	if _, err := s.UpdateUser(t.Context(), operator, "alice", accounts.UserUpdate{State: &active}); err != nil {
		t.Fatal(err)
	}
	s.as(kept)
	s.wantRefused(revoked)
}

func TestChildKeys(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("root", accounts.RoleAdmin)
	top := s.key(operator, accounts.KeyRequest{User: "root", Scope: accounts.ScopeRun, Life: time.Hour})
	child := s.key(s.as(top), accounts.KeyRequest{Name: "child"})
	if child.ParentID != top.ID || child.Scope != accounts.ScopeRun || child.ExpiresAt != top.ExpiresAt || child.User != "root" {
		t.Errorf("child %+v of %+v", child, top)
	}
	grandchild := s.key(s.as(child), accounts.KeyRequest{Scope: accounts.ScopeRead, Life: time.Minute})
	if grandchild.ParentID != child.ID || !grandchild.ExpiresAt.Before(child.ExpiresAt) {
		t.Errorf("grandchild %+v", grandchild)
	}
	sibling := s.key(s.as(top), accounts.KeyRequest{Name: "sibling"})
	for name, req := range map[string]accounts.KeyRequest{
		"more":   {Scope: accounts.ScopeAdmin},
		"longer": {Life: 2 * time.Hour},
	} {
		_, err := s.CreateKey(t.Context(), s.as(child), req)
		wantCode(t, name, err, errdefs.PermissionDenied)
	}
	_, err := s.CreateKey(t.Context(), s.as(grandchild), accounts.KeyRequest{Scope: accounts.ScopeRun})
	wantCode(t, "a read key makes one to run", err, errdefs.PermissionDenied)

	// A child sees and revokes itself and its own.
	wantCode(t, "child revokes its parent", s.RevokeKey(t.Context(), s.as(child), top.ID), errdefs.NotFound)
	wantCode(t, "child revokes its sibling", s.RevokeKey(t.Context(), s.as(child), sibling.ID), errdefs.NotFound)
	seen, err := s.Keys(t.Context(), s.as(child), "")
	if got := keyIDs(seen); err != nil || !cmp.Equal(got, []string{child.ID, grandchild.ID}) {
		t.Errorf("child sees %v, %v", got, err)
	}

	if err := s.RevokeKey(t.Context(), s.as(top), child.ID); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*service{s, s.restarted()} {
		s.wantRefused(child)
		s.wantRefused(grandchild)
		s.as(sibling)
	}
	if err := s.RevokeKey(t.Context(), s.as(top), top.ID); err != nil {
		t.Fatal(err)
	}
	s.wantRefused(top)
	s.wantRefused(sibling)
}

func keyIDs(keys []accounts.KeyInfo) (ids []string) {
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return ids
}

// Other users do not exist, and everything that changes one is for admins.
func TestUsersOfOthersAreAbsent(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	s.user("bob", "")
	s.user("root", accounts.RoleAdmin)
	bobs := s.key(operator, accounts.KeyRequest{User: "bob"})
	alice := s.as(s.key(operator, accounts.KeyRequest{User: "alice"}))
	weak := s.as(s.key(operator, accounts.KeyRequest{User: "root", Scope: accounts.ScopeRun})) // an admin without the scope
	ctx, password, admin := t.Context(), "a-good-password", accounts.RoleAdmin
	for who, p := range map[string]auth.Principal{"alice": alice, "weak": weak, "configured": configured} {
		for what, try := range map[string]func(name string) error{
			"get": func(name string) error { _, err := s.GetUser(ctx, p, name); return err },
			"update": func(name string) error {
				_, err := s.UpdateUser(ctx, p, name, accounts.UserUpdate{Password: &password})
				return err
			},
			"promote": func(name string) error {
				_, err := s.UpdateUser(ctx, p, name, accounts.UserUpdate{Role: &admin})
				return err
			},
			"delete": func(name string) error { return s.remove(ctx, p, name) },
			"keys":   func(name string) error { _, err := s.Keys(ctx, p, name); return err },
			"key":    func(name string) error { _, err := s.CreateKey(ctx, p, accounts.KeyRequest{User: name}); return err },
		} {
			theirs, nobodys := try("bob"), try("nobody")
			wantCode(t, who+": "+what, theirs, errdefs.NotFound)
			if theirs == nil || nobodys == nil || strings.ReplaceAll(theirs.Error(), "bob", "nobody") != nobodys.Error() {
				t.Errorf("%s: %s: %v, and of nobody %v", who, what, theirs, nobodys)
			}
		}
		wantCode(t, who, s.RevokeKey(ctx, p, bobs.ID), errdefs.NotFound)
		_, err := s.CreateUser(ctx, p, accounts.UserRequest{Name: "dave"})
		wantCode(t, who+" makes a user", err, errdefs.PermissionDenied)
		users, err := s.Users(ctx, p)
		if err != nil || len(users) > 1 || len(users) == 1 && users[0].Name != p.Owner {
			t.Errorf("%s sees %+v, %v", who, users, err)
		}
		keys, err := s.Keys(ctx, p, "")
		if err != nil || slices.Contains(keyIDs(keys), bobs.ID) {
			t.Errorf("%s sees keys %+v, %v", who, keys, err)
		}
	}
	s.as(bobs)
	if u, err := s.GetUser(ctx, operator, "bob"); err != nil || u.PasswordHash != "" || u.Role != accounts.RoleUser {
		t.Errorf("bob is %+v, %v", u, err)
	}
}

func TestWhatUsersChangeThemselves(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	s.user("root", accounts.RoleAdmin)
	top := s.as(s.key(operator, accounts.KeyRequest{User: "alice"}))
	child := s.as(s.key(top, accounts.KeyRequest{}))
	root := s.as(s.key(operator, accounts.KeyRequest{User: "root", Scope: accounts.ScopeAdmin}))
	email, password, role, off := "alice@example.org", "a-good-password", accounts.RoleAdmin, accounts.Disabled
	update := func(p auth.Principal, name string, req accounts.UserUpdate) error {
		_, err := s.UpdateUser(t.Context(), p, name, req)
		return err
	}
	if err := update(top, "alice", accounts.UserUpdate{Email: &email, Password: &password}); err != nil {
		t.Error(err)
	}
	wantCode(t, "a child changes the password", update(child, "alice", accounts.UserUpdate{Password: &password}), errdefs.PermissionDenied)
	wantCode(t, "alice promotes herself", update(top, "alice", accounts.UserUpdate{Role: &role}), errdefs.PermissionDenied)
	wantCode(t, "root disables itself", update(root, "root", accounts.UserUpdate{State: &off}), errdefs.Conflict)
	wantCode(t, "root deletes itself", s.remove(t.Context(), root, "root"), errdefs.Conflict)
	wantCode(t, "alice deletes herself", s.remove(t.Context(), top, "alice"), errdefs.PermissionDenied)
	if err := update(root, "alice", accounts.UserUpdate{Role: &role}); err != nil {
		t.Error(err)
	}
	if u, err := s.GetUser(t.Context(), root, "alice"); err != nil || u.Email != email || u.Role != role || u.PasswordHash == "" {
		t.Errorf("alice is %+v, %v", u, err)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	for field, req := range map[string]accounts.UserRequest{
		"name":     {Name: "Alice"},
		"email":    {Name: "x", Email: "Alice <a@example.org>"},
		"role":     {Name: "x", Role: "king"},
		"password": {Name: "x", Password: "short"},
	} {
		_, err := s.CreateUser(t.Context(), operator, req)
		wantField(t, err, errdefs.InvalidArgument, field)
	}
	for _, name := range []string{"alice", "admin", "carol"} {
		_, err := s.CreateUser(t.Context(), operator, accounts.UserRequest{Name: name})
		wantField(t, err, errdefs.AlreadyExists, "name")
	}
	for field, req := range map[string]accounts.KeyRequest{
		"user":        {},
		"name":        {User: "alice", Name: "a\nb"},
		"scope":       {User: "alice", Scope: accounts.ScopeAdmin},
		"ttl_seconds": {User: "alice", Life: -1},
	} {
		_, err := s.CreateKey(t.Context(), operator, req)
		wantField(t, err, errdefs.InvalidArgument, field)
	}
	deleting := accounts.Deleting
	_, err := s.UpdateUser(t.Context(), operator, "alice", accounts.UserUpdate{State: &deleting})
	wantField(t, err, errdefs.InvalidArgument, "state")
}

// Passwords that come at once wait in a queue that has an end, and leave it when nobody waits for
// them any more. Those beyond its end are told to come again, and count for no wrong guess.
func TestQueueOfPasswordsHasAnEnd(t *testing.T) {
	s := start(t) // not parallel: the queue is of the process
	s.user("alice", "")
	const clients, queue = 200, 64
	ctx, leave := context.WithCancel(t.Context())
	answers := make(chan error, clients)
	for range clients {
		go func() {
			_, err := s.VerifyPassword(ctx, "alice", "a-wrong-password")
			answers <- err
		}()
	}
	codes := map[errdefs.Code]int{}
	for n := range clients {
		if n == clients-queue { // all that can be refused have been, if no password was computed meanwhile
			leave()
		}
		err := <-answers
		switch {
		case errors.Is(err, context.Canceled):
			codes["left"]++
		default:
			codes[errdefs.CodeOf(err)]++
		}
	}
	leave()
	if codes[errdefs.ResourceExhausted] == 0 || codes["left"] > queue || codes[errdefs.ResourceExhausted]+codes["left"]+codes[errdefs.Unauthenticated] != clients {
		t.Errorf("answers: %v", codes)
	}
	if _, err := s.VerifyPassword(t.Context(), "alice", "a-wrong-password"); !errdefs.Is(err, errdefs.Unauthenticated) {
		t.Errorf("the queue does not empty: %v", err)
	}
}

// An e-mail address is of one user: who takes that of another would sign in as nobody, and keep
// the other from signing in.
func TestAnEmailIsOfOneUser(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx := t.Context()
	for _, name := range []string{"alice", "bob"} {
		if _, err := s.CreateUser(ctx, operator, accounts.UserRequest{Name: name, Email: name + "@example.org"}); err != nil {
			t.Fatal(err)
		}
	}
	bob := s.as(s.key(operator, accounts.KeyRequest{User: "bob"}))
	for _, email := range []string{"alice@example.org", "Alice@Example.ORG"} {
		for who, p := range map[string]auth.Principal{"bob": bob, "an admin": operator} {
			_, err := s.UpdateUser(ctx, p, "bob", accounts.UserUpdate{Email: &email})
			wantField(t, err, errdefs.AlreadyExists, "email")
			if u, ok := s.Known("alice@example.org"); !ok || u.Name != "alice" {
				t.Fatalf("%s: the address is that of %+v", who, u)
			}
		}
		_, err := s.CreateUser(ctx, operator, accounts.UserRequest{Name: "carlos", Email: email})
		wantField(t, err, errdefs.AlreadyExists, "email")
	}
	for _, email := range []string{"Bob@example.org", "bob@example.com", ""} {
		if u, err := s.UpdateUser(ctx, bob, "bob", accounts.UserUpdate{Email: &email}); err != nil || u.Email != email {
			t.Errorf("an address that is free: %+v, %v", u, err)
		}
	}
	for _, name := range []string{"none", "either"} {
		if _, err := s.CreateUser(ctx, operator, accounts.UserRequest{Name: name}); err != nil {
			t.Errorf("without an address: %v", err)
		}
	}
}

// Where a verified address is enough to sign in as the user who has it, nobody gives themselves
// one that nobody has verified.
func TestEmailsThatOpenAreGiven(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{true, false} {
		s := start(t, func(o *accounts.Options) { o.EmailsOpen = open })
		ctx, email := t.Context(), "victim@example.org"
		s.user("eve", "")
		eve := s.as(s.key(operator, accounts.KeyRequest{User: "eve"}))
		_, updated := s.UpdateUser(ctx, eve, "eve", accounts.UserUpdate{Email: &email})
		_, made := s.CreateUser(ctx, auth.System("registration"), accounts.UserRequest{Name: "mallory", Email: "other@example.org", SelfMade: true})
		if !open {
			if updated != nil || made != nil {
				t.Errorf("where addresses open nothing: %v, %v", updated, made)
			}
			continue
		}
		wantField(t, updated, errdefs.PermissionDenied, "email")
		wantField(t, made, errdefs.PermissionDenied, "email")
		if u, ok := s.Known(email); ok {
			t.Errorf("the address is that of %+v", u)
		}
		none := ""
		if _, err := s.UpdateUser(ctx, eve, "eve", accounts.UserUpdate{Email: &none}); err != nil {
			t.Errorf("no address: %v", err)
		}
		if _, err := s.UpdateUser(ctx, operator, "eve", accounts.UserUpdate{Email: &email}); err != nil {
			t.Errorf("an admin: %v", err)
		}
		if _, err := s.CreateUser(ctx, auth.System("oidc"), accounts.UserRequest{Name: "wanda", Email: "wanda@example.org", SelfMade: true, Verified: true}); err != nil {
			t.Errorf("a verified address: %v", err)
		}
	}
}

// Who makes a user for themselves gets no name that others take for the operator's.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, name := range []string{"admin", "administrator", "root", "system", "sandkasten", "support"} {
		_, err := s.CreateUser(t.Context(), auth.System("registration"), accounts.UserRequest{Name: name, SelfMade: true})
		wantField(t, err, errdefs.AlreadyExists, "name")
	}
	if _, err := s.CreateUser(t.Context(), auth.System("registration"), accounts.UserRequest{Name: "rooty", SelfMade: true}); err != nil {
		t.Error(err)
	}
	if _, err := s.CreateUser(t.Context(), operator, accounts.UserRequest{Name: "root"}); err != nil {
		t.Errorf("an admin: %v", err)
	}
}

func wantField(t *testing.T, err error, code errdefs.Code, field string) {
	t.Helper()
	if e, ok := errors.AsType[*errdefs.Error](err); !ok || e.Code != code || e.Field != field {
		t.Errorf("%v, want %s of %s", err, code, field)
	}
}

func TestRequestEndsWithItsKey(t *testing.T) {
	t.Parallel()
	disabled, admin := accounts.Disabled, accounts.RoleAdmin
	for name, end := range map[string]func(s *service, k accounts.NewKey) error{
		"revoked": func(s *service, k accounts.NewKey) error { return s.RevokeKey(t.Context(), operator, k.ID) },
		"disabled": func(s *service, _ accounts.NewKey) error {
			_, err := s.UpdateUser(t.Context(), operator, "alice", accounts.UserUpdate{State: &disabled})
			return err
		},
		"promoted": func(s *service, _ accounts.NewKey) error {
			_, err := s.UpdateUser(t.Context(), operator, "alice", accounts.UserUpdate{Role: &admin})
			return err
		},
		"deleted": func(s *service, _ accounts.NewKey) error { return s.remove(t.Context(), operator, "alice") },
		"expired": func(*service, accounts.NewKey) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.user("alice", "")
			s.user("bob", "")
			req := accounts.KeyRequest{User: "alice"}
			if name == "expired" {
				req.Life = 3 * time.Second
			}
			k := s.key(operator, req)
			ctx, stop := s.Watch(t.Context(), s.as(k))
			other, stopOther := s.Watch(t.Context(), s.as(s.key(operator, accounts.KeyRequest{User: "bob"})))
			defer stopOther()
			if ctx.Err() != nil {
				t.Fatal("it ended before its key")
			}
			go func() { // as a handler does
				<-ctx.Done()
				stop()
			}()
			if err := end(s, k); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Second):
				t.Error("it goes on")
			}
			if other.Err() != nil {
				t.Error("another key's request has ended")
			}
		})
	}
	s := start(t)
	for _, p := range []auth.Principal{operator, configured, auth.Anonymous()} {
		if ctx, stop := s.Watch(t.Context(), p); ctx.Err() != nil {
			t.Errorf("%s ends: %v", p.ID, ctx.Err())
		} else {
			stop()
		}
	}
}

// A key that ends between its check and the request's begin opens nothing.
func TestRequestOfEndedKeyDoesNotBegin(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	k := s.key(operator, accounts.KeyRequest{User: "alice"})
	p := s.as(k)
	if err := s.RevokeKey(t.Context(), operator, k.ID); err != nil {
		t.Fatal(err)
	}
	ctx, stop := s.Watch(t.Context(), p)
	defer stop()
	if ctx.Err() == nil {
		t.Error("it begins")
	}
	for what, err := range map[string]error{
		"make a key": func() error { _, err := s.CreateKey(t.Context(), p, accounts.KeyRequest{}); return err }(),
		"list users": func() error { _, err := s.Users(t.Context(), p); return err }(),
		"me":         func() error { _, err := s.Me(t.Context(), p); return err }(),
	} {
		wantCode(t, what, err, errdefs.Unauthenticated)
	}
}

func TestDeletionIsResumed(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	k := s.key(operator, accounts.KeyRequest{User: "alice"})
	s.fail = errors.New("the driver is away")
	wantCode(t, "delete", s.remove(t.Context(), operator, "alice"), errdefs.Unavailable)
	s.wantRefused(k)
	if u, err := s.GetUser(t.Context(), operator, "alice"); err != nil || u.State != accounts.Deleting {
		t.Errorf("alice is %+v, %v", u, err)
	}
	_, err := s.CreateUser(t.Context(), operator, accounts.UserRequest{Name: "alice"})
	wantCode(t, "the name is free already", err, errdefs.Unavailable)
	_, err = s.CreateKey(t.Context(), operator, accounts.KeyRequest{User: "alice"})
	wantCode(t, "a key of one who is being deleted", err, errdefs.Unavailable)
	active := accounts.Active
	_, err = s.UpdateUser(t.Context(), operator, "alice", accounts.UserUpdate{State: &active})
	wantCode(t, "undone", err, errdefs.Unavailable)

	later := s.restarted()
	later.wantRefused(k)
	ctx, cancel := context.WithCancel(t.Context())
	ready, ran := make(chan struct{}), make(chan error, 1)
	go func() { ran <- later.Run(ctx, ready) }()
	close(ready)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := later.GetUser(t.Context(), operator, "alice"); errdefs.Is(err, errdefs.NotFound) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a later daemon does not finish it")
		}
	}
	cancel()
	if err := <-ran; err != nil || !cmp.Equal(later.removed, []string{"alice"}) {
		t.Errorf("removed what %v owned, %v", later.removed, err)
	}
	later.wantRefused(k)
	later.user("alice", "") // somebody new
	if keys, err := later.restarted().Keys(t.Context(), operator, "alice"); err != nil || len(keys) != 0 {
		t.Errorf("has keys %+v, %v", keys, err)
	}
}

// A deletion that takes long is answered, and goes on. It keeps up nobody else's.
func TestDeletionsGoOnBehindTheirAnswers(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.gate = make(chan struct{})
	for _, name := range []string{"alice", "bob"} {
		s.user(name, "")
		if done, err := s.DeleteUser(t.Context(), operator, name); err != nil || done {
			t.Errorf("%s: %v, %v", name, done, err)
		}
		if u, err := s.GetUser(t.Context(), operator, name); err != nil || u.State != accounts.Deleting {
			t.Errorf("%s is %+v, %v", name, u, err)
		}
	}
	again := make(chan error, 1)
	go func() { again <- s.remove(t.Context(), operator, "alice") }()
	close(s.gate)
	if err := <-again; err != nil && !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("alice again: %v", err)
	}
	testenv.Eventually(t, "both are gone", func() bool {
		left, err := s.Users(t.Context(), operator)
		return err == nil && len(left) == 0
	})
	if !slices.Equal(slices.Sorted(slices.Values(s.removed)), []string{"alice", "bob"}) {
		t.Errorf("removed what %v owned", s.removed)
	}
}

// A daemon that stops waits for no deletion: the next one finishes it.
func TestStoppingInterruptsDeletions(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.gate = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx, nil) }()
	s.user("alice", "")
	if err := s.remove(t.Context(), operator, "alice"); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	wantCode(t, "delete", s.remove(t.Context(), operator, "alice"), errdefs.Unavailable)
	if u, err := s.restarted().GetUser(t.Context(), operator, "alice"); err != nil || u.State != accounts.Deleting {
		t.Errorf("to the next daemon alice is %+v, %v", u, err)
	}
}

func TestLastUseIsWrittenInTheEnd(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	k := s.key(operator, accounts.KeyRequest{User: "alice"})
	unused := s.key(operator, accounts.KeyRequest{User: "alice"})
	s.as(k)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx, nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*service{s, s.restarted()} {
		keys, err := s.Keys(t.Context(), operator, "alice")
		if err != nil || len(keys) != 2 {
			t.Fatalf("%+v, %v", keys, err)
		}
		for _, got := range keys {
			if used := !got.LastUsed.IsZero(); used != (got.ID == k.ID) || got.ID == unused.ID && used {
				t.Errorf("%s was used at %v", got.ID, got.LastUsed)
			}
		}
	}
}

func TestEndedKeysMakeRoom(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	first := s.key(operator, accounts.KeyRequest{User: "alice"})
	for range accounts.MaxKeys - 1 {
		s.key(operator, accounts.KeyRequest{User: "alice"})
	}
	_, err := s.CreateKey(t.Context(), operator, accounts.KeyRequest{User: "alice"})
	wantCode(t, "one more", err, errdefs.ResourceExhausted)
	if err := s.RevokeKey(t.Context(), operator, first.ID); err != nil {
		t.Fatal(err)
	}
	s.key(operator, accounts.KeyRequest{User: "alice"})
	for _, s := range []*service{s, s.restarted()} {
		if keys, err := s.Keys(t.Context(), operator, ""); err != nil || len(keys) != accounts.MaxKeys || slices.Contains(keyIDs(keys), first.ID) {
			t.Errorf("%d keys, %v", len(keys), err)
		}
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	s := start(t)
	const password = "correct horse battery"
	made, err := s.CreateUser(t.Context(), operator, accounts.UserRequest{Name: "alice", Password: password})
	if err != nil || !strings.HasPrefix(made.PasswordHash, "$argon2id$v=19$m=19456,t=2,p=1$") || strings.Contains(made.PasswordHash, password) {
		t.Fatalf("made %+v, %v", made, err)
	}
	s.user("bob", "")
	verify := func(name, password string) error {
		_, err := s.VerifyPassword(t.Context(), name, password)
		return err
	}
	if err := verify("alice", password); err != nil {
		t.Error(err)
	}
	wrong := verify("nobody", password)
	for _, tt := range [][2]string{{"alice", "wrong"}, {"alice", ""}, {"bob", ""}, {"bob", password}, {"alice", strings.Repeat("x", 5000)}} {
		err := verify(tt[0], tt[1])
		wantCode(t, tt[0], err, errdefs.Unauthenticated)
		if err == nil || err.Error() != wrong.Error() {
			t.Errorf("%v tells more than %v", err, wrong)
		}
	}
	none := ""
	if _, err := s.UpdateUser(t.Context(), operator, "alice", accounts.UserUpdate{Password: &none}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "of no password", verify("alice", password), errdefs.Unauthenticated)
}

func TestMe(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	k := s.key(operator, accounts.KeyRequest{User: "alice", Name: "laptop"})
	me, err := s.Me(t.Context(), s.as(k))
	if err != nil || me.Owner != "alice" || me.Admin || me.User == nil || me.Key == nil || me.Key.Name != "laptop" {
		t.Errorf("alice is %+v, %v", me, err)
	}
	if me, err := s.Me(t.Context(), operator); err != nil || me.Owner != auth.Admin || !me.Admin || me.User != nil || me.Key != nil {
		t.Errorf("the operator is %+v, %v", me, err)
	}
	if me, err := s.Me(t.Context(), configured); err != nil || me.Owner != "carol" || me.Admin {
		t.Errorf("carol is %+v, %v", me, err)
	}
}

// Everything at once, for the race detector.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.user("alice", "")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				k, err := s.CreateKey(t.Context(), operator, accounts.KeyRequest{User: "alice"})
				if err != nil {
					t.Error(err)
					return
				}
				p, err := s.Authenticate(t.Context(), k.Text)
				if err != nil {
					t.Error(err)
				}
				ctx, stop := s.Watch(t.Context(), p)
				if _, err := s.Keys(t.Context(), p, ""); err != nil {
					t.Error(err)
				}
				if err := s.RevokeKey(t.Context(), p, k.ID); err != nil || ctx.Err() == nil {
					t.Error(err, ctx.Err())
				}
				stop()
			}
		})
	}
	all.Wait()
}

func BenchmarkAuthenticate(b *testing.B) {
	rows, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "db"))
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	a, err := accounts.New(b.Context(), accounts.Options{Store: rows})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := a.CreateUser(b.Context(), operator, accounts.UserRequest{Name: "alice"}); err != nil {
		b.Fatal(err)
	}
	var k accounts.NewKey
	for range 500 {
		if k, err = a.CreateKey(b.Context(), operator, accounts.KeyRequest{User: "alice"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for b.Loop() {
		if _, err := a.Authenticate(b.Context(), k.Text); err != nil {
			b.Fatal(err)
		}
	}
}
