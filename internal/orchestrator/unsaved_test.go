package orchestrator_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/session"
)

// unsaved makes a session with a file and ends it while nothing can be saved.
func (w *world) unsaved() orchestrator.Session {
	w.t.Helper()
	x := w.create(orchestrator.CreateRequest{ID: someID}, true)
	w.core.write(w.t, x, "a.txt", "old")
	w.stop()
	x = w.create(orchestrator.CreateRequest{ID: someID}, true)
	w.core.write(w.t, x, "a.txt", "new")
	w.core.unsaved = errors.New("full")
	w.stop()
	return w.get(orchestrator.Terminated)
}

// wantUnsaved checks that the files of a session are there, and nothing runs.
func (w *world) wantUnsaved(want bool) orchestrator.Session {
	w.t.Helper()
	x, err := w.Get(w.t.Context(), alice, someID)
	there := 0
	if want {
		there = 1
	}
	if err != nil || x.Unsaved() != want || w.core.there() != there || w.core.alive() != 0 {
		w.t.Fatalf("%+v, %v, %d sandboxes have files, %d run; want unsaved %t", x, err, w.core.there(), w.core.alive(), want)
	}
	return x
}

func (w *world) wantOutcomes(text string) {
	w.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.Service)
	all, err := testutil.GatherAndCount(registry)
	if err != nil || all != 6 {
		w.t.Errorf("%d metrics, %v", all, err)
	}
	families, err := registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if one.GetCounter().GetValue() > 0 {
				got = append(got, one.GetLabel()[0].GetValue())
			}
		}
	}
	if strings.Join(got, " ") != text {
		w.t.Errorf("sessions are not unsaved any more because of %v, want %q", got, text)
	}
}

// What cannot be saved is kept, however a session ends.
func TestEndThatCannotSaveKeepsTheFiles(t *testing.T) {
	for name, end := range map[string]func(*world){
		"stop":        func(w *world) { w.stop() },
		"stop, twice": func(w *world) { w.stop(); w.stop() },
		"idle":        func(w *world) { pass(5 * time.Minute); w.round() },
		"lifetime": func(w *world) {
			pass(time.Hour)
			w.round()
		},
		"its programs died": func(w *world) {
			if _, err := w.core.set(alice, w.get(orchestrator.Ready).Core, session.Stopped); err != nil {
				w.t.Fatal(err)
			}
			w.round()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				x := w.create(orchestrator.CreateRequest{ID: someID}, true)
				w.core.write(t, x, "a.txt", "new")
				w.core.unsaved = errors.New("full")
				end(w)
				ended := w.wantUnsaved(true)
				if ended.Status != orchestrator.Terminated || !strings.HasSuffix(ended.Error, "failed: no room") || ended.Core != x.Core {
					t.Errorf("%+v", ended)
				}
				w.round()
				w.restart()
				w.wantUnsaved(true)
				// A create that comes first goes on with the disk.
				again := w.create(orchestrator.CreateRequest{ID: someID}, true)
				if again.Core != x.Core || w.core.read(again, "a.txt") != "new" || again.Unsaved() || again.Error != "" {
					t.Errorf("%+v", again)
				}
				w.wantOutcomes("resumed")
			})
		})
	}
}

// Between the snapshot of an end and the end nothing is acknowledged that it has not: what
// comes then begins the session anew, and what was under way fails.
func TestWritesThatMeetAnEnd(t *testing.T) {
	for name, end := range map[string]func(w *world) error{
		"stop": func(w *world) error { return w.Stop(w.t.Context(), alice, someID, false) },
		"reaper": func(w *world) error {
			pass(2 * time.Hour)
			return w.Round(w.t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				x := w.create(orchestrator.CreateRequest{ID: someID}, true)
				began, finish, under := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				go func() {
					under <- w.Change(t.Context(), alice, someID, func(auth.Principal, session.ID) error {
						close(began)
						<-finish
						return nil
					})
				}()
				<-began
				late := make(chan error, 1)
				w.core.saved = func() {
					w.core.saved = nil
					go func() {
						late <- w.Change(t.Context(), alice, someID, func(_ auth.Principal, id session.ID) error {
							w.core.mu.Lock()
							defer w.core.mu.Unlock()
							w.core.sessions[id].files["late"] = "acknowledged"
							return nil
						})
					}()
					pass(time.Minute) // as for a large snapshot
				}
				if err := end(w); err != nil {
					t.Fatal(err)
				}
				close(finish)
				if err := <-under; !errdefs.Is(err, errdefs.Unavailable) || !strings.Contains(err.Error(), "do it again") {
					t.Errorf("what was under way: %v", err)
				}
				if err := <-late; err != nil {
					t.Errorf("what came during the end: %v", err)
				}
				now := w.get(orchestrator.Ready)
				if now.Core == x.Core || w.core.read(now, "late") != "acknowledged" {
					t.Errorf("what was acknowledged is %q, in %s and before in %s", w.core.read(now, "late"), now.Core, x.Core)
				}
			})
		})
	}
}

