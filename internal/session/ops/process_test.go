package ops_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestRunProcess(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{Env: map[string]string{"A": "session's"}})
	d.output(t, s.ID, "cd /tmp") // a shell's directory is not a process's
	var out bytes.Buffer
	r, err := d.Execs.RunProcess(t.Context(), everyone, string(s.ID), ops.ProcessRequest{
		Args: []string{"sh", "-c", `echo "$A $B"; cat; exit 3`}, Env: map[string]string{"B": "its own"}, Stdin: []byte("in\n"), Cwd: "/usr",
	}, &out)
	if err != nil || out.String() != "session's its own\nin\n" || r.ExitCode != 3 || r.Kind != protocol.KindProcess {
		t.Errorf("%q, %+v, %v", out.String(), r, err)
	}
	if s := d.want(t, s.ID, session.Running); s.Cwd != "/tmp" {
		t.Errorf("a process moved the session to %q", s.Cwd)
	}
}

// TestBackgroundIsNoUse: a process alone does not keep its session, somebody
// who waits for it does.
func TestBackgroundIsNoUse(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	p, err := d.Execs.StartProcess(t.Context(), everyone, string(s.ID), ops.ProcessRequest{Args: []string{"sleep", "600"}})
	if err != nil || p.State != protocol.StateRunning {
		t.Fatalf("%+v, %v", p, err)
	}
	idle := d.want(t, s.ID, session.Running)
	if again := d.want(t, s.ID, session.Running); !again.LastActivity.Equal(idle.LastActivity) {
		t.Error("a background process is activity")
	}
	ctx, leave := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := d.Execs.Wait(ctx, everyone, string(s.ID), p.ID, ops.MaxWait)
		waited <- err
	}()
	for { // in use, a session is active at every look
		first := d.want(t, s.ID, session.Running)
		if second := d.want(t, s.ID, session.Running); second.LastActivity.After(first.LastActivity) {
			break
		}
	}
	leave()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := d.Execs.Cancel(t.Context(), everyone, string(s.ID), p.ID); err != nil {
		t.Error(err)
	}
}

func TestSandboxDiesUnderAProcess(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	for name, follow := range map[string]func(session.ID, io.Writer) (protocol.Record, error){
		"run": func(id session.ID, out io.Writer) (protocol.Record, error) {
			return d.Execs.RunProcess(t.Context(), everyone, string(id), ops.ProcessRequest{Args: []string{"sh", "-c", "echo started; sleep 600"}}, out)
		},
		"attach": func(id session.ID, out io.Writer) (protocol.Record, error) {
			p, err := d.Execs.StartProcess(t.Context(), everyone, string(id), ops.ProcessRequest{Args: []string{"sh", "-c", "echo started; sleep 600"}})
			if err != nil {
				return p, err
			}
			return d.Execs.Attach(t.Context(), everyone, string(id), p.ID, 0, out)
		},
		"wait": func(id session.ID, out io.Writer) (protocol.Record, error) {
			p, err := d.Execs.StartProcess(t.Context(), everyone, string(id), ops.ProcessRequest{Args: []string{"sleep", "600"}})
			if err != nil {
				return p, err
			}
			if _, err := out.Write([]byte("started")); err != nil {
				return p, err
			}
			return d.Execs.Wait(t.Context(), everyone, string(id), p.ID, ops.MaxWait)
		},
	} {
		s := d.create(t, session.CreateRequest{})
		out := testenv.NewSignaler("started")
		go func() {
			<-out.Seen
			h.driver.KillRunner(t, s.Sandbox)
		}()
		r, err := follow(s.ID, out)
		switch {
		case errdefs.Is(err, errdefs.Conflict) && name == "wait": // it had not begun to wait
		case err != nil || r.Cause != protocol.CauseSandboxGone || r.State != protocol.StateEnded || r.ExitCode == 0 || r.ID == "":
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		d.want(t, s.ID, session.Stopped)
		if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
			t.Error(err)
		}
	}
	h.driver.WantSandboxes(t)
}

