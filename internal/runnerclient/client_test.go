package runnerclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestExec(t *testing.T) {
	c, p := newClient(t, func(l *link) {
		h := l.expect(protocol.TypeExec)
		var e protocol.Exec
		if err := h.Decode(&e); err != nil || e.CommandBytes != 7 || h.Bytes != 9 || e.ID != "e1" || e.TimeoutMS != 5 {
			t.Errorf("request %+v with %d bytes, %v", e, h.Bytes, err)
		}
		l.send(protocol.TypeOutput, protocol.Output{Offset: 0}, "hello ")
		l.send(protocol.TypeOutput, protocol.Output{Offset: 10}, "world")
		r := done("e1")
		r.ExitCode, r.OutputBytes, r.DroppedBytes, r.Cwd = 255, 15, 4, "/x"
		l.send(protocol.TypeDone, r, "")

		l.expect(protocol.TypeExec) // the connection is used again
		l.send(protocol.TypeDone, done("e2"), "")
		l.hold()
	})
	var out bytes.Buffer
	r, err := c.Exec(t.Context(), protocol.Exec{ID: "e1", TimeoutMS: 5}, "command", []byte("in"), &out)
	if err != nil || out.String() != "hello world" || r.ExitCode != 255 || r.DroppedBytes != 4 || r.Cwd != "/x" {
		t.Errorf("%q, %+v, %v", out.String(), r, err)
	}
	if _, err := c.Exec(t.Context(), protocol.Exec{ID: "e2"}, "command", nil, io.Discard); err != nil {
		t.Error(err)
	}
	if n := p.dials.Load(); n != 1 {
		t.Errorf("%d dials", n)
	}
}

// TestHostileExec answers an exec as no honest runner does.
func TestHostileExec(t *testing.T) {
	with := func(change func(*protocol.Record)) func(*link) {
		return func(l *link) {
			r := done("e1")
			change(&r)
			l.send(protocol.TypeDone, r, "")
		}
	}
	for name, answer := range map[string]func(*link){
		"not JSON":             func(l *link) { l.raw("hello\n") },
		"endless header":       func(l *link) { l.raw(strings.Repeat("x", protocol.MaxHeader+4096)) },
		"unknown type":         func(l *link) { l.raw(`{"type":"surprise"}` + "\n") },
		"a daemon's type":      func(l *link) { l.raw(`{"type":"exec"}` + "\n") },
		"another answer":       func(l *link) { l.send(protocol.TypePong, protocol.Pong{Version: 1}, "") },
		"huge payload":         func(l *link) { l.raw(`{"type":"output","body":{"offset":0},"bytes":99999999}` + "\n") },
		"negative payload":     func(l *link) { l.raw(`{"type":"output","body":{"offset":0},"bytes":-1}` + "\n") },
		"payload on a record":  func(l *link) { l.raw(`{"type":"done","body":{},"bytes":5}` + "\nhello") },
		"body of another kind": func(l *link) { l.raw(`{"type":"done","body":{"exit_code":"0"}}` + "\n") },
		"no body":              func(l *link) { l.raw(`{"type":"done"}` + "\n") },
		"offset goes back": func(l *link) {
			l.send(protocol.TypeOutput, protocol.Output{Offset: 5}, "hello")
			l.send(protocol.TypeOutput, protocol.Output{Offset: 9}, "hello")
		},
		"negative offset":        func(l *link) { l.send(protocol.TypeOutput, protocol.Output{Offset: -1}, "x") },
		"offset overflows":       func(l *link) { l.send(protocol.TypeOutput, protocol.Output{Offset: 1<<63 - 2}, "xyz") },
		"started after 9999":     with(func(r *protocol.Record) { r.StartedUnixMS = 253_402_300_800_000 }),
		"another exec's record":  with(func(r *protocol.Record) { r.ID = "e2" }),
		"not ended":              with(func(r *protocol.Record) { r.State, r.Cause = protocol.StateRunning, "" }),
		"exit code 256":          with(func(r *protocol.Record) { r.ExitCode = 256 }),
		"exit code -1":           with(func(r *protocol.Record) { r.ExitCode = -1 }),
		"signal 65":              with(func(r *protocol.Record) { r.Signal = 65 }),
		"no cause":               with(func(r *protocol.Record) { r.Cause = "" }),
		"unknown cause":          with(func(r *protocol.Record) { r.Cause = "bored" }),
		"the daemon's own cause": with(func(r *protocol.Record) { r.Cause = protocol.CauseSandboxGone }),
		"negative output":        with(func(r *protocol.Record) { r.OutputBytes = -1 }),
		"more dropped than was":  with(func(r *protocol.Record) { r.OutputBytes, r.DroppedBytes = 1, 2 }),
		"negative duration":      with(func(r *protocol.Record) { r.DurationUS = -1 }),
		"more after the end": func(l *link) {
			// In one write, so that it is there when the record is.
			if err := errors.Join(l.w.Put(protocol.TypeDone, done("e1"), nil), l.w.Send(protocol.TypeOK, nil, nil)); err != nil {
				return
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, p := newClient(t, func(l *link) {
				l.expect(protocol.TypeExec)
				answer(l)
				l.hold()
			})
			r, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, io.Discard)
			if !errors.Is(err, runnerclient.ErrProtocol) || errors.Is(err, runnerclient.ErrLost) {
				t.Errorf("%+v, %v", r, err)
			}
			if n := p.dials.Load(); n != 1 {
				t.Errorf("%d dials: it went on with a runner that is not to be trusted", n)
			}
		})
	}
}

