package session_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestBeforeAdoption(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	d.stop()

	d = h.prepare(t)
	d.want(t, s.ID, session.Running)
	if all, err := d.Sessions.List(t.Context(), everyone, session.ListRequest{}); err != nil || len(all) != 1 {
		t.Errorf("list %v, %v", all, err)
	}
	_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{})
	wantCode(t, err, errdefs.Unavailable)
	_, err = d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true"}, &bytes.Buffer{})
	wantCode(t, err, errdefs.Unavailable)
	wantCode(t, d.Sessions.Destroy(t.Context(), everyone, s.ID), errdefs.Unavailable)
	h.driver.WantSandboxes(t, s.Sandbox)
}

func (d *daemon) output(t *testing.T, id session.ID, command string) string {
	t.Helper()
	var out bytes.Buffer
	result, err := d.Execs.Run(t.Context(), everyone, string(id), ops.ExecRequest{Command: command}, &out)
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("%s: %+v, %v", command, result, err)
	}
	return out.String()
}

func TestSessionSurvivesTheDaemon(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	d.output(t, s.ID, "cd /usr; x=42; sleep 600 & job=$!")
	d.stop()

	d = h.start(t)
	if s := d.want(t, s.ID, session.Running); s.Cwd != "/usr" {
		t.Errorf("cwd of the row: %q", s.Cwd)
	}
	if got := d.output(t, s.ID, `echo $x $PWD; kill -0 $job && echo alive`); got != "42 /usr\nalive\n" {
		t.Errorf("got %q", got)
	}
}

func TestRunningExecSurvivesTheDaemon(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	fifo := strings.TrimSpace(d.output(t, s.ID, "mkfifo go && realpath go"))
	ctx, die := context.WithCancel(t.Context())
	out := testenv.NewSignaler("before")
	cut := make(chan protocol.Record, 1)
	go func() {
		result, err := d.Execs.Run(ctx, everyone, string(s.ID), ops.ExecRequest{Command: "echo before; cat go; echo after; exit 9"}, out)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cut off with %v", err)
		}
		cut <- result
	}()
	<-out.Seen
	die()
	exec := <-cut
	d.stop()

	d = h.start(t)
	execs, err := d.Execs.List(t.Context(), everyone, string(s.ID))
	if err != nil || len(execs) == 0 || execs[len(execs)-1].ID != exec.ID || execs[len(execs)-1].State != protocol.StateRunning {
		t.Fatalf("execs %+v, %v; want %s running", execs, err, exec.ID)
	}
	go func() {
		if err := writeFIFO(fifo, "middle\n"); err != nil {
			t.Error(err)
		}
	}()
	var all bytes.Buffer
	result, err := d.Execs.Attach(t.Context(), everyone, string(s.ID), exec.ID, 0, &all)
	if err != nil || all.String() != "before\nmiddle\nafter\n" || result.ExitCode != 9 {
		t.Errorf("%q, %+v, %v", all.String(), result, err)
	}
}

