package secrets_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/seal"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
)

// kept is what outlives a service: the directory of a database and its key.
type kept struct{ dir string }

func newKept(t *testing.T) kept {
	t.Helper()
	return kept{filepath.Dir(storetest.NewDB(t))}
}

func (k kept) db() string { return filepath.Join(k.dir, "db") }

// open returns a service over the database, and its store.
func (k kept) open(t *testing.T) (service, *store.Store) {
	t.Helper()
	rows, err := store.Open(t.Context(), k.db())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	})
	key, err := seal.Open(filepath.Join(k.dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	return newService(secrets.Options{Store: rows, Key: key}), rows
}

// service is what clients and the core have.
type service struct {
	*secrets.Secrets
	keeper *secrets.Keeper
}

func newService(o secrets.Options) service {
	keeper := secrets.New(o)
	return service{keeper.Service(), keeper}
}

func as(owner string) auth.Principal { return auth.Principal{Owner: owner} }

var operator = as(auth.Admin)

func request(name, value string) secrets.Request {
	return secrets.Request{Secret: network.Secret{Name: name, Hosts: []string{"api.example.org", "*.example.com"}, Header: "Authorization", Value: value}}
}

func shared(r secrets.Request) secrets.Request {
	r.Shared = true
	return r
}

func set(t *testing.T, s service, p auth.Principal, r secrets.Request) secrets.Secret {
	t.Helper()
	made, err := s.Set(t.Context(), p, r)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// wantValue checks what a session of an owner gets by a name; "" is nothing.
func wantValue(t *testing.T, s service, owner, name, want string) {
	t.Helper()
	got, err := s.keeper.Reveal(t.Context(), owner, name)
	if want == "" && !errdefs.Is(err, errdefs.NotFound) || want != "" && err != nil || got.Value != want {
		t.Errorf("%s gets %q, %v by the name %s, want %q", owner, got.Value, err, name, want)
	}
}

func TestSecretIsStored(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	s, _ := k.open(t)
	made := set(t, s, as("alice"), request("github", "Bearer of-great-worth"))
	want := secrets.Secret{Owner: "alice", Name: "github", Hosts: []string{"api.example.org", "*.example.com"}, Header: "Authorization"}
	times := cmpopts.IgnoreFields(secrets.Secret{}, "CreatedAt", "UpdatedAt")
	if diff := cmp.Diff(want, made, times); diff != "" || made.CreatedAt.IsZero() || made.UpdatedAt != made.CreatedAt {
		t.Errorf("made %+v: %s", made, diff)
	}

	later, _ := k.open(t) // after a restart
	got, err := later.keeper.Reveal(t.Context(), "alice", "github")
	if diff := cmp.Diff(request("github", "Bearer of-great-worth").Secret, got); diff != "" || err != nil {
		t.Errorf("revealed %v: %s", err, diff)
	}

	second := request("github", "another-of-worth")
	second.Header, second.Query, second.Hosts = "", "key", []string{"example.net"}
	changed := set(t, s, as("alice"), second)
	if changed.CreatedAt != made.CreatedAt || changed.UpdatedAt.Before(made.UpdatedAt) || changed.Query != "key" || changed.Header != "" {
		t.Errorf("changed to %+v", changed)
	}
	wantValue(t, s, "alice", "github", "another-of-worth")

	if err := s.Delete(t.Context(), as("alice"), "github"); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "alice", "github", "")
	if err := s.Delete(t.Context(), as("alice"), "github"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestSecretsOfOwners(t *testing.T) {
	t.Parallel()
	s, _ := newKept(t).open(t)
	set(t, s, as("alice"), request("b", "alices-value"))
	set(t, s, as("alice"), request("a", "alices-other-value"))
	set(t, s, as("bob"), request("b", "bobs-value"))
	wantValue(t, s, "alice", "b", "alices-value")
	wantValue(t, s, "bob", "b", "bobs-value")
	wantValue(t, s, "bob", "a", "")
	wantValue(t, s, "carol", "b", "")
	everyone := auth.System("test") // sees no more
	for _, p := range []auth.Principal{as("bob"), as("carol"), everyone, operator} {
		if got, err := s.Get(t.Context(), p, "a"); !errdefs.Is(err, errdefs.NotFound) || got.Name != "" {
			t.Errorf("%s gets %+v, %v", p.Owner, got, err)
		}
		if err := s.Delete(t.Context(), p, "a"); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("%s deletes: %v", p.Owner, err)
		}
	}
	for owner, want := range map[string]string{"alice": "a b ", "bob": "b ", "carol": ""} {
		all, err := s.List(t.Context(), as(owner))
		got := ""
		for _, one := range all {
			got += one.Name + " "
		}
		if err != nil || got != want {
			t.Errorf("%s lists %q, %v; want %q", owner, got, err, want)
		}
	}
}

func TestSharedSecretIsForEveryOwner(t *testing.T) {
	t.Parallel()
	s, _ := newKept(t).open(t)
	set(t, s, operator, request("private", "operators-own-value"))
	set(t, s, operator, shared(request("common", "shared-value")))
	wantValue(t, s, "bob", "common", "shared-value")
	wantValue(t, s, "bob", "private", "")

	set(t, s, as("bob"), request("common", "bobs-value"))
	wantValue(t, s, "bob", "common", "bobs-value")
	wantValue(t, s, "alice", "common", "shared-value")

	if _, err := s.Get(t.Context(), as("alice"), "common"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("alice sees the operator's secret: %v", err)
	}
	set(t, s, operator, request("common", "not-shared-any-more"))
	wantValue(t, s, "alice", "common", "")

	// One of a daemon without keys does not take the operator's place.
	set(t, s, auth.Anonymous(), shared(request("common", "anonymous-value")))
	wantValue(t, s, "alice", "common", "anonymous-value")
	set(t, s, operator, shared(request("common", "shared-again")))
	wantValue(t, s, "alice", "common", "shared-again")

	if _, err := s.Set(t.Context(), auth.Principal{Owner: "eve", Scopes: auth.ScopeDaemon}, shared(request("x", "eves-value"))); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("eve shares: %v", err)
	}
	wantValue(t, s, "alice", "x", "")
}

func TestSecretIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := newKept(t).open(t)
	const value = "a-value-of-worth"
	tests := []struct {
		name   string
		change func(*secrets.Request)
		field  string
	}{
		{"no name", func(r *secrets.Request) { r.Name = "" }, "name"},
		{"a name with a slash", func(r *secrets.Request) { r.Name = "a/b" }, "name"},
		{"a name that is no file's", func(r *secrets.Request) { r.Name = ".." }, "name"},
		{"a long name", func(r *secrets.Request) { r.Name = strings.Repeat("x", 65) }, "name"},
		{"no hosts", func(r *secrets.Request) { r.Hosts = nil }, "hosts"},
		{"many hosts", func(r *secrets.Request) { r.Hosts = make([]string, secrets.MaxHosts+1) }, "hosts"},
		{"a long host", func(r *secrets.Request) { r.Hosts = []string{strings.Repeat("x", 300)} }, "hosts"},
		{"a host with a port", func(r *secrets.Request) { r.Hosts = []string{"example.org:443"} }, "hosts"},
		{"an address", func(r *secrets.Request) { r.Hosts = []string{"192.0.2.1"} }, "hosts"},
		{"a top-level domain", func(r *secrets.Request) { r.Hosts = []string{"*.org"} }, "hosts"},
		{"no place", func(r *secrets.Request) { r.Header = "" }, "header"},
		{"two places", func(r *secrets.Request) { r.Query = "key" }, "header"},
		{"no header's name", func(r *secrets.Request) { r.Header = "a b" }, "header"},
		{"the connection's header", func(r *secrets.Request) { r.Header = "host" }, "header"},
		{"a long header", func(r *secrets.Request) { r.Header = strings.Repeat("x", 129) }, "header"},
		{"a parameter with a control character", func(r *secrets.Request) { r.Header, r.Query = "", "a\nb" }, "query"},
		{"no value", func(r *secrets.Request) { r.Value = "" }, "value"},
		{"a short value", func(r *secrets.Request) { r.Value = "1234567" }, "value"},
		{"a value with a newline", func(r *secrets.Request) { r.Value = value + "\r\nX: y" }, "value"},
		{"a long value", func(r *secrets.Request) { r.Value = strings.Repeat("x", network.MaxSecret+1) }, "value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request("github", value)
			tt.change(&r)
			_, err := s.Set(t.Context(), as("alice"), r)
			e, ok := errors.AsType[*errdefs.Error](err)
			if !ok || e.Code != errdefs.InvalidArgument || e.Field != tt.field {
				t.Fatalf("got %v, want a fault of %s", err, tt.field)
			}
			if strings.Contains(err.Error(), value) {
				t.Errorf("the error has the value: %v", err)
			}
		})
	}
	if all, err := s.List(t.Context(), as("alice")); err != nil || len(all) != 0 {
		t.Errorf("afterwards there are %+v, %v", all, err)
	}
}

