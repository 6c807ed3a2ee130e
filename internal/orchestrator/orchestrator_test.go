package orchestrator_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/session"
)

const someID = "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11"

var alice, bob = auth.Principal{Owner: "alice"}, auth.Principal{Owner: "bob"}

// world is a service over fakes.
type world struct {
	*orchestrator.Service
	t    *testing.T
	core *fakeCore
	rows *fakeStore

	change func(*orchestrator.Options) // at a restart; or nil
}

// bubble calls do with a world that has a time of its own.
func bubble(t *testing.T, do func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, core: &fakeCore{sessions: map[session.ID]*fakeSession{}, archives: map[string]map[string]string{}}}
		w.rows = &fakeStore{rows: map[string]orchestrator.Session{}}
		w.restart()
		do(t, w)
	})
}

// pass lets time go by in a bubble.
func pass(d time.Duration) { time.Sleep(d) }

// restart begins another service over the same rows and the same core.
func (w *world) restart() {
	o := orchestrator.Options{
		Store: w.rows, Sessions: w.core, Snapshots: fakeSnapshots{w.core},
		Drivers: []string{"native"}, Modes: map[string]string{"docker": "native"}, DefaultImage: "base",
		Planned:      func(mode string) bool { return mode == "k8s" },
		ImageAliases: map[string]string{"astraforge/codex-cli:latest": "python"},
	}
	if w.change != nil {
		w.change(&o)
	}
	w.Service = orchestrator.New(o)
}

func (w *world) create(req orchestrator.CreateRequest, made bool) orchestrator.Session {
	w.t.Helper()
	x, got, err := w.Create(w.t.Context(), alice, req)
	if err != nil || got != made || x.Status != orchestrator.Ready {
		w.t.Fatalf("create %+v: %+v, made %t, %v; want made %t", req, x, got, err, made)
	}
	return x
}

func (w *world) get(status orchestrator.Status) orchestrator.Session {
	w.t.Helper()
	x, err := w.Get(w.t.Context(), alice, someID)
	if err != nil || x.Status != status {
		w.t.Fatalf("%+v, %v; want %s", x, err, status)
	}
	return x
}

func (w *world) round() {
	w.t.Helper()
	if err := w.Round(w.t.Context()); err != nil {
		w.t.Error(err)
	}
}

func (w *world) labels() (labels []string) {
	w.t.Helper()
	_, all, err := w.Snapshots(w.t.Context(), alice, someID)
	if err != nil {
		w.t.Error(err)
	}
	for _, one := range all {
		labels = append(labels, one.Label)
	}
	return labels
}

func TestReadySessionIsReused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first := w.create(orchestrator.CreateRequest{ID: someID}, true)
		if again := w.create(orchestrator.CreateRequest{ID: someID}, false); again.Core != first.Core || w.core.made != 1 {
			t.Errorf("%+v after %+v", again, first)
		}
		if other := w.create(orchestrator.CreateRequest{}, true); other.ID == someID || other.Core == first.Core {
			t.Errorf("a session without an ID is %+v", other)
		}
		// It has a name and is saved before it ends: nothing that is stopped stays of it.
		if core := w.core.sessions[first.Core]; core.OnExpiry != session.OnExpiryDestroy {
			t.Errorf("at the end of its time the core's session is to be %q", core.OnExpiry)
		}
		if x, err := w.Get(t.Context(), alice, string(first.Core)); err != nil || x.ID != someID {
			t.Errorf("by its core: %+v, %v", x, err)
		}
	})
}

