package runner_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// pour types all of text, however often a piece of it must be sent again, and then
// ends the stdin.
func (p *peer) pour(id, text string) {
	p.t.Helper()
	for at := 0; at < len(text); {
		n, err := p.type_(protocol.Stdin{ID: id, WaitMS: 5000}, text[at:min(len(text), at+500_000)])
		must(p.t, err)
		at += int(n)
	}
	_, err := p.type_(protocol.Stdin{ID: id, Close: true, WaitMS: 5000}, "")
	must(p.t, err)
}

// opened starts a command whose stdin stays open, and a peer that types.
func (h *host) opened(e protocol.Exec, command string, stdin ...byte) (reader, typist *peer, id string) {
	h.t.Helper()
	e.OpenStdin = true
	reader, typist = h.dial(), h.dial()
	must(h.t, reader.c.SetDeadline(time.Now().Add(30*time.Second)))
	must(h.t, typist.c.SetDeadline(time.Now().Add(30*time.Second)))
	id = reader.start(e, command, stdin...)
	waitFor(h.t, func() bool {
		for _, r := range typist.records() {
			if r.ID == id {
				return true
			}
		}
		return false
	})
	return reader, typist, id
}

func (p *peer) ending() reply {
	p.t.Helper()
	r, err := p.finish()
	must(p.t, err)
	return r
}

func TestOpenStdinOfACommand(t *testing.T) {
	h := newHost(t)
	t.Run("any length, and the shell stays", func(t *testing.T) {
		p, typist, id := h.opened(protocol.Exec{}, "kept=yes; wc -c")
		typist.pour(id, repeat("x", 3_000_000))
		p.ending().want(t, "3000000\n", 0, protocol.CauseExited)
		p.sh(`echo "$kept"; cat`).want(t, "yes\n", 0, protocol.CauseExited)
	})
	t.Run("behind what came with the request", func(t *testing.T) {
		head := repeat("h", 300_000)
		p, typist, id := h.opened(protocol.Exec{}, "wc -c", []byte(head)...)
		typist.pour(id, "tail")
		p.ending().want(t, "300004\n", 0, protocol.CauseExited)
	})
	t.Run("the builtin read, line by line", func(t *testing.T) {
		p, typist, id := h.opened(protocol.Exec{}, `while read -r line; do echo "<$line>"; done; echo over`)
		typist.pour(id, "a\nb\n")
		p.ending().want(t, "<a>\n<b>\nover\n", 0, protocol.CauseExited)
	})
	t.Run("a program that makes it non-blocking", func(t *testing.T) {
		p, typist, id := h.opened(protocol.Exec{}, `python3 -c 'import os; os.set_blocking(0, False)'; echo $?`)
		typist.pour(id, "")
		p.ending().want(t, "0\n", 0, protocol.CauseExited)
		p, typist, id = h.opened(protocol.Exec{}, "cat")
		time.Sleep(50 * time.Millisecond)
		typist.pour(id, "late")
		p.ending().want(t, "late", 0, protocol.CauseExited)
	})
	t.Run("after a wait in the queue", func(t *testing.T) {
		first := h.dial()
		ahead := first.start(protocol.Exec{Shell: "q"}, "until [ -e go ]; do sleep 0.02; done")
		waitFor(t, func() bool { return h.dial().recordOf(ahead).State == protocol.StateRunning })
		p, typist, id := h.opened(protocol.Exec{Shell: "q"}, "cat")
		if n, err := typist.type_(protocol.Stdin{ID: id, WaitMS: 20}, "early"); n != 0 || err != nil {
			t.Errorf("a command that waits took %d bytes, %v", n, err)
		}
		must(t, os.WriteFile(filepath.Join(h.workspace, "go"), nil, 0o600))
		typist.pour(id, "queued")
		p.ending().want(t, "queued", 0, protocol.CauseExited)
	})
}