func TestMostSecrets(t *testing.T) {
	t.Parallel()
	s, rows := newKept(t).open(t)
	for i := range secrets.MaxSecrets {
		row := secrets.Row{Secret: secrets.Secret{Owner: "alice", Name: fmt.Sprint("s", i)}, Sealed: []byte{1}}
		if err := rows.PutSecret(t.Context(), row, secrets.MaxSecrets); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Set(t.Context(), as("alice"), request("one-more", "a-value-of-worth")); !errdefs.Is(err, errdefs.ResourceExhausted) {
		t.Errorf("one more: %v", err)
	}
	set(t, s, as("alice"), request("s0", "in-place-of-another"))
	set(t, s, as("bob"), request("one-more", "bobs-value"))
}

// Whoever can write the database has values sent neither to another host nor in
// another owner's name.
func TestRowDoesNotOpenElsewhere(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, change string }{
		{"another owner", "UPDATE secrets SET owner = 'bob'"},
		{"another name", "UPDATE secrets SET name = 'other'"},
		{"another host", `UPDATE secrets SET hosts = '["evil.example"]'`},
		{"another header", "UPDATE secrets SET header = 'X-Echo'"},
		{"shared", "UPDATE secrets SET shared = 1"},
		{"another value", "UPDATE secrets SET sealed = x'00'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKept(t)
			s, rows := k.open(t)
			set(t, s, as("alice"), request("github", "a-value-of-worth"))
			execute(t, k.db(), tt.change)
			row, err := rows.SecretsOf(t.Context(), "alice")
			if len(row) == 0 {
				row, err = rows.SecretsOf(t.Context(), "bob")
			}
			if err != nil || len(row) != 1 {
				t.Fatalf("rows %+v, %v", row, err)
			}
			got, err := s.keeper.Reveal(t.Context(), row[0].Owner, row[0].Name)
			if !errdefs.Is(err, errdefs.Unprocessable) || got.Value != "" {
				t.Errorf("revealed %q, %v", got.Value, err)
			}
		})
	}
}

