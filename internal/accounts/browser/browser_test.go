package browser_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
)

// world is a daemon's accounts with a clock of the test's.
type world struct {
	t        *testing.T
	db       *store.Store
	accounts *accounts.Accounts
	signIns  *browser.SignIns
	at       time.Time
}

const password = "correct horse battery"

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := store.Open(context.WithoutCancel(t.Context()), storetest.NewDB(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, db: db, at: time.Now()}
	w.restart()
	_, err = w.accounts.CreateUser(t.Context(), auth.System("test"), accounts.UserRequest{Name: "alice", Email: "alice@example.org", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// restart is another daemon on the same database.
func (w *world) restart() {
	w.t.Helper()
	keys, err := auth.NewKeys(auth.Key{ID: "api_key", Owner: auth.Admin, Hash: auth.HashKey("the-daemons-own-key")})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.accounts, err = accounts.New(w.t.Context(), accounts.Options{Store: w.db, RemoveOwned: func(context.Context, string) error { return nil }}); err != nil {
		w.t.Fatal(err)
	}
	w.signIns, err = browser.New(w.t.Context(), browser.Options{
		Store: w.db, Accounts: w.accounts, Keys: w.accounts.Authenticator(keys), Idle: 12 * time.Hour, Most: 7 * 24 * time.Hour, Now: func() time.Time { return w.at },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.accounts.SetSignIns(w.signIns)
}

// signIn signs alice in and returns her token.
func (w *world) signIn() string {
	w.t.Helper()
	begun, err := w.signIns.Password(w.t.Context(), "alice", password, "192.0.2.1:1")
	if err != nil {
		w.t.Fatal(err)
	}
	return begun.Token
}

func (w *world) wantValid(what, token string, valid bool) {
	w.t.Helper()
	_, _, err := w.signIns.Authenticate(w.t.Context(), token)
	if valid != (err == nil) {
		w.t.Errorf("%s: %v, want it valid: %v", what, err, valid)
	}
	if err != nil && !errdefs.Is(err, errdefs.Unauthenticated) {
		w.t.Errorf("%s: %v", what, err)
	}
}

func (w *world) update(change accounts.UserUpdate) {
	w.t.Helper()
	if _, err := w.accounts.UpdateUser(w.t.Context(), auth.System("test"), "alice", change); err != nil {
		w.t.Fatal(err)
	}
}

func ptr[T any](v T) *T { return &v }

// What a user signs in with is what the user's role may, and survives the daemon.
func TestSignIn(t *testing.T) {
	w := newWorld(t)
	token := w.signIn()
	w.restart()
	p, id, err := w.signIns.Authenticate(t.Context(), token)
	if err != nil || p.Owner != "alice" || id == "" || p.Scopes != 0 || p.ReadOnly {
		t.Errorf("%+v, %q, %v", p, id, err)
	}
	if _, err := w.accounts.Keys(t.Context(), p, ""); err != nil {
		t.Errorf("list keys: %v", err)
	}
	made, err := w.accounts.CreateKey(t.Context(), p, accounts.KeyRequest{})
	if err != nil || made.ParentID != "" || made.Scope != accounts.ScopeRun {
		t.Errorf("a key made in a browser: %+v, %v", made, err)
	}
	if _, err := w.accounts.CreateUser(t.Context(), p, accounts.UserRequest{Name: "mallory"}); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("alice makes a user: %v", err)
	}
	if begun, err := w.signIns.Password(t.Context(), "Alice@Example.org", password, "192.0.2.1:1"); err != nil || begun.Principal.Owner != "alice" {
		t.Errorf("by e-mail address: %+v, %v", begun.Principal, err)
	}
	w.update(accounts.UserUpdate{Role: ptr(accounts.RoleAdmin)})
	if p, _, err = w.signIns.Authenticate(t.Context(), w.signIn()); err != nil || !p.Has(auth.ScopeDaemon|auth.ScopeOversee) || p.Has(auth.ScopeEveryOwner) {
		t.Errorf("an admin: %+v, %v", p, err)
	}
}

func TestSignInsEnd(t *testing.T) {
	for name, end := range map[string]func(w *world, id string){
		"new password":      func(w *world, _ string) { w.update(accounts.UserUpdate{Password: ptr("another good one")}) },
		"no password":       func(w *world, _ string) { w.update(accounts.UserUpdate{Password: ptr("")}) },
		"disabled":          func(w *world, _ string) { w.update(accounts.UserUpdate{State: ptr(accounts.Disabled)}) },
		"new role":          func(w *world, _ string) { w.update(accounts.UserUpdate{Role: ptr(accounts.RoleAdmin)}) },
		"idle":              func(w *world, _ string) { w.at = w.at.Add(12 * time.Hour) },
		"signed out":        func(w *world, id string) { w.signOut(id, false) },
		"signed out of all": func(w *world, id string) { w.signOut(id, true) },
		"deleted": func(w *world, _ string) {
			if _, err := w.accounts.DeleteUser(w.t.Context(), auth.System("test"), "alice"); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			token := w.signIn()
			_, id, err := w.signIns.Authenticate(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := w.signIns.Watch(t.Context(), id)
			defer stop()
			end(w, id)
			w.wantValid("then", token, false)
			if name != "idle" && !errors.Is(context.Cause(ctx), auth.ErrEnded) {
				t.Errorf("what is under way has ended by %v", context.Cause(ctx))
			}
			late, stopLate := w.signIns.Watch(t.Context(), id)
			defer stopLate()
			if name != "idle" && late.Err() == nil {
				t.Error("a request begins with it")
			}
			w.restart()
			w.wantValid("after a restart", token, false)
		})
	}
}

func (w *world) signOut(id string, everywhere bool) {
	w.t.Helper()
	if err := w.signIns.SignOut(w.t.Context(), id, everywhere); err != nil {
		w.t.Fatal(err)
	}
}

func TestSignOutEverywhere(t *testing.T) {
	w := newWorld(t)
	first, second := w.signIn(), w.signIn()
	_, id, _ := w.signIns.Authenticate(t.Context(), first)
	w.signOut(id, false)
	w.wantValid("the other", second, true)
	_, id, _ = w.signIns.Authenticate(t.Context(), second)
	third := w.signIn()
	w.signOut(id, true)
	w.wantValid("the second", second, false)
	w.wantValid("the third", third, false)
}

// A change that ends sign-ins holds for those that a daemon which crashed has left.
func TestSignInOfBeforeIsRefusedAfterACrash(t *testing.T) {
	w := newWorld(t)
	token := w.signIn()
	left, err := w.db.SignIns(t.Context())
	if err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
	w.update(accounts.UserUpdate{Password: ptr("another good one")})
	if err := w.db.PutSignIn(t.Context(), left[0]); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wantValid("after a restart", token, false)
}

func TestSlidingEnd(t *testing.T) {
	w := newWorld(t)
	token := w.signIn()
	for range 14 {
		w.at = w.at.Add(11 * time.Hour)
		w.wantValid("used every 11 hours", token, true)
	}
	for range 2 {
		w.at = w.at.Add(11 * time.Hour)
	}
	w.wantValid("after a week", token, false)
}

func TestOldestSignInEnds(t *testing.T) {
	w := newWorld(t)
	first := w.signIn()
	for range browser.MaxSignIns {
		w.at = w.at.Add(time.Second)
		w.signIn()
	}
	w.wantValid("the first", first, false)
	if all, err := w.db.SignIns(t.Context()); err != nil || len(all) != browser.MaxSignIns {
		t.Errorf("%d are kept, %v", len(all), err)
	}
}

// A key that is exchanged for a cookie opens what it opened, for as long.
func TestExchangedKeys(t *testing.T) {
	w := newWorld(t)
	own, err := w.signIns.Key(t.Context(), "the-daemons-own-key", "192.0.2.1:1")
	if err != nil || !own.Principal.Has(auth.ScopeDaemon) || own.Principal.Owner != auth.Admin {
		t.Errorf("the daemon's own: %+v, %v", own.Principal, err)
	}
	key, err := w.accounts.CreateKey(t.Context(), auth.System("test"), accounts.KeyRequest{User: "alice", Scope: accounts.ScopeRead})
	if err != nil {
		t.Fatal(err)
	}
	begun, err := w.signIns.Key(t.Context(), key.Text, "192.0.2.1:1")
	if err != nil || !begun.Principal.ReadOnly || begun.Principal.Owner != "alice" {
		t.Errorf("a key that reads: %+v, %v", begun.Principal, err)
	}
	w.restart()
	w.wantValid("the daemon's own key's", own.Token, true)
	w.wantValid("a user's key's", begun.Token, true)
	if err := w.accounts.RevokeKey(t.Context(), auth.System("test"), key.ID); err != nil {
		t.Fatal(err)
	}
	w.wantValid("that of a revoked key", begun.Token, false)
	if _, err := w.signIns.Key(t.Context(), key.Text, "192.0.2.1:1"); !errdefs.Is(err, errdefs.Unauthenticated) {
		t.Errorf("the key again: %v", err)
	}
}

func (w *world) try(name, text, remote string) error {
	_, err := w.signIns.Password(w.t.Context(), name, text, remote)
	return err
}

// Guessing has to wait longer and longer, whatever address it comes from and whether
// there is such a user or not, and so does who knows the password meanwhile.
func TestGuessingHasToWait(t *testing.T) {
	for _, name := range []string{"alice", "alice@example.org", "nobody"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i := range 6 {
				err := w.try(name, "wrong password", "192.0.2."+strconv.Itoa(i)+":1")
				if want := errdefs.Unauthenticated; i < 5 && errdefs.CodeOf(err) != want {
					t.Errorf("attempt %d: %v", i, err)
				}
				wait, throttled := errors.AsType[*browser.Throttled](err)
				if i == 5 && (!throttled || wait.Wait != time.Second || !errdefs.Is(err, errdefs.ResourceExhausted)) {
					t.Errorf("attempt %d: %v", i, err)
				}
			}
			if err := w.try(name, password, "192.0.2.9:1"); !errdefs.Is(err, errdefs.ResourceExhausted) {
				t.Errorf("the password: %v", err)
			}
			var longest time.Duration
			for range 20 {
				w.at = w.at.Add(longest + time.Second)
				if err := w.try(name, "wrong password", "198.51.100.7:1"); errdefs.Is(err, errdefs.ResourceExhausted) {
					wait, _ := errors.AsType[*browser.Throttled](err)
					longest = wait.Wait
				}
			}
			if longest < 8*time.Minute || longest > 15*time.Minute {
				t.Errorf("in the end it waits for %s", longest)
			}
		})
	}
}

func TestSuccessForgetsFailures(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		for range 4 {
			if err := w.try("alice", "wrong password", "192.0.2.1:1"); !errdefs.Is(err, errdefs.Unauthenticated) {
				t.Errorf("a failure: %v", err)
			}
		}
		if err := w.try("alice", password, "192.0.2.1:1"); err != nil {
			t.Errorf("the password: %v", err)
		}
	}
}

// One address guesses for one user each, and the whole network of an IPv6 address is
// one.
func TestAddressesHaveToWait(t *testing.T) {
	w := newWorld(t)
	var err error
	for i := range 21 {
		err = w.try("user-"+strconv.Itoa(i), "wrong password", "[2001:db8::"+strconv.Itoa(i)+"]:1")
	}
	if !errdefs.Is(err, errdefs.ResourceExhausted) {
		t.Errorf("the 21st: %v", err)
	}
	if err := w.try("alice", password, "192.0.2.1:1"); err != nil {
		t.Errorf("from another address: %v", err)
	}
	if _, err := w.signIns.Key(t.Context(), "wrong", "[2001:db8::ffff]:1"); !errdefs.Is(err, errdefs.ResourceExhausted) {
		t.Errorf("a key from there: %v", err)
	}
}
