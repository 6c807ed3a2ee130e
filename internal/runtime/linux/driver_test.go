package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// create makes a sandbox that is destroyed at the test's end and returns a
// function that runs a command in it.
func create(t *testing.T, d *Driver, id runtime.ID, spec runtime.Spec) func(command string) string {
	t.Helper()
	spec.Image = "test"
	if _, err := d.Create(t.Context(), id, spec); err != nil {
		t.Fatal(err)
	}
	return session(t, d, id)
}

// session returns how to run commands in a sandbox, which is destroyed when the
// test ends.
func session(t *testing.T, d *Driver, id runtime.ID) func(command string) string {
	t.Helper()
	sb, err := d.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	c := &runnerclient.Client{Dial: sb.DialRunner}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Destroy(context.WithoutCancel(t.Context()), id); err != nil {
			t.Error(err)
		}
	})
	n := 0
	return func(command string) string {
		t.Helper()
		n++
		out, _, err := run(t, c, fmt.Sprint("e", n), command, nil, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

func root(t *testing.T) *Driver {
	t.Helper()
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	return newTestDriver(t)
}

func TestReadonlyRoot(t *testing.T) {
	sh := create(t, root(t), "ro", runtime.Spec{ReadonlyRoot: true})
	if out := sh("touch /etc/x /usr/x 2>&1; mkdir /x 2>&1"); strings.Count(out, "Read-only file system") != 3 {
		t.Errorf("the root can be written: %q", out)
	}
	if out := sh("for d in /workspace /tmp /run /dev/shm; do echo ok > $d/x && cat $d/x; done"); out != "ok\nok\nok\nok\n" {
		t.Errorf("what must stay writable: %q", out)
	}
}

func TestWritesStayInTheSandbox(t *testing.T) {
	d := root(t)
	a, b := create(t, d, "a", runtime.Spec{}), create(t, d, "b", runtime.Spec{})
	a("echo changed > /etc/hostname; echo x > /usr/bin/new; rm -rf /usr/share/doc")
	if out := b("cat /etc/hostname; ls /usr/bin/new /usr/share/doc 2>&1 | tail -1"); strings.Contains(out, "changed") || strings.HasPrefix(out, "/usr/bin/new") {
		t.Errorf("seen by another sandbox of the image: %q", out)
	}
	if _, err := os.Stat(filepath.Join(testenv.BaseRootfs(t), "usr/bin/new")); !os.IsNotExist(err) {
		t.Errorf("written to the image: %v", err)
	}
}

func TestHostname(t *testing.T) {
	d := root(t)
	if out := create(t, d, "default", runtime.Spec{})("hostname; cat /etc/hostname; getent hosts sandbox"); !strings.HasPrefix(out, "sandbox\nsandbox\n127.0.1.1") {
		t.Errorf("default: %q", out)
	}
	if out := create(t, d, "own", runtime.Spec{Hostname: "box-7"})("hostname; cat /etc/hostname; getent hosts box-7"); !strings.HasPrefix(out, "box-7\nbox-7\n127.0.1.1") {
		t.Errorf("own: %q", out)
	}
}

func TestEnvironmentReachesTheShell(t *testing.T) {
	sh := create(t, root(t), "env", runtime.Spec{Env: map[string]string{"GREETING": "a b\n$c"}})
	if out := sh(`printf '%s|%s|%s|%s' "$GREETING" "$HOME" "$USER" "$PWD"`); out != "a b\n$c|/root|root|/workspace" {
		t.Errorf("got %q", out)
	}
}

// Debian images have links where sandboxes have mounts, and hostile ones may
// have them anywhere: what a sandbox mounts must not follow them.
func TestMountsDoNotFollowLinksOfTheImage(t *testing.T) {
	d := root(t)
	layer := testenv.DataDir(t)
	victim := testenv.DataDir(t)
	writeLayer(t, layer, nil)
	for _, name := range []string{"proc", "sys", "dev", "tmp", "run", "workspace", "etc"} {
		if err := os.Symlink(victim, filepath.Join(layer, name)); err != nil {
			t.Fatal(err)
		}
	}
	d.opts.Images = layers{layer, testenv.BaseRootfs(t)}
	sh := create(t, d, "links", runtime.Spec{})
	if out := sh("cat /proc/self/comm; echo x > /tmp/x; echo x > /workspace/x; ls -d /dev/null /etc/hosts"); out != "cat\n/dev/null\n/etc/hosts\n" {
		t.Errorf("got %q", out)
	}
	if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
		t.Errorf("written behind the image's links: %v, %v", left, err)
	}
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	d := root(t)
	good := d.opts.Images
	for name, images := range map[string]Images{
		"a layer that is not there": layers{"/nowhere/at/all"},
		"no shell":                  layers{testenv.DataDir(t)},
	} {
		t.Run(name, func(t *testing.T) {
			d.opts.Images = images
			if _, err := d.Create(t.Context(), "failed", runtime.Spec{Image: "test"}); err == nil {
				// An image without a shell is found out with the first command.
				if err := d.Destroy(t.Context(), "failed"); err != nil {
					t.Fatal(err)
				}
			}
			for s := range d.List(t.Context()) {
				t.Errorf("left: %+v", s)
			}
			d.opts.Images = good
			create(t, d, "failed", runtime.Spec{})
		})
	}
}

func TestCreateRefusesWhatItCannotDo(t *testing.T) {
	d := root(t)
	for name, tc := range map[string]struct {
		id   runtime.ID
		spec runtime.Spec
		code errdefs.Code
	}{
		"network": {"a", runtime.Spec{Network: runtime.Network{Mode: "full"}}, errdefs.Unimplemented},
		"seccomp": {"a", runtime.Spec{Seccomp: "none"}, errdefs.InvalidArgument},
		"path":    {"../a", runtime.Spec{}, errdefs.InvalidArgument},
		"empty":   {"", runtime.Spec{}, errdefs.InvalidArgument},
	} {
		if _, err := d.Create(t.Context(), tc.id, tc.spec); !errdefs.Is(err, tc.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Socket addresses end at 107 bytes; data directories need not.
func TestLongDataDirectory(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	d := newTestDriver(t)
	long := filepath.Join(d.opts.DataDir, strings.Repeat("long", 50))
	opts := d.opts
	opts.DataDir = long
	other, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	if out := create(t, other, "a", runtime.Spec{})("echo ok"); out != "ok\n" {
		t.Errorf("got %q", out)
	}
}

func TestManyAtOnceLeaveNothing(t *testing.T) {
	d := root(t)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			id := runtime.ID(fmt.Sprint("many", i))
			sb, err := d.Create(t.Context(), id, runtime.Spec{Image: "test", Limits: runtime.Limits{DiskMB: 64}})
			if err != nil {
				t.Error(err)
				return
			}
			c := &runnerclient.Client{Dial: sb.DialRunner}
			if out, _, err := run(t, c, "e", "echo $((6*7))", nil, 30*time.Second); out != "42\n" || err != nil {
				t.Errorf("%q, %v", out, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := d.Destroy(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestStats(t *testing.T) {
	d := root(t)
	sh := create(t, d, "stats", runtime.Spec{Limits: runtime.Limits{CPU: 1.5, MemoryMB: 128, Pids: 99, DiskMB: 100}})
	sh("head -c 20M /dev/zero > /workspace/f; for i in $(seq 20000); do :; done")
	sb, err := d.Open(t.Context(), "stats")
	if err != nil {
		t.Fatal(err)
	}
	st, err := sb.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.MemoryLimit != 128<<20 || st.PidsLimit != 99 || st.CPULimit != 1.5 || st.DiskLimit != 100<<20 {
		t.Errorf("limits: %+v", st)
	}
	if st.MemoryBytes < 1<<20 || st.CPUUsageUsec < 1000 || st.Pids < 1 || st.DiskBytes < 20<<20 || st.DiskBytes > 100<<20 {
		t.Errorf("use: %+v", st)
	}
}

// The child that becomes a runner shares the daemon's memory for a while, and
// the kernel gives such a value to all that share it.
func TestCreateLeavesOurOOMScoreAlone(t *testing.T) {
	d := root(t)
	before, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	sh := create(t, d, "oom", runtime.Spec{})
	after, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil || string(after) != string(before) {
		t.Errorf("it was %s and is %s, %v", before, after, err)
	}
	if out := sh("cat /proc/self/oom_score_adj"); out != "500\n" {
		t.Errorf("the sandbox has %q", out)
	}
}

// A create that fails before the runner has entered its sandbox finds the
// host's root where the sandbox's should be.
func TestCreateThatFailsEarlyLeavesTheHostAlone(t *testing.T) {
	d := root(t)
	spec := runtime.Spec{Image: "test", Hostname: strings.Repeat("x", 300<<10)}
	if _, err := d.Create(t.Context(), "early", spec); err == nil || !strings.Contains(err.Error(), "over the limit") {
		t.Fatalf("got %v", err)
	}
	for s := range d.List(t.Context()) {
		t.Errorf("left: %+v", s)
	}
}

// Memory that no large process has leaves the kernel nothing to kill but what
// comes next: a program on its way to its start, which must not be the runner.
func TestOutOfMemoryIsNotTheRunnersEnd(t *testing.T) {
	d := root(t)
	sb, err := d.Create(t.Context(), "full", runtime.Spec{Image: "test", Limits: runtime.Limits{MemoryMB: 64, Pids: 100}})
	if err != nil {
		t.Fatal(err)
	}
	c := &runnerclient.Client{Dial: sb.DialRunner}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), d.Destroy(context.WithoutCancel(t.Context()), "full")); err != nil {
			t.Error(err)
		}
	})
	hog := `python3 -c 'import os
f = os.memfd_create("x", 0)
os.set_inheritable(f, True)
# Filled by something smaller than this program, which would not fit beside it.
os.execv("/bin/sh", ["sh", "-c", "head -c 59M /dev/zero >&%d; : >full; exec sleep 300" % f])' >/dev/null 2>&1 &
until [ -e full ]; do sleep 0.05; done`
	if _, _, err := run(t, c, "hog", hog, nil, longTimeout); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
		r, err := c.Exec(ctx, protocol.Exec{ID: fmt.Sprint("n", i), Shell: fmt.Sprint("s", i), TimeoutMS: 2000, GraceMS: 50}, "true", nil, io.Discard)
		cancel()
		if err != nil || r.ExitCode != 0 {
			t.Logf("shell %d: %s, %v", i, r.Cause, err)
		}
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("the runner is gone: %v", err)
	}
	if st, err := sb.Stats(t.Context()); err != nil || st.OOMKills == 0 {
		t.Errorf("memory never ran out, so this test shows nothing: %+v, %v", st, err)
	}
}