func TestStoppedSessionBeginsAnewWithItsFiles(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID, Metadata: map[string]any{"task": "42"}}, true)
		w.core.write(t, x, "a.txt", "one")
		for range 2 {
			if err := w.Stop(t.Context(), alice, someID, false); err != nil {
				t.Fatal(err)
			}
		}
		ended := w.get(orchestrator.Terminated)
		if w.core.alive() != 0 || !slices.Equal(w.labels(), []string{"auto-stop"}) || ended.CPUSeconds != 1.5 || ended.TerminatedReason != "" {
			t.Errorf("%+v with %v", ended, w.labels())
		}
		pass(2 * time.Hour)
		again := w.create(orchestrator.CreateRequest{ID: someID}, true)
		if w.core.read(again, "a.txt") != "one" || again.RestoreSnapshot != ended.LatestSnapshot || again.ExpiresAt != time.Now().UTC().Add(time.Hour) {
			t.Errorf("%+v", again)
		}
		// And by its use, too.
		w.core.write(t, again, "a.txt", "two")
		if err := w.Stop(t.Context(), alice, someID, false); err != nil {
			t.Fatal(err)
		}
		err := w.Use(t.Context(), alice, someID, func(p auth.Principal, id session.ID) error {
			x, err := w.core.Get(t.Context(), p, id)
			if x.State != session.Running || w.core.read(orchestrator.Session{Core: id}, "a.txt") != "two" {
				t.Errorf("used %+v", x)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestOtherOwnersSessionsDoNotExist(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.create(orchestrator.CreateRequest{ID: someID}, true)
		_, _, created := w.Create(t.Context(), bob, orchestrator.CreateRequest{ID: someID})
		_, got := w.Get(t.Context(), bob, someID)
		_, beat := w.Heartbeat(t.Context(), bob, someID)
		_, shot := w.Snapshot(t.Context(), bob, someID, orchestrator.SnapshotRequest{})
		_, _, shots := w.Snapshots(t.Context(), bob, someID)
		used := w.Use(t.Context(), bob, someID, func(auth.Principal, session.ID) error { return nil })
		for i, err := range []error{created, got, beat, shot, shots, used, w.Stop(t.Context(), bob, someID, false)} {
			if !errdefs.Is(err, errdefs.NotFound) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if all, err := w.List(t.Context(), bob); len(all) != 0 || err != nil {
			t.Errorf("%+v, %v", all, err)
		}
		if all, err := w.List(t.Context(), alice); len(all) != 1 || err != nil {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

func TestConcurrentCreatesMakeOneSandbox(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.core.slow = time.Second
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				x, made, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID})
				if err != nil || !made || x.Status != orchestrator.Ready {
					t.Errorf("%+v, %t, %v", x, made, err)
				}
			})
		}
		all.Wait()
		if w.core.made != 1 {
			t.Errorf("%d sandboxes were made", w.core.made)
		}
	})
}

func TestReaperEndsWhatIsIdle(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		w.core.write(t, x, "a.txt", "one")
		for range 4 { // a heartbeat counts
			pass(4 * time.Minute)
			if _, err := w.Heartbeat(t.Context(), alice, someID); err != nil {
				t.Fatal(err)
			}
			w.round()
			w.get(orchestrator.Ready)
		}
		err := w.Use(t.Context(), alice, someID, func(auth.Principal, session.ID) error {
			pass(20 * time.Minute) // and a command that runs
			w.round()
			w.get(orchestrator.Ready)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Minute)
		w.core.ended = func(session.ID) { // whoever sees it end sees why
			if x := w.get(orchestrator.Terminated); x.TerminatedReason != orchestrator.ReasonIdle || x.LatestSnapshot == "" {
				t.Errorf("while it ends: %+v", x)
			}
		}
		w.round()
		ended := w.get(orchestrator.Terminated)
		if ended.TerminatedReason != orchestrator.ReasonIdle || !slices.Equal(w.labels(), []string{"auto-idle_timeout"}) || w.core.alive() != 0 {
			t.Errorf("%+v with %v", ended, w.labels())
		}
		w.round()
		if again := w.create(orchestrator.CreateRequest{ID: someID}, true); w.core.read(again, "a.txt") != "one" {
			t.Errorf("%+v", again)
		}
	})
}

func TestReaperEndsWhatIsOld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.create(orchestrator.CreateRequest{ID: someID, MaxLifetime: 5 * time.Minute}, true)
		pass(5 * time.Minute)
		w.restart() // what was due meanwhile ends in the first round
		w.round()
		if x := w.get(orchestrator.Terminated); x.TerminatedReason != orchestrator.ReasonLifetime || !slices.Equal(w.labels(), []string{"auto-max_lifetime"}) {
			t.Errorf("%+v with %v", x, w.labels())
		}
	})
}

// The client of before asks for the latest snapshot that it knows of, when it sees
// that the time is up: it gets the files of now, and another time.
func TestExpiredSessionBeginsAnew(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		shot, err := w.Snapshot(t.Context(), alice, someID, orchestrator.SnapshotRequest{Label: "mine"})
		if err != nil {
			t.Fatal(err)
		}
		w.core.write(t, x, "a.txt", "newer")
		pass(time.Hour)
		again := w.create(orchestrator.CreateRequest{ID: someID, RestoreSnapshot: shot.ID}, true)
		if w.core.read(again, "a.txt") != "newer" || !again.ExpiresAt.After(time.Now()) || w.core.alive() != 1 {
			t.Errorf("%+v", again)
		}
		if got := w.labels(); !slices.Equal(got, []string{"auto-max_lifetime", "mine"}) {
			t.Errorf("snapshots %v", got)
		}
	})
}

func TestLostSnapshotIsSkippedNextTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		w.core.write(t, x, "a.txt", "old")
		if _, err := w.Snapshot(t.Context(), alice, someID, orchestrator.SnapshotRequest{}); err != nil {
			t.Fatal(err)
		}
		w.core.write(t, x, "a.txt", "lost")
		if err := w.Stop(t.Context(), alice, someID, false); err != nil {
			t.Fatal(err)
		}
		lost := w.get(orchestrator.Terminated).LatestSnapshot
		delete(w.core.archives, lost)
		if _, _, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID}); !errdefs.Is(err, errdefs.Unprocessable) {
			t.Fatal(err)
		}
		failed := w.get(orchestrator.Failed)
		if failed.TerminatedReason != orchestrator.ReasonRestore || w.core.alive() != 0 || failed.Error == "" {
			t.Errorf("%+v", failed)
		}
		again := w.create(orchestrator.CreateRequest{ID: someID, RestoreSnapshot: lost}, true)
		if w.core.read(again, "a.txt") != "old" || !slices.Equal(again.BadSnapshots, []string{lost}) {
			t.Errorf("%+v", again)
		}
	})
}

// The first lost snapshot is an error, for the client has to know. It is no error
// again for each one before it.
func TestAllSnapshotsLost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for range 3 {
			w.create(orchestrator.CreateRequest{ID: someID}, true)
			if err := w.Stop(t.Context(), alice, someID, false); err != nil {
				t.Fatal(err)
			}
		}
		clear(w.core.archives)
		if _, _, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID}); !errdefs.Is(err, errdefs.Unprocessable) {
			t.Fatal(err)
		}
		if again := w.create(orchestrator.CreateRequest{ID: someID}, true); again.RestoreSnapshot != "" || len(again.BadSnapshots) != 3 {
			t.Errorf("%+v", again)
		}
	})
}

func TestFailureOfTheHostBlamesNoSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		w.core.write(t, x, "a.txt", "one")
		if err := w.Stop(t.Context(), alice, someID, false); err != nil {
			t.Fatal(err)
		}
		w.core.full = errdefs.New(errdefs.Unavailable, "no room")
		err := w.Use(t.Context(), alice, someID, func(auth.Principal, session.ID) error { return nil })
		if errdefs.MessageOf(err) != "Sandbox was not ready and auto-restore failed: no room" {
			t.Error(err)
		}
		w.core.full = nil
		if again := w.create(orchestrator.CreateRequest{ID: someID}, true); w.core.read(again, "a.txt") != "one" || len(again.BadSnapshots) != 0 {
			t.Errorf("%+v", again)
		}
	})
}

func TestSandboxInTheWayIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		if _, err := w.core.Create(t.Context(), alice, session.CreateRequest{Name: "sandbox-" + someID}); err != nil {
			t.Fatal(err)
		}
		w.create(orchestrator.CreateRequest{ID: someID}, true)
		if w.core.alive() != 1 {
			t.Errorf("%d sandboxes are left", w.core.alive())
		}
	})
}

func TestStartThatACrashEndedIsMadeAnew(t *testing.T) {
	for name, after := range map[string]func(w *world){
		"create": func(*world) {},
		"reaper": func(w *world) { w.round(); w.get(orchestrator.Failed) },
		"stop": func(w *world) {
			if err := w.Stop(w.t.Context(), alice, someID, false); err != nil {
				w.t.Error(err)
			}
			w.get(orchestrator.Terminated)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				if _, err := w.core.Create(t.Context(), alice, session.CreateRequest{Name: "sandbox-" + someID}); err != nil {
					t.Fatal(err)
				}
				row := orchestrator.Session{ID: someID, Owner: "alice", Mode: "native", Status: orchestrator.Starting, MaxLifetime: time.Hour, IdleTimeout: time.Hour}
				if err := w.rows.PutOrchestrated(t.Context(), row); err != nil {
					t.Fatal(err)
				}
				after(w)
				w.create(orchestrator.CreateRequest{ID: someID}, true)
				if w.core.alive() != 1 {
					t.Errorf("%d sandboxes are left", w.core.alive())
				}
			})
		})
	}
}

