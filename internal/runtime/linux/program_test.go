package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// A program has a cgroup to itself, by which it is ended with all that it
// started, whatever became of parents and sessions. The next one gets another:
// the kernel would kill it in one whose processes were killed.
func TestProgramsEndByTheirCgroup(t *testing.T) {
	d := root(t)
	sb, err := d.Create(t.Context(), "programs", runtime.Spec{Image: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c := &runnerclient.Client{Dial: sb.DialRunner}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), d.Destroy(context.WithoutCancel(t.Context()), "programs")); err != nil {
			t.Error(err)
		}
	})
	// The leader is gone when its time is up, and nobody is left who knows of
	// the others but the cgroup.
	const script = `for i in 1 2 3; do (setsid sh -c 'trap "" TERM HUP; sleep 999 & sleep 999' &) ; done; echo started; trap 'exit 0' TERM; sleep 999 & wait`
	for round := range 3 {
		id := fmt.Sprint("p", round)
		if _, err := c.Start(t.Context(), protocol.Start{ID: id, GraceMS: 200}, runnerclient.Program{Args: []string{"sh", "-c", script}}); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if r, _, err := c.Poll(t.Context(), protocol.Attach{ID: id, WaitMS: longTimeout.Milliseconds()}, &out); err != nil || out.String() != "started\n" {
			t.Fatalf("%q, %+v, %v", out.String(), r, err)
		}
		if _, n := programGroups(t, d, "programs"); n < 2 {
			t.Errorf("%d processes in the cgroups of programs", n)
		}
		if err := c.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		r, err := c.Wait(t.Context(), id, longTimeout)
		if err != nil || r.State != protocol.StateEnded || r.Cause != protocol.CauseCanceled {
			t.Errorf("%+v, %v", r, err)
		}
		// The kernel counts out a killed process a moment after its end.
		end := time.Now().Add(longTimeout)
		for _, n := programGroups(t, d, "programs"); n != 0; _, n = programGroups(t, d, "programs") {
			if time.Now().After(end) {
				t.Fatalf("%d processes live on", n)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	for i := range 3 { // one after another, which end by themselves
		r, err := c.Run(t.Context(), protocol.Start{ID: fmt.Sprint("q", i)}, runnerclient.Program{Args: []string{"true"}}, io.Discard)
		if err != nil || r.Cause != protocol.CauseExited {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if made, _ := programGroups(t, d, "programs"); made != 1 {
		t.Errorf("%d cgroups are left for programs one after another", made)
	}
}

// programGroups counts the cgroups of a sandbox's programs, and the processes
// in them.
func programGroups(t *testing.T, d *Driver, id runtime.ID) (groups, processes int) {
	t.Helper()
	below := filepath.Join("sandkasten", d.opts.Node, string(id), "part-*", "cgroup.procs")
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		files, err := filepath.Glob(filepath.Join(root, below))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			groups++
			processes += strings.Count(string(text), "\n")
		}
	}
	return groups, processes
}

// The runner's timers are slack, those of what it starts are not.
func TestTimersOfTheWorkloadAreExact(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, nil)
	const usual = "50000\n"
	if got := b.sh("cat /proc/self/timerslack_ns"); got != usual {
		t.Errorf("in a shell: %q ns", got)
	}
	var out strings.Builder
	if _, err := b.client.Run(t.Context(), protocol.Start{ID: "slack"}, runnerclient.Program{Args: []string{"cat", "/proc/self/timerslack_ns"}}, &out); err != nil || out.String() != usual {
		t.Errorf("of a program: %q ns, %v", out.String(), err)
	}
}