// The client of before names the latest snapshot that it knows of when it begins a
// session anew. It gets the files of now, whichever it names.
func TestUnsavedSessionBeginsWithNoSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ended := w.unsaved()
		if ended.LatestSnapshot == "" {
			t.Fatalf("%+v", ended)
		}
		again := w.create(orchestrator.CreateRequest{ID: someID, RestoreSnapshot: ended.LatestSnapshot}, true)
		if again.Core != ended.Core || w.core.read(again, "a.txt") != "new" {
			t.Errorf("%+v", again)
		}
	})
}

// As long as the disk is there and cannot be used, nothing else is.
func TestUnsavedSessionWaitsForItsDisk(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ended := w.unsaved()
		w.core.stays = errdefs.New(errdefs.InsufficientSpace, "not now")
		for range 3 {
			if _, _, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID}); !errdefs.Is(err, errdefs.InsufficientSpace) {
				t.Error(err)
			}
			w.round()
			if x := w.wantUnsaved(true); x.Status != orchestrator.Failed {
				t.Errorf("%+v", x)
			}
		}
		w.core.stays = nil
		if again := w.create(orchestrator.CreateRequest{ID: someID}, true); again.Core != ended.Core || w.core.read(again, "a.txt") != "new" {
			t.Errorf("%+v", again)
		}
	})
}

func TestReaperSavesWhatWasUnsaved(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ended := w.unsaved()
		for range 60 { // a try reads all files: there are few of them
			pass(time.Minute)
			w.round()
			w.wantUnsaved(true)
		}
		w.core.unsaved = nil
		for range 15 {
			pass(time.Minute)
			w.round()
		}
		saved := w.wantUnsaved(false)
		if saved.Status != orchestrator.Terminated || saved.LatestSnapshot == ended.LatestSnapshot || saved.Error != "" {
			t.Errorf("%+v", saved)
		}
		w.wantOutcomes("saved")
		if again := w.create(orchestrator.CreateRequest{ID: someID}, true); w.core.read(again, "a.txt") != "new" || again.Core == ended.Core {
			t.Errorf("%+v", again)
		}
	})
}

// The wait is bounded, and its end is told.
func TestUnsavedFilesExpire(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.change = func(o *orchestrator.Options) { o.UnsavedRetention, o.Retention = 3*time.Hour, time.Hour }
		w.restart()
		ended := w.unsaved()
		for range 179 {
			pass(time.Minute)
			w.round()
			w.wantUnsaved(true)
		}
		pass(time.Minute)
		w.round()
		if x := w.wantUnsaved(false); !strings.HasPrefix(x.Error, "Its files could not be saved for 3h0m0s and were removed.") || x.LatestSnapshot != ended.LatestSnapshot {
			t.Errorf("%+v", x)
		}
		w.wantOutcomes("expired")
		w.core.unsaved = nil
		again := w.create(orchestrator.CreateRequest{ID: someID}, true)
		if w.core.read(again, "a.txt") != "old" || !strings.HasPrefix(again.Error, "Its files could not be saved for 3h0m0s and were removed.") {
			t.Errorf("who goes on with older files is told %+v", again)
		}
		w.stop()
		if again := w.create(orchestrator.CreateRequest{ID: someID}, true); again.Error != "" {
			t.Errorf("it is told again: %+v", again)
		}
	})
}

// That files were saved later does not say why their session could not begin before.
func TestRefusalIsToldAfterALaterSave(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.unsaved()
		w.core.stays = errdefs.New(errdefs.ResourceExhausted, "no room for it")
		if _, _, err := w.Create(t.Context(), alice, orchestrator.CreateRequest{ID: someID}); !errdefs.Is(err, errdefs.ResourceExhausted) {
			t.Fatal(err)
		}
		told := func() {
			t.Helper()
			pass(time.Hour)
			w.round()
			if x, err := w.Get(t.Context(), alice, someID); err != nil || x.Status != orchestrator.Failed || x.Error != "no room for it" {
				t.Errorf("%+v, %v", x, err)
			}
		}
		told()
		w.core.unsaved = nil
		told()
		w.wantOutcomes("saved")
	})
}

