package session_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// The environment of a daemon that is to crash.
const (
	crashDir    = "SANDKASTEN_CRASH_DIR" // of the host
	crashRunner = "SANDKASTEN_CRASH_RUNNER"
	crashDB     = "SANDKASTEN_CRASH_DB"
	crashAct    = "SANDKASTEN_CRASH_ACT" // what to do until it crashes: a word of crashActs
	failpointAt = "SANDKASTEN_FAILPOINT"
)

var crashRequest = session.CreateRequest{IdempotencyKey: "crash"}

var crashFork = session.ForkRequest{Count: 2, IdempotencyKey: "fork"}

// crashActs are what a daemon may do with a session that it has created.
var crashActs = map[string]func(*testing.T, *daemon, session.ID){
	"begin":  nil, // it does not even create one
	"create": func(*testing.T, *daemon, session.ID) {},
	"destroy": func(t *testing.T, d *daemon, id session.ID) {
		if err := d.Sessions.Destroy(t.Context(), everyone, id); err != nil {
			t.Fatal(err)
		}
	},
	"pause": func(t *testing.T, d *daemon, id session.ID) { d.pause(t, id) },
	"resume": func(t *testing.T, d *daemon, id session.ID) {
		d.pause(t, id)
		if _, err := d.Sessions.Resume(t.Context(), everyone, id); err != nil {
			t.Fatal(err)
		}
	},
	"stop": func(t *testing.T, d *daemon, id session.ID) {
		if _, err := d.Sessions.Stop(t.Context(), everyone, id); err != nil {
			t.Fatal(err)
		}
	},
	"start": func(t *testing.T, d *daemon, id session.ID) {
		if _, err := d.Sessions.Stop(t.Context(), everyone, id); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Sessions.Start(t.Context(), everyone, id); err != nil {
			t.Fatal(err)
		}
	},
	"fork":      func(t *testing.T, d *daemon, id session.ID) { d.fork(t, id, crashFork) },
	"workspace": func(t *testing.T, d *daemon, _ session.ID) { d.useAndDeleteWorkspace(t) },
	"snapshot":  func(t *testing.T, d *daemon, id session.ID) { d.saveAndRestore(t, id) },
	"snapshot of a stopped one": func(t *testing.T, d *daemon, id session.ID) {
		if _, err := d.Sessions.Stop(t.Context(), everyone, id); err != nil {
			t.Fatal(err)
		}
		d.save(t, as("alice"), string(id), snapshots.Request{})
	},
}

// TestCrashingDaemon is the daemon that TestCrash starts. By itself it does
// nothing.
func TestCrashingDaemon(t *testing.T) {
	act, given := crashActs[os.Getenv(crashAct)]
	if !given {
		return
	}
	h := host{
		driver: &runtimetest.Local{Dir: os.Getenv(crashDir), Runner: os.Getenv(crashRunner)},
		db:     os.Getenv(crashDB),
	}
	d := h.start(t, withWorkspaces, h.withSnapshots(t))
	if act != nil {
		act(t, d, d.createAs(t, as("alice"), crashRequest).ID)
	}
}

// crashBinary is this package's tests with failpoints.
func crashBinary(t *testing.T) string {
	t.Helper()
	return testenv.TestBinary(t, "./internal/session", "failpoint")
}

// crash runs a daemon that must be killed at the point.
func (h host) crash(t *testing.T, binary, act, point string) {
	t.Helper()
	daemon := exec.CommandContext(t.Context(), binary, "-test.run=^TestCrashingDaemon$")
	daemon.Env = append(os.Environ(), crashDir+"="+h.driver.Dir, crashRunner+"="+h.driver.Runner, crashDB+"="+h.db,
		crashAct+"="+act, failpointAt+"="+point+"=kill9")
	text, err := daemon.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%s at %s: the daemon was not killed there: %v\n%s", act, point, err, text)
	}
}

