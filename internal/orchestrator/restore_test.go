package orchestrator_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// ofSnapshot is an error of the core about the snapshot in a request.
func ofSnapshot(cause error, code errdefs.Code, message string) error {
	err := errdefs.Wrap(cause, code, "%s", message)
	err.Field = "restore_snapshot_id"
	return err
}

// A host without room, or whatever else fails while a good archive is restored, blames
// no snapshot, however often it happens, and never begins the session empty.
func TestFaultsOfARestoreBlameNoArchive(t *testing.T) {
	for name, test := range map[string]struct {
		fault error
		want  errdefs.Code
	}{
		"the host's disk is full":   {ofSnapshot(nil, errdefs.InsufficientSpace, "the host's disk has no room"), errdefs.InsufficientSpace},
		"the store does not answer": {ofSnapshot(nil, errdefs.Unavailable, "try again"), errdefs.Unavailable},
		"too many at once":          {ofSnapshot(nil, errdefs.ResourceExhausted, "wait"), errdefs.ResourceExhausted},
		"the sandbox refuses":       {ofSnapshot(nil, errdefs.Unprocessable, "input/output error"), errdefs.Unavailable},
		"a size":                    {ofSnapshot(nil, errdefs.TooLarge, "too large"), errdefs.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				for _, text := range []string{"one", "two", "three"} {
					w.core.write(t, w.create(orchestrator.CreateRequest{ID: someID}, true), "a.txt", text)
					w.stop()
				}
				w.core.unpacking = test.fault
				for range 5 {
					_, _, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID})
					if !errdefs.Is(err, test.want) {
						t.Errorf("%v; want %s", err, test.want)
					}
					if x := w.get(orchestrator.Failed); len(x.BadSnapshots) != 0 || x.TerminatedReason == orchestrator.ReasonRestore {
						t.Fatalf("a snapshot is blamed: %+v", x)
					}
				}
				w.core.unpacking = nil
				if again := w.create(orchestrator.CreateRequest{ID: someID}, true); w.core.read(again, "a.txt") != "three" {
					t.Errorf("%+v", again)
				}
			})
		})
	}
}

// An archive that is missing or damaged for a moment is restored by the next create.
func TestArchiveIsReadTwiceBeforeItIsSkipped(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.core.write(t, w.create(orchestrator.CreateRequest{ID: someID}, true), "a.txt", "kept")
		w.stop()
		w.core.unpacking = ofSnapshot(snapshots.ErrBadArchive, errdefs.Unprocessable, "the archive is lost")
		if _, _, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID}); !errdefs.Is(err, errdefs.Unprocessable) {
			t.Fatal(err)
		}
		if x := w.get(orchestrator.Failed); len(x.BadSnapshots) != 0 || x.LatestSnapshot == "" || x.TerminatedReason != orchestrator.ReasonRestore {
			t.Errorf("after one look: %+v", x)
		}
		w.restart() // what is suspected outlives the daemon
		begun := time.Now()
		time.AfterFunc(time.Second, func() {
			w.core.mu.Lock()
			defer w.core.mu.Unlock()
			w.core.unpacking = nil
		})
		again := w.create(orchestrator.CreateRequest{ID: someID}, true)
		if w.core.read(again, "a.txt") != "kept" || len(again.BadSnapshots) != 0 || again.Suspect != "" || time.Since(begun) < 2*time.Second {
			t.Errorf("after %s: %+v", time.Since(begun), again)
		}
	})
}

// A snapshot that was skipped is restored for who names it when its archive is back, and is
// none of the skipped ones any more.
func TestSkippedSnapshotComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.core.write(t, w.create(orchestrator.CreateRequest{ID: someID}, true), "a.txt", "real")
		w.stop()
		old := w.get(orchestrator.Terminated).LatestSnapshot
		real := maps.Clone(w.core.archives)
		clear(w.core.archives)
		if _, _, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID}); !errdefs.Is(err, errdefs.Unprocessable) {
			t.Fatal(err)
		}
		w.create(orchestrator.CreateRequest{ID: someID}, true)
		w.stop()
		if x := w.get(orchestrator.Terminated); !slices.Contains(x.BadSnapshots, old) || x.LatestSnapshot == old {
			t.Fatalf("%+v", x)
		}
		maps.Copy(w.core.archives, real)
		again := w.create(orchestrator.CreateRequest{ID: someID, RestoreSnapshot: old}, true)
		if w.core.read(again, "a.txt") != "real" || len(again.BadSnapshots) > 0 {
			t.Errorf("it began with %q: %+v", w.core.read(again, "a.txt"), again)
		}
	})
}

// What a session could not begin with is not thinned in favour of what began empty.
func TestSkippedSnapshotsAreNotThinned(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for range 3 {
			w.core.write(t, w.create(orchestrator.CreateRequest{ID: someID}, true), "a.txt", "real")
			w.stop()
		}
		real := maps.Clone(w.core.archives)
		clear(w.core.archives)
		if _, _, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID}); !errdefs.Is(err, errdefs.Unprocessable) {
			t.Fatal(err)
		}
		for range 5 {
			w.create(orchestrator.CreateRequest{ID: someID}, true)
			w.stop()
		}
		_, all, err := w.Snapshots(t.Context(), alice, someID)
		if err != nil {
			t.Fatal(err)
		}
		for id := range real {
			if !slices.ContainsFunc(all, func(one snapshots.Snapshot) bool { return one.ID == id }) {
				t.Errorf("snapshot %s was removed", id)
			}
		}
		if len(all) != 6 {
			t.Errorf("%d snapshots are kept; want three that were skipped and three new ones", len(all))
		}
	})
}
