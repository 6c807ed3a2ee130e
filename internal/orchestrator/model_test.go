package orchestrator_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/session"
)

// model is what one session must be: the file as it was written last, and as the
// good snapshots have it, oldest first.
type model struct {
	ready bool
	file  string
	saved []string
	told  bool // the client knows that a snapshot is lost
}

// end is what remains of the files.
func (m *model) end() {
	if m.ready {
		m.saved = append(m.saved, m.file)
	}
	m.ready, m.told = false, false
}

// begin is what a session begins with that is not ready.
func (m *model) begin() {
	if m.ready {
		return
	}
	m.ready, m.told, m.file = true, false, ""
	if n := len(m.saved); n > 0 {
		m.file = m.saved[n-1]
	}
}

// TestSessionFollowsTheModel takes many steps with one session, each compared with
// what the model says. Time passes, the daemon starts anew, sandboxes break and
// snapshots are lost in between.
func TestSessionFollowsTheModel(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, w *world) {
				random, m := rand.New(rand.NewPCG(seed, 0)), &model{}
				w.create(orchestrator.CreateRequest{ID: someID}, true)
				m.begin()
				for i := range 1000 {
					step := w.step(random, m, fmt.Sprint(i))
					w.compare(fmt.Sprintf("step %d, %s", i, step), m)
					if t.Failed() {
						return
					}
				}
			})
		})
	}
}

// step takes one step in the world and in the model, and returns its name.
func (w *world) step(random *rand.Rand, m *model, text string) string {
	w.t.Helper()
	switch random.IntN(10) {
	case 0, 1:
		w.create(orchestrator.CreateRequest{ID: someID}, !m.ready || w.late())
		m.begin()
		return "create"
	case 2, 3:
		err := w.Use(w.t.Context(), alice, someID, func(_ auth.Principal, id session.ID) error {
			w.core.write(w.t, orchestrator.Session{ID: someID, Core: id}, "f", text)
			return nil
		})
		if err != nil {
			w.t.Error(err)
		}
		m.begin()
		m.file = text
		return "write"
	case 4:
		if err := w.Stop(w.t.Context(), alice, someID, false); err != nil {
			w.t.Error(err)
		}
		m.end()
		return "stop"
	case 5:
		if _, err := w.Heartbeat(w.t.Context(), alice, someID); err != nil {
			w.t.Error(err)
		}
		return "heartbeat"
	case 6:
		pass(time.Duration(random.IntN(7)) * time.Minute)
		return "time"
	case 7:
		x, err := w.Get(w.t.Context(), alice, someID)
		if err != nil {
			w.t.Error(err)
		}
		idle := !time.Now().Before(x.LastActivity.Add(x.IdleTimeout)) && !time.Now().Before(x.LastHeartbeat.Add(x.IdleTimeout))
		w.round()
		if m.ready && (idle || w.late()) {
			m.end()
		}
		return "reaper"
	case 8:
		w.crash(random, m)
		return "crash"
	}
	if _, err := w.Snapshot(w.t.Context(), alice, someID, orchestrator.SnapshotRequest{}); err != nil {
		w.t.Error(err)
	}
	m.begin()
	m.saved = append(m.saved, m.file)
	return "snapshot"
}

// late reports whether the session's time is up.
func (w *world) late() bool {
	x, err := w.Get(w.t.Context(), alice, someID)
	return err == nil && !time.Now().Before(x.ExpiresAt)
}

// crash breaks the sandbox, loses the latest snapshot, or starts the daemon anew.
func (w *world) crash(random *rand.Rand, m *model) {
	x, err := w.Get(w.t.Context(), alice, someID)
	if err != nil {
		w.t.Error(err)
	}
	switch kind := random.IntN(3); {
	case kind == 0 && m.ready:
		if _, err := w.core.set(alice, x.Core, session.Crashed); err != nil {
			w.t.Error(err)
		}
		m.ready = false
	case kind == 1 && !m.ready && len(m.saved) > 0:
		w.core.loseNewest()
		m.saved = m.saved[:len(m.saved)-1]
		_, _, err := w.Create(w.t.Context(), alice, orchestrator.CreateRequest{ID: someID})
		if errdefs.Is(err, errdefs.Unprocessable) == m.told {
			w.t.Errorf("a lost snapshot: %v", err)
		}
		if m.told {
			m.begin()
			return
		}
		m.told = true
	default:
		if err := w.flushed(); err != nil {
			w.t.Error(err)
		}
		w.restart()
	}
}

// flushed has the service write what it knows, as at its end.
func (w *world) flushed() error {
	run, stop := contextOf(w.t)
	stop()
	return w.Run(run)
}

func (w *world) compare(step string, m *model) {
	w.t.Helper()
	x, err := w.Get(w.t.Context(), alice, someID)
	alive := w.core.alive()
	if err != nil || (x.Status == orchestrator.Ready) != m.ready || alive > 1 || (alive == 1) != m.ready {
		w.t.Errorf("%s: %+v, %v, %d alive; want %+v", step, x, err, alive, m)
		return
	}
	if m.ready && w.core.read(x, "f") != m.file {
		w.t.Errorf("%s: the file is %q, want %q", step, w.core.read(x, "f"), m.file)
	}
}

// TestManyAtOnceLeaveOneSandbox has everything happen to one session at the same
// time. Whatever comes of it, there is one sandbox at most, and none that the row
// does not know.
func TestManyAtOnceLeaveOneSandbox(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.core.slow = time.Second
		var all sync.WaitGroup
		for worker := range uint64(8) {
			all.Go(func() {
				random := rand.New(rand.NewPCG(worker, 1))
				for range 200 {
					pass(time.Duration(random.IntN(3000)) * time.Millisecond)
					if err := w.anything(random); err != nil && !errdefs.Is(err, errdefs.Conflict) && !errdefs.Is(err, errdefs.InsufficientSpace) {
						t.Error(err)
					}
					if alive := w.core.alive(); alive > 1 {
						t.Errorf("%d sandboxes", alive)
					}
				}
			})
		}
		all.Wait()
		x, err := w.Get(t.Context(), alice, someID)
		if err != nil || (x.Status == orchestrator.Ready) != (w.core.alive() == 1) {
			t.Errorf("%+v, %v with %d sandboxes", x, err, w.core.alive())
		}
	})
}

func (w *world) anything(random *rand.Rand) (err error) {
	ctx := w.t.Context()
	switch random.IntN(6) {
	case 0:
		err = w.Stop(ctx, alice, someID, false)
	case 1:
		err = w.Use(ctx, alice, someID, func(auth.Principal, session.ID) error { return nil })
	case 2:
		_, err = w.Heartbeat(ctx, alice, someID)
	case 3:
		_, err = w.Snapshot(ctx, alice, someID, orchestrator.SnapshotRequest{})
	case 4:
		err = w.Round(ctx)
	default:
		_, _, err = w.Create(ctx, alice, orchestrator.CreateRequest{ID: someID})
	}
	if errdefs.Is(err, errdefs.NotFound) { // before the first create
		return nil
	}
	return err
}