// What happens to the session in the core shows at once, and the next create mends
// it.
func TestStatusFollowsTheCore(t *testing.T) {
	for state, want := range map[session.State]orchestrator.Status{
		session.Creating: orchestrator.Starting, session.Starting: orchestrator.Starting,
		session.Running: orchestrator.Ready, session.Paused: orchestrator.Ready,
		session.Stopping: orchestrator.Terminated, session.Stopped: orchestrator.Terminated,
		session.Destroyed: orchestrator.Terminated, session.Expired: orchestrator.Terminated,
		session.Crashed: orchestrator.Failed, session.Failed: orchestrator.Failed,
	} {
		t.Run(string(state), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				x := w.create(orchestrator.CreateRequest{ID: someID}, true)
				w.core.write(t, x, "a.txt", "kept")
				if _, err := w.core.set(alice, x.Core, state); err != nil {
					t.Fatal(err)
				}
				w.get(want)
				if state == session.Starting { // somebody else is at it
					if _, _, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID}); !errdefs.Is(err, errdefs.Unavailable) || w.core.sessions[x.Core].State != state {
						t.Errorf("create: %v", err)
					}
					return
				}
				again := w.create(orchestrator.CreateRequest{ID: someID}, want != orchestrator.Ready)
				if kept := again.Core == x.Core; kept != (want == orchestrator.Ready || state == session.Stopped) {
					t.Errorf("it goes on in the same session: %t", kept)
				}
				if w.core.alive() != 1 {
					t.Errorf("%d sandboxes are left", w.core.alive())
				}
			})
		})
	}
}

// As long as the files of a session are there, no refusal has it begin without them.
func TestRefusalsKeepTheFiles(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		w.core.write(t, x, "a.txt", "kept")
		refused := func(code errdefs.Code) {
			t.Helper()
			if _, _, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID}); !errdefs.Is(err, code) {
				t.Errorf("create: %v, want %s", err, code)
			}
		}
		core := w.core.sessions[x.Core]
		core.State, core.End = session.Stopping, session.Stopped // its programs have died
		refused(errdefs.Unavailable)
		core.State, core.End = session.Stopped, ""
		for _, code := range []errdefs.Code{errdefs.ResourceExhausted, errdefs.InsufficientSpace, errdefs.Internal} {
			w.core.stays = errdefs.New(code, "not now")
			refused(code)
		}
		w.core.stays = nil
		if again := w.create(orchestrator.CreateRequest{ID: someID}, true); again.Core != x.Core || w.core.read(again, "a.txt") != "kept" {
			t.Errorf("%+v", again)
		}
	})
}

// What has a session's name and is being removed is waited for, and refuses nobody.
func TestWhatIsBeingRemovedIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		core := w.core.sessions[x.Core]
		core.State, core.End = session.Stopping, session.Crashed
		if again := w.create(orchestrator.CreateRequest{ID: someID}, true); again.Core == x.Core || again.Status != orchestrator.Ready {
			t.Errorf("%+v", again)
		}
	})
}

// One that goes on ends before the core does it, which saves nothing.
func TestOneThatGoesOnEndsInTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		core := w.core.sessions[x.Core]
		core.CreatedAt, core.MaxLifetime, core.State = time.Now(), 70*time.Minute, session.Stopped
		pass(30 * time.Minute)
		if again, want := w.create(orchestrator.CreateRequest{ID: someID}, true), core.CreatedAt.Add(68*time.Minute); !again.ExpiresAt.Equal(want) {
			t.Errorf("it ends at %s, want %s", again.ExpiresAt, want)
		}
	})
}

