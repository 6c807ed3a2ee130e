package session_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

func TestTerminal(t *testing.T) {
	d := newHost(t).start(t, func(o *session.Options) { o.TerminalDetach = time.Hour })
	s := d.create(t, session.CreateRequest{})
	term, err := d.Execs.StartTerminal(t.Context(), everyone, s.ID, session.TerminalRequest{
		Command: []string{"sh", "-c", `echo "$TERM"; read line; stty size; exit 5`}, Term: "xterm-256color",
		Size: session.TerminalSize{Rows: 30, Cols: 90},
	})
	if err != nil || !term.TTY {
		t.Fatalf("%+v, %v", term, err)
	}
	if err := d.Execs.Resize(t.Context(), everyone, s.ID, term.ID, session.TerminalSize{Rows: 40, Cols: 100}); err != nil {
		t.Error(err)
	}
	if n, err := d.Execs.WriteStdin(t.Context(), everyone, s.ID, term.ID, []byte("go\r"), false); n.Bytes != 3 || err != nil {
		t.Error(n, err)
	}
	var shown bytes.Buffer
	r, err := d.Execs.Attach(t.Context(), everyone, s.ID, term.ID, 0, &shown)
	if err != nil || r.ExitCode != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := shown.String(); !strings.Contains(got, "xterm-256color") || !strings.Contains(got, "40 100") {
		t.Errorf("shown %q", got)
	}
}

func TestTerminalRefuses(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	for name, c := range map[string]struct {
		req  session.TerminalRequest
		code errdefs.Code
	}{
		"NUL":      {session.TerminalRequest{Command: []string{"a\x00"}}, errdefs.InvalidArgument},
		"too long": {session.TerminalRequest{Command: []string{strings.Repeat("a", 1<<20)}}, errdefs.TooLarge},
		"term":     {session.TerminalRequest{Term: "x\x1b"}, errdefs.InvalidArgument},
		"unknown":  {session.TerminalRequest{Command: []string{"no-such-program"}}, errdefs.Unprocessable},
	} {
		if _, err := d.Execs.StartTerminal(t.Context(), everyone, s.ID, c.req); !errdefs.Is(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := d.Execs.StartTerminal(t.Context(), everyone, "nosuchsession", session.TerminalRequest{})
	wantCode(t, err, errdefs.NotFound)
}