func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), statement)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestLostKeyFileIsExplained(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	s, _ := k.open(t)
	set(t, s, as("alice"), request("github", "a-value-of-worth"))
	if err := os.Remove(filepath.Join(k.dir, "key")); err != nil {
		t.Fatal(err)
	}
	later, _ := k.open(t)
	if _, err := later.keeper.Reveal(t.Context(), "alice", "github"); !errdefs.Is(err, errdefs.Unprocessable) || !strings.Contains(errdefs.MessageOf(err), "set it again") {
		t.Errorf("revealed: %v", err)
	}
	set(t, later, as("alice"), request("github", "a-value-of-worth"))
	wantValue(t, later, "alice", "github", "a-value-of-worth")
}

func TestValueIsInNoFile(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	s, _ := k.open(t)
	const value = "a-value-of-worth"
	set(t, s, as("alice"), request("github", value))
	entries, err := os.ReadDir(k.dir)
	if err != nil || len(entries) < 2 {
		t.Fatalf("files %v, %v", entries, err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(k.dir, e.Name()))
		if err != nil || bytes.Contains(text, []byte(value)) {
			t.Errorf("%s has the value, %v", e.Name(), err)
		}
	}
}

func TestWithoutSecrets(t *testing.T) {
	t.Parallel()
	s := newService(secrets.Options{})
	_, setErr := s.Set(t.Context(), as("alice"), request("github", "a-value-of-worth"))
	_, getErr := s.Get(t.Context(), as("alice"), "github")
	_, listErr := s.List(t.Context(), as("alice"))
	_, revealErr := s.keeper.Reveal(t.Context(), "alice", "github")
	for i, err := range []error{setErr, getErr, listErr, revealErr, s.Delete(t.Context(), as("alice"), "github")} {
		if !errdefs.Is(err, errdefs.Unimplemented) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}
