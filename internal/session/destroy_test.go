package session_test

import (
	"bytes"
	"context"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// faultyDriver fails what its fields say.
type faultyDriver struct {
	runtime.Driver
	destroy func(runtime.ID) error
	open    func(runtime.ID) (runtime.Sandbox, error)
}

func (f faultyDriver) Destroy(ctx context.Context, id runtime.ID) error {
	if f.destroy != nil {
		if err := f.destroy(id); err != nil {
			return err
		}
	}
	return f.Driver.Destroy(ctx, id)
}

func (f faultyDriver) Open(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	if f.open != nil {
		return f.open(id)
	}
	return f.Driver.Open(ctx, id)
}

func TestDestroy(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	for range 3 {
		if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
			t.Fatal(err)
		}
		h.driver.WantSandboxes(t)
	}
	ended := d.want(t, s.ID, session.Destroyed)
	if ended.EndedAt.IsZero() || ended.EndReason == "" || ended.End != "" {
		t.Errorf("%+v", ended)
	}
	wantCode(t, d.Sessions.Destroy(t.Context(), everyone, "nosuchsession"), errdefs.NotFound)

	_, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true"}, &bytes.Buffer{})
	wantCode(t, err, errdefs.Conflict)
	_, err = d.Execs.Run(t.Context(), everyone, "nosuchsession", ops.ExecRequest{Command: "true"}, &bytes.Buffer{})
	wantCode(t, err, errdefs.NotFound)
}

func TestDestroyAtOnce(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d.want(t, s.ID, session.Destroyed)
	h.driver.WantSandboxes(t)
}

func TestDestroyWinsOverCreate(t *testing.T) {
	h := newHost(t)
	for _, c := range []struct {
		name string
		made bool // the sandbox is made although the create was canceled
	}{{"before the sandbox", false}, {"after the sandbox", true}} {
		t.Run(c.name, func(t *testing.T) {
			started := make(chan session.ID, 1)
			d := h.start(t, withCreator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
				started <- session.ID(id)
				<-ctx.Done()
				if c.made {
					return h.driver.Create(context.WithoutCancel(ctx), id, spec)
				}
				return nil, ctx.Err()
			}))
			created := make(chan error, 1)
			go func() {
				_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{IdempotencyKey: c.name})
				created <- err
			}()
			id := <-started
			d.want(t, id, session.Creating)
			if err := d.Sessions.Destroy(t.Context(), everyone, id); err != nil {
				t.Error(err)
			}
			wantCode(t, <-created, errdefs.Conflict)
			d.want(t, id, session.Destroyed)
			h.driver.WantSandboxes(t)
		})
	}
}

func TestDestroyGoesOnWhereItStopped(t *testing.T) {
	h := newHost(t)
	broken := true
	d := h.start(t, func(o *session.Options) {
		o.Driver = faultyDriver{Driver: h.driver, destroy: func(runtime.ID) error {
			return map[bool]error{true: errBroken}[broken]
		}}
	})
	s := d.create(t, session.CreateRequest{})
	wantCode(t, d.Sessions.Destroy(t.Context(), everyone, s.ID), errdefs.Unavailable)
	if s := d.want(t, s.ID, session.Stopping); s.End != session.Destroyed {
		t.Errorf("on its way to %q", s.End)
	}
	_, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true"}, &bytes.Buffer{})
	wantCode(t, err, errdefs.Conflict)

	broken = false
	if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	d.want(t, s.ID, session.Destroyed)
	h.driver.WantSandboxes(t)
}

func TestDestroyOnAFullDisk(t *testing.T) {
	h := newHost(t)
	d := h.start(t, withPut(func(s session.Session) error {
		return map[session.State]error{session.Stopping: errBroken}[s.State]
	}))
	s := d.create(t, session.CreateRequest{})
	if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	d.want(t, s.ID, session.Destroyed)
	h.driver.WantSandboxes(t)
}

func TestDestroyUnderAnExec(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
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
	if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	if r := <-results; r.Cause != protocol.CauseSandboxGone || r.ExitCode == 0 || r.State != protocol.StateEnded || r.ID == "" {
		t.Errorf("%+v", r)
	}
	h.driver.WantSandboxes(t)
}

// losing is a driver that has lost the files of every dead sandbox, as after a
// crash of the host.
type losing struct{ *runtimetest.Local }

func (k losing) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) {
		for s, err := range k.Local.List(ctx) {
			s.Startable = false
			if !yield(s, err) {
				return
			}
		}
	}
}

// cutOff is a driver that has lost the way into its living sandboxes.
type cutOff struct{ *runtimetest.Local }

func (c cutOff) Open(context.Context, runtime.ID) (runtime.Sandbox, error) {
	return nil, errdefs.Wrap(runtime.ErrCutOff, errdefs.NotFound, "it is not running")
}

func (c cutOff) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) {
		for s, err := range c.Local.List(ctx) {
			if s.Alive, s.Startable = false, true; !yield(s, err) {
				return
			}
		}
	}
}

// What nobody can reach is no running session: it is stopped, with its files and
// with the reason.
func TestASessionThatIsCutOffIsStopped(t *testing.T) {
	h := newHost(t)
	d := h.start(t, func(o *session.Options) { o.Driver = cutOff{h.driver} })
	s := d.create(t, session.CreateRequest{})
	if err := d.Upkeep.CheckAlive(t.Context(), part, s.ID); err != nil {
		t.Fatal(err)
	}
	if got := d.want(t, s.ID, session.Stopped); !strings.Contains(got.EndReason, "socket") {
		t.Errorf("the reason is %q", got.EndReason)
	}
}

func TestASessionThatFailsIsStoppedWithTheReason(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	d.output(t, s.ID, "echo kept > file")
	for range 2 { // the reaper may come twice
		if err := d.Upkeep.StopFailing(t.Context(), part, s.ID, "its disk failed"); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.want(t, s.ID, session.Stopped); got.EndReason != "its disk failed" {
		t.Errorf("the reason is %q", got.EndReason)
	}
	if _, err := d.Sessions.Start(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	if got := d.output(t, s.ID, "cat file"); got != "kept\n" {
		t.Errorf("its file is %q", got)
	}
}

func TestCheckAlive(t *testing.T) {
	h := newHost(t)
	for want, driver := range map[session.State]runtime.Driver{session.Stopped: h.driver, session.Crashed: losing{h.driver}} {
		d := h.start(t, func(o *session.Options) { o.Driver = driver })
		s := d.create(t, session.CreateRequest{})
		d.output(t, s.ID, "echo kept > file")
		if err := d.Upkeep.CheckAlive(t.Context(), part, s.ID); err != nil {
			t.Fatal(err)
		}
		d.want(t, s.ID, session.Running)
		h.driver.KillRunner(t, s.Sandbox)
		if err := d.Upkeep.CheckAlive(t.Context(), part, s.ID); err != nil {
			t.Fatal(err)
		}
		if got := d.want(t, s.ID, want); !strings.Contains(got.EndReason, "its runner died") {
			t.Errorf("the reason is %q", got.EndReason)
		}
		if want == session.Stopped {
			if _, err := d.Sessions.Start(t.Context(), everyone, s.ID); err != nil {
				t.Fatal(err)
			}
			if got := d.output(t, s.ID, "cat file"); got != "kept\n" {
				t.Errorf("its file is %q", got)
			}
		}
		d.stop()
	}
}
