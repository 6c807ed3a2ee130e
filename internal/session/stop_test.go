package session_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// What is in memory would be lost by a stop: the session goes on as it was.
func TestWhatIsInMemoryIsNotStopped(t *testing.T) {
	h := newHost(t)
	h.driver.InMemory = true
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	d.output(t, s.ID, "x=1")
	_, err := d.Sessions.Stop(t.Context(), everyone, s.ID)
	wantCode(t, err, errdefs.Unimplemented)
	if !strings.Contains(errdefs.MessageOf(err), "in memory") {
		t.Errorf("it does not say why: %v", err)
	}
	if got := d.output(t, s.ID, `echo "$x"`); got != "1\n" {
		t.Errorf("got %q", got)
	}
	idle := session.Policy{OnIdle: session.OnIdleStop, IdleTimeout: time.Minute}
	_, err = d.Sessions.Create(t.Context(), everyone, session.CreateRequest{OnIdle: idle.OnIdle, IdleTimeout: idle.IdleTimeout})
	wantCode(t, err, errdefs.Unimplemented)
	_, err = d.Sessions.Update(t.Context(), everyone, s.ID, session.UpdateRequest{Policy: idle})
	wantCode(t, err, errdefs.Unimplemented)
	h.driver.WantSandboxes(t, s.Sandbox)
}

func TestStopAndStart(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{Env: map[string]string{"GREETING": "hello"}})
	d.output(t, s.ID, "echo kept > file; x=1; cd /tmp")
	for range 2 {
		stopped, err := d.Sessions.Stop(t.Context(), everyone, s.ID)
		if err != nil || stopped.State != session.Stopped || stopped.End != "" || !stopped.EndedAt.IsZero() {
			t.Fatalf("stop: %+v, %v", stopped, err)
		}
	}
	h.driver.WantSandboxes(t, s.Sandbox)
	if _, err := h.driver.Open(t.Context(), s.Sandbox); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("its sandbox runs: %v", err)
	}
	if row, err := d.store.Get(t.Context(), s.ID); err != nil || row.State != session.Stopped {
		t.Errorf("row %+v, %v", row, err)
	}
	_, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true"}, &bytes.Buffer{})
	wantCode(t, err, errdefs.Conflict)
	if !strings.Contains(errdefs.MessageOf(err), "start it first") {
		t.Errorf("it does not say what to do: %v", err)
	}
	_, err = d.Sessions.Stats(t.Context(), everyone, s.ID)
	wantCode(t, err, errdefs.Conflict)
	d.stop()

	d = h.start(t) // which does not know the environment
	d.want(t, s.ID, session.Stopped)
	started, err := d.Sessions.Start(t.Context(), everyone, s.ID)
	if err != nil || started.State != session.Running || started.BootID == s.BootID || started.Cwd != "/workspace" || started.EndReason != "" {
		t.Fatalf("start: %+v, %v", started, err)
	}
	if again, err := d.Sessions.Start(t.Context(), everyone, s.ID); err != nil || again.BootID != started.BootID {
		t.Errorf("start of what runs: %+v, %v", again, err)
	}
	if got := d.output(t, s.ID, `cat file; echo "$GREETING,$x"`); got != "kept\nhello,\n" {
		t.Errorf("got %q", got)
	}
	if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	h.driver.WantSandboxes(t)
	for _, change := range []func(context.Context, auth.Principal, session.ID) (session.Session, error){d.Sessions.Stop, d.Sessions.Start} {
		_, err := change(t.Context(), everyone, s.ID)
		wantCode(t, err, errdefs.Conflict)
		_, err = change(t.Context(), everyone, "nosuchsession")
		wantCode(t, err, errdefs.NotFound)
	}
}

func TestDestroyAndExpireStopped(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	if _, err := d.Sessions.Stop(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Upkeep.Expire(t.Context(), part, s.ID); err != nil { // its time is not up
		t.Fatal(err)
	}
	d.want(t, s.ID, session.Stopped)
	if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	d.want(t, s.ID, session.Destroyed)
	h.driver.WantSandboxes(t)
}

func TestStopUnderAnExec(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	out := testenv.NewSignaler("started")
	results := make(chan protocol.Record, 1)
	go func() {
		result, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "echo started; sleep 600"}, out)
		if err != nil {
			t.Error(err)
		}
		results <- result
	}()
	<-out.Seen
	d.pause(t, s.ID)
	if _, err := d.Sessions.Stop(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	if r := <-results; r.Cause != protocol.CauseSandboxGone {
		t.Errorf("%+v", r)
	}
	d.want(t, s.ID, session.Stopped)
}

// faultyStopper fails what its fields say.
type faultyStopper struct {
	*runtimetest.Local
	stop, start func() error
}

func (f faultyStopper) Stop(ctx context.Context, id runtime.ID) error {
	if f.stop != nil {
		if err := f.stop(); err != nil {
			return err
		}
	}
	return f.Local.Stop(ctx, id)
}

func (f faultyStopper) Start(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	if f.start != nil {
		if err := f.start(); err != nil {
			return nil, err
		}
	}
	return f.Local.Start(ctx, id)
}

