package store_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/store"
)

func workspace(owner, id string) workspaces.Workspace {
	return workspaces.Workspace{
		Owner: owner, ID: id, Volume: runtime.WorkspaceID("volume-" + owner + id), State: workspaces.WorkspaceCreating, SizeMB: 7,
		Labels: map[string]string{"a": `"b"`}, CreatedAt: epoch, LastUsed: epoch.Add(time.Second),
	}
}

func add(t *testing.T, s *store.Store, all ...workspaces.Workspace) {
	t.Helper()
	for _, w := range all {
		if err := s.AddWorkspace(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
}

func wantWorkspace(t *testing.T, s *store.Store, want workspaces.WorkspaceUse) {
	t.Helper()
	got, err := s.GetWorkspace(t.Context(), want.Owner, want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWorkspaceKeepsEveryField(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	first := open(t, path)
	w := workspace("alice", "w")
	add(t, first, w)
	wantWorkspace(t, open(t, path), workspaces.WorkspaceUse{Workspace: w})

	w.State, w.LastUsed = workspaces.WorkspaceReady, epoch.Add(time.Hour)
	if err := first.PutWorkspace(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	older := w
	older.LastUsed = epoch // does not go back
	if err := first.PutWorkspace(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	wantWorkspace(t, first, workspaces.WorkspaceUse{Workspace: w})
}

func TestWorkspacesOfOwners(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	young := workspace("alice", "a")
	young.CreatedAt = epoch.Add(time.Hour)
	add(t, s, young, workspace("bob", "w"), workspace("alice", "w"))
	again := workspace("alice", "w")
	again.Volume = "other"
	if err := s.AddWorkspace(t.Context(), again); !errdefs.Is(err, errdefs.AlreadyExists) {
		t.Errorf("twice: %v", err)
	}
	for owner, want := range map[string]string{"alice": "alice/w alice/a ", "bob": "bob/w ", "carol": "", "": "alice/w bob/w alice/a "} {
		all, err := s.WorkspacesOf(t.Context(), owner)
		if owner == "" {
			all, err = s.AllWorkspaces(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, w := range all {
			got += w.Owner + "/" + w.ID + " "
		}
		if got != want {
			t.Errorf("%q has %q, want %q", owner, got, want)
		}
	}
	if err := s.DeleteWorkspace(t.Context(), workspace("alice", "w")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetWorkspace(t.Context(), "alice", "w"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("after its end: %v", err)
	}
	wantWorkspace(t, s, workspaces.WorkspaceUse{Workspace: workspace("bob", "w")})
}

func TestSessionsOfAWorkspace(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	w := workspace("alice", "w")
	add(t, s, w)
	for i, change := range []func(*session.Session){
		func(*session.Session) {},
		func(x *session.Session) { x.EndedAt = epoch },
		func(x *session.Session) { x.Helper = true },
		func(x *session.Session) { x.Owner = "bob" },
		func(x *session.Session) { x.WorkspaceID = "other" },
		func(x *session.Session) { x.WorkspaceID = "" },
	} {
		x := running(session.ID(rune('a' + i)))
		x.Owner, x.WorkspaceID = "alice", "w"
		change(&x)
		put(t, s, x)
	}
	wantWorkspace(t, s, workspaces.WorkspaceUse{Workspace: w, Sessions: 2})
}

// A database from before there were workspaces is taken along.
func TestDatabaseWithoutWorkspaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile("migrations/00001_sessions.sql")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, fstest.MapFS{"00001_sessions.sql": {Data: first}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `INSERT INTO sessions VALUES ('old', 'box', 'base', 'sha256:1', 'running', '', '', '', '/', 'h',
		1, 2, 3, 4, 'none', 0, '{}', 'alice', '', '', 1, 1, 1, 0, 0)`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if old := get(t, s, "old"); old.Owner != "alice" || old.Helper || old.State != session.Running {
		t.Errorf("%+v", old)
	}
	add(t, s, workspace("alice", "w"))
}
