package runner_test

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/protocol"
)

// screen is somebody in front of a terminal.
type screen struct {
	*peer
	id   string
	keys *peer
	text strings.Builder
}

// terminal starts a program on a terminal and attaches to it.
func (h *host) terminal(s protocol.Start, env []string, argv ...string) *screen {
	h.t.Helper()
	s.TTY = true
	p, keys := h.dial(), h.dial()
	id := p.ask(s, env, "", argv...)
	waitFor(h.t, func() bool {
		return slices.ContainsFunc(keys.records(), func(rec protocol.Record) bool { return rec.ID == id && rec.State != protocol.StateQueued })
	})
	return &screen{peer: p, id: id, keys: keys}
}

// watch attaches to a terminal that runs.
func (h *host) watch(id string) *screen {
	h.t.Helper()
	s := &screen{peer: h.dial(), id: id, keys: h.dial()}
	must(h.t, s.c.SetDeadline(time.Now().Add(30*time.Second)))
	must(h.t, s.out.Send(protocol.TypeAttach, protocol.Attach{ID: id}, nil))
	return s
}

func (s *screen) type_(text string) {
	s.t.Helper()
	if n, err := s.keys.type_(protocol.Stdin{ID: s.id, WaitMS: 10_000}, text); err != nil || n != int64(len(text)) {
		s.t.Fatalf("%d of %q typed: %v; the screen is %q", n, clip(text), err, s.text.String())
	}
}

// until reads until the screen shows text.
func (s *screen) until(text string) {
	s.t.Helper()
	for !strings.Contains(s.text.String(), text) {
		h, err := s.in.Next()
		if err != nil || h.Type != protocol.TypeOutput {
			s.t.Fatalf("waiting for %q: %s, %v; the screen is %q", text, h.Type, err, s.text.String())
		}
		if _, err := io.Copy(&s.text, s.in); err != nil {
			s.t.Fatal(err)
		}
	}
}

// end reads until the end.
func (s *screen) end() reply {
	s.t.Helper()
	r, err := s.finish()
	if err != nil {
		s.t.Fatalf("%v; the screen is %q", err, s.text.String())
	}
	return r
}

func TestTerminal(t *testing.T) {
	h := newHost(t)
	s := h.terminal(protocol.Start{Rows: 11, Cols: 77}, []string{"TERM=xterm-test", "PS1=ready> "}, "bash", "--norc", "-i")
	s.until("ready> ")
	s.type_("echo $TERM $(stty size) $(tty | cut -c1-9); pwd\r")
	s.until("xterm-test 11 77 /dev/pts/")
	s.until(h.workspace)
	must(t, s.keys.request(protocol.TypeResize, protocol.Resize{ID: s.id, Rows: 50, Cols: 132}))
	s.type_("stty size\r")
	s.until("50 132")
	s.type_("sleep 4007." + pid + "\r")
	waitFor(t, func() bool { return len(alive(t, "4007."+pid)) == 1 })
	s.type_("\x03")
	s.type_("echo still here; exit 3\r")
	if r := s.end(); r.ExitCode != 3 || r.Cause != protocol.CauseExited || r.ID != s.id || !r.TTY {
		t.Errorf("%+v", r.Record)
	}
	if err := s.keys.request(protocol.TypeResize, protocol.Resize{ID: s.id, Rows: 1, Cols: 1}); codeOf(err) != "conflict" {
		t.Errorf("after the end: %v", err)
	}
}

// TestTerminalKind holds that a terminal has a kind though nobody says one.
func TestTerminalKind(t *testing.T) {
	s := newHost(t).terminal(protocol.Start{}, nil, "sh", "-c", "echo kind is $TERM")
	s.until("kind is xterm-256color")
	s.end()
}

func TestTerminalLoginShell(t *testing.T) {
	s := newHost(t).terminal(protocol.Start{}, nil)
	s.type_("shopt -q login_shell && echo login $((40+2)); exit\r")
	s.until("login 42")
	s.end()
}

// The signal goes to the foreground job, not to the shell that waits for it.
func TestTerminalSignal(t *testing.T) {
	s := newHost(t).terminal(protocol.Start{}, []string{"PS1=ready> "}, "bash", "--norc", "-i")
	s.until("ready> ")
	s.type_("sleep 4006." + pid + "; echo code $?\r")
	waitFor(t, func() bool { return len(alive(t, "4006."+pid)) == 1 })
	must(t, s.keys.request(protocol.TypeSignal, protocol.Signal{ID: s.id, Signal: int(unix.SIGTERM)}))
	s.until("code 143")
	s.type_("exit\r")
	s.end()
}