func TestForceEndsWithoutSaving(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.unsaved()
		for range 2 {
			if err := w.Stop(t.Context(), alice, someID, true); err != nil {
				t.Fatal(err)
			}
			if x := w.wantUnsaved(false); x.Status != orchestrator.Terminated {
				t.Errorf("%+v", x)
			}
		}
		w.wantOutcomes("discarded")
		w.core.unsaved = nil
		before := len(w.labels())
		w.create(orchestrator.CreateRequest{ID: someID}, true)
		if err := w.Stop(t.Context(), alice, someID, true); err != nil {
			t.Fatal(err)
		}
		if got := w.labels(); len(got) != before || w.core.there() != 0 {
			t.Errorf("snapshots %v", got)
		}
	})
}

// Somebody else removes what has the files: the row tells, and so does the next create.
func TestUnsavedFilesThatAreLostAreTold(t *testing.T) {
	for name, look := range map[string]func(*world) string{
		"reaper": func(w *world) string { w.round(); return w.wantUnsaved(false).Error },
		"create after the reaper": func(w *world) string {
			w.round()
			w.core.unsaved = nil
			return w.create(orchestrator.CreateRequest{ID: someID}, true).Error
		},
		"create": func(w *world) string {
			w.core.unsaved = nil
			again := w.create(orchestrator.CreateRequest{ID: someID}, true)
			if w.core.read(again, "a.txt") != "old" {
				w.t.Errorf("%+v", again)
			}
			return again.Error
		},
		"stop": func(w *world) string { w.stop(); return w.wantUnsaved(false).Error },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				ended := w.unsaved()
				core := w.core.sessions[ended.Core]
				core.State, core.EndReason = session.Destroyed, "a client destroyed it"
				if says := look(w); says != "Files that were not saved are lost: a client destroyed it" {
					t.Errorf("%q", says)
				}
				w.wantOutcomes("lost")
			})
		})
	}
}

// The row comes first. Whatever of an end a crash left undone is done by the reaper.
func TestCrashesInTheMiddleOfAnEndKeepTheFiles(t *testing.T) {
	for name, left := range map[string]func(*world){
		"the row is unsaved, the programs run": func(w *world) {
			w.core.goesOn = errors.New("killed")
			w.unsaved()
			w.core.goesOn = nil
		},
		"a start of the disk": func(w *world) {
			x := w.unsaved()
			x.Status = orchestrator.Starting
			if err := w.rows.PutOrchestrated(w.t.Context(), x); err != nil {
				w.t.Fatal(err)
			}
		},
		"a start of the disk, which runs": func(w *world) {
			x := w.unsaved()
			x.Status = orchestrator.Starting
			_, err := w.core.set(alice, x.Core, session.Running)
			if err = errors.Join(err, w.rows.PutOrchestrated(w.t.Context(), x)); err != nil {
				w.t.Fatal(err)
			}
		},
		"a start of what had stopped by itself": func(w *world) {
			x := w.unsaved()
			x.Status, x.UnsavedSince = orchestrator.Starting, time.Time{}
			if err := w.rows.PutOrchestrated(w.t.Context(), x); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		for then, next := range map[string]func(*world){
			"reaper": func(w *world) { w.round(); w.round(); w.wantUnsaved(true) }, "create": func(*world) {},
			"stop": func(w *world) { w.stop(); w.wantUnsaved(true) },
		} {
			t.Run(name+", "+then, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					left(w)
					w.restart()
					next(w)
					if again := w.create(orchestrator.CreateRequest{ID: someID}, true); w.core.read(again, "a.txt") != "new" {
						t.Errorf("%+v", again)
					}
				})
			})
		}
	}
}

// Deleting a user waits until files are saved.
func TestOwnerWithUnsavedFilesIsNotRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.unsaved()
		if err := w.RemoveOwner(t.Context(), "alice"); !errdefs.Is(err, errdefs.Unavailable) {
			t.Fatal(err)
		}
		w.wantUnsaved(true)
		w.core.unsaved = nil
		pass(15 * time.Minute)
		if err := w.RemoveOwner(t.Context(), "alice"); err != nil || len(w.rows.rows) != 0 || w.core.there() != 0 {
			t.Errorf("%v, %+v", err, w.rows.rows)
		}
	})
}

