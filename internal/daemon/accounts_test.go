package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/seal"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/store"
)

type oneImage struct{}

func (oneImage) Resolve(context.Context, string) (string, error) {
	return runtimetest.LocalImage, nil
}

// newManager is a running manager with everything that can be owned.
func newManager(t *testing.T) *session.Manager {
	t.Helper()
	m, _ := newManagerOver(t)
	return m
}

// newManagerOver is newManager with its rows.
func newManagerOver(t *testing.T) (*session.Manager, *store.Store) {
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
	blobs, err := blob.NewDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewKey(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	m := session.New(session.Options{
		Store: rows, Driver: runtimetest.NewLocal(t), Images: oneImage{}, Defaults: session.Defaults{Image: "base"},
		Workspaces: workspaces.WorkspaceOptions{Store: rows}, Secrets: secrets.Options{Store: rows, Key: key},
		Snapshots: snapshots.Options{Store: rows, Blobs: blobs, SpoolDir: t.TempDir()},
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
	_, err = m.Files.OfWorkspace(ctx, p, "work")
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

// A user who is deleted leaves no session of the orchestrator to one of that name, nor
// an artifact: with the orchestrator, and where it is not there any more.
func TestRemoveNamed(t *testing.T) {
	for name, enabled := range map[string]bool{"orchestrator": true, "no orchestrator": false} {
		t.Run(name, func(t *testing.T) {
			m, rows := newManagerOver(t)
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
			kept, err := openArtifacts(t.Context(), cfg, rows, stores, silent)
			if err != nil {
				t.Fatal(err)
			}
			named := newOrchestrator(cfg, rows, m, kept, silent)
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
			if files, err := os.ReadDir(cfg.ArtifactDir()); err != nil || len(files) != 1 {
				t.Errorf("%v are left, %v", files, err)
			}
		})
	}
}
