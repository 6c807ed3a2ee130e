package fault

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// step is one of the steps of the specification, and a failpoint right behind
// what it does.
type step struct{ id, point string }

// createSteps are those of the making of a session. There are no network
// devices (c6): a sandbox's namespace has its own loopback and comes with the
// clone.
var createSteps = []step{
	{"c1 row", "create.row"},
	{"c2 leases", "linux.create.leased"},
	{"c3 directory", "linux.create.claimed"},
	{"c4 disk and loop device", "linux.create.disk"},
	{"c4 workspace", "linux.create.attached"},
	{"c5 control groups", "linux.create.cgroups"},
	{"c6 and c7 clone at the barrier", "linux.create.cloned"},
	{"c8 process on record", "linux.create.state"},
	{"c9 maps", "linux.create.prepared"},
	{"c9 socket", "linux.create.socket"},
	{"c10 released", "linux.create.booted"},
	{"c11 runner answers", "linux.create.ready"},
	{"c11 sandbox given to the session", "create.sandbox"},
	{"c12 row says running", "create.running"},
}

// destroySteps are those of the end of a session. New work is refused in the
// moment in which the row is written (d2), the network ends with the processes
// (d5), and files are few enough to need no trash (d7).
var destroySteps = []step{
	{"d1 and d2 row says stopping", "destroy.row"},
	{"d3 signal sent", "linux.kill.signaled"},
	{"d4 to d6 processes, network and mounts gone", "linux.destroy.killed"},
	{"d8 control groups gone", "linux.destroy.cgroups"},
	{"d7 files gone", "linux.destroy.files"},
	{"d9 leases back", "destroy.sandbox"},
	{"d10 row says destroyed", "destroy.done"},
}

// A daemon that dies at any step of a create leaves nothing of it; the same
// request, sent again, succeeds. At the last step the session is there.
func TestF01_CrashAtEachStepOfCreate(t *testing.T) {
	t.Parallel()
	for _, s := range createSteps {
		t.Run(s.id, func(t *testing.T) {
			t.Parallel()
			h := start(t, "", at(s.point))
			if _, err := h.c.CreateWorkspace(t.Context(), &sandkasten.WorkspaceOptions{ID: "w"}); err != nil {
				t.Fatal(err)
			}
			request := &sandkasten.CreateOptions{IdempotencyKey: "again", WorkspaceID: "w"}
			_, err := h.c.CreateSession(t.Context(), request)
			h.wantKilled(err)
			rows := h.inOrder().Rows
			again := h.create(request)
			if got := h.sh(again, "echo usable > f; cat f"); got != "usable" {
				t.Errorf("the session of the second request prints %q", got)
			}
			if _, first := rows[again.ID]; first != (s.point == "create.running") {
				t.Errorf("the second request gives the session of the first: %v", first)
			}
			h.oracle()
			h.wantNothing()
		})
	}
}

// A daemon that dies at any step of a destroy ends the session at its next
// start, without another request.
func TestF02_CrashAtEachStepOfDestroy(t *testing.T) {
	t.Parallel()
	for _, step := range destroySteps {
		t.Run(step.id, func(t *testing.T) {
			t.Parallel()
			h := start(t, "", at(step.point))
			s := h.create(nil)
			h.sh(s, "sleep 1000 & head -c 100000 /dev/zero > f")
			h.wantKilled(s.Destroy(t.Context()))
			h.wantStatus(s, "destroyed", settle)
			if err := s.Destroy(t.Context()); err != nil {
				t.Errorf("to destroy it again: %v", err)
			}
			h.oracle()
			h.wantNothing()
		})
	}
}