func TestStringsAreCut(t *testing.T) {
	long := strings.Repeat("ä", 2500)
	c, _ := newClient(t, func(l *link) {
		l.expect(protocol.TypeExec)
		r := done("e1")
		r.Cwd, r.Command, r.Shell, r.OutputFileError = long, long, long, "\x1b[2J"+long[:1000]
		l.send(protocol.TypeDone, r, "")
		l.expect(protocol.TypePing)
		l.send(protocol.TypeError, protocol.Error{Code: "not_found", Message: "\x1b[2J" + long}, "")
		l.hold()
	})
	r, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, io.Discard)
	if err != nil || len(r.Cwd) > protocol.MaxPath || len(r.Command) > 512 || len(r.Shell) > 64 || strings.Trim(r.Cwd, "ä") != "" {
		t.Errorf("cwd %d, command %d, shell %d bytes, %v", len(r.Cwd), len(r.Command), len(r.Shell), err)
	}
	if len(r.OutputFileError) > 512 || strings.Contains(r.OutputFileError, "\x1b") {
		t.Errorf("what became of the output file: %q", r.OutputFileError)
	}
	message := errdefs.MessageOf(c.Ping(t.Context()))
	if len(message) > 512 || strings.Contains(message, "\x1b") {
		t.Errorf("message %q", message)
	}
}

func TestRefusal(t *testing.T) {
	for code, want := range map[string]errdefs.Code{
		"not_found":          errdefs.NotFound,
		"insufficient_space": errdefs.InsufficientSpace,
		"unauthenticated":    errdefs.Internal, // not a runner's to say
		"":                   errdefs.Internal,
		"nonsense":           errdefs.Internal,
	} {
		c, _ := newClient(t, func(l *link) {
			l.expect(protocol.TypeCancel)
			l.send(protocol.TypeError, protocol.Error{Code: code, Message: "no"}, "")
			l.expect(protocol.TypePing) // a refusal leaves the connection in order
			l.send(protocol.TypePong, protocol.Pong{Version: protocol.Version}, "")
			l.hold()
		})
		err := c.Cancel(t.Context(), "e1")
		if errdefs.CodeOf(err) != want || errors.Is(err, runnerclient.ErrProtocol) {
			t.Errorf("%q: %v", code, err)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("%q: then %v", code, err)
		}
	}
}

func TestRefusedField(t *testing.T) {
	for field, want := range map[string]string{"cwd": "cwd", "authorization": "", "\x1b[2J": ""} {
		c, _ := newClient(t, func(l *link) {
			l.expect(protocol.TypeCancel)
			l.send(protocol.TypeError, protocol.Refuse(protocol.CodeInvalid, "no").For(field), "")
			l.hold()
		})
		refused, ok := errors.AsType[*errdefs.Error](c.Cancel(t.Context(), "e1"))
		if !ok || refused.Field != want {
			t.Errorf("%q: %+v", field, refused)
		}
	}
}