func TestReadExec(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	p, err := d.Execs.StartProcess(t.Context(), everyone, string(s.ID), ops.ProcessRequest{Args: []string{"sh", "-c", "echo one; cat"}, OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r, next, err := d.Execs.Read(t.Context(), everyone, string(s.ID), p.ID, ops.ReadRequest{Wait: time.Minute}, &out)
	if err != nil || next != 4 || out.String() != "one\n" || r.State != protocol.StateRunning {
		t.Errorf("%q, %d, %+v, %v", out.String(), next, r, err)
	}
	if n, err := d.Execs.WriteStdin(t.Context(), everyone, string(s.ID), p.ID, []byte("two\n"), true); n.Bytes != 4 || !n.Closed || err != nil {
		t.Error(n, err)
	}
	out.Reset()
	if r, err = d.Execs.Attach(t.Context(), everyone, string(s.ID), p.ID, next, &out); err != nil || out.String() != "two\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	_, err = d.Execs.WriteStdin(t.Context(), everyone, string(s.ID), p.ID, []byte("x"), false)
	wantCode(t, err, errdefs.Conflict)
	for name, err := range map[string]error{
		"offset": second(d.Execs.Read(t.Context(), everyone, string(s.ID), p.ID, ops.ReadRequest{Offset: -1}, io.Discard)),
		"wait":   second(d.Execs.Read(t.Context(), everyone, string(s.ID), p.ID, ops.ReadRequest{Wait: ops.MaxWait + 1}, io.Discard)),
		"signal": d.Execs.Signal(t.Context(), everyone, string(s.ID), p.ID, 65),
		"size":   d.Execs.Resize(t.Context(), everyone, string(s.ID), p.ID, ops.TerminalSize{Rows: 1}),
	} {
		if !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = d.Execs.Get(t.Context(), everyone, string(s.ID), strings.Repeat("a", 26))
	wantCode(t, err, errdefs.NotFound)
}

func second(_ protocol.Record, _ int64, err error) error { return err }

// deaf is a sandbox that was stopped from the host: it takes connections and
// says nothing.
type deaf struct{ runtime.Sandbox }

func (deaf) DialRunner(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go io.Copy(io.Discard, theirs) // until ours closes
	return ours, nil
}

// TestSandboxThatDoesNotAnswer: whoever waits for one is told so in time, and
// the session lives on.
func TestSandboxThatDoesNotAnswer(t *testing.T) {
	h := newHost(t)
	synctest.Test(t, func(t *testing.T) {
		d := h.start(t, withCreator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
			sandbox, err := h.driver.Create(ctx, id, spec)
			return deaf{sandbox}, err
		}))
		s := d.create(t, session.CreateRequest{TTL: 24 * time.Hour})
		for name, c := range map[string]struct {
			operate func() error
			within  time.Duration
		}{
			"exec": {func() error {
				_, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true", Timeout: time.Second}, io.Discard)
				return err
			}, 20 * time.Second},
			"long exec": {func() error {
				_, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true", Timeout: 10 * time.Minute}, io.Discard)
				return err
			}, time.Minute},
			"process": {func() error {
				_, err := d.Execs.RunProcess(t.Context(), everyone, string(s.ID), ops.ProcessRequest{Args: []string{"true"}, Timeout: time.Second}, io.Discard)
				return err
			}, 20 * time.Second},
			"background": {func() error {
				_, err := d.Execs.StartProcess(t.Context(), everyone, string(s.ID), ops.ProcessRequest{Args: []string{"true"}})
				return err
			}, 2 * time.Minute},
			"attach": {func() error {
				_, err := d.Execs.Attach(t.Context(), everyone, string(s.ID), strings.Repeat("a", 26), 0, io.Discard)
				return err
			}, time.Minute},
			"wait": {func() error {
				_, err := d.Execs.Wait(t.Context(), everyone, string(s.ID), strings.Repeat("a", 26), ops.MaxWait)
				return err
			}, time.Minute},
			"signal": {func() error { return d.Execs.Signal(t.Context(), everyone, string(s.ID), strings.Repeat("a", 26), 15) }, time.Minute},
		} {
			began := time.Now()
			err := c.operate()
			if took := time.Since(began); !errdefs.Is(err, errdefs.Unavailable) || took > c.within {
				t.Errorf("%s: after %v: %v", name, took, err)
			}
		}
		d.want(t, s.ID, session.Running)
		d.stop()
	})
}

// TestQueuedExecIsNoSilence: a runner that answers may take its time.
func TestQueuedExecIsNoSilence(t *testing.T) {
	h := newHost(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d := h.start(t, withCreator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
			sandbox, err := h.driver.Create(ctx, id, spec)
			return busy{sandbox, release}, err
		}))
		s := d.create(t, session.CreateRequest{TTL: 24 * time.Hour})
		go func() {
			time.Sleep(time.Hour) // of the bubble
			close(release)
		}()
		r, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true", Timeout: time.Second}, io.Discard)
		if err != nil || r.Cause != protocol.CauseExited {
			t.Errorf("%+v, %v", r, err)
		}
		if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil { // with its idle connections
			t.Error(err)
		}
		d.stop()
	})
}

// busy is a sandbox that answers pings at once, and execs when it is released.
type busy struct {
	runtime.Sandbox
	release chan struct{}
}

func (b busy) DialRunner(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		r, w := protocol.NewReader(theirs, protocol.Daemon), protocol.NewWriter(theirs)
		for {
			h, err := r.Next()
			if err != nil || r.Discard() != nil {
				return
			}
			if h.Type == protocol.TypePing {
				err = w.Send(protocol.TypePong, protocol.Pong{Version: protocol.Version}, nil)
			} else {
				var e protocol.Exec
				if h.Decode(&e) != nil {
					return
				}
				<-b.release
				err = w.Send(protocol.TypeDone, protocol.Record{ID: e.ID, State: protocol.StateEnded, Cause: protocol.CauseExited}, nil)
			}
			if err != nil {
				return
			}
		}
	}()
	return ours, nil
}

func TestShells(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	if _, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "x=1", Shell: ops.DefaultShell}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := d.output(t, s.ID, "echo $x"); got != "1\n" {
		t.Errorf("default is another shell: %q", got)
	}
	if err := d.Execs.CloseShell(t.Context(), everyone, string(s.ID), ops.DefaultShell); err != nil {
		t.Error(err)
	}
	if got := d.output(t, s.ID, "echo ${x-new}"); got != "new\n" {
		t.Errorf("%q", got)
	}
	shells, err := d.Execs.Shells(t.Context(), everyone, string(s.ID))
	if err != nil || len(shells) != 1 || shells[0].Name != "" {
		t.Errorf("%+v, %v", shells, err)
	}
	wantCode(t, d.Execs.CloseShell(t.Context(), everyone, string(s.ID), "none"), errdefs.NotFound)
	wantCode(t, d.Execs.CloseShell(t.Context(), everyone, string(s.ID), "a b"), errdefs.NotFound)
}