// A terminal outlives those who look at it, who may be several and come back.
func TestTerminalReattach(t *testing.T) {
	h := newHost(t)
	s := h.terminal(protocol.Start{HangupMS: 60_000}, []string{"PS1=ready> "}, "bash", "--norc", "-i")
	s.until("ready> ")
	s.type_("x=kept; echo fir''st\r")
	s.until("first")
	other := h.watch(s.id)
	other.until("first")
	s.c.Close()
	other.type_("echo sec''ond $x\r")
	other.until("second kept")
	other.c.Close()
	again := h.watch(s.id)
	again.until("first")
	again.until("second kept")
	again.type_("exit 4\r")
	if r := again.end(); r.ExitCode != 4 {
		t.Errorf("%+v", r.Record)
	}
}

// What is kept for those who come back is the end of what was shown.
func TestTerminalScrollback(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	rec := p.background(protocol.Start{TTY: true}, "seq", "200000")
	waitFor(t, func() bool { return p.recordOf(rec.ID).State == protocol.StateEnded })
	r := p.attach(rec.ID, 0)
	if n := len(r.output); n > 256<<10 || n < 200<<10 || !strings.HasSuffix(string(r.output), "\r\n200000\r\n") || strings.HasPrefix(string(r.output), "1\r\n") {
		t.Errorf("%d bytes: %q", n, clip(string(r.output)))
	}
	if r.OutputBytes-r.DroppedBytes != int64(len(r.output)) {
		t.Errorf("%+v", r.Record)
	}
}

func TestTerminalHangup(t *testing.T) {
	h := newHost(t)
	h.dial().next()
	for name, script := range map[string]string{
		"plain":       "echo up; sleep 3999." + pid + "; sleep 3999." + pid,
		"ignores HUP": "trap '' HUP; echo up; exec sleep 3999." + pid,
	} {
		s := h.terminal(protocol.Start{HangupMS: 50}, nil, "sh", "-c", script)
		s.until("up")
		// Who waits for its end is not somebody who looks.
		waits := h.dial()
		must(t, waits.out.Send(protocol.TypeAttach, protocol.Attach{ID: s.id, Offset: math.MaxInt64, Poll: true, WaitMS: 60_000}, nil))
		s.c.Close()
		s.keys.c.Close()
		waitFor(t, func() bool { return len(alive(t, "3999."+pid)) == 0 })
		waitFor(t, func() bool { return h.dial().recordOf(s.id).State == protocol.StateEnded })
		if rec := h.dial().recordOf(s.id); rec.Cause != protocol.CauseCanceled {
			t.Errorf("%s: %+v", name, rec)
		}
	}
	h.dial().next()
}

// S18: a paste that nobody reads.
func TestTerminalPaste(t *testing.T) {
	h := newHost(t)
	s := h.terminal(protocol.Start{}, nil, "sh", "-c", "stty raw -echo; echo up; exec sleep 3998."+pid)
	s.until("up")
	n, err := s.keys.type_(protocol.Stdin{ID: s.id, WaitMS: 100}, repeat("x", 1<<20))
	if err != nil || n == 0 || n == 1<<20 {
		t.Errorf("%d, %v", n, err)
	}
	sent := make(chan error)
	go func() {
		sent <- s.keys.out.Send(protocol.TypeStdin, protocol.Stdin{ID: s.id, WaitMS: 600_000}, make([]byte, 1<<20))
	}()
	s.keys.c.Close() // at any point of it
	if err := <-sent; err == nil {
		t.Error("1 MiB was sent though nobody read it")
	}
	h.dial().cancel(s.id)
	if r := s.end(); r.Cause != protocol.CauseCanceled {
		t.Errorf("%+v", r.Record)
	}
}

func TestTerminalLeftOpenByJob(t *testing.T) {
	s := newHost(t).terminal(protocol.Start{}, nil, "sh", "-c", "trap '' HUP; sleep 3997."+pid+" & echo done; exit 2")
	if r := s.end(); r.ExitCode != 2 || string(r.output) != "done\r\n" || r.DurationUS > 15_000_000 {
		t.Errorf("%q, %+v", r.output, r.Record)
	}
	killAll(alive(t, "3997."+pid))
}

func TestTerminalRefuses(t *testing.T) {
	h := newHost(t)
	s := h.terminal(protocol.Start{}, nil, "cat")
	s.type_("a\r")
	s.until("a\r\na")
	if _, err := s.keys.type_(protocol.Stdin{ID: s.id, Close: true}, ""); codeOf(err) != "invalid_argument" {
		t.Error(err)
	}
	s.type_("\x04")
	s.end()
	p := h.dial()
	rec := p.background(protocol.Start{}, "sleep", "1000")
	if err := p.request(protocol.TypeResize, protocol.Resize{ID: rec.ID, Rows: 1, Cols: 1}); codeOf(err) != "conflict" {
		t.Error(err)
	}
	p.cancel(rec.ID)
	limit := h.dial()
	for range 32 {
		limit.background(protocol.Start{TTY: true}, "sleep", "1000")
	}
	limit.ask(protocol.Start{TTY: true}, nil, "", "true")
	if _, err := limit.finish(); codeOf(err) != "resource_exhausted" {
		t.Errorf("the 33rd terminal: %v", err)
	}
}
