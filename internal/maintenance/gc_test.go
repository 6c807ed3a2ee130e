package maintenance

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/snapshot"
	"github.com/sandkasten/sandkasten/internal/store"
)

const lostArchive = "abcdefghijklmnopqrstuvwxyz"

// An archive without a row is a lost snapshot or another daemon's: it goes when
// that is asked for, and only from a database that knows some.
func TestArchivesAreKeptUnlessAskedFor(t *testing.T) {
	cfg := testConfig(t)
	cfg.Snapshots.Enabled = true
	if err := os.MkdirAll(cfg.Snapshots.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(cfg.Snapshots.Dir, lostArchive)
	write(t, stray, "an archive")
	addSession(t, cfg, "first")
	if all, err := FindGarbage(t.Context(), cfg, false); len(all) > 0 || err != nil {
		t.Errorf("garbage is %v, %v", all, err)
	}
	if _, err := FindGarbage(t.Context(), cfg, true); err == nil || !strings.Contains(err.Error(), "none of the 1 archives") {
		t.Errorf("with archives, of which none is known: %v", err)
	}
	own := strings.Repeat("b", len(lostArchive))
	write(t, filepath.Join(cfg.Snapshots.Dir, own), "an archive")
	rows, err := store.Open(t.Context(), cfg.DBPath)
	if err != nil {
		t.Fatal(err)
	}
	err = rows.AddSnapshot(t.Context(), snapshots.Snapshot{ID: own, Owner: "o", CreatedAt: time.Now()}, 0)
	if err := errors.Join(err, rows.Close()); err != nil {
		t.Fatal(err)
	}
	all, err := FindGarbage(t.Context(), cfg, true)
	if err != nil || len(all) != 1 || all[0].Where != lostArchive {
		t.Errorf("garbage is %v, %v", all, err)
	}
	if err := deleteArchives(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(cfg.Snapshots.Dir, "[^.]*")); len(left) != 1 || filepath.Base(left[0]) != own || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestImagesInUse(t *testing.T) {
	cfg := testConfig(t)
	inUse := ImagesInUse(t.Context(), cfg)
	if users, err := inUse("sha256:a"); len(users) > 0 || err != nil {
		t.Errorf("before any daemon: %v, %v", users, err)
	}
	if err := os.Mkdir(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	rows, err := store.Open(t.Context(), cfg.DBPath)
	if err != nil {
		t.Fatal(err)
	}
	for digest, state := range map[string]session.State{"sha256:a": session.Creating, "sha256:b": session.Stopping, "sha256:c": session.Destroyed} {
		s := session.Session{ID: session.ID(digest), ImageDigest: digest, State: state, CreatedAt: time.Now(), LastActivity: time.Now()}
		if state.Ended() {
			s.EndedAt = time.Now()
		}
		if err := rows.Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for digest, parts := range map[string][]snapshot.Part{"sha256:c": {{Name: snapshot.Workspace}}, "sha256:d": {{Name: snapshot.Workspace}, {Name: snapshot.Root}}} {
		saved := snapshots.Snapshot{ID: digest, Owner: "o", CreatedAt: time.Now(), Manifest: snapshot.Manifest{ImageDigest: digest, Parts: parts}}
		if err := rows.AddSnapshot(t.Context(), saved, 0); err != nil {
			t.Fatal(err)
		}
	}
	needed := ImagesNeeded(t.Context(), cfg)
	for digest, want := range map[string]struct{ used, needed bool }{
		"sha256:a": {true, true}, "sha256:b": {true, true}, "sha256:c": {}, "sha256:d": {needed: true},
	} {
		if users, err := inUse(digest); (len(users) > 0) != want.used || err != nil {
			t.Errorf("%s in use: %v, %v; want %v", digest, users, err, want.used)
		}
		if users, err := needed(digest); (len(users) > 0) != want.needed || err != nil {
			t.Errorf("%s needed: %v, %v; want %v", digest, users, err, want.needed)
		}
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
}