// TestCrash kills the daemon with kill -9 at every step of every change of a
// session, and of the start after that. The next start puts everything in
// order.
func TestCrash(t *testing.T) {
	t.Parallel()
	binary := crashBinary(t)
	for _, c := range []struct {
		act, point string
		again      string // the next start is killed here, too
		want       session.State
	}{
		{"create", "create.row", "", session.Failed},
		{"create", "create.sandbox", "", session.Failed},
		{"create", "create.running", "", session.Running},
		{"destroy", "destroy.row", "", session.Destroyed},
		{"destroy", "destroy.sandbox", "", session.Destroyed},
		{"destroy", "destroy.done", "", session.Destroyed},
		{"create", "create.sandbox", "destroy.row", session.Failed},
		{"create", "create.sandbox", "destroy.sandbox", session.Failed},
		{"create", "create.sandbox", "destroy.done", session.Failed},
		{"destroy", "destroy.row", "destroy.sandbox", session.Destroyed},
		{"pause", "pause.row", "", session.Paused},
		{"pause", "pause.sandbox", "", session.Paused},
		{"resume", "resume.row", "", session.Running},
		{"resume", "resume.sandbox", "", session.Running},
		{"stop", "stop.row", "", session.Stopped},
		{"stop", "stop.sandbox", "", session.Stopped},
		{"stop", "stop.done", "", session.Stopped},
		{"start", "start.row", "", session.Stopped},
		{"start", "start.sandbox", "", session.Stopped},
		{"start", "start.running", "", session.Running},
		{"snapshot of a stopped one", "snapshot.starting", "", session.Stopped},
		{"snapshot of a stopped one", "snapshot.started", "", session.Stopped},
		{"snapshot of a stopped one", "snapshot.packed", "", session.Stopped},
		{"snapshot of a stopped one", "snapshot.started", "stop.sandbox", session.Stopped},
		{"stop", "stop.row", "stop.sandbox", session.Stopped},
		{"start", "start.sandbox", "stop.row", session.Stopped},
		{"start", "start.sandbox", "stop.sandbox", session.Stopped},
	} {
		t.Run(strings.TrimSuffix(c.point+" then "+c.again, " then "), func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.crash(t, binary, c.act, c.point)
			if c.again != "" {
				h.crash(t, binary, "begin", c.again)
			}
			d := h.start(t)
			all, err := d.Sessions.List(context.Background(), everyone, session.ListRequest{IncludeEnded: true})
			if err != nil || len(all) != 1 {
				t.Fatalf("rows %+v, %v", all, err)
			}
			s := d.want(t, all[0].ID, c.want)
			if c.want.Ended() {
				h.driver.WantSandboxes(t)
			} else {
				h.driver.WantSandboxes(t, s.Sandbox)
			}
			switch c.want {
			case session.Running:
				d.output(t, s.ID, "true")
			case session.Paused:
				h.wantPaused(t, s.Sandbox, true)
			}
			d.stop()

			before := h.rows(t)
			d = h.start(t)
			d.stop()
			if diff := cmp.Diff(before, h.rows(t)); diff != "" {
				t.Errorf("another start changed rows: %s", diff)
			}

			d = h.start(t)
			if again := d.createAs(t, as("alice"), crashRequest); (again.ID == s.ID) != (c.want != session.Failed) {
				t.Errorf("the same request gives session %s, the first was %s and is %s", again.ID, s.ID, c.want)
			}
			if c.want == session.Stopped {
				if _, err := d.Sessions.Start(context.Background(), everyone, s.ID); err != nil {
					t.Error(err)
				}
			}
			if !c.want.Ended() {
				d.output(t, s.ID, "true")
			}
			d.stop()
		})
	}
}

// useAndDeleteWorkspace makes two workspaces by their first sessions and
// deletes one of them with its session.
func (d *daemon) useAndDeleteWorkspace(t *testing.T) {
	for _, id := range []string{"stays", "goes"} {
		s := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: id})
		d.output(t, s.ID, "echo kept > f")
	}
	if err := d.Workspaces.ForceDelete(t.Context(), as("alice"), "goes"); err != nil {
		t.Fatal(err)
	}
}

