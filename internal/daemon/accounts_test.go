package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts/inspections"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/events/sources"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/scope"
	"github.com/sandkasten/sandkasten/internal/seal"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/usage"
)

type oneImage struct{}

func (oneImage) Resolve(context.Context, string) (string, error) {
	return runtimetest.LocalImage, nil
}

// newManager is a running manager with everything that can be owned.
func newManager(t *testing.T) *session.Manager {
	t.Helper()
	m, _ := newManagerOver(t, nil)
	return m
}

// newManagerOver is newManager with its rows, which tells hub what happens.
func newManagerOver(t *testing.T, hub *events.Hub) (*session.Manager, *store.Store) {
	t.Helper()
	rows, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	})
	blobs, err := blob.NewDir(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewKey(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	m := session.New(session.Options{
		Store: rows, Events: hub, Driver: runtimetest.NewLocal(t), Images: oneImage{}, Defaults: session.Defaults{Image: "base"},
		Workspaces: workspaces.WorkspaceOptions{Store: sources.Workspaces(rows, hub)}, Secrets: secrets.Options{Store: rows, Key: key},
		Snapshots: snapshots.Options{Store: sources.Snapshots(rows, hub), Blobs: blobs, SpoolDir: t.TempDir()},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	for !m.Ready() {
		time.Sleep(time.Millisecond)
	}
	return m, rows
}

// owned makes one of everything for an owner.
func owned(t *testing.T, m *session.Manager, owner string) {
	t.Helper()
	ctx, p := t.Context(), auth.Principal{Owner: owner}
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := m.Sessions.Create(ctx, p, session.CreateRequest{WorkspaceID: "work"})
	fail(err)
	_, err = m.Snapshots.Create(ctx, p, string(s.ID), snapshots.Request{})
	fail(err)
	_, err = m.Sessions.OfWorkspace(ctx, p, "work")
	fail(err)
	_, err = m.Secrets.Set(ctx, p, secrets.Request{Secret: network.Secret{Name: "s", Hosts: []string{"a.example"}, Header: "A", Value: "of-great-worth"}})
	fail(err)
}

// left says what an owner has.
func left(t *testing.T, m *session.Manager, owner string) string {
	t.Helper()
	ctx, p := t.Context(), auth.Principal{Owner: owner, Scopes: auth.ScopeHelpers}
	sessions, err := m.Sessions.List(ctx, p, session.ListRequest{Helpers: true})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := m.Snapshots.List(ctx, p, snapshots.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := m.Workspaces.List(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := m.Secrets.List(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Repeat("session ", len(sessions)) + strings.Repeat("snapshot ", len(kept)) +
		strings.Repeat("workspace ", len(volumes)) + strings.Repeat("secret ", len(stored))
}

func TestRemoveOwned(t *testing.T) {
	m := newManager(t)
	owned(t, m, "alice")
	owned(t, m, "bob")
	bobs := left(t, m, "bob")
	if bobs != "session session snapshot workspace secret " {
		t.Errorf("made %s", bobs)
	}
	if err := removeOwned(t.Context(), m, "alice"); err != nil {
		t.Fatal(err)
	}
	if got := left(t, m, "alice"); got != "" {
		t.Errorf("alice has %s still", got)
	}
	if got := left(t, m, "bob"); got != bobs {
		t.Errorf("bob has %s", got)
	}
	if err := removeOwned(t.Context(), m, "alice"); err != nil {
		t.Errorf("again: %v", err)
	}
}

// A user who is deleted leaves to the next one of that name no ended session, no event of
// before, nor one of the removal, and no complete scope whose time is to come.
func TestRemoveAll(t *testing.T) {
	hub := events.NewHub(events.Options{})
	m, rows := newManagerOver(t, hub)
	d := &Daemon{
		manager: m, events: hub, log: silent, usage: usage.New(usage.Options{Store: rows, Sessions: rows}),
		scopes: scope.New(scope.Options{Store: rows, Sessions: m.Sessions}), looks: inspections.New(rows),
	}
	begin, err := hub.Subscribe(events.Filter{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer begin.Close()
	for _, owner := range []string{"alice", "bob"} {
		owned(t, m, owner)
		if _, _, err := d.scopes.Complete(t.Context(), auth.Principal{Owner: owner}, "user:u", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	ended := map[string]session.Session{}
	for _, owner := range []string{"alice", "bob"} {
		p := auth.Principal{Owner: owner}
		s, err := m.Sessions.Create(t.Context(), p, session.CreateRequest{IdempotencyKey: "once"})
		if err != nil {
			t.Fatal(err)
		}
		ended[owner] = s
		if err := m.Sessions.Destroy(t.Context(), p, s.ID); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := d.removeAll(t.Context(), rows, "alice"); err != nil {
			t.Fatal(err)
		}
	}
	for owner, want := range map[string]bool{"alice": false, "bob": true} {
		p := auth.Principal{Owner: owner}
		list, err := m.Sessions.List(t.Context(), p, session.ListRequest{IncludeEnded: true})
		if err != nil || (len(list) > 0) != want {
			t.Errorf("%s lists %d sessions, %v", owner, len(list), err)
		}
		if _, err := m.Sessions.Get(t.Context(), p, ended[owner].ID); (err == nil) != want {
			t.Errorf("%s gets the ended session: %v", owner, err)
		}
		if _, err := rows.FindKey(t.Context(), owner, "once"); (err == nil) != want {
			t.Errorf("the Idempotency-Key of %s: %v", owner, err)
		}
	}
	all, err := rows.Completions(t.Context())
	if err != nil || len(all) != 1 || all[0].Owner != "bob" {
		t.Errorf("complete are %+v, %v", all, err)
	}
	for owner, want := range map[string]bool{"alice": false, "bob": true} {
		s, err := m.Events.Subscribe(t.Context(), auth.Principal{Owner: owner}, "", events.Request{After: begin.ID()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b, err := s.Next(t.Context(), 10*time.Millisecond)
		if err != nil || b.Gap != nil || (len(b.Events) > 0) != want {
			t.Errorf("%s sees %d events, gap %+v, %v", owner, len(b.Events), b.Gap, err)
		}
	}
}

// A user who is deleted leaves no session of the orchestrator to one of that name, nor
// an artifact: with the orchestrator, and where it is not there any more.
func TestRemoveNamed(t *testing.T) {
	for name, enabled := range map[string]bool{"orchestrator": true, "no orchestrator": false} {
		t.Run(name, func(t *testing.T) {
			m, rows := newManagerOver(t, nil)
			cfg := config.Default(drivers.Names())
			cfg.DataDir, cfg.Orchestrator.Enabled = t.TempDir(), true
			cfg.Snapshots.Dir = filepath.Join(cfg.DataDir, "snapshots")
			if err := os.Mkdir(cfg.SpoolDir(), 0o700); err != nil {
				t.Fatal(err)
			}
			stores, err := openStores(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := openArtifacts(t.Context(), cfg, rows, stores, &auth.Keys{}, silent)
			if err != nil {
				t.Fatal(err)
			}
			named := newOrchestrator(cfg, rows, m, kept, &drivers.Set{}, silent)
			for _, owner := range []string{"alice", "bob"} {
				if err := rows.PutOrchestrated(t.Context(), orchestrator.Session{ID: owner + "-session", Owner: owner, Status: orchestrator.Terminated}); err != nil {
					t.Fatal(err)
				}
				a := artifacts.Artifact{Owner: owner, SessionID: owner + "-session"}
				if _, err := kept.Export(t.Context(), a, owner+"-artifact", 1, strings.NewReader("x")); err != nil {
					t.Fatal(err)
				}
			}
			d := &Daemon{cfg: cfg, manager: m}
			if enabled {
				d.named, d.artifacts = named, kept
			}
			for range 2 {
				if err := d.removeNamed(t.Context(), rows, "alice"); err != nil {
					t.Fatal(err)
				}
			}
			for owner, want := range map[string]int{"alice": 0, "bob": 1} {
				sessions, err := rows.OrchestratedOf(t.Context(), &owner)
				list, err2 := kept.List(t.Context(), owner+"-session")
				if err := errors.Join(err, err2); err != nil || len(sessions) != want || len(list) != want {
					t.Errorf("%s has %d sessions and %d artifacts, %v; want %d", owner, len(sessions), len(list), err, want)
				}
			}
			if err := kept.Round(t.Context()); err != nil {
				t.Fatal(err)
			}
			if files, err := filepath.Glob(filepath.Join(cfg.ArtifactDir(), "[^.]*")); err != nil || len(files) != 1 {
				t.Errorf("%v are left, %v", files, err)
			}
		})
	}
}
