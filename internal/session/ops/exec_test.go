package ops_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestExec(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{Env: map[string]string{"GREETING": "hello"}})
	var out bytes.Buffer
	result, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "echo $GREETING; cat; cd /tmp; (exit 3)", Stdin: []byte("input\n")}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != "hello\ninput\n" || result.ExitCode != 3 || result.Cause != protocol.CauseExited || result.Cwd != "/tmp" {
		t.Errorf("%q, %+v", out.String(), result)
	}
	if s := d.want(t, s.ID, session.Running); s.Cwd != "/tmp" {
		t.Errorf("cwd of the session is %q", s.Cwd)
	}
	if _, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "cd /usr", Shell: "other"}, &out); err != nil {
		t.Error(err)
	}
	if s := d.want(t, s.ID, session.Running); s.Cwd != "/tmp" {
		t.Errorf("another shell moved the session to %q", s.Cwd)
	}
}

func TestExecRefuses(t *testing.T) {
	d := newHost(t).start(t, func(o *session.Options) { o.Maxima.ExecTimeout = time.Minute })
	s := d.create(t, session.CreateRequest{})
	for _, c := range []struct {
		name  string
		req   ops.ExecRequest
		code  errdefs.Code
		field string
	}{
		{"no command", ops.ExecRequest{}, errdefs.InvalidArgument, "cmd"},
		{"NUL", ops.ExecRequest{Command: "a\x00b"}, errdefs.InvalidArgument, "cmd"},
		{"long", ops.ExecRequest{Command: strings.Repeat("x", protocol.MaxCommand+1)}, errdefs.TooLarge, "cmd"},
		{"much stdin", ops.ExecRequest{Command: "cat", Stdin: make([]byte, protocol.MaxCommand+1)}, errdefs.TooLarge, "stdin"},
		{"shell", ops.ExecRequest{Command: "true", Shell: "a b"}, errdefs.InvalidArgument, "shell"},
		{"timeout", ops.ExecRequest{Command: "true", Timeout: time.Hour}, errdefs.InvalidArgument, "timeout_ms"},
		{"negative timeout", ops.ExecRequest{Command: "true", Timeout: -1}, errdefs.InvalidArgument, "timeout_ms"},
	} {
		_, err := d.Execs.Run(t.Context(), everyone, string(s.ID), c.req, io.Discard)
		var e *errdefs.Error
		if !errors.As(err, &e) || e.Code != c.code || e.Field != c.field {
			t.Errorf("%s: %+v", c.name, err)
		}
	}
	_, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true", Timeout: time.Hour}, io.Discard)
	if !strings.Contains(errdefs.MessageOf(err), "60000") {
		t.Errorf("the message does not name the limit: %v", err)
	}
}

// TestLargestExec runs a command and a stdin of the largest size.
func TestLargestExec(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	command := "wc -c #"
	command += strings.Repeat("x", protocol.MaxCommand-len(command))
	var out bytes.Buffer
	r, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: command, Stdin: make([]byte, protocol.MaxCommand)}, &out)
	if err != nil || r.ExitCode != 0 || strings.TrimSpace(out.String()) != "1048576" {
		t.Errorf("%q, %+v, %v", out.String(), r, err)
	}
}

func TestExecTimeout(t *testing.T) {
	t.Parallel()
	d := newHost(t).start(t, func(o *session.Options) { o.Defaults.ExecTimeout = 3 * time.Second })
	s := d.create(t, session.CreateRequest{})
	var out bytes.Buffer
	r, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "echo before; sleep 600"}, &out)
	if err != nil || r.Cause != protocol.CauseTimeout || !strings.HasPrefix(out.String(), "before\n") {
		t.Errorf("%q, %+v, %v", out.String(), r, err)
	}
	d.output(t, s.ID, "true")
}

func TestExecOutlivesItsClient(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	fifo := strings.TrimSpace(d.output(t, s.ID, "mkfifo go && realpath go"))
	ctx, leave := context.WithCancel(t.Context())
	out := testenv.NewSignaler("started")
	go func() {
		<-out.Seen
		leave()
	}()
	r, err := d.Execs.Run(ctx, everyone, string(s.ID), ops.ExecRequest{Command: "echo started; cat go; exit 4"}, out)
	if !errors.Is(err, context.Canceled) || r.ID == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	d.want(t, s.ID, session.Running)
	if err := writeFIFO(fifo, "more\n"); err != nil {
		t.Fatal(err)
	}
	var rest bytes.Buffer
	r, err = d.Execs.Attach(t.Context(), everyone, string(s.ID), r.ID, int64(len("started\n")), &rest)
	if err != nil || rest.String() != "more\n" || r.ExitCode != 4 {
		t.Errorf("%q, %+v, %v", rest.String(), r, err)
	}
}

