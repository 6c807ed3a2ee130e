package linux

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// A daemon that dies at any step of Create or Destroy leaves nothing that the
// next one does not find and free, and harms no workspace.
func TestCrash(t *testing.T) {
	for _, point := range []string{
		"linux.create.claimed", "linux.create.leased", "linux.create.cloned", "linux.create.prepared", "linux.create.state", "linux.create.cgroups",
		"linux.create.socket", "linux.create.disk", "linux.create.attached", "linux.create.booted", "linux.create.ready",
		"linux.kill.signaled", "linux.destroy.killed", "linux.destroy.cgroups", "linux.destroy.files",
	} {
		t.Run(point, func(t *testing.T) {
			testenv.NeedsRoot(t)
			testenv.CheckHost(t)
			d := newTestDriver(t)
			keep(t, d)
			crash(t, d, point)
			// Twice: the second time there must be nothing to do.
			for range 2 {
				recoverSandboxes(t, d)
			}
			if _, err := d.Create(t.Context(), "crashed", runtime.Spec{Image: "test"}); err != nil {
				t.Fatalf("the name is not free again: %v", err)
			}
			recoverSandboxes(t, d)
			wantKept(t, d)
		})
	}
}

// A daemon that dies at any step of Stop or Start leaves a sandbox that can be
// stopped and started again.
func TestCrashOfStopAndStart(t *testing.T) {
	for _, point := range []string{
		"linux.stop.killed", "linux.stop.cgroups", "linux.stop.disk", "linux.stop.state",
		"linux.start.claimed", "linux.start.prepared", "linux.start.state", "linux.start.cgroups",
		"linux.start.socket", "linux.start.booted", "linux.start.ready",
	} {
		t.Run(point, func(t *testing.T) {
			testenv.NeedsRoot(t)
			testenv.CheckHost(t)
			d := newTestDriver(t)
			crash(t, d, point)
			if err := d.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := d.Stop(t.Context(), "crashed"); err != nil {
				t.Fatalf("Stop: %v", err)
			}
			started, err := d.Start(t.Context(), "crashed")
			if err != nil {
				t.Fatalf("Start: %v", err)
			}
			if out := command(t, started, "cat /etc/kept"); out != "kept\n" {
				t.Errorf("its file is %q", out)
			}
			for range 2 {
				recoverSandboxes(t, d)
			}
		})
	}
}

