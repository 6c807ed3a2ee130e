package session_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

func (d *daemon) pause(t testing.TB, id session.ID) {
	t.Helper()
	s, err := d.Sessions.Pause(context.Background(), everyone, id, session.MemoryRAM)
	if err != nil || s.State != session.Paused {
		t.Fatalf("pause: %+v, %v", s, err)
	}
}

// wantPaused checks what the driver says.
func (h host) wantPaused(t testing.TB, id runtime.ID, want bool) {
	t.Helper()
	sandbox, err := h.driver.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if paused, err := sandbox.(runtime.Pauser).Paused(); err != nil || paused != want {
		t.Errorf("sandbox %s is paused: %v, %v", id, paused, err)
	}
}

func TestPause(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	d.output(t, s.ID, "x=1; cd /tmp")
	for range 2 {
		d.pause(t, s.ID)
		h.wantPaused(t, s.Sandbox, true)
	}
	if row, err := d.store.Get(t.Context(), s.ID); err != nil || row.State != session.Paused || row.EndReason == "" {
		t.Errorf("row %+v, %v", row, err)
	}
	// Looking is no reason to wake it.
	if _, err := d.Sessions.Stats(t.Context(), everyone, s.ID); err != nil {
		t.Error(err)
	}
	if execs, err := d.Execs.List(t.Context(), everyone, string(s.ID)); err != nil || len(execs) != 1 {
		t.Errorf("execs %v, %v", execs, err)
	}
	d.want(t, s.ID, session.Paused)
	for range 2 {
		if s, err := d.Sessions.Resume(t.Context(), everyone, s.ID); err != nil || s.State != session.Running || s.EndReason != "" {
			t.Errorf("resume: %+v, %v", s, err)
		}
		h.wantPaused(t, s.Sandbox, false)
	}
	if row, err := d.store.Get(t.Context(), s.ID); err != nil || row.State != session.Running {
		t.Errorf("row %+v, %v", row, err)
	}
	if got := d.output(t, s.ID, "echo $x $PWD"); got != "1 /tmp\n" {
		t.Errorf("afterwards %q", got)
	}
}

func TestOperationsWake(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	for name, operation := range map[string]func() error{
		"exec": func() error {
			_, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true"}, io.Discard)
			return err
		},
		"write": func() error {
			_, err := d.Files.Write(t.Context(), everyone, string(s.ID), protocol.Write{Path: "f"}, 2, strings.NewReader("hi"))
			return err
		},
		"list": func() error {
			_, err := d.Files.List(t.Context(), everyone, string(s.ID), protocol.List{Path: ".", Max: 10})
			return err
		},
		"port": func() error {
			_, err := d.Execs.Dial(t.Context(), everyone, string(s.ID), 1)
			if errdefs.Is(err, errdefs.NotFound) { // nothing listens there, says somebody who is awake
				return nil
			}
			return err
		},
		"terminal": func() error {
			_, err := d.Execs.StartTerminal(t.Context(), everyone, string(s.ID), ops.TerminalRequest{Command: []string{"true"}})
			return err
		},
	} {
		d.pause(t, s.ID)
		if err := operation(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		h.wantPaused(t, s.Sandbox, false)
		if s := d.want(t, s.ID, session.Running); s.EndReason != "" {
			t.Errorf("%s: reason %q", name, s.EndReason)
		}
	}
}

func TestAutoResumeOff(t *testing.T) {
	d := newHost(t).start(t)
	off := false
	s := d.create(t, session.CreateRequest{AutoResume: &off})
	d.pause(t, s.ID)
	_, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true"}, io.Discard)
	wantCode(t, err, errdefs.Conflict)
	if !strings.Contains(errdefs.MessageOf(err), "resume it first") {
		t.Errorf("it does not say what to do: %v", err)
	}
	d.want(t, s.ID, session.Paused)
	if _, err := d.Sessions.Resume(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	d.output(t, s.ID, "true")
}

// TestPauseUnderAnExec: what is in progress waits, and then goes on.
func TestPauseUnderAnExec(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	fifo := strings.TrimSpace(d.output(t, s.ID, "mkfifo go && realpath go"))
	out := testenv.NewSignaler("before")
	ended := make(chan protocol.Record, 1)
	go func() {
		result, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "echo before; exec 3<>go; read line <&3; echo after; exit 9"}, out)
		if err != nil {
			t.Error(err)
		}
		ended <- result
	}()
	<-out.Seen
	d.pause(t, s.ID)
	if err := writeFIFO(fifo, "middle\n"); err == nil { // what it waits for has come, and it stands still
		select {
		case result := <-ended:
			t.Errorf("it went on while it was paused: %+v", result)
		default:
		}
	} else {
		t.Error(err)
	}
	d.want(t, s.ID, session.Paused)
	if _, err := d.Sessions.Resume(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	if result := <-ended; result.ExitCode != 9 {
		t.Errorf("%+v", result)
	}
}

// TestPauseAgainstExec lets both meet at any moment: no command is refused or
// hangs, and the state is what the sandbox does.
func TestPauseAgainstExec(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	for range 10 {
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if _, err := d.Sessions.Pause(t.Context(), everyone, s.ID, session.MemoryRAM); err != nil {
					t.Error(err)
				}
			})
		}
		var execs sync.WaitGroup
		for range 3 {
			execs.Go(func() {
				var out bytes.Buffer
				result, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "echo ok"}, &out)
				if err != nil || out.String() != "ok\n" {
					t.Errorf("%q, %+v, %v", out.String(), result, err)
				}
			})
		}
		all.Wait()
		// A pause may have come after they began: they wait until somebody resumes.
		if _, err := d.Sessions.Resume(t.Context(), everyone, s.ID); err != nil {
			t.Fatal(err)
		}
		execs.Wait()
		got, err := d.Sessions.Get(t.Context(), everyone, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		h.wantPaused(t, s.Sandbox, got.State == session.Paused)
	}
}

