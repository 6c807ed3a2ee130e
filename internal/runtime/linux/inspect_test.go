package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// toldOf is what Inspect tells of d's data directory, by name.
func toldOf(t *testing.T, d *Driver, daemon int) string {
	t.Helper()
	seen, err := Inspect(Options{DataDir: d.opts.DataDir, LeaseDir: d.opts.LeaseDir}, daemon)
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
	seen, err := Inspect(Options{DataDir: dir, LeaseDir: filepath.Join(dir, "run")}, 0)
	if err != nil || len(seen.Differences)+len(seen.Sandboxes) > 0 {
		t.Errorf("%+v, %v", seen, err)
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("made %v, %v", left, err)
	}
}

// wantTold waits until Inspect tells of these differences.
func wantTold(t *testing.T, d *Driver, want string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		found := toldOf(t, d, os.Getpid())
		if found == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("found %q, want %q", found, want)
		}
	}
}

// What somebody on the host does to a sandbox that lives is found, and a start
// takes it back.
func TestDamageFromTheHostIsTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*testing.T, *Driver, *state)
		want   string
	}{
		"limit": {func(t *testing.T, d *Driver, s *state) {
			l := groupLimits(s.Spec.Limits)
			l.Pids, l.Memory = l.Pids+1, l.Memory*2
			if err := d.group(s).Limit(l); err != nil {
				t.Fatal(err)
			}
		}, "control group"},
		"process of the host": {func(t *testing.T, d *Driver, s *state) {
			cmd := exec.CommandContext(t.Context(), "sleep", "60")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }) // by the signal
			dir, tasks, err := d.group(s).Workload()
			if err != nil {
				t.Fatal(err)
			}
			defer sys.Close(append(tasks, dir)...)
			procs := fmt.Sprintf("/proc/self/fd/%d/cgroup.procs", dir)
			if err := os.WriteFile(procs, []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
				t.Fatal(err)
			}
		}, "control group"},
		"second loop device": {func(t *testing.T, d *Driver, s *state) {
			out, err := exec.CommandContext(t.Context(), "losetup", "--show", "-f", d.diskPath(s.ID)).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}, "loop device"},
		"stopped runner": {func(t *testing.T, _ *Driver, s *state) {
			if err := unix.Kill(s.Process.PID, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}, "sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			d := root(t)
			sh := create(t, d, "s", runtime.Spec{})
			s, err := d.readState("s")
			if err != nil {
				t.Fatal(err)
			}
			c.damage(t, d, s)
			wantTold(t, d, c.want)
			for _, err := range d.List(t.Context()) { // as the daemon looks from time to time
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantTold(t, d, "")
			if got := sh("echo works"); strings.TrimSpace(got) != "works" {
				t.Errorf("a command prints %q", got)
			}
		})
	}
}

// A runner whose socket is gone cannot be reached by anybody: its sandbox counts
// as dead, and can be stopped, which keeps its files.
func TestASandboxWithoutSocketCountsAsDead(t *testing.T) {
	d := root(t)
	for name, remove := range map[string]func(path string) error{
		"gone":     os.Remove,
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		id := runtime.ID(name)
		create(t, d, id, runtime.Spec{})
		sb, err := d.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		d.parked.drop(id)
		if err := remove(filepath.Join(d.dir(id), socketFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := sb.DialRunner(t.Context()); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("%s: dial: %v", name, err)
		}
		if found := toldOf(t, d, os.Getpid()); found != "sandbox" {
			t.Errorf("%s: found %q", name, found)
		}
		if _, err := d.Open(t.Context(), id); !errors.Is(err, runtime.ErrCutOff) {
			t.Errorf("%s: open: %v", name, err)
		}
		for status, err := range d.List(t.Context()) {
			if err != nil || status.ID == id && (status.Alive || !status.Startable) {
				t.Errorf("%s: %+v, %v", name, status, err)
			}
		}
		if err := d.Stop(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Start(t.Context(), id); err != nil {
			t.Errorf("%s: start: %v", name, err)
		}
	}
}
