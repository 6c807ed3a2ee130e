package store_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/store"
)

func orchestrated(id, owner string, created int) orchestrator.Session {
	at := time.Date(2026, 11, 25, 12, 0, created, 123456000, time.UTC)
	return orchestrator.Session{
		ID: id, Owner: owner, Core: "f5q2bz7lq4m3k5n6p7r2s3t4u5", Mode: "docker", Image: "base", CPU: "1", Memory: "2Gi", EphemeralStorage: "1Gi",
		IdleTimeout: time.Minute, MaxLifetime: time.Hour, Metadata: map[string]any{"task": "42"}, ArtifactBaseURL: "https://cdn.example.org",
		Status: orchestrator.Ready, TerminatedReason: orchestrator.ReasonIdle, Error: "none", RestoreSnapshot: "r", LatestSnapshot: "l", BadSnapshots: []string{"b"},
		CPUSeconds: 1.5, StorageBytes: 4096, LastActivity: at, LastHeartbeat: at, ExpiresAt: at.Add(time.Hour), CreatedAt: at, UpdatedAt: at,
	}
}

func TestOrchestratedSessionsOutliveTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	open := func() *store.Store {
		s, err := store.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	mine, second, foreign := orchestrated("a", "alice", 1), orchestrated("b", "alice", 2), orchestrated("c", "bob", 3)
	mine.Suspect, mine.SuspectAt = "l", mine.CreatedAt.Add(time.Second)
	second.Status, second.Core, second.Metadata, second.BadSnapshots = orchestrator.Terminated, "", nil, nil
	foreign.Core = "another"
	for _, x := range []orchestrator.Session{mine, second, foreign} {
		if err := s.PutOrchestrated(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for ref, want := range map[string]orchestrator.Session{"a": mine, string(mine.Core): mine, "b": second} {
		got, err := s.GetOrchestrated(t.Context(), ref)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", ref, err, diff)
		}
	}
	for _, ref := range []string{"", "d"} {
		if _, err := s.GetOrchestrated(t.Context(), ref); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("%q: %v", ref, err)
		}
	}
	alice := "alice"
	owned, err := s.OrchestratedOf(t.Context(), &alice)
	if diff := cmp.Diff([]orchestrator.Session{second, mine}, owned); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if all, err := s.OrchestratedOf(t.Context(), nil); len(all) != 3 || err != nil {
		t.Errorf("%d, %v", len(all), err)
	}
	if live, err := s.LiveOrchestrated(t.Context()); len(live) != 2 || err != nil {
		t.Errorf("%d, %v", len(live), err)
	}
}

// What a version wrote that knows no suspects ends what was noted of one.
func TestSuspectsAreOfOneStateOfARow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	x := orchestrated("a", "alice", 1)
	x.Suspect, x.SuspectAt = "l", x.CreatedAt
	if err := s.PutOrchestrated(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"status = 'terminated'", "session_id = 'b'", "latest_snapshot_id = 'm'"} {
		if err := store.Exec(t.Context(), s, "UPDATE orchestrator_sessions SET "+change); err != nil {
			t.Fatal(err)
		}
		if got, err := s.GetOrchestrated(t.Context(), "a"); err != nil || got.Suspect != "" || !got.SuspectAt.IsZero() {
			t.Errorf("after %s: %+v, %v", change, got, err)
		}
		if err := s.PutOrchestrated(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		if got, err := s.GetOrchestrated(t.Context(), "a"); err != nil || got.Suspect != "l" {
			t.Errorf("written again: %+v, %v", got, err)
		}
	}
}

// Use that was noted is not undone by a row that does not know of it, nor by use of
// before.
func TestUseOfOrchestratedSessionsOnlyGrows(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	x := orchestrated("a", "alice", 1)
	if err := s.PutOrchestrated(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	later := x.LastHeartbeat.Add(time.Minute)
	seen := []orchestrator.Seen{{ID: "a", Heartbeat: later}, {ID: "unknown", Heartbeat: later}, {ID: "a", Activity: x.LastActivity.Add(-time.Minute)}}
	if err := s.SeeOrchestrated(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if err := s.PutOrchestrated(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	got, err := s.GetOrchestrated(t.Context(), "a")
	if err != nil || !got.LastHeartbeat.Equal(later) || !got.LastActivity.Equal(x.LastActivity) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A session is empty if nothing at all is kept of it.
func TestEmptyOrchestratedSessions(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ended := func(id, owner string, change func(*orchestrator.Session)) {
		x := orchestrated(id, owner, 1)
		x.Status, x.Core = orchestrator.Terminated, session.ID("of-"+id)
		change(&x)
		if err := s.PutOrchestrated(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	same := func(*orchestrator.Session) {}
	now := orchestrated("", "", 1).UpdatedAt
	ended("empty", "alice", same)
	ended("failed", "alice", func(x *orchestrator.Session) { x.Status = orchestrator.Failed })
	ended("ready", "alice", func(x *orchestrator.Session) { x.Status = orchestrator.Ready })
	ended("young", "alice", func(x *orchestrator.Session) { x.UpdatedAt = now.Add(time.Hour) })
	ended("unsaved", "alice", func(x *orchestrator.Session) { x.UnsavedSince = now })
	ended("saved", "alice", same)
	ended("exported", "alice", same)
	ended("anothers", "alice", same)
	for name, owner := range map[string]string{"saved": "alice", "anothers": "bob"} {
		if err := s.AddSnapshot(t.Context(), snapshots.Snapshot{ID: "s-" + name, Owner: owner, Name: name, State: snapshots.Creating, CreatedAt: now}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddArtifact(t.Context(), artifacts.Artifact{ID: "a", Owner: "alice", SessionID: "exported", State: artifacts.Creating, CreatedAt: now}, 0, 0); err != nil {
		t.Fatal(err)
	}
	got, err := s.EmptyOrchestrated(t.Context(), now.Add(time.Minute))
	slices.Sort(got)
	if diff := cmp.Diff([]string{"anothers", "empty", "failed"}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
