package runner_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// screen is a terminal and what it has printed.
type screen struct {
	*peer
	text bytes.Buffer
}

func (h *host) terminal(req protocol.Terminal) *screen {
	h.t.Helper()
	s := &screen{peer: h.dial()}
	must(h.t, s.c.SetDeadline(time.Now().Add(20*time.Second)))
	must(h.t, s.out.Send(protocol.TypeTerminal, req, nil))
	return s
}

func (s *screen) keys(text string) {
	s.t.Helper()
	must(s.t, s.out.Send(protocol.TypeData, nil, []byte(text)))
}

// until reads until the screen shows text.
func (s *screen) until(text string) {
	s.t.Helper()
	for !strings.Contains(s.text.String(), text) {
		h, err := s.in.Next()
		if err != nil {
			s.t.Fatalf("waiting for %q: %v; the screen is %q", text, err, s.text.String())
		}
		if h.Type != protocol.TypeData {
			s.t.Fatalf("waiting for %q: a %s frame; the screen is %q", text, h.Type, s.text.String())
		}
		if _, err := io.Copy(&s.text, s.in); err != nil {
			s.t.Fatal(err)
		}
	}
}

// exit reads until the end.
func (s *screen) exit() protocol.Record {
	s.t.Helper()
	for {
		h, err := s.in.Next()
		if err != nil {
			s.t.Fatalf("%v; the screen is %q", err, s.text.String())
		}
		switch h.Type {
		case protocol.TypeData:
			if _, err := io.Copy(&s.text, s.in); err != nil {
				s.t.Fatal(err)
			}
		case protocol.TypeExit:
			var r protocol.Record
			must(s.t, h.Decode(&r))
			return r
		default:
			s.t.Fatalf("a %s frame", h.Type)
		}
	}
}

func TestTerminal(t *testing.T) {
	h := newHost(t)
	s := h.terminal(protocol.Terminal{ID: "t", Env: map[string]string{"TERM": "xterm-test", "PS1": "ready> "}, Rows: 11, Cols: 77, Command: []string{"bash", "--norc", "-i"}})
	s.until("ready> ")
	s.keys("echo $TERM $(stty size) $(tty | cut -c1-9); pwd\r")
	s.until("xterm-test 11 77 /dev/pts/")
	s.until(h.workspace)
	must(t, s.out.Send(protocol.TypeResize, protocol.Resize{Rows: 50, Cols: 132}, nil))
	s.keys("stty size\r")
	s.until("50 132")
	s.keys("sleep 1000\r")
	s.keys("\x03")
	s.keys("echo still here; exit 3\r")
	if r := s.exit(); r.ExitCode != 3 || r.Cause != protocol.CauseExited || r.ID != "t" {
		t.Errorf("%+v", r)
	}
	if _, err := s.in.Next(); err != io.EOF {
		t.Errorf("after the end: %v, want the connection closed", err)
	}
}

func TestTerminalLoginShell(t *testing.T) {
	s := newHost(t).terminal(protocol.Terminal{Rows: 24, Cols: 80})
	s.keys("shopt -q login_shell && echo login $((40+2)); exit\r")
	s.until("login 42")
	s.exit()
}

func TestTerminalHangup(t *testing.T) {
	h := newHost(t)
	h.dial().next()
	before := descriptors(t)
	s := h.terminal(protocol.Terminal{Command: []string{"sh", "-c", "echo up; sleep 3999.25; sleep 3999.25"}})
	s.until("up")
	s.c.Close()
	waitFor(t, func() bool { return len(alive(t, "3999.25")) == 0 })
	waitFor(t, func() bool { return descriptors(t) <= before })
	h.dial().next()
}

// S18: a paste that nobody reads.
func TestTerminalPaste(t *testing.T) {
	h := newHost(t)
	s := h.terminal(protocol.Terminal{Command: []string{"sh", "-c", "stty raw -echo; echo up; exec sleep 3998.25"}})
	s.until("up")
	go func() {
		for range 40 { // it blocks and fails in the end; that is the point
			if s.out.Send(protocol.TypeData, nil, make([]byte, protocol.MaxPayload)) != nil {
				return
			}
		}
	}()
	time.Sleep(100 * time.Millisecond)
	s.c.Close()
	waitFor(t, func() bool { return len(alive(t, "3998.25")) == 0 })
}

func TestTerminalLeftOpenByJob(t *testing.T) {
	s := newHost(t).terminal(protocol.Terminal{Command: []string{"sh", "-c", "trap '' HUP; sleep 3997.25 & echo done; exit 2"}})
	begin := time.Now()
	if r := s.exit(); r.ExitCode != 2 || time.Since(begin) > 3*time.Second {
		t.Errorf("%+v after %v", r, time.Since(begin))
	}
	killAll(alive(t, "3997.25"))
}

func TestTerminalRefuses(t *testing.T) {
	h := newHost(t)
	for _, tc := range []struct {
		req  protocol.Terminal
		code string
	}{
		{protocol.Terminal{Command: []string{"no-such-program"}}, "not_found"},
		{protocol.Terminal{Command: []string{"/no/such/program"}}, "unavailable"},
		{protocol.Terminal{Command: []string{"a\x00"}}, "invalid_argument"},
		{protocol.Terminal{Env: map[string]string{"A=B": "x"}}, "invalid_argument"},
		{protocol.Terminal{ID: "a/b"}, "invalid_argument"},
	} {
		s := h.terminal(tc.req)
		if err := s.reply(protocol.TypeExit, nil); codeOf(err) != tc.code {
			t.Errorf("%+v: %v, want %s", tc.req, err, tc.code)
		}
	}
}