// TestAdopt starts a daemon on rows and sandboxes as crashes leave them.
func TestAdopt(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.start(t)
	alive := d.create(t, session.CreateRequest{})
	killed := d.create(t, session.CreateRequest{})
	gone := d.create(t, session.CreateRequest{})
	half := d.create(t, session.CreateRequest{IdempotencyKey: "half"})
	stopping := d.create(t, session.CreateRequest{})
	stopped := d.create(t, session.CreateRequest{})
	h.driver.KillRunner(t, killed.Sandbox)
	if err := h.driver.Destroy(t.Context(), gone.Sandbox); err != nil {
		t.Fatal(err)
	}
	if err := h.driver.Destroy(t.Context(), stopped.Sandbox); err != nil {
		t.Fatal(err)
	}
	d.stop()

	reserved := func(o *session.Options) { o.Reserved = func(id runtime.ID) bool { return id == "reserved" } }
	d = h.prepare(t, reserved)
	half.State = session.Creating
	stopping.State, stopping.End, stopping.EndReason = session.Stopping, session.Expired, "it was idle"
	stopped.State, stopped.End = session.Stopping, session.Destroyed
	unmade := session.Session{ID: "unmade", Sandbox: "unmade", State: session.Creating, CreatedAt: time.Now()}
	for _, s := range []session.Session{half, stopping, stopped, unmade} {
		if err := d.store.Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []runtime.ID{"orphan", "reserved"} {
		if _, err := h.driver.Create(t.Context(), id, runtime.Spec{Image: runtimetest.LocalImage}); err != nil {
			t.Fatal(err)
		}
	}
	d.run()
	d.waitReady()

	d.want(t, alive.ID, session.Running)
	d.want(t, killed.ID, session.Stopped)
	d.want(t, gone.ID, session.Crashed)
	d.want(t, half.ID, session.Failed)
	d.want(t, "unmade", session.Failed)
	if s := d.want(t, stopping.ID, session.Expired); s.EndReason != "it was idle" {
		t.Errorf("reason %q", s.EndReason)
	}
	d.want(t, stopped.ID, session.Destroyed)
	h.driver.WantSandboxes(t, alive.Sandbox, killed.Sandbox, "reserved")
	d.output(t, alive.ID, "true")
	if again := d.create(t, session.CreateRequest{IdempotencyKey: "half"}); again.ID == half.ID {
		t.Error("the key of a create that a crash cut off gives the failed session")
	} else if err := d.Sessions.Destroy(t.Context(), everyone, again.ID); err != nil {
		t.Fatal(err)
	}
	d.stop()

	// A second and third start find nothing to do.
	before := h.rows(t)
	h.start(t, reserved).stop()
	h.driver.WantSandboxes(t, alive.Sandbox, killed.Sandbox, "reserved")
	h.start(t).stop() // without a pool
	if diff := cmp.Diff(before, h.rows(t)); diff != "" {
		t.Errorf("another start changed rows: %s", diff)
	}
	h.driver.WantSandboxes(t, alive.Sandbox, killed.Sandbox)
}

// rows reads the database while no daemon runs.
func (h host) rows(t *testing.T) []session.Session {
	t.Helper()
	d := h.prepare(t)
	defer d.stop()
	rows, err := d.store.List(t.Context(), session.ListFilter{IncludeEnded: true})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestUnknownIsNotDead starts on a driver that finds a sandbox alive but
// cannot open it at first.
func TestUnknownIsNotDead(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	d.stop()

	var trouble atomic.Bool
	trouble.Store(true)
	d = h.start(t, func(o *session.Options) {
		o.Driver = faultyDriver{Driver: h.driver, open: func(id runtime.ID) (runtime.Sandbox, error) {
			if trouble.Load() {
				return nil, errBroken
			}
			return h.driver.Open(context.Background(), id)
		}}
	})
	d.want(t, s.ID, session.Running)
	_, err := d.Sessions.Stats(t.Context(), everyone, s.ID)
	wantCode(t, err, errdefs.Unavailable)
	d.want(t, s.ID, session.Running)
	trouble.Store(false)
	d.output(t, s.ID, "true")
}

// deafDriver cannot list at first.
type deafDriver struct {
	runtime.Driver
	deaf *atomic.Int32 // how often it fails
}

func (d deafDriver) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	if d.deaf.Add(-1) >= 0 {
		return func(yield func(runtime.Status, error) bool) { yield(runtime.Status{}, errBroken) }
	}
	return d.Driver.List(ctx)
}

func TestAdoptWaitsForTheDriver(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	d.stop()

	var deaf atomic.Int32
	deaf.Store(1)
	d = h.start(t, func(o *session.Options) { o.Driver = deafDriver{h.driver, &deaf} })
	d.want(t, s.ID, session.Running)
	h.driver.WantSandboxes(t, s.Sandbox)

	if deaf.Load() >= 0 {
		t.Error("ready without a list of the sandboxes")
	}
}

// TestStuckRemovalHoldsUpNobody starts with a sandbox that cannot be removed.
func TestStuckRemovalHoldsUpNobody(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	synctest.Test(t, func(t *testing.T) {
		d := h.start(t)
		stuck := d.create(t, session.CreateRequest{Name: "stuck"})
		good := d.create(t, session.CreateRequest{})
		d.stop()
		h.driver.KillRunner(t, stuck.Sandbox)

		free := make(chan struct{})
		begin := time.Now()
		d = h.start(t, func(o *session.Options) {
			o.Driver = faultyDriver{Driver: losing{h.driver}, destroy: func(runtime.ID) error {
				<-free
				return nil
			}}
		})
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("ready after %v", took)
		}
		d.output(t, good.ID, "true")
		d.want(t, stuck.ID, session.Stopping)
		_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{Name: "stuck"})
		close(free)
		wantCode(t, err, errdefs.Unavailable) // until it is removed
		if err := d.Sessions.Destroy(t.Context(), everyone, stuck.ID); err != nil {
			t.Error(err)
		}
		d.want(t, stuck.ID, session.Crashed)
		d.stop()
	})
}
