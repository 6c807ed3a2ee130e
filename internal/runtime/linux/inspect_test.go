package linux

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// toldOf is what Inspect tells of d's data directory, by name.
func toldOf(t *testing.T, d *Driver, daemon int) string {
	t.Helper()
	seen, err := Inspect(Options{DataDir: d.opts.DataDir, RunDir: d.opts.RunDir}, daemon)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range seen.Differences {
		names = append(names, x.What)
	}
	return strings.Join(names, ", ")
}

// A sandbox whose directory somebody has removed has a runner that nothing
// names: it is ended with the sandbox, and at the latest by a start.
func TestARunnerWithoutAStateIsEnded(t *testing.T) {
	d := root(t)
	for name, end := range map[string]func(id runtime.ID) error{
		"destroyed": func(id runtime.ID) error { return d.Destroy(t.Context(), id) },
		"swept":     func(runtime.ID) error { return d.Sweep(t.Context()) },
		"swept without its group": func(id runtime.ID) error {
			g := d.cgroups.Group(string(id))
			// Its runner is at work and starts the shell anew, in the group.
			for deadline := time.Now().Add(20 * time.Second); ; {
				err := errors.Join(g.Kill(), waitEmpty(t.Context(), g.Populated), g.Remove(cgroupTimeout))
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					return err
				}
			}
			return d.endStrays(t.Context(), 0)
		},
	} {
		id := runtime.ID(strings.ReplaceAll(name, " ", "-"))
		create(t, d, id, runtime.Spec{})
		s, err := d.readState(id)
		if err != nil {
			t.Fatal(err)
		}
		if found := toldOf(t, d, os.Getpid()); found != "" {
			t.Errorf("%s: before: %s", name, found)
		}
		if err := os.RemoveAll(d.dir(id)); err != nil {
			t.Fatal(err)
		}
		// Its parent is not what tells it apart here, where we are the daemon.
		if found := toldOf(t, d, 0); !strings.Contains(found, "process") || !strings.Contains(found, "control group") {
			t.Errorf("%s: found %q", name, found)
		}
		if err := end(id); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.Process.alive(d.bootID) {
			t.Errorf("%s: the runner lives", name)
		}
	}
}

// A device that somebody has made on a disk that is not in use would be a second
// file system there.
func TestALoopDeviceOfNothingIsDetached(t *testing.T) {
	d := root(t)
	create(t, d, "kept", runtime.Spec{})
	if err := d.Stop(t.Context(), "kept"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "--show", "-f", d.diskPath("kept")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if found := toldOf(t, d, os.Getpid()); found != "loop device" {
		t.Errorf("found %q", found)
	}
	if err := d.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := toldOf(t, d, os.Getpid()); found != "" {
		t.Errorf("left: %s", found)
	}
	if _, err := d.Start(t.Context(), "kept"); err != nil {
		t.Error(err)
	}
}

// Inspect makes nothing, also where no daemon has ever been.
func TestInspectMakesNothing(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	dir := testenv.DataDir(t)
	seen, err := Inspect(Options{DataDir: dir, RunDir: filepath.Join(dir, "run")}, 0)
	if err != nil || len(seen.Differences)+len(seen.Sandboxes) > 0 {
		t.Errorf("%+v, %v", seen, err)
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("made %v, %v", left, err)
	}
}