// TestPauseAgainstTheEnd: whatever order they come in, nothing is left.
func TestPauseAgainstTheEnd(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	for range 10 {
		s := d.create(t, session.CreateRequest{})
		var all sync.WaitGroup
		for _, change := range []func(context.Context, auth.Principal, session.ID) (session.Session, error){
			func(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error) {
				return d.Sessions.Pause(ctx, p, id, session.MemoryRAM)
			},
			d.Sessions.Resume, d.Sessions.Stop, d.Sessions.Start, d.Sessions.Heartbeat,
		} {
			all.Go(func() {
				if _, err := change(t.Context(), everyone, s.ID); err != nil && !errdefs.Is(err, errdefs.Conflict) {
					t.Error(err)
				}
			})
		}
		all.Go(func() {
			if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		d.want(t, s.ID, session.Destroyed)
		h.driver.WantSandboxes(t)
	}
}

// troubled is a sandbox that cannot be paused or resumed for a while.
type troubled struct {
	runtime.Sandbox
	runtime.Pauser
	pause, resume *error
}

func (b troubled) Pause(ctx context.Context) error {
	if *b.pause != nil {
		return *b.pause
	}
	return b.Pauser.Pause(ctx)
}

func (b troubled) Resume(ctx context.Context) error {
	if *b.resume != nil {
		return *b.resume
	}
	return b.Pauser.Resume(ctx)
}

func TestPauseAndResumeFail(t *testing.T) {
	h := newHost(t)
	var pause, resume error
	d := h.start(t, withCreator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
		sandbox, err := h.driver.Create(ctx, id, spec)
		if err != nil {
			return nil, err
		}
		return troubled{sandbox, sandbox.(runtime.Pauser), &pause, &resume}, nil
	}))
	s := d.create(t, session.CreateRequest{})
	pause = errBroken
	if _, err := d.Sessions.Pause(t.Context(), everyone, s.ID, session.MemoryRAM); err == nil {
		t.Error("paused in spite of the driver")
	}
	d.want(t, s.ID, session.Running)
	if row, err := d.store.Get(t.Context(), s.ID); err != nil || row.State != session.Running {
		t.Errorf("row %+v, %v", row, err)
	}
	d.output(t, s.ID, "true")

	pause, resume = nil, errBroken
	d.pause(t, s.ID)
	if _, err := d.Sessions.Resume(t.Context(), everyone, s.ID); err == nil {
		t.Error("resumed in spite of the driver")
	}
	if _, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true"}, io.Discard); err == nil {
		t.Error("woken in spite of the driver")
	}
	d.want(t, s.ID, session.Paused)
	resume = nil
	d.output(t, s.ID, "true")
}

// plain is a sandbox without further powers.
type plain struct{ runtime.Sandbox }

func TestDriverThatCannotPause(t *testing.T) {
	h := newHost(t)
	d := h.start(t, withCreator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
		sandbox, err := h.driver.Create(ctx, id, spec)
		return plain{sandbox}, err
	}))
	s := d.create(t, session.CreateRequest{})
	_, err := d.Sessions.Pause(t.Context(), everyone, s.ID, session.MemoryRAM)
	wantCode(t, err, errdefs.Unimplemented)
	_, err = d.Sessions.Update(t.Context(), everyone, s.ID, session.UpdateRequest{Policy: session.Policy{OnIdle: session.OnIdlePause}})
	wantCode(t, err, errdefs.Unimplemented)
	_, err = d.Sessions.Create(t.Context(), everyone, session.CreateRequest{OnIdle: session.OnIdlePause})
	wantCode(t, err, errdefs.Unimplemented)
	d.want(t, s.ID, session.Running)
	h.driver.WantSandboxes(t, s.Sandbox)
}

func TestMemoryToDisk(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	_, err := d.Sessions.Pause(t.Context(), everyone, s.ID, session.MemoryDisk)
	wantCode(t, err, errdefs.Unimplemented)
	d.want(t, s.ID, session.Running)
}

// TestAdoptPaused starts a daemon on paused sessions, also on those of which
// the last one had written the row and died.
func TestAdoptPaused(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	paused, half, woken, dead := d.create(t, session.CreateRequest{}), d.create(t, session.CreateRequest{}), d.create(t, session.CreateRequest{}), d.create(t, session.CreateRequest{})
	d.output(t, paused.ID, "x=1")
	for _, s := range []session.Session{paused, woken, dead} {
		d.pause(t, s.ID)
	}
	h.driver.KillRunner(t, dead.Sandbox)
	d.stop()
	d = h.prepare(t)
	half.State, woken.State = session.Paused, session.Running
	for _, s := range []session.Session{half, woken} {
		if err := d.store.Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	d.run()
	d.waitReady()
	for _, s := range []session.Session{paused, half} {
		d.want(t, s.ID, session.Paused)
		h.wantPaused(t, s.Sandbox, true)
	}
	d.want(t, woken.ID, session.Running)
	h.wantPaused(t, woken.Sandbox, false)
	d.want(t, dead.ID, session.Stopped)
	if got := d.output(t, paused.ID, "echo $x"); got != "1\n" {
		t.Errorf("got %q", got)
	}
	d.output(t, woken.ID, "true")
}

func TestPausedSandboxDies(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	d.pause(t, s.ID)
	h.driver.KillRunner(t, s.Sandbox)
	if err := d.Upkeep.CheckAlive(t.Context(), part, s.ID); err != nil {
		t.Fatal(err)
	}
	d.want(t, s.ID, session.Stopped)
	h.driver.WantSandboxes(t, s.Sandbox)
}
