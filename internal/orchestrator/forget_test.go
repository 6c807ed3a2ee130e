package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
)

// forgetful is a world that forgets sessions an hour after their end. It notes which,
// and fails as long as it is told to.
func forgetful(t *testing.T, do func(t *testing.T, w *world, forgot *[]string, fail *error)) {
	t.Helper()
	bubble(t, func(t *testing.T, w *world) {
		var forgot []string
		var fail error
		w.change = func(o *orchestrator.Options) {
			o.Retention = time.Hour
			o.Forget = func(_ context.Context, id string) error {
				forgot = append(forgot, id)
				return fail
			}
		}
		w.restart()
		do(t, w, &forgot, &fail)
	})
}

func (w *world) stop() {
	w.t.Helper()
	if err := w.Stop(w.t.Context(), alice, someID, false); err != nil {
		w.t.Fatal(err)
	}
}

func TestOldSessionsAreForgotten(t *testing.T) {
	forgetful(t, func(t *testing.T, w *world, forgot *[]string, fail *error) {
		w.create(orchestrator.CreateRequest{ID: someID}, true)
		w.stop()
		pass(59 * time.Minute)
		w.round()
		w.get(orchestrator.Terminated)

		// One that began anew has its time again.
		w.create(orchestrator.CreateRequest{ID: someID}, true)
		w.stop()
		pass(30 * time.Minute)
		w.round()
		w.get(orchestrator.Terminated)
		if len(*forgot) != 0 {
			t.Errorf("forgot %q", *forgot)
		}

		pass(31 * time.Minute)
		*fail = errors.New("down")
		if err := w.Round(t.Context()); !errors.Is(err, *fail) {
			t.Errorf("%v", err)
		}
		w.get(orchestrator.Terminated)
		*fail = nil
		w.round()
		if _, err := w.Get(t.Context(), alice, someID); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("%v", err)
		}
		if len(w.core.snapshots) != 0 || !slices.Equal(*forgot, []string{someID, someID}) {
			t.Errorf("%d snapshots stay; forgot %q", len(w.core.snapshots), *forgot)
		}
	})
}

func TestSessionsAreKeptByDefault(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.create(orchestrator.CreateRequest{ID: someID}, true)
		w.stop()
		pass(10 * 365 * 24 * time.Hour)
		w.round()
		w.get(orchestrator.Terminated)
	})
}

// Nobody keeps a UUID from others for good with a session of which nothing is kept.
func TestUUIDsOfEmptySessionsAreReleased(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		create := func(p auth.Principal, want errdefs.Code) {
			t.Helper()
			_, _, err := w.Create(t.Context(), p, orchestrator.CreateRequest{ID: someID})
			if err == nil && want == "" {
				return
			}
			if !errdefs.Is(err, want) {
				t.Fatalf("%v, want %q", err, want)
			}
		}
		create(alice, "")
		if err := w.Stop(t.Context(), alice, someID, true); err != nil { // without a snapshot
			t.Fatal(err)
		}
		pass(29 * 24 * time.Hour)
		w.round()
		w.get(orchestrator.Terminated)
		if _, err := w.Get(t.Context(), bob, someID); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("a foreign session: %v", err)
		}
		create(bob, errdefs.NotFound)
		pass(25 * time.Hour)
		w.round()
		if _, err := w.Get(t.Context(), alice, someID); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("an empty session: %v", err)
		}
		create(bob, "")
		if _, err := w.Get(t.Context(), alice, someID); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("bob's session for alice: %v", err)
		}
	})
}

// Who has the name of somebody who is gone has none of their sessions.
func TestOwnerIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.create(orchestrator.CreateRequest{ID: someID}, true)
		if _, _, err := w.Create(t.Context(), bob, orchestrator.CreateRequest{}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.RemoveOwner(t.Context(), "alice"); err != nil {
				t.Fatal(err)
			}
		}
		if all, err := w.List(t.Context(), alice); err != nil || len(all) != 0 {
			t.Errorf("%v, %v", all, err)
		}
		if all, err := w.List(t.Context(), bob); err != nil || len(all) != 1 {
			t.Errorf("%v, %v", all, err)
		}
		w.round()
		if _, err := w.Get(t.Context(), alice, someID); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("a row came back: %v", err)
		}
	})
}