// TestCrashOfWorkspaces kills the daemon at every step of the first use of a
// workspace and of its removal. What the next one has is whole, and there is
// nothing that it does not know of.
func TestCrashOfWorkspaces(t *testing.T) {
	t.Parallel()
	binary := crashBinary(t)
	for _, c := range []struct {
		point string
		want  string // the workspaces that are left
	}{
		{"workspace.row", ""},
		{"workspace.files", ""},
		{"workspace.deleting", "stays"},
		{"workspace.removed", "stays"},
	} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.crash(t, binary, "workspace", c.point)
			d := h.start(t, withWorkspaces)
			var left []string
			for range 2 { // the second time there is nothing to do
				if _, err := d.Upkeep.PruneWorkspaces(t.Context(), part); err != nil {
					t.Fatal(err)
				}
				all, err := d.Workspaces.List(t.Context(), as("alice"))
				if err != nil {
					t.Fatal(err)
				}
				left = nil
				for _, w := range all {
					left = append(left, w.ID)
				}
			}
			if got := strings.Join(left, " "); got != c.want {
				t.Errorf("left are %q, want %q", got, c.want)
			}
			h.wantVolumes(t, len(left))
			for _, id := range []string{"stays", "goes"} {
				s := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: id})
				want := ""
				if strings.Contains(c.want, id) {
					want = "kept\n"
				}
				if out := d.output(t, s.ID, "cat f 2>/dev/null || true"); out != want {
					t.Errorf("%s has %q, want %q", id, out, want)
				}
			}
		})
	}
}

func (d *daemon) saveAndRestore(t *testing.T, id session.ID) {
	d.output(t, id, "echo kept > f")
	s := d.save(t, as("alice"), string(id), snapshots.Request{IdempotencyKey: "k"})
	d.createAs(t, as("alice"), session.CreateRequest{RestoreSnapshotID: s.ID})
	if err := d.Snapshots.Delete(t.Context(), as("alice"), s.ID); err != nil {
		t.Fatal(err)
	}
}

// TestCrashOfSnapshots kills the daemon at every step of the making, restoring
// and removing of a snapshot. There is no half one, and nothing is left of it.
func TestCrashOfSnapshots(t *testing.T) {
	t.Parallel()
	binary := crashBinary(t)
	for _, c := range []struct {
		point string
		want  int // snapshots
		alive int // sessions
	}{
		{"snapshot.row", 0, 1},
		{"snapshot.still", 0, 1},
		{"snapshot.packed", 0, 1},
		{"snapshot.counted", 0, 1},
		{"snapshot.kept", 0, 1},
		{"snapshot.ready", 1, 1},
		{"create.restored", 1, 1},
		{"snapshot.deleting", 0, 2},
		{"snapshot.removed", 0, 2},
	} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.crash(t, binary, "snapshot", c.point)
			d := h.start(t, h.withSnapshots(t))
			for range 2 { // the second time there is nothing to do
				if _, err := d.Upkeep.PruneSnapshots(t.Context(), part); err != nil {
					t.Fatal(err)
				}
				all, err := d.Snapshots.List(t.Context(), as("alice"), snapshots.Filter{})
				if err != nil || len(all) != c.want {
					t.Errorf("%d snapshots, want %d: %v", len(all), c.want, err)
				}
				h.wantArchives(t, c.want)
			}
			if alive, err := d.Sessions.List(t.Context(), everyone, session.ListRequest{}); err != nil || len(alive) != c.alive {
				t.Errorf("%d sessions, want %d: %v", len(alive), c.alive, err)
			}
			// The session runs, whatever became of its snapshot, and the same request
			// gives one that can be used.
			from := d.createAs(t, as("alice"), crashRequest)
			d.output(t, from.ID, "true")
			s := d.save(t, as("alice"), string(from.ID), snapshots.Request{IdempotencyKey: "k"})
			to := d.createAs(t, as("alice"), session.CreateRequest{RestoreSnapshotID: s.ID})
			if out := d.output(t, to.ID, "cat f"); out != "kept\n" {
				t.Errorf("the restored session has %q", out)
			}
			h.wantArchives(t, 1)
		})
	}
}