// A daemon that dies at any step of Fork leaves the source to go on and forks
// that are whole or can be destroyed.
func TestCrashOfFork(t *testing.T) {
	for point, make := range map[string]func(*testing.T) *Driver{
		"linux.fork.frozen": root, "linux.fork.copied": root, "linux.fork.disks": pooled, "linux.fork.claimed": pooled,
		"linux.fork.state": pooled, "linux.fork.attached": root, "linux.fork.booted": pooled, "linux.fork.ready": pooled,
	} {
		t.Run(point, func(t *testing.T) {
			d := make(t)
			crash(t, d, point)
			t.Cleanup(func() { recoverSandboxes(t, d) })
			if err := d.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			source, err := d.Open(t.Context(), "crashed")
			if err != nil {
				t.Fatal(err)
			}
			if err := source.(runtime.Pauser).Resume(t.Context()); err != nil { // as for every session that runs
				t.Fatal(err)
			}
			if out := command(t, source, "cat /etc/kept"); out != "kept\n" {
				t.Errorf("its file is %q", out)
			}
			for _, id := range []runtime.ID{"fork-1", "fork-2"} {
				if err := d.Destroy(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := d.Fork(t.Context(), "crashed", []runtime.Branch{{ID: "fork-1"}, {ID: "fork-2"}}, runtime.Spec{Image: "test"}); err != nil {
				t.Fatalf("the names are not free again: %v", err)
			}
		})
	}
}

// A daemon that dies at any step of Claim leaves the ready sandbox, with nothing
// of a session, or the session's, and in no case both.
func TestCrashOfClaim(t *testing.T) {
	for point, left := range map[string]runtime.ID{
		"linux.claim.attached": "ready", "linux.claim.renamed": "claimed", "linux.claim.state": "claimed",
		"linux.claim.limits": "claimed", "linux.claim.workspace": "claimed", "linux.claim.settled": "claimed",
	} {
		t.Run(point, func(t *testing.T) {
			d := root(t)
			keep(t, d)
			crash(t, d, point)
			if err := errors.Join(d.Destroy(t.Context(), "crashed"), d.Sweep(t.Context())); err != nil {
				t.Fatal(err)
			}
			for s, err := range d.List(t.Context()) {
				if err != nil || s.ID != left || !s.Alive {
					t.Errorf("left: %+v, %v; want %s alive", s, err, left)
				}
			}
			if left == "ready" {
				spec := runtime.Spec{Image: "test", Limits: runtime.Limits{DiskMB: 64}}
				claimed, err := d.Claim(t.Context(), "ready", "claimed", spec)
				if err != nil {
					t.Fatal(err)
				}
				if out := command(t, claimed, "hostname; ls -A; echo $A"); out != "sandbox\n\n" {
					t.Errorf("it has something of the session that did not come to be: %q", out)
				}
			}
			// The old name has nothing any more, also when somebody thinks so.
			if err := d.Destroy(t.Context(), "ready"); err != nil {
				t.Fatal(err)
			}
			if s := d.status("claimed", d.look("claimed", nil)); !s.Alive {
				t.Error("the session's sandbox ended with the old name")
			}
			for range 2 {
				recoverSandboxes(t, d)
			}
			wantKept(t, d)
		})
	}
}

// A workspace is there whole or not at all, wherever its making or its removal
// was cut off.
func TestCrashOfWorkspaces(t *testing.T) {
	for point, there := range map[string]bool{
		"linux.workspace.made": false, "linux.workspace.placed": true, "linux.workspace.gone": false,
	} {
		t.Run(point, func(t *testing.T) {
			d := root(t)
			crash(t, d, point)
			recoverSandboxes(t, d)
			if _, err := d.WorkspaceBytes(t.Context(), "kept"); errdefs.Is(err, errdefs.NotFound) == there {
				t.Errorf("there: %v, want %v", err, there)
			}
			if err := d.CreateWorkspace(t.Context(), "kept", 64); errdefs.Is(err, errdefs.AlreadyExists) != there {
				t.Errorf("made again: %v", err)
			}
			create(t, d, "user", runtime.Spec{Workspace: "kept"})("echo works > f")
		})
	}
}

// keep makes the workspace that crash will use, with a file.
func keep(t *testing.T, d *Driver) {
	t.Helper()
	makeWorkspace(t, d, "kept")
	create(t, d, "writer", runtime.Spec{Workspace: "kept"})("printf kept > f")
	if err := d.Destroy(t.Context(), "writer"); err != nil {
		t.Fatal(err)
	}
}

// wantKept looks for what keep has made.
func wantKept(t *testing.T, d *Driver) {
	t.Helper()
	if out := create(t, d, "reader", runtime.Spec{Workspace: "kept"})("cat f"); out != "kept" {
		t.Errorf("in the workspace: %q", out)
	}
	if err := d.Destroy(t.Context(), "reader"); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(d.workspaceDir("kept"), diskFile)
	ctx, cancel := context.WithTimeout(t.Context(), detachTimeout)
	defer cancel()
	if err := awaitDone(ctx, func() (bool, error) {
		attached, err := disk.Attached(image)
		return !attached, err
	}, "the workspace stays attached"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "e2fsck", "-f", "-n", image).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
}

// crash runs a program that works in d's directories and dies at point.
func crash(t *testing.T, d *Driver, point string) {
	t.Helper()
	program := testenv.Build(t, "./internal/runtime/linux/testdata/crash", "failpoint")
	cmd := exec.CommandContext(t.Context(), program, d.opts.DataDir, d.opts.LeaseDir, testenv.Runner(t), testenv.BaseRootfs(t), strconv.FormatInt(d.opts.PoolMB, 10))
	cmd.Env = append(os.Environ(), "SANDKASTEN_FAILPOINT="+point+"=kill9")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the program did not die at %s: %v\n%s", point, err, out)
	}
}

// recoverSandboxes does what a daemon does at its start that knows no session.
func recoverSandboxes(t *testing.T, d *Driver) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := d.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	for s, err := range d.List(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Destroy(ctx, s.ID); err != nil {
			t.Fatal(err)
		}
	}
	dirs := []string{d.sandboxes, d.scratch}
	if d.pool != nil {
		dirs = append(dirs, d.pool.Path("."))
	}
	for _, dir := range dirs {
		if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) > 0 {
			t.Fatalf("left behind: %v, %v", left, err)
		}
	}
}

// newTestDriver returns a driver of its own with the test image.
func newTestDriver(t testing.TB) *Driver { return newDriverWithPool(t, 0) }

// pooled is root with the disks in a pool.
func pooled(t *testing.T) *Driver {
	t.Helper()
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	testenv.NeedsXFS(t)
	return newDriverWithPool(t, 2048)
}

func newDriverWithPool(t testing.TB, poolMB int64) *Driver {
	t.Helper()
	program, err := os.ReadFile(testenv.Runner(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := testenv.DataDir(t)
	d, err := New(Options{DataDir: dir, LeaseDir: filepath.Join(dir, "run"), Runner: program, Images: layers{testenv.BaseRootfs(t)}, PoolMB: poolMB})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