// A runner that speaks none of our versions is asked for nothing but, again, its
// versions.
func TestPingOfAnotherVersion(t *testing.T) {
	c, _ := newClient(t, func(l *link) {
		for _, pong := range []protocol.Pong{{Version: protocol.Version + 2, Min: protocol.Version + 1}, {Version: protocol.Version + 2, Min: protocol.Version}} {
			l.expect(protocol.TypePing)
			l.send(protocol.TypePong, pong, "")
		}
		l.expect(protocol.TypeCancel)
		l.send(protocol.TypeOK, nil, "")
		l.hold()
	})
	if err := c.Ping(t.Context()); !errdefs.Is(err, errdefs.Unimplemented) || !strings.Contains(err.Error(), "3 to 4") {
		t.Error(err)
	}
	if err := c.Cancel(t.Context(), "e1"); !errdefs.Is(err, errdefs.Unimplemented) {
		t.Errorf("an operation: %v", err)
	}
	if err := errors.Join(c.Ping(t.Context()), c.Cancel(t.Context(), "e1")); err != nil {
		t.Errorf("after a runner that speaks ours: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	c, _ := newClient(t)
	if err := c.Ping(t.Context()); !errors.Is(err, runnerclient.ErrUnreachable) || !errors.Is(err, errNoScript) {
		t.Error(err)
	}
	_, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, io.Discard)
	if !errors.Is(err, runnerclient.ErrUnreachable) {
		t.Error(err)
	}
}

func hangUp(*link) {}

func pingOnce(l *link) {
	l.expect(protocol.TypePing)
	l.send(protocol.TypePong, protocol.Pong{Version: protocol.Version}, "")
}

// TestIdleConnectionDied lets the runner close a connection between two
// operations.
func TestIdleConnectionDied(t *testing.T) {
	c, p := newClient(t, pingOnce, pingOnce)
	for i := range 2 {
		if err := c.Ping(t.Context()); err != nil {
			t.Fatalf("ping %d: %v", i, err)
		}
		p.running.Wait()
	}
	if n := p.dials.Load(); n != 2 {
		t.Errorf("%d dials", n)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, runnerclient.ErrUnreachable) {
		t.Errorf("with nobody there: %v", err)
	}
}

// TestNewConnectionDied: on a new connection there is no second try.
func TestNewConnectionDied(t *testing.T) {
	c, p := newClient(t, func(l *link) { l.expect(protocol.TypePing) }, pingOnce)
	if err := c.Ping(t.Context()); !errors.Is(err, runnerclient.ErrLost) {
		t.Error(err)
	}
	if n := p.dials.Load(); n != 1 {
		t.Errorf("%d dials", n)
	}
}

// TestExecIsAttachedAgain breaks the connection of an exec.
func TestExecIsAttachedAgain(t *testing.T) {
	start := func(l *link) {
		l.expect(protocol.TypeExec)
		l.send(protocol.TypeOutput, protocol.Output{Offset: 0}, "one ")
	}
	attach := func(t *testing.T, l *link, offset int64) {
		var a protocol.Attach
		if err := l.expect(protocol.TypeAttach).Decode(&a); err != nil || a != (protocol.Attach{ID: "e1", Offset: offset}) {
			t.Errorf("%+v, %v", a, err)
		}
	}
	t.Run("in the middle", func(t *testing.T) {
		c, _ := newClient(t, start, func(l *link) {
			attach(t, l, 4)
			l.send(protocol.TypeOutput, protocol.Output{Offset: 4}, "two")
			l.send(protocol.TypeDone, done("e1"), "")
			l.hold()
		})
		var out bytes.Buffer
		if _, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, &out); err != nil || out.String() != "one two" {
			t.Errorf("%q, %v", out.String(), err)
		}
	})
	t.Run("in the middle of a frame", func(t *testing.T) {
		c, _ := newClient(t, func(l *link) {
			start(l)
			l.raw(`{"type":"output","body":{"offset":4},"bytes":3}` + "\ntw")
		}, func(l *link) {
			attach(t, l, 4)
			l.send(protocol.TypeOutput, protocol.Output{Offset: 4}, "two")
			l.send(protocol.TypeDone, done("e1"), "")
			l.hold()
		})
		var out bytes.Buffer
		if _, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, &out); err != nil || out.String() != "one two" {
			t.Errorf("%q, %v", out.String(), err)
		}
	})
	t.Run("before the runner had it", func(t *testing.T) {
		c, _ := newClient(t, hangUp, func(l *link) {
			attach(t, l, 0)
			l.send(protocol.TypeError, protocol.Error{Code: "not_found"}, "")
			l.expect(protocol.TypeExec)
			l.send(protocol.TypeDone, done("e1"), "")
			l.hold()
		})
		if _, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, io.Discard); err != nil {
			t.Error(err)
		}
	})
	t.Run("and forgotten", func(t *testing.T) {
		c, _ := newClient(t, start, func(l *link) {
			attach(t, l, 4)
			l.send(protocol.TypeError, protocol.Error{Code: "not_found"}, "")
			l.hold()
		})
		if _, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, io.Discard); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("it must not run twice: %v", err)
		}
	})
	t.Run("twice", func(t *testing.T) {
		c, _ := newClient(t, start, func(l *link) { attach(t, l, 4) })
		if _, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, io.Discard); !errors.Is(err, runnerclient.ErrLost) {
			t.Error(err)
		}
	})
	t.Run("and the runner is gone", func(t *testing.T) {
		c, _ := newClient(t, start)
		if _, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, io.Discard); !errors.Is(err, runnerclient.ErrLost) {
			t.Error(err)
		}
	})
}

