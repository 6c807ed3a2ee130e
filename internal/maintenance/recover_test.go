package maintenance

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/snapshot"
	"github.com/sandkasten/sandkasten/internal/store"
)

const aSession = "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11"

// archive keeps an empty snapshot of a session of the orchestrator, and returns its id.
func archive(t *testing.T, cfg config.Config, id string, at time.Time) {
	t.Helper()
	blobs, err := datadir.OpenBlobs(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := snapshot.Manifest{
		Format: snapshot.Format, ID: id, Owner: "alice", SessionID: strings.Repeat("a", 26), Scope: snapshot.ScopeWorkspace, Image: "python", CreatedAt: at,
		Key:   "snapshots/" + aSession + "/" + orchestrator.SnapshotUUID(id) + ".tar.gz",
		Parts: []snapshot.Part{{Name: snapshot.Workspace, SHA256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}},
	}
	var text bytes.Buffer
	err = snapshot.WriteGzip(&text, m, strings.NewReader(""))
	if err == nil {
		_, err = blobs.Put(t.Context(), m.Key, &text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Sessions of the orchestrator come back from their archives, with their owner and
// their newest snapshot, and what is there stays as it is.
func TestOrchestratedSessionsAreRecovered(t *testing.T) {
	cfg := testConfig(t)
	cfg.Driver, cfg.Snapshots.Enabled, cfg.Orchestrator.Enabled = "native", true, true
	if err := errors.Join(os.Mkdir(cfg.DataDir, 0o700), os.MkdirAll(cfg.Snapshots.Dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	old, latest := strings.Repeat("b", 25)+"a", strings.Repeat("c", 25)+"a"
	at := time.Now().UTC().Truncate(time.Second)
	archive(t, cfg, latest, at)
	archive(t, cfg, old, at.Add(-time.Hour))
	for round, want := range [][]string{{aSession}, nil} {
		r, err := Recover(t.Context(), cfg, "admin")
		if err != nil || !slices.Equal(r.Orchestrated, want) {
			t.Errorf("round %d: %+v, %v; want %q", round, r, err, want)
		}
	}
	rows, err := store.Open(context.WithoutCancel(t.Context()), cfg.DBPath)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	x, err := rows.GetOrchestrated(t.Context(), aSession)
	if err != nil || x.Owner != "alice" || x.Status != orchestrator.Terminated || x.LatestSnapshot != latest || x.Image != "python" || x.MaxLifetime == 0 {
		t.Errorf("%+v, %v", x, err)
	}
	named, err := rows.SnapshotsNamed(t.Context(), "alice", aSession)
	if err != nil || len(named) != 2 || named[1].ID != latest {
		t.Errorf("%+v, %v", named, err)
	}
}

// A backup that comes back has rows that are older than the archives. Its sessions begin
// with the newest archive, and say so to clients, which ask for what the row names.
func TestRowsOfABackupGetTheNewestArchive(t *testing.T) {
	cfg := testConfig(t)
	cfg.Driver, cfg.Snapshots.Enabled, cfg.Orchestrator.Enabled = "native", true, true
	if err := errors.Join(os.Mkdir(cfg.DataDir, 0o700), os.MkdirAll(cfg.Snapshots.Dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	old, middle, newest := strings.Repeat("b", 25)+"a", strings.Repeat("c", 25)+"a", strings.Repeat("d", 25)+"a"
	at := time.Now().UTC().Truncate(time.Second)
	latest := func(want string, recovered ...string) {
		t.Helper()
		r, err := Recover(t.Context(), cfg, "admin")
		if err != nil || !slices.Equal(r.Orchestrated, recovered) {
			t.Errorf("%+v, %v; want %q", r, err, recovered)
		}
		rows, err := store.Open(t.Context(), cfg.DBPath)
		if err != nil {
			t.Fatal(err)
		}
		x, err := rows.GetOrchestrated(t.Context(), aSession)
		if err = errors.Join(err, rows.Close()); err != nil || x.LatestSnapshot != want || x.Owner != "alice" || x.Status != orchestrator.Terminated {
			t.Errorf("%+v, %v; want the snapshot %s", x, err, want)
		}
	}
	archive(t, cfg, old, at.Add(-2*time.Hour))
	latest(old, aSession)
	// These are newer than the row.
	archive(t, cfg, newest, at)
	archive(t, cfg, middle, at.Add(-time.Hour))
	latest(newest, aSession)
	// An older archive that comes back changes nothing.
	archive(t, cfg, strings.Repeat("e", 25)+"a", at.Add(-3*time.Hour))
	latest(newest)
}

// A recovered session says how it came to be stopped.
func TestRecoveredSessionsSayWhyTheyAreStopped(t *testing.T) {
	cfg := testConfig(t)
	stopped := recoveredSession(cfg, runtime.Status{ID: "a", Startable: true}, runtime.Spec{Image: "sha256:a"}, "admin")
	running := recoveredSession(cfg, runtime.Status{ID: "b", Alive: true}, runtime.Spec{Image: "sha256:a"}, "admin")
	if stopped.State != session.Stopped || stopped.EndReason != "it was recovered without the database" || running.EndReason != "" {
		t.Errorf("%+v, %+v", stopped, running)
	}
}