// interrupted are the other changes of a session, each with the points at which
// the daemon dies in it, and the status that it has after the next start.
var interrupted = []struct {
	name   string
	change func(*host, *sandkasten.Session) error
	config string
	points map[string]string
}{
	{
		name:   "stop",
		change: func(h *host, s *sandkasten.Session) error { _, err := s.Stop(h.t.Context()); return err },
		points: map[string]string{
			"stop.row": "stopped", "linux.stop.killed": "stopped", "linux.stop.cgroups": "stopped", "linux.stop.disk": "stopped",
			"linux.stop.state": "stopped", "stop.sandbox": "stopped", "stop.done": "stopped",
		},
	},
	{
		name: "start",
		change: func(h *host, s *sandkasten.Session) error {
			if _, err := s.Stop(h.t.Context()); err != nil {
				h.t.Fatal(err)
			}
			_, err := s.Start(h.t.Context())
			return err
		},
		points: map[string]string{
			"start.row": "stopped", "linux.start.claimed": "stopped", "linux.start.prepared": "stopped", "linux.start.state": "stopped",
			"linux.start.cgroups": "stopped", "linux.start.socket": "stopped", "linux.start.disk": "stopped",
			"linux.start.booted": "stopped", "linux.start.ready": "stopped", "start.sandbox": "stopped", "start.running": "running",
		},
	},
	{
		name:   "pause",
		change: func(h *host, s *sandkasten.Session) error { _, err := s.Pause(h.t.Context(), nil); return err },
		points: map[string]string{"pause.row": "paused", "pause.sandbox": "paused"},
	},
	{
		name: "resume",
		change: func(h *host, s *sandkasten.Session) error {
			if _, err := s.Pause(h.t.Context(), nil); err != nil {
				h.t.Fatal(err)
			}
			_, err := s.Resume(h.t.Context())
			return err
		},
		points: map[string]string{"resume.row": "running", "resume.sandbox": "running"},
	},
	{
		name:   "fork",
		change: func(h *host, s *sandkasten.Session) error { _, err := s.Fork(h.t.Context(), 2, nil); return err },
		points: map[string]string{
			"fork.rows": "running", "linux.fork.frozen": "running", "linux.fork.copied": "running", "linux.fork.disks": "running",
			"linux.fork.booted": "running", "fork.sandboxes": "running", "fork.running": "running",
		},
	},
}

// A daemon that dies in the middle of any other change of a session finishes or
// undoes it at its next start, and the session's files are kept.
func TestF02_CrashInTheMiddleOfOtherChanges(t *testing.T) {
	t.Parallel()
	for _, c := range interrupted {
		for point, want := range c.points {
			t.Run(c.name+" at "+point, func(t *testing.T) {
				t.Parallel()
				h := start(t, c.config, at(point))
				s := h.create(nil)
				h.sh(s, "echo kept > f")
				h.wantKilled(c.change(h, s))
				h.wantStatus(s, want, settle)
				h.oracle()
				if want == "stopped" {
					if _, err := s.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := h.sh(s, "cat f"); got != "kept" {
					t.Errorf("its file is %q", got)
				}
				h.wantNothing()
			})
		}
	}
}

// adoptSteps are those of a daemon's start, of all of which there is something
// to do.
var adoptSteps = []string{
	"linux.sweep.groups", "linux.sweep.scratch", "adopt.loaded", "adopt.surveyed", "adopt.session", "adopt.orphan", "adopt.volumes",
	"destroy.row", "linux.kill.signaled", "linux.destroy.killed", "linux.destroy.files", "destroy.done",
}

// A daemon that dies while it puts things in order after a crash leaves them so
// that the next one can.
func TestF06_CrashInReconciliation(t *testing.T) {
	t.Parallel()
	for _, point := range adoptSteps {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := start(t, "", at("create.sandbox"))
			// One session that is half made, one that runs and one that lost its row.
			_, err := h.c.CreateSession(t.Context(), nil)
			h.wantKilled(err)
			runs, orphan := h.create(nil), h.create(nil)
			h.sh(runs, "v=kept")
			h.Kill()
			h.change("UPDATE sessions SET state = 'creating', ended_at = 0 WHERE state = 'failed'")
			h.change("DELETE FROM sessions WHERE id = ?", orphan.ID)
			h.SetEnv(at(point))
			if err := h.TryStart(); err == nil {
				h.Wait() // the point lies behind readiness
			} else if !strings.Contains(err.Error(), "ended before it was ready") {
				t.Fatal(err)
			}
			h.SetEnv()
			h.Start()
			if got := h.sh(runs, "echo $v"); got != "kept" {
				t.Errorf("the shell of the session that ran has %q", got)
			}
			h.oracle()
			h.wantNothing()
		})
	}
}

