package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/clock"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/scope"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// Times follow a clock that was set, and only in the same boot; none comes to lie in
// the future.
func TestAlign(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	first := time.Now().Add(-10 * time.Minute).UTC().Truncate(time.Microsecond)
	alive, ended := running("alive"), running("ended")
	alive.CreatedAt, alive.LastActivity = first, first.Add(9*time.Minute)
	ended.CreatedAt, ended.LastActivity, ended.EndedAt = first, first, first.Add(time.Minute)
	put(t, s, alive, ended)
	w := workspaces.Workspace{Owner: "alice", ID: "w", Volume: "v", State: "ready", CreatedAt: first, LastUsed: first}
	if err := s.AddWorkspace(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	stored := secrets.Row{Secret: secrets.Secret{Owner: "alice", Name: "s", CreatedAt: first, UpdatedAt: first}, Sealed: []byte{1}}
	if err := s.PutSecret(t.Context(), stored, 10); err != nil {
		t.Fatal(err)
	}
	row := orchestrator.Session{ID: "o", Owner: "alice", CreatedAt: first, UpdatedAt: first, LastActivity: first, ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)}
	if err := s.PutOrchestrated(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if err := s.AddArtifact(t.Context(), artifacts.Artifact{ID: "a", Owner: "alice", State: artifacts.Creating, CreatedAt: first}, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.ReadyArtifact(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	completion := scope.Completion{Owner: "alice", Scope: "workflow:run-1", Due: row.ExpiresAt}
	if err := s.PutCompletion(t.Context(), completion, 1); err != nil {
		t.Fatal(err)
	}
	align := func(boot string, offset, want time.Duration) {
		t.Helper()
		if got, err := s.Align(t.Context(), clock.Reading{Boot: boot, Offset: offset}); err != nil || got != want {
			t.Fatalf("%v, %v; want %v", got, err, want)
		}
	}
	check := func(by time.Duration) {
		t.Helper()
		a, e := get(t, s, "alive"), get(t, s, "ended")
		w, err := s.GetWorkspace(t.Context(), "alice", "w")
		if err != nil {
			t.Fatal(err)
		}
		secret, secretErr := s.GetSecret(t.Context(), "alice", "s")
		if secretErr != nil {
			t.Fatal(secretErr)
		}
		o, err := s.GetOrchestrated(t.Context(), "o")
		if err != nil || !o.LastHeartbeat.IsZero() {
			t.Fatal(o, err)
		}
		artifact, err := s.GetArtifact(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		completions, err := s.Completions(t.Context())
		if err != nil || len(completions) != 1 {
			t.Fatal(completions, err)
		}
		for name, p := range map[string][2]time.Time{
			"scope due": {completions[0].Due, completion.Due},
			"row made":  {o.CreatedAt, first}, "row changed": {o.UpdatedAt, first}, "row used": {o.LastActivity, first}, "row expires": {o.ExpiresAt, row.ExpiresAt},
			"artifact": {artifact.CreatedAt, first},
			"created":  {a.CreatedAt, alive.CreatedAt}, "active": {a.LastActivity, alive.LastActivity}, "ended": {e.EndedAt, ended.EndedAt},
			"workspace": {w.LastUsed, first}, "made": {w.CreatedAt, first},
			"secret": {secret.CreatedAt, first}, "set": {secret.UpdatedAt, first},
		} {
			if got := p[0].Sub(p[1]); got != by {
				t.Errorf("%s is off by %v, want %v", name, got, by)
			}
		}
		if !a.EndedAt.IsZero() {
			t.Errorf("a session that lives has ended at %v", a.EndedAt)
		}
	}
	align("one", time.Hour, 0) // of a database of before
	check(0)
	align("one", time.Hour+leastJump-1, 0)
	align("one", time.Hour-2*time.Minute, -2*time.Minute)
	check(-2 * time.Minute)
	align("one", time.Hour-2*time.Minute, 0)
	align("two", 30*time.Hour, 0) // the host has restarted
	check(-2 * time.Minute)
	align("two", 30*time.Hour+2*time.Minute, 2*time.Minute)
	check(0)
	align("two", 60*time.Hour, 30*time.Hour-2*time.Minute)
	if a := get(t, s, "alive"); a.LastActivity.After(time.Now()) || a.CreatedAt.After(time.Now()) {
		t.Errorf("it was used at %v", a.LastActivity)
	}
}

const leastJump = time.Second
