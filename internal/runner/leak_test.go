package runner_test

import (
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/protocol"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// somethingAndLeave does a part of an operation and closes the connection.
func somethingAndLeave(h *host, running string) {
	p := h.dial()
	defer p.c.Close()
	short := protocol.Start{OutputLimit: 64 << 10, TimeoutMS: 5000}
	switch rand.IntN(12) {
	case 0: // at once
	case 1: // in the middle of a header
		if _, err := p.c.Write([]byte(`{"type":"start","body":{"id":`)); err != nil {
			p.t.Error(err)
		}
	case 2: // in the middle of a payload
		if _, err := p.c.Write([]byte(`{"type":"start","body":{"id":"half","argv_bytes":100},"bytes":100}` + "\nsleep")); err != nil {
			p.t.Error(err)
		}
	case 3: // before the answer
		p.ask(short, nil, "", "sh", "-c", "echo a; echo b >&2")
	case 4: // in the middle of the output
		p.ask(short, nil, "", "sh", "-c", "yes | head -c 300000")
		if _, err := p.in.Next(); err != nil {
			p.t.Error(err)
		}
	case 5: // while it reads its stdin
		p.ask(short, nil, repeat("x", 200_000), "sh", "-c", "head -c 100000 >/dev/null; exec sleep 0.01")
	case 6:
		p.background(short, "sh", "-c", "sleep 0.01 & exit 1")
	case 7: // a terminal
		s := short
		s.TTY, s.HangupMS = true, 1
		p.ask(s, nil, "", "sh", "-c", "echo hi; exec sleep 1000")
	case 8:
		p.start(protocol.Exec{TimeoutMS: 5000}, "echo hi; sleep 0.01")
	case 9:
		if err := p.out.Send(protocol.TypeAttach, protocol.Attach{ID: running}, nil); err != nil {
			p.t.Error(err)
		}
	case 10:
		if err := p.out.Send(protocol.TypeAttach, protocol.Attach{ID: running, Poll: true, WaitMS: 60_000}, nil); err != nil {
			p.t.Error(err)
		}
	case 11:
		if err := p.out.Send(protocol.TypeStdin, protocol.Stdin{ID: running, WaitMS: 60_000}, make([]byte, 20_000)); err != nil {
			p.t.Error(err)
		}
	}
}

// A client may go away at any moment, a thousand times: no goroutine,
// descriptor or process is left of it.
func TestDisconnectsLeakNothing(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	p.next()
	rec := p.background(protocol.Start{OpenStdin: true}, "sleep", "4008."+pid)
	settle := func() (goroutines, fds, processes int) {
		return runtime.NumGoroutine(), descriptors(t), offspring(t)
	}
	goroutines, fds, processes := settle()
	for range 1000 {
		// That a quiet connection is gone is noticed within a second, and there
		// must not be more than 256.
		waitFor(t, func() bool { return descriptors(t) < fds+150 })
		somethingAndLeave(h, rec.ID)
	}
	waitFor(t, func() bool {
		return !slices.ContainsFunc(p.records(), func(r protocol.Record) bool {
			return r.ID != rec.ID && r.State != protocol.StateEnded
		})
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		g, f, n := settle()
		if g <= goroutines && f <= fds && n <= processes {
			break
		}
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, were %d; %d descriptors, were %d; %d processes, were %d\n%s",
				g, goroutines, f, fds, n, processes, buf[:runtime.Stack(buf, true)])
		}
	}
	p.cancel(rec.ID)
	p.attach(rec.ID, 0)
	p.next()
}

// offspring counts the descendants of this process, dead ones too.
func offspring(t *testing.T) int {
	t.Helper()
	pids, err := testenv.Descendants(os.Getpid())
	must(t, err)
	return len(pids)
}