func TestCancelExec(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	out := testenv.NewSignaler("started")
	results := make(chan protocol.Record, 1)
	go func() {
		r, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "echo started; sleep 600"}, out)
		if err != nil {
			t.Error(err)
		}
		results <- r
	}()
	<-out.Seen
	execs, err := d.Execs.List(t.Context(), everyone, string(s.ID))
	if err != nil || len(execs) != 1 {
		t.Fatalf("%+v, %v", execs, err)
	}
	if err := d.Execs.Cancel(t.Context(), everyone, string(s.ID), execs[0].ID); err != nil {
		t.Fatal(err)
	}
	if r := <-results; r.Cause != protocol.CauseCanceled || r.ID != execs[0].ID {
		t.Errorf("%+v", r)
	}
	for _, id := range []string{"", "../../etc", strings.Repeat("a", 26), strings.Repeat("a", 27)} {
		wantCode(t, d.Execs.Cancel(t.Context(), everyone, string(s.ID), id), errdefs.NotFound)
		_, err := d.Execs.Attach(t.Context(), everyone, string(s.ID), id, 0, io.Discard)
		wantCode(t, err, errdefs.NotFound)
	}
	_, err = d.Execs.Attach(t.Context(), everyone, string(s.ID), execs[0].ID, -1, io.Discard)
	wantCode(t, err, errdefs.InvalidArgument)
}

func TestSandboxDiesUnderAnExec(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	out := testenv.NewSignaler("started")
	go func() {
		<-out.Seen
		h.driver.KillRunner(t, s.Sandbox)
	}()
	r, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "cd /tmp; echo started; sleep 600"}, out)
	if err != nil || r.Cause != protocol.CauseSandboxGone || r.State != protocol.StateEnded || r.ExitCode == 0 || r.ID == "" {
		t.Errorf("%+v, %v", r, err)
	}
	d.want(t, s.ID, session.Stopped)
	h.driver.WantSandboxes(t, s.Sandbox)
}

func TestOperationOnADeadSandbox(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	for name, operate := range map[string]func(session.ID) error{
		"exec": func(id session.ID) error {
			_, err := d.Execs.Run(t.Context(), everyone, string(id), ops.ExecRequest{Command: "true"}, io.Discard)
			return err
		},
		"execs": func(id session.ID) error { _, err := d.Execs.List(t.Context(), everyone, string(id)); return err },
		"stats": func(id session.ID) error { _, err := d.Sessions.Stats(t.Context(), everyone, id); return err },
		"write": func(id session.ID) error {
			_, err := d.Files.Write(t.Context(), everyone, string(id), protocol.Write{Path: "f"}, 1, strings.NewReader("x"))
			return err
		},
	} {
		s := d.create(t, session.CreateRequest{})
		want := session.Stopped
		if name == "stats" {
			want = session.Crashed
			if err := h.driver.Destroy(t.Context(), s.Sandbox); err != nil {
				t.Fatal(err)
			}
		} else {
			h.driver.KillRunner(t, s.Sandbox)
		}
		err := operate(s.ID)
		if errdefs.CodeOf(err) != errdefs.Conflict || !strings.Contains(errdefs.MessageOf(err), string(want)) {
			t.Errorf("%s: %v", name, err)
		}
		d.want(t, s.ID, want)
		if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
			t.Error(err)
		}
	}
	h.driver.WantSandboxes(t)
}

// liar is a sandbox whose runner is not ours.
type liar struct {
	runtime.Sandbox
	answer string
}

func (l liar) DialRunner(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		r := protocol.NewReader(theirs, protocol.Daemon)
		if _, err := r.Next(); err == nil && r.Discard() == nil {
			io.WriteString(theirs, l.answer)
		}
	}()
	return ours, nil
}

func TestHostileRunnerStopsItsSessionOnly(t *testing.T) {
	h := newHost(t)
	lie := true
	d := h.start(t, withCreator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
		sandbox, err := h.driver.Create(ctx, id, spec)
		if lie {
			sandbox = liar{sandbox, `{"type":"done","body":{"id":"x","exit_code":-5}}` + "\n"}
		}
		return sandbox, err
	}))
	bad := d.create(t, session.CreateRequest{})
	lie = false
	good := d.create(t, session.CreateRequest{})
	_, err := d.Execs.Run(t.Context(), everyone, string(bad.ID), ops.ExecRequest{Command: "true"}, io.Discard)
	wantCode(t, err, errdefs.Conflict)
	d.want(t, bad.ID, session.Stopped)
	d.want(t, good.ID, session.Running)
	h.driver.WantSandboxes(t, good.Sandbox, bad.Sandbox)
}

// TestRunnerDoesNotAnswer: a connection that breaks is not death.
func TestRunnerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.start(t, withCreator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
		sandbox, err := h.driver.Create(ctx, id, spec)
		return liar{sandbox, ""}, err
	}))
	s := d.create(t, session.CreateRequest{})
	_, err := d.Execs.List(t.Context(), everyone, string(s.ID))
	wantCode(t, err, errdefs.Unavailable)
	d.want(t, s.ID, session.Running)
	h.driver.WantSandboxes(t, s.Sandbox)
}