// However a command with an open stdin ends, nobody who writes to it hangs, and the
// next command reads nothing of it.
func TestOpenStdinOfACommandThatEnds(t *testing.T) {
	h := newHost(t)
	// fill writes until nothing more is taken: the pipe is full.
	fill := func(typist *peer, id string) {
		for {
			n, err := typist.type_(protocol.Stdin{ID: id, WaitMS: 100}, repeat("f", 100_000))
			if err != nil || n < 100_000 {
				return
			}
		}
	}
	for _, tc := range []struct {
		name, command string
		exec          protocol.Exec
		end           func(p *peer, id string)
		code          int
		cause         protocol.Cause
	}{
		{name: "first, and has read a part", command: "head -c 5 >/dev/null; exit_code() { return 7; }; exit_code", code: 7, cause: protocol.CauseExited},
		{name: "first, by exit", command: "read -n 5 x; exit 3", code: 3, cause: protocol.CauseShellExited},
		{name: "canceled", command: "sleep 100", end: func(p *peer, id string) { p.cancel(id) }, code: 130, cause: protocol.CauseCanceled},
		{name: "out of time", command: "sleep 100", exec: protocol.Exec{TimeoutMS: 300}, code: 124, cause: protocol.CauseTimeout},
		{name: "out of time in the shell's own read", command: "read -d '' x", exec: protocol.Exec{TimeoutMS: 300}, code: 124, cause: protocol.CauseTimeout},
		{name: "killed", command: "sleep 100", end: func(p *peer, id string) { p.request(protocol.TypeSignal, protocol.Signal{ID: id, Signal: 9}) }, code: 137, cause: protocol.CauseSignaled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, typist, id := h.opened(tc.exec, tc.command)
			fill(typist, id)
			// A write that waits ends with the command.
			written := make(chan error, 1)
			go func() {
				_, err := typist.type_(protocol.Stdin{ID: id, WaitMS: 20_000}, repeat("w", 1_000_000))
				written <- err
			}()
			if tc.end != nil {
				time.Sleep(50 * time.Millisecond)
				tc.end(h.dial(), id)
			}
			if r := p.ending(); r.ExitCode != tc.code || r.Cause != tc.cause {
				t.Errorf("code %d, %s", r.ExitCode, r.Cause)
			}
			select {
			case <-written:
			case <-time.After(20 * time.Second):
				t.Fatal("the write goes on")
			}
			if _, err := h.dial().type_(protocol.Stdin{ID: id, WaitMS: 1000}, "late"); codeOf(err) != protocol.CodeConflict {
				t.Errorf("a write after the end: %v", err)
			}
			p.run(protocol.Exec{TimeoutMS: 5000}, "cat").want(t, "", 0, protocol.CauseExited)
			p, typist, id = h.opened(protocol.Exec{TimeoutMS: 5000}, "cat")
			typist.pour(id, "next")
			p.ending().want(t, "next", 0, protocol.CauseExited)
		})
	}
}

func TestOpenStdinIsRefused(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	id := p.start(protocol.Exec{TimeoutMS: 5000}, "sleep 0.5")
	waitFor(t, func() bool { return h.dial().recordOf(id).State == protocol.StateRunning })
	if _, err := h.dial().type_(protocol.Stdin{ID: id, WaitMS: 100}, "x"); codeOf(err) != protocol.CodeConflict {
		t.Errorf("stdin of a command without: %v", err)
	}
	p.ending()
	q, typist, id := h.opened(protocol.Exec{TimeoutMS: 5000}, "cat; sleep 0.5")
	typist.pour(id, "all")
	if _, err := typist.type_(protocol.Stdin{ID: id, WaitMS: 100}, "more"); codeOf(err) != protocol.CodeConflict {
		t.Errorf("stdin behind its end: %v", err)
	}
	q.ending().want(t, "all", 0, protocol.CauseExited)
}

// Who types may go away at any moment; nothing is left of it.
func TestOpenStdinLeaksNothing(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	p.next()
	once := func(i int) {
		reader, typist := h.dial(), h.dial()
		id := reader.start(protocol.Exec{OpenStdin: true, TimeoutMS: 50 + int64(i%3)*20}, "head -c 100 >/dev/null; sleep 10", []byte(repeat("h", i%2*100_000))...)
		must(t, typist.out.Send(protocol.TypeStdin, protocol.Stdin{ID: id, WaitMS: 60_000}, []byte(repeat("x", 200_000))))
		if i%4 > 1 {
			time.Sleep(20 * time.Millisecond)
		}
		must(t, reader.c.Close())
		must(t, typist.c.Close())
	}
	count := func() (int, int) { return runtime.NumGoroutine(), descriptors(t) }
	idle := func() bool {
		for _, r := range p.records() {
			if r.State != protocol.StateEnded {
				return false
			}
		}
		return true
	}
	once(0)
	waitFor(t, idle)
	time.Sleep(1200 * time.Millisecond) // that a quiet connection is gone is noticed within a second
	goroutines, fds := count()
	for i := range 20 {
		once(i)
	}
	waitFor(t, idle)
	waitFor(t, func() bool {
		g, f := count()
		return g <= goroutines && f <= fds
	})
	p.next()
}

// What an earlier command left with its stdin takes nothing of the next one's, and
// does not keep its end from coming.
func TestOpenStdinBesideABackgroundJob(t *testing.T) {
	h := newHost(t)
	for _, text := range []string{"first", "second"} {
		p, typist, id := h.opened(protocol.Exec{TimeoutMS: 10_000}, "(sleep 1000."+pid+" <&0 &); cat")
		typist.pour(id, text)
		p.ending().want(t, text, 0, protocol.CauseExited)
	}
	killAll(alive(t, "1000."+pid))
}
