package runnerclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// request receives a frame and returns its body and payload.
func request[T any](l *link, want protocol.Type) (body T, payload string) {
	h, err := l.r.Next()
	if err != nil || h.Type != want {
		l.t.Errorf("received %s, %v, expected %s", h.Type, err, want)
		return body, ""
	}
	data, err := io.ReadAll(l.r)
	if err := errors.Join(err, h.Decode(&body)); err != nil {
		l.t.Error(err)
	}
	return body, string(data)
}

func running(id string) protocol.Record {
	return protocol.Record{ID: id, State: protocol.StateRunning, Kind: protocol.KindProcess, PID: 7}
}

// log is a Sink that writes down what it is told.
type log struct{ bytes.Buffer }

func (s *log) At(stream protocol.Stream, offset int64) { fmt.Fprintf(s, "<%s%d>", stream, offset) }

func TestRun(t *testing.T) {
	c, _ := newClient(t, func(l *link) {
		s, payload := request[protocol.Start](l, protocol.TypeStart)
		if s.ArgvBytes != 8 || s.EnvBytes != 4 || payload != "cat\x00a b\x00A=1\x00input" || s.Background {
			t.Errorf("%+v, %q", s, payload)
		}
		l.send(protocol.TypeOutput, protocol.Output{Stream: protocol.StreamStdout}, "one")
		l.send(protocol.TypeOutput, protocol.Output{Offset: 3, Stream: protocol.StreamStderr}, "two")
		l.send(protocol.TypeOutput, protocol.Output{Offset: 10, Stream: protocol.StreamStderr}, "three")
		l.send(protocol.TypeDone, done("p1"), "")
		l.hold()
	})
	var out log
	program := runnerclient.Program{Args: []string{"cat", "a b"}, Env: []string{"A=1"}, Stdin: []byte("input")}
	if _, err := c.Run(t.Context(), protocol.Start{ID: "p1", Background: true}, program, &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "<stdout0>one<stderr3>two<stderr10>three" {
		t.Errorf("%q", got)
	}
}

func TestStart(t *testing.T) {
	started := func(l *link) {
		if s, payload := request[protocol.Start](l, protocol.TypeStart); !s.Background || s.ArgvBytes != 0 || payload != "" {
			t.Errorf("%+v, %q", s, payload)
		}
		l.send(protocol.TypeStarted, running("p1"), "")
	}
	lose := func(l *link) { l.expect(protocol.TypeStart) }
	poll := func(l *link) {
		a, _ := request[protocol.Attach](l, protocol.TypeAttach)
		if a != (protocol.Attach{ID: "p1", Offset: math.MaxInt64, Poll: true}) {
			t.Errorf("%+v", a)
		}
	}
	for name, scripts := range map[string][]func(*link){
		"at once":             {func(l *link) { started(l); l.hold() }},
		"the answer was lost": {lose, func(l *link) { poll(l); l.send(protocol.TypeDone, running("p1"), ""); l.hold() }},
		"the request was lost": {hangUp, func(l *link) {
			poll(l)
			l.send(protocol.TypeError, protocol.Error{Code: "not_found"}, "")
			started(l)
			l.hold()
		}},
		"it has ended before the answer": {lose, func(l *link) { poll(l); l.send(protocol.TypeDone, done("p1"), ""); l.hold() }},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newClient(t, scripts...)
			if r, err := c.Start(t.Context(), protocol.Start{ID: "p1"}, runnerclient.Program{}); err != nil || r.ID != "p1" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	c, _ := newClient(t, lose)
	if _, err := c.Start(t.Context(), protocol.Start{ID: "p1"}, runnerclient.Program{}); !errors.Is(err, runnerclient.ErrLost) {
		t.Errorf("with nobody there: %v", err)
	}
}

func TestPoll(t *testing.T) {
	c, p := newClient(t, pingOnce, func(l *link) {
		a, _ := request[protocol.Attach](l, protocol.TypeAttach)
		if a != (protocol.Attach{ID: "p1", Offset: 5, Poll: true, MaxBytes: 10, WaitMS: 1000}) {
			t.Errorf("%+v", a)
		}
		l.send(protocol.TypeOutput, protocol.Output{Offset: 7}, "abc")
		l.send(protocol.TypeDone, running("p1"), "")
		l.hold()
	})
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.running.Wait() // the idle connection is dead: a poll may be repeated
	var out log
	r, next, err := c.Poll(t.Context(), protocol.Attach{ID: "p1", Offset: 5, MaxBytes: 10, WaitMS: 1000}, &out)
	if err != nil || r.State != protocol.StateRunning || next != 10 || out.String() != "<7>abc" {
		t.Errorf("%+v, %d, %q, %v", r, next, out.String(), err)
	}
}

func TestPollIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, func(l *link) {
			l.expect(protocol.TypeAttach)
			l.hold()
		})
		start := time.Now()
		_, err := c.Wait(t.Context(), "p1", time.Hour)
		if took := time.Since(start); !errors.Is(err, runnerclient.ErrLost) || took < time.Hour || took > time.Hour+time.Minute {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// TestGivenUpWithACause: who watches a runner decides what its silence means.
func TestGivenUpWithACause(t *testing.T) {
	silent := fmt.Errorf("%w: silent", runnerclient.ErrLost)
	ctx, cancel := context.WithCancelCause(t.Context())
	c, p := newClient(t, func(l *link) {
		l.expect(protocol.TypeExec)
		cancel(silent)
		l.hold()
	})
	if _, err := c.Exec(ctx, protocol.Exec{ID: "e1"}, "x", nil, io.Discard); !errors.Is(err, silent) {
		t.Error(err)
	}
	if n := p.dials.Load(); n != 1 {
		t.Errorf("%d dials: it attached again to a runner that does not answer", n)
	}
}

func TestStdin(t *testing.T) {
	c, _ := newClient(t, func(l *link) {
		s, payload := request[protocol.Stdin](l, protocol.TypeStdin)
		if s != (protocol.Stdin{ID: "p1", Close: true, WaitMS: 5}) || payload != "hello" {
			t.Errorf("%+v, %q", s, payload)
		}
		l.send(protocol.TypeTaken, protocol.Taken{Bytes: 3}, "")
		l.expect(protocol.TypeStdin)
		l.send(protocol.TypeTaken, protocol.Taken{Bytes: 6}, "")
		l.hold()
	}, func(l *link) { l.expect(protocol.TypeStdin) })
	if n, err := c.Stdin(t.Context(), protocol.Stdin{ID: "p1", Close: true, WaitMS: 5}, []byte("hello")); n.Bytes != 3 || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := c.Stdin(t.Context(), protocol.Stdin{ID: "p1"}, []byte("hello")); !errors.Is(err, runnerclient.ErrProtocol) {
		t.Errorf("more than there was: %v", err)
	}
	if _, err := c.Stdin(t.Context(), protocol.Stdin{ID: "p1"}, []byte("hello")); !errors.Is(err, runnerclient.ErrLost) {
		t.Errorf("it must not be typed twice: %v", err)
	}
}

func TestShells(t *testing.T) {
	c, _ := newClient(t, func(l *link) {
		l.expect(protocol.TypeShells)
		l.send(protocol.TypeShellList, protocol.ShellList{Shells: []protocol.ShellInfo{{Cwd: "/"}, {Name: "build", PID: 9, Exec: "e1", Queued: 2}}}, "")
		l.expect(protocol.TypeShells)
		l.send(protocol.TypeShellList, protocol.ShellList{Shells: []protocol.ShellInfo{{PID: -1}}}, "")
		l.hold()
	})
	list, err := c.Shells(t.Context())
	if err != nil || len(list) != 2 || list[1].Exec != "e1" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := c.Shells(t.Context()); !errors.Is(err, runnerclient.ErrProtocol) {
		t.Error(err)
	}
}

// TestOrders are the requests that only OK answers.
func TestOrders(t *testing.T) {
	for _, order := range []struct {
		want protocol.Type
		give func(context.Context, *runnerclient.Client) error
	}{
		{protocol.TypeSignal, func(ctx context.Context, c *runnerclient.Client) error { return c.Signal(ctx, "p1", 15) }},
		{protocol.TypeResize, func(ctx context.Context, c *runnerclient.Client) error {
			return c.Resize(ctx, protocol.Resize{ID: "p1", Rows: 1, Cols: 1})
		}},
		{protocol.TypeCloseShell, func(ctx context.Context, c *runnerclient.Client) error { return c.CloseShell(ctx, "build") }},
		{protocol.TypeSettle, func(ctx context.Context, c *runnerclient.Client) error {
			return c.Settle(ctx, protocol.Settle{Hostname: "box"}, nil, nil)
		}},
		{protocol.TypeCancel, func(ctx context.Context, c *runnerclient.Client) error { return c.Cancel(ctx, "p1") }},
	} {
		c, _ := newClient(t, func(l *link) {
			l.expect(order.want)
			l.send(protocol.TypeOK, nil, "")
			l.expect(order.want)
			l.send(protocol.TypeError, protocol.Error{Code: "conflict", Message: "it has ended"}, "")
			l.hold()
		})
		if err := order.give(t.Context(), c); err != nil {
			t.Errorf("%s: %v", order.want, err)
		}
		if err := order.give(t.Context(), c); !errdefs.Is(err, errdefs.Conflict) {
			t.Errorf("%s: %v", order.want, err)
		}
	}
}

func TestSettle(t *testing.T) {
	c, _ := newClient(t, func(l *link) {
		told, env := request[protocol.Settle](l, protocol.TypeSettle)
		if want := (protocol.Settle{Hostname: "box", HostsFile: "hosts", Moved: true}); told != want || env != "A=1\x00B=\x00" {
			t.Errorf("told %+v with %q", told, env)
		}
		l.send(protocol.TypeOK, nil, "")
		l.hold()
	})
	err := c.Settle(t.Context(), protocol.Settle{Hostname: "box", HostsFile: "hosts", Moved: true}, []string{"A=1", "B="}, nil)
	if err != nil {
		t.Error(err)
	}
}

// TestHostileProcess answers with records and streams that cannot be.
func TestHostileProcess(t *testing.T) {
	for name, answer := range map[string]func(*link){
		"a stream of its own": func(l *link) { l.send(protocol.TypeOutput, protocol.Output{Stream: "stdlog"}, "x") },
		"it goes on":          func(l *link) { l.send(protocol.TypeDone, running("p1"), "") },
		"another kind": func(l *link) {
			r := done("p1")
			r.Kind = "daemon"
			l.send(protocol.TypeDone, r, "")
		},
		"negative pid": func(l *link) {
			r := done("p1")
			r.PID = -1
			l.send(protocol.TypeDone, r, "")
		},
		"negative usage": func(l *link) {
			r := done("p1")
			r.Usage = &protocol.Usage{MemoryBytes: -1}
			l.send(protocol.TypeDone, r, "")
		},
		"started": func(l *link) { l.send(protocol.TypeStarted, running("p1"), "") },
	} {
		c, _ := newClient(t, func(l *link) {
			l.expect(protocol.TypeStart)
			answer(l)
			l.hold()
		})
		_, err := c.Run(t.Context(), protocol.Start{ID: "p1"}, runnerclient.Program{Args: []string{"x"}}, io.Discard)
		if !errors.Is(err, runnerclient.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A poll has its bytes in memory, so that the runner must keep to their number.
func TestHostilePoll(t *testing.T) {
	c, _ := newClient(t, func(l *link) {
		l.expect(protocol.TypeAttach)
		for offset := range int64(3) {
			l.send(protocol.TypeOutput, protocol.Output{Offset: 2 * offset}, "xy")
		}
		l.hold()
	})
	var out bytes.Buffer
	_, next, err := c.Poll(t.Context(), protocol.Attach{ID: "p1", MaxBytes: 4}, &out)
	if !errors.Is(err, runnerclient.ErrProtocol) || next != 4 || out.Len() != 4 {
		t.Errorf("%d bytes, next %d, %v", out.Len(), next, err)
	}
}

// Every time that a runner tells can be shown in JSON.
func TestHostileTimes(t *testing.T) {
	const late, early = 253_402_300_800_000, -62_167_219_200_001
	c, _ := newClient(t, func(l *link) {
		for _, ms := range []int64{late, early, math.MaxInt64, math.MinInt64} {
			l.expect(protocol.TypeStat)
			l.send(protocol.TypeInfo, protocol.FileInfo{Type: "file", ModTimeMS: ms}, "")
		}
		l.expect(protocol.TypeShells)
		l.send(protocol.TypeShellList, protocol.ShellList{Shells: []protocol.ShellInfo{{CreatedMS: late}}}, "")
		l.hold()
	})
	for range 4 {
		info, err := c.Stat(t.Context(), protocol.Stat{Path: "f"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(time.UnixMilli(info.ModTimeMS).UTC()); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Shells(t.Context()); !errors.Is(err, runnerclient.ErrProtocol) {
		t.Error(err)
	}
}