// A session of the core that has files for one of ours does not end by itself.
func TestSessionsOfTheCoreAreHeld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		if !w.Holds(t.Context(), x.Core) || w.Holds(t.Context(), "another") {
			t.Error("a ready session is not held, or another one is")
		}
		w.core.unsaved = errors.New("full")
		w.stop()
		if !w.Holds(t.Context(), x.Core) {
			t.Error("an unsaved one is not held")
		}
		if err := w.Stop(t.Context(), alice, someID, true); err != nil || w.Holds(t.Context(), x.Core) {
			t.Errorf("one that has ended is held, or %v", err)
		}
	})
}

// Files in memory are lost with the programs: these stand still and stay.
func TestUnsavedFilesInMemoryStay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.change = func(o *orchestrator.Options) { o.InMemory = func(driver string) bool { return driver == "native" } }
		w.restart()
		ended := w.unsaved()
		if core := w.core.sessions[ended.Core]; core.State != session.Paused {
			t.Fatalf("%+v", core)
		}
		w.round()
		if again := w.create(orchestrator.CreateRequest{ID: someID}, true); again.Core != ended.Core || w.core.read(again, "a.txt") != "new" {
			t.Errorf("%+v", again)
		}
	})
}

// The files of a container that has died cannot be read. It is started to save it, and
// never thrown away unsaved.
func TestWhatCannotBeReadIsStartedToSaveIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		w.core.write(t, x, "a.txt", "new")
		w.core.closed = true
		die := func() {
			t.Helper()
			if _, err := w.core.set(alice, x.Core, session.Stopped); err != nil {
				t.Fatal(err)
			}
		}
		die()
		w.core.stays = errdefs.New(errdefs.Unavailable, "the engine is busy")
		w.round()
		w.wantUnsaved(true)
		w.core.stays, w.core.unsaved = nil, errors.New("full")
		for range 5 {
			pass(time.Hour)
			w.round()
			w.wantUnsaved(true)
		}
		w.core.unsaved = nil
		pass(time.Hour)
		w.round()
		w.wantUnsaved(false)
		if got := slices.Collect(maps.Values(w.core.archives)); len(got) != 1 || got[0]["a.txt"] != "new" {
			t.Errorf("saved %v", got)
		}
	})
}

// A session that has stopped by itself begins with the snapshot that its client names
// only when its own files are saved.
func TestFilesAreSavedBeforeAnotherSnapshotIsRestored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		first, err := w.Snapshot(t.Context(), alice, someID, orchestrator.SnapshotRequest{})
		if err == nil {
			_, err = w.Snapshot(t.Context(), alice, someID, orchestrator.SnapshotRequest{})
		}
		if err != nil {
			t.Fatal(err)
		}
		w.core.write(t, x, "a.txt", "new")
		if _, err := w.core.set(alice, x.Core, session.Stopped); err != nil {
			t.Fatal(err)
		}
		again := w.create(orchestrator.CreateRequest{ID: someID, RestoreSnapshot: first.ID}, true)
		if w.core.read(again, "a.txt") != "" || len(w.core.archives) != 3 {
			t.Errorf("%+v with %v", again, w.core.archives)
		}
	})
}

// Files in memory are lost when their sandbox breaks: no more of them than a few
// minutes', and the row tells.
func TestFilesInMemoryAreSavedFromTimeToTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.change = func(o *orchestrator.Options) {
			o.InMemory, o.MemoryEvery, o.IdleTimeout, o.MaxLifetime = func(string) bool { return true }, 3*time.Minute, 5*time.Hour, 5*time.Hour
		}
		w.restart()
		x := w.create(orchestrator.CreateRequest{ID: someID}, true)
		use := func(text string) {
			t.Helper()
			err := w.Use(t.Context(), alice, someID, func(auth.Principal, session.ID) error {
				w.core.write(t, x, "a.txt", text)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		use("one")
		for range 60 { // nothing is saved of what nobody uses
			pass(time.Minute)
			w.round()
		}
		if got := w.labels(); !slices.Equal(got, []string{"auto-interval"}) {
			t.Errorf("snapshots %v", got)
		}
		use("two")
		for range 4 {
			pass(time.Minute)
			w.round()
		}
		use("three")
		core := w.core.sessions[x.Core]
		core.State, core.EndReason = session.Crashed, "its runner died"
		w.round()
		const lost = "Files in memory that were newer than the latest snapshot are lost: its runner died"
		if x := w.get(orchestrator.Failed); x.Error != lost {
			t.Errorf("%q", x.Error)
		}
		if again := w.create(orchestrator.CreateRequest{ID: someID}, true); w.core.read(again, "a.txt") != "two" || again.Error != lost {
			t.Errorf("%+v", again)
		}
	})
}