func TestContextEndsTheAttachment(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := newClient(t, func(l *link) {
		l.expect(protocol.TypeExec)
		l.send(protocol.TypeOutput, protocol.Output{}, "x")
		cancel()
		l.hold()
	})
	if _, err := c.Exec(ctx, protocol.Exec{ID: "e1"}, "x", nil, io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := c.Ping(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type brokenWriter struct{}

var errPipe = errors.New("the client is gone")

func (brokenWriter) Write([]byte) (int, error) { return 0, errPipe }

func TestOutputCannotBeWritten(t *testing.T) {
	c, _ := newClient(t, func(l *link) {
		l.expect(protocol.TypeExec)
		l.send(protocol.TypeOutput, protocol.Output{}, "x")
		l.hold()
	})
	_, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, brokenWriter{})
	if !errors.Is(err, errPipe) || errors.Is(err, runnerclient.ErrLost) {
		t.Error(err)
	}
}

func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, func(l *link) {
			l.expect(protocol.TypePing)
			l.hold()
		})
		start := time.Now()
		err := c.Ping(t.Context())
		if !errors.Is(err, runnerclient.ErrLost) || time.Since(start) > time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestRunnerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		c, _ := newClient(t, func(*link) { <-stop })
		err := c.Write(t.Context(), protocol.Write{Path: "f"}, 1<<20, bytes.NewReader(make([]byte, 1<<20)))
		if !errors.Is(err, runnerclient.ErrLost) {
			t.Error(err)
		}
		close(stop)
	})
}