// Runners that have just been cloned wait for the daemon. When it is killed they end,
// and hold nothing of it: the next one gets its lock, its address and its clients.
func TestF06_KillWithClonedRunners(t *testing.T) {
	t.Parallel()
	h := start(t, "", "SANDKASTEN_FAILPOINT=linux.create.cloned=sleep:30s")
	var creating sync.WaitGroup
	for range 8 {
		creating.Go(func() {
			_, _ = h.c.CreateSession(t.Context(), nil) // the daemon dies before it can answer
		})
	}
	h.eventually(settle, func() error {
		if all, err := testenv.Children(h.PID()); err != nil || len(all) < 2 { // as many as are made at once
			return fmt.Errorf("runners %v, %w", all, err)
		}
		return nil
	})
	h.Kill() // none is further yet
	creating.Wait()
	h.SetEnv()
	h.Start()
	h.sh(h.create(nil), "true")
	h.oracle()
	h.wantNothing()
}

// A command whose session ends is told so, and not that its processes were killed: the
// runner, which would tell that, is gone before them, however long the rest takes.
func TestDestroyEndsTheRunnerFirst(t *testing.T) {
	t.Parallel()
	h := start(t, "", "SANDKASTEN_FAILPOINT=linux.kill.signaled=sleep:1s")
	s := h.create(nil)
	ended := make(chan error, 1)
	go func() {
		r, err := s.Exec(t.Context(), "touch begun; sleep 1000", nil)
		if err == nil && r.Cause != "sandbox_gone" {
			err = fmt.Errorf("it ended as %q", r.Cause)
		}
		ended <- err
	}()
	h.eventually(settle, func() error { _, err := s.Stat(t.Context(), "begun", nil); return err })
	h.destroy(s)
	if err := <-ended; err != nil && !errors.Is(err, sandkasten.ErrConflict) { // says that the session is ending
		t.Error(err)
	}
	h.wantNothing()
}

// The reaper and creates go on while a daemon is still putting in order what a
// crash left.
func TestF06_CreateDuringReconciliation(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	for range 5 {
		h.create(nil)
	}
	h.Kill()
	h.SetEnv("SANDKASTEN_FAILPOINT=adopt.session=sleep:500ms")
	h.Start()
	s := h.create(nil)
	h.sh(s, "true")
	h.Kill()
	h.SetEnv()
	h.Start()
	h.sh(s, "true")
	h.oracle()
	h.wantNothing()
}

// snapshotSteps are those of a snapshot, with how many there are when the daemon
// has died there and started again.
var snapshotSteps = map[string]int{
	"snapshot.row": 0, "snapshot.still": 0, "snapshot.packed": 0, "snapshot.counted": 0, "snapshot.kept": 0, "snapshot.ready": 1,
}

// A daemon that dies while it makes a snapshot leaves the session running, not
// frozen, and no part of the snapshot; the same request makes it.
func TestF28_CrashInSnapshot(t *testing.T) {
	t.Parallel()
	for point, want := range snapshotSteps {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := start(t, "", at(point))
			s := h.create(nil)
			h.sh(s, "echo kept > f; (while sleep 0.1; do date +%N > tick; done) &")
			request := &sandkasten.SnapshotOptions{IdempotencyKey: "again"}
			_, err := s.Snapshot(t.Context(), request)
			h.wantKilled(err)
			h.wantSnapshots(want)
			before := h.sh(s, "until [ -s tick ]; do sleep 0.05; done; cat tick")
			h.eventually(5*time.Second, func() error {
				if h.sh(s, "cat tick") == before {
					return errFrozen
				}
				return nil
			})
			made, err := s.Snapshot(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			h.wantSnapshots(1)
			restored := h.create(&sandkasten.CreateOptions{RestoreSnapshotID: made.ID})
			if got := h.sh(restored, "cat f"); got != "kept" {
				t.Errorf("restored is %q", got)
			}
			h.oracle()
			h.wantNothing()
		})
	}
}

// wantSnapshots compares what the daemon lists with the archives that there are.
func (h *host) wantSnapshots(want int) {
	h.t.Helper()
	h.eventually(settle, func() error {
		listed, err := h.c.ListSnapshots(h.t.Context(), nil)
		kept, globErr := filepath.Glob(filepath.Join(h.Data, "snapshots", "[^.]*"))
		if len(listed) != want || len(kept) != want {
			err = errors.Join(err, fmt.Errorf("%d snapshots in %d files, want %d: %v", len(listed), len(kept), want, kept))
		}
		return errors.Join(err, globErr)
	})
}

var errFrozen = errors.New("the session's programs stand still")