func TestStopGoesOnWhereItStopped(t *testing.T) {
	for _, c := range []struct {
		name  string
		again func(*daemon, context.Context, session.ID) error
		want  session.State
	}{
		{"by another stop", func(d *daemon, ctx context.Context, id session.ID) error {
			_, err := d.Sessions.Stop(ctx, everyone, id)
			return err
		}, session.Stopped},
		{"by the reaper", func(d *daemon, ctx context.Context, id session.ID) error { return d.Upkeep.Finish(ctx, part, id) }, session.Stopped},
		{"by its end", func(d *daemon, ctx context.Context, id session.ID) error {
			return d.Sessions.Destroy(ctx, everyone, id)
		}, session.Destroyed},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			err := errBroken
			d := h.start(t, func(o *session.Options) {
				o.Driver = faultyStopper{Local: h.driver, stop: func() error { return err }}
			})
			s := d.create(t, session.CreateRequest{})
			_, stopErr := d.Sessions.Stop(t.Context(), everyone, s.ID)
			wantCode(t, stopErr, errdefs.Unavailable)
			if s := d.want(t, s.ID, session.Stopping); s.End != session.Stopped {
				t.Errorf("on its way to %q", s.End)
			}
			_, startErr := d.Sessions.Start(t.Context(), everyone, s.ID)
			wantCode(t, startErr, errdefs.Unavailable)
			err = nil
			if err := c.again(d, t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			d.want(t, s.ID, c.want)
		})
	}
}

func TestStopFindsTheFilesLost(t *testing.T) {
	h := newHost(t)
	d := h.start(t, func(o *session.Options) {
		o.Driver = faultyStopper{Local: h.driver, stop: func() error { return errdefs.New(errdefs.NotFound, "lost") }}
	})
	s := d.create(t, session.CreateRequest{})
	_, err := d.Sessions.Stop(t.Context(), everyone, s.ID)
	wantCode(t, err, errdefs.Conflict)
	if s := d.want(t, s.ID, session.Crashed); !strings.Contains(s.EndReason, "lost") {
		t.Errorf("reason %q", s.EndReason)
	}
	h.driver.WantSandboxes(t)
}