// The reaper notes what became of a session in the core, and saves the files of one
// whose programs have died.
func TestReaperNotesWhatTheCoreEnded(t *testing.T) {
	for state, want := range map[session.State]struct {
		row   orchestrator.Status
		saved bool
	}{
		session.Running: {orchestrator.Ready, false}, session.Stopping: {orchestrator.Ready, false}, session.Stopped: {orchestrator.Terminated, true},
		session.Destroyed: {orchestrator.Terminated, false}, session.Crashed: {orchestrator.Failed, false},
	} {
		t.Run(string(state), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				x := w.create(orchestrator.CreateRequest{ID: someID}, true)
				w.core.write(t, x, "a.txt", "kept")
				if _, err := w.core.set(alice, x.Core, state); err != nil {
					t.Fatal(err)
				}
				w.round()
				if got := w.rows.rows[someID].Status; got != want.row {
					t.Errorf("the row is %s, want %s", got, want.row)
				}
				if !want.saved {
					return
				}
				if again := w.create(orchestrator.CreateRequest{ID: someID}, true); w.core.read(again, "a.txt") != "kept" || again.Core == x.Core {
					t.Errorf("%+v", again)
				}
			})
		})
	}
}

func TestOldAutomaticSnapshotsGo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.create(orchestrator.CreateRequest{ID: someID}, true)
		if _, err := w.Snapshot(t.Context(), alice, someID, orchestrator.SnapshotRequest{Label: "mine"}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := w.Stop(t.Context(), alice, someID, false); err != nil {
				t.Fatal(err)
			}
			w.create(orchestrator.CreateRequest{ID: someID}, true)
		}
		if got := w.labels(); !slices.Equal(got, []string{"auto-stop", "auto-stop", "auto-stop", "mine"}) {
			t.Errorf("snapshots %v", got)
		}
		if named, err := w.SnapshotsByName(t.Context(), alice); err != nil || len(named[someID]) != 4 || named[someID][3].Label != "mine" {
			t.Errorf("%+v, %v", named, err)
		}
	})
}

// A thousand heartbeats are one write, and none is lost when that fails.
func TestHeartbeatsAreWrittenTogether(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.create(orchestrator.CreateRequest{ID: someID}, true)
		before := w.rows.writes
		w.rows.broken = errors.New("busy")
		done := make(chan error, 1)
		run, stop := contextOf(t)
		go func() { done <- w.Run(run) }()
		for range 1000 {
			if _, err := w.Heartbeat(t.Context(), alice, someID); err != nil {
				t.Fatal(err)
			}
		}
		at := time.Now().UTC()
		pass(1500 * time.Millisecond)
		w.rows.mu.Lock()
		w.rows.broken = nil
		w.rows.mu.Unlock()
		pass(time.Second)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		row, err := w.rows.GetOrchestrated(t.Context(), someID)
		if err != nil || !row.LastHeartbeat.Equal(at) || w.rows.writes != before+1 || w.core.beats != 1000 {
			t.Errorf("%+v, %v, %d writes, %d beats", row, err, w.rows.writes-before, w.core.beats)
		}
	})
}

func TestRequestsThatCannotBe(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for name, test := range map[string]struct {
			req  orchestrator.CreateRequest
			want errdefs.Code
		}{
			"k8s":              {orchestrator.CreateRequest{Mode: "k8s"}, errdefs.Unimplemented},
			"unknown mode":     {orchestrator.CreateRequest{Mode: "podman"}, errdefs.InvalidArgument},
			"memory":           {orchestrator.CreateRequest{Memory: "2 apples"}, errdefs.InvalidArgument},
			"cpu":              {orchestrator.CreateRequest{CPU: "-1"}, errdefs.InvalidArgument},
			"idle too long":    {orchestrator.CreateRequest{IdleTimeout: 24 * time.Hour}, errdefs.InvalidArgument},
			"life too long":    {orchestrator.CreateRequest{MaxLifetime: 7 * 24 * time.Hour}, errdefs.InvalidArgument},
			"unknown snapshot": {orchestrator.CreateRequest{RestoreSnapshot: "aaaaaaaaaaaaaaaaaaaaaaaaaa"}, errdefs.NotFound},
		} {
			test.req.ID = someID
			if _, _, err := w.Create(t.Context(), alice, test.req); !errdefs.Is(err, test.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(w.rows.rows) != 0 || w.core.made != 0 {
			t.Errorf("something is left: %+v", w.rows.rows)
		}
		x := w.create(orchestrator.CreateRequest{ID: someID, Mode: "docker", Image: "astraforge/codex-cli:latest", CPU: "500m", Memory: "2Gi", EphemeralStorage: "1g"}, true)
		core := w.core.sessions[x.Core]
		if core.Image != "python" || core.Limits.CPU != 0.5 || core.Limits.MemoryMB != 2048 || core.Limits.DiskMB != 1024 {
			t.Errorf("%+v", core)
		}
	})
}