func TestOneOperationOneConnection(t *testing.T) {
	const n = 10
	var arrived sync.WaitGroup
	arrived.Add(n)
	script := func(l *link) {
		l.expect(protocol.TypeExec)
		arrived.Done()
		arrived.Wait() // all are here at once, so each has its own
		l.send(protocol.TypeDone, done("e"), "")
		if _, err := l.r.Next(); err == nil {
			l.t.Error("another request")
		}
	}
	scripts := make([]func(*link), n)
	for i := range scripts {
		scripts[i] = script
	}
	c, p := newClient(t, scripts...)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if _, err := c.Exec(t.Context(), protocol.Exec{ID: "e"}, "x", nil, io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if p.dials.Load() != n {
		t.Errorf("%d dials", p.dials.Load())
	}
}

func TestClosedClientKeepsNothing(t *testing.T) {
	c, p := newClient(t, pingOnce, func(l *link) { pingOnce(l); l.hold() })
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.running.Wait() // its connection was closed when the operation ended
}

func TestExecs(t *testing.T) {
	c, _ := newClient(t, func(l *link) {
		l.expect(protocol.TypeExecs)
		l.send(protocol.TypeRecords, protocol.Records{Execs: []protocol.Record{done("a"), {ID: "b", State: protocol.StateQueued}}}, "")
		l.expect(protocol.TypeExecs)
		l.send(protocol.TypeRecords, protocol.Records{Execs: []protocol.Record{{ID: "b", State: "weird"}}}, "")
		l.hold()
	})
	list, err := c.Execs(t.Context())
	if err != nil || len(list) != 2 || list[1].ID != "b" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := c.Execs(t.Context()); !errors.Is(err, runnerclient.ErrProtocol) {
		t.Error(err)
	}
}

// FuzzAnswer feeds a client whatever bytes: it must end, and not believe in
// impossible numbers.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"type":"output","body":{"offset":0},"bytes":2}` + "\nhi" + `{"type":"done","body":{"id":"e1","state":"ended","cause":"exited"}}` + "\n"))
	f.Add([]byte(`{"type":"error","body":{"code":"not_found"}}` + "\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			r := protocol.NewReader(theirs, protocol.Daemon)
			if _, err := r.Next(); err != nil || r.Discard() != nil {
				return
			}
			if _, err := theirs.Write(answer); err != nil {
				return
			}
		}()
		dialled := false
		c := &runnerclient.Client{Dial: func(context.Context) (net.Conn, error) {
			if dialled {
				return nil, errNoScript
			}
			dialled = true
			return ours, nil
		}}
		defer c.Close()
		var out bytes.Buffer
		r, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, &out)
		if err == nil && (r.ID != "e1" || r.ExitCode < 0 || r.ExitCode > 255 || r.DroppedBytes > r.OutputBytes) {
			t.Errorf("%+v", r)
		}
		if out.Len() > len(answer) {
			t.Errorf("%d bytes of output from %d", out.Len(), len(answer))
		}
	})
}

// witness notes what it is told, in its order.
type witness struct{ strings.Builder }

func (w *witness) Accepted(execID string) { w.WriteString("<" + execID + ">") }

func TestWhenAnExecIsAccepted(t *testing.T) {
	output := func(l *link) { l.send(protocol.TypeOutput, protocol.Output{}, "out") }
	finish := func(l *link) { l.send(protocol.TypeDone, done("e1"), "") }
	accept := func(l *link) { l.send(protocol.TypeAccepted, nil, "") }
	refuse := func(l *link) { l.send(protocol.TypeError, protocol.Refuse(protocol.CodeExhausted, "no"), "") }
	for _, tt := range []struct {
		name    string
		answers []func(*link)
		told    string
		err     error
	}{
		{"accepted", []func(*link){accept, output, finish}, "<e1>out", nil},
		{"accepted and quiet", []func(*link){accept, finish}, "<e1>", nil},
		{"output before", []func(*link){output, finish}, "", runnerclient.ErrProtocol},
		{"the end before", []func(*link){finish}, "", runnerclient.ErrProtocol},
		{"refused", []func(*link){refuse}, "", errdefs.New(errdefs.ResourceExhausted, "no")},
		{"refused later", []func(*link){accept, refuse}, "<e1>", errdefs.New(errdefs.ResourceExhausted, "no")},
		{"twice", []func(*link){accept, accept}, "<e1>", runnerclient.ErrProtocol},
	} {
		c, _ := newClient(t, func(l *link) {
			var e protocol.Exec
			if err := l.expect(protocol.TypeExec).Decode(&e); err != nil || !e.Accept {
				t.Errorf("%s: asked for %+v, %v", tt.name, e, err)
			}
			for _, answer := range tt.answers {
				answer(l)
			}
			l.hold()
		})
		var told witness
		_, err := c.Exec(t.Context(), protocol.Exec{ID: "e1"}, "x", nil, &told)
		if errors.Is(tt.err, runnerclient.ErrProtocol) != errors.Is(err, runnerclient.ErrProtocol) || (tt.err == nil) != (err == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if told.String() != tt.told {
			t.Errorf("%s: told %q", tt.name, &told)
		}
	}
}

// TestWhoLeavesBeforeAnExecIsAccepted has not been told of it: there may be none.
func TestWhoLeavesBeforeAnExecIsAccepted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := newClient(t, func(l *link) {
		l.expect(protocol.TypeExec)
		cancel()
		l.hold()
	})
	var told witness
	if _, err := c.Exec(ctx, protocol.Exec{ID: "e1"}, "x", nil, &told); !errors.Is(err, context.Canceled) || told.Len() > 0 {
		t.Errorf("%v, told %q", err, &told)
	}
}