func TestStartFails(t *testing.T) {
	h := newHost(t)
	var start, admit error
	d := h.start(t, func(o *session.Options) {
		o.Driver = faultyStopper{Local: h.driver, start: func() error { return start }}
		o.Admit = func(context.Context, session.Admission) error { return admit }
	})
	s := d.create(t, session.CreateRequest{})
	if _, err := d.Sessions.Stop(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	start = errBroken
	if _, err := d.Sessions.Start(t.Context(), everyone, s.ID); !errors.Is(err, errBroken) {
		t.Errorf("start: %v", err)
	}
	if s := d.want(t, s.ID, session.Stopped); !strings.Contains(s.EndReason, "could not be started") {
		t.Errorf("reason %q", s.EndReason)
	}
	start, admit = nil, errdefs.New(errdefs.Unavailable, "no room")
	_, err := d.Sessions.Start(t.Context(), everyone, s.ID)
	wantCode(t, err, errdefs.Unavailable)
	d.want(t, s.ID, session.Stopped)
	_, err = d.Sessions.Create(t.Context(), everyone, session.CreateRequest{})
	wantCode(t, err, errdefs.Unavailable)
	if rows, err := d.store.List(t.Context(), session.ListFilter{IncludeEnded: true}); err != nil || len(rows) != 1 {
		t.Errorf("a refused create left rows: %v, %v", rows, err)
	}
	admit = nil
	if _, err := d.Sessions.Start(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	d.output(t, s.ID, "true")
}

// What counts a sandbox on its way learns when it has arrived, however long its caller
// goes on: the orchestrator's reaper starts sessions for as long as the daemon runs.
func TestAdmissionEndsWithWhatIsMade(t *testing.T) {
	var underWay atomic.Int64
	d := newHost(t).start(t, func(o *session.Options) {
		o.Admit = func(ctx context.Context, _ session.Admission) error {
			underWay.Add(1)
			context.AfterFunc(ctx, func() { underWay.Add(-1) })
			return nil
		}
	})
	arrived := func(what string) {
		t.Helper()
		testenv.Eventually(t, what+" is not under way any more", func() bool { return underWay.Load() == 0 })
	}
	s := d.create(t, session.CreateRequest{})
	arrived("a create")
	if _, err := d.Sessions.Stop(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sessions.Start(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	arrived("a start")
}

func TestDriverThatCannotStop(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	stopped := d.create(t, session.CreateRequest{})
	if _, err := d.Sessions.Stop(t.Context(), everyone, stopped.ID); err != nil {
		t.Fatal(err)
	}
	d.stop()

	d = h.start(t, func(o *session.Options) { o.Driver = faultyDriver{Driver: h.driver} })
	s := d.create(t, session.CreateRequest{})
	_, err := d.Sessions.Stop(t.Context(), everyone, s.ID)
	wantCode(t, err, errdefs.Unimplemented)
	_, err = d.Sessions.Start(t.Context(), everyone, stopped.ID)
	wantCode(t, err, errdefs.Unimplemented)
	_, err = d.Sessions.Create(t.Context(), everyone, session.CreateRequest{OnIdle: session.OnIdleStop})
	wantCode(t, err, errdefs.Unimplemented)
	d.want(t, s.ID, session.Running)
	d.want(t, stopped.ID, session.Stopped)
	if err := d.Sessions.Destroy(t.Context(), everyone, stopped.ID); err != nil {
		t.Error(err)
	}
}

func TestStopAndStartAtOnce(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	d.output(t, s.ID, "echo kept > file")
	var all sync.WaitGroup
	for range 5 {
		for _, change := range []func(context.Context, auth.Principal, session.ID) (session.Session, error){d.Sessions.Stop, d.Sessions.Start} {
			all.Go(func() {
				if _, err := change(t.Context(), everyone, s.ID); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if _, err := d.Sessions.Start(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	if got := d.output(t, s.ID, "cat file"); got != "kept\n" {
		t.Errorf("got %q", got)
	}
	h.driver.WantSandboxes(t, s.Sandbox)
}

// TestAdoptStopped starts a daemon after the host has restarted, and after a
// crash in the middle of a start.
func TestAdoptStopped(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	rebooted, asleep, starting, lost := d.create(t, session.CreateRequest{}), d.create(t, session.CreateRequest{}), d.create(t, session.CreateRequest{}), d.create(t, session.CreateRequest{})
	d.pause(t, asleep.ID)
	d.output(t, rebooted.ID, "echo kept > file")
	if _, err := d.Sessions.Stop(t.Context(), everyone, lost.ID); err != nil {
		t.Fatal(err)
	}
	d.stop()
	for _, id := range []runtime.ID{rebooted.Sandbox, asleep.Sandbox} { // the files are whole, and nothing runs
		if err := h.driver.Stop(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.driver.Destroy(t.Context(), lost.Sandbox); err != nil {
		t.Fatal(err)
	}
	d = h.prepare(t)
	starting.State = session.Starting
	if err := d.store.Put(t.Context(), starting); err != nil {
		t.Fatal(err)
	}
	d.run()
	d.waitReady()
	for _, s := range []session.Session{rebooted, asleep, starting} {
		d.want(t, s.ID, session.Stopped)
	}
	d.want(t, lost.ID, session.Crashed)
	if _, err := d.Sessions.Start(t.Context(), everyone, rebooted.ID); err != nil {
		t.Fatal(err)
	}
	if got := d.output(t, rebooted.ID, "cat file"); got != "kept\n" {
		t.Errorf("got %q", got)
	}
}

// A stopped session has a time of its own, which begins with the stop, whoever
// stopped it, and is its owner's; its lifetime goes on.
func TestStoppedSessionsAreKept(t *testing.T) {
	h := newHost(t)
	synctest.Test(t, func(t *testing.T) {
		d := h.start(t, func(o *session.Options) {
			o.Defaults.TTL, o.Defaults.Retention = time.Second, time.Hour
			o.Defaults.RetentionOf = map[string]time.Duration{"hasty": time.Second}
			o.Maxima.Lifetime = 30 * time.Minute
		})
		kept := d.createAs(t, as("patient"), session.CreateRequest{})
		hasty := d.createAs(t, as("hasty"), session.CreateRequest{})
		idle := d.createAs(t, as("patient"), session.CreateRequest{TTL: 2 * time.Second, IdleTimeout: time.Second, OnIdle: session.OnIdleStop})
		time.Sleep(1100 * time.Millisecond)
		if err := d.Upkeep.Idle(t.Context(), part, idle.ID); err != nil {
			t.Fatal(err)
		}
		for _, id := range []session.ID{kept.ID, hasty.ID} {
			s, err := d.Sessions.Stop(t.Context(), everyone, id)
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(s.ExpiresAt()); left < s.Retention-time.Minute && left < 25*time.Minute {
				t.Errorf("%s has %s left of %s", s.Owner, left, s.Retention)
			}
		}
		if s := d.want(t, kept.ID, session.Stopped); s.Retention != time.Hour || s.ExpiresAt().After(s.CreatedAt.Add(30*time.Minute)) {
			t.Errorf("kept for %s, to %s", s.Retention, s.ExpiresAt())
		}
		time.Sleep(1100 * time.Millisecond)
		for _, s := range []session.Session{kept, hasty, idle} {
			if err := d.Upkeep.Expire(t.Context(), part, s.ID); err != nil {
				t.Fatal(err)
			}
		}
		d.want(t, kept.ID, session.Stopped)
		d.want(t, idle.ID, session.Stopped)
		d.want(t, hasty.ID, session.Expired)
		if _, err := d.Sessions.Start(t.Context(), everyone, kept.ID); err != nil {
			t.Error(err)
		}
		if s := d.want(t, kept.ID, session.Running); time.Until(s.ExpiresAt()) > 2*time.Second {
			t.Errorf("when it runs again it ends at %s", s.ExpiresAt())
		}
		d.stop()
	})
}
