package ops_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
)

func TestTerminal(t *testing.T) {
	d := newHost(t).start(t, func(o *session.Options) { o.TerminalDetach = time.Hour })
	s := d.create(t, session.CreateRequest{})
	term, err := d.Execs.StartTerminal(t.Context(), everyone, string(s.ID), ops.TerminalRequest{
		Command: []string{"sh", "-c", `echo "$TERM"; read line; stty size; exit 5`}, Term: "xterm-256color",
		Size: ops.TerminalSize{Rows: 30, Cols: 90},
	})
	if err != nil || !term.TTY {
		t.Fatalf("%+v, %v", term, err)
	}
	if err := d.Execs.Resize(t.Context(), everyone, string(s.ID), term.ID, ops.TerminalSize{Rows: 40, Cols: 100}); err != nil {
		t.Error(err)
	}
	if n, err := d.Execs.WriteStdin(t.Context(), everyone, string(s.ID), term.ID, []byte("go\r"), false); n.Bytes != 3 || err != nil {
		t.Error(n, err)
	}
	var shown bytes.Buffer
	r, err := d.Execs.Attach(t.Context(), everyone, string(s.ID), term.ID, 0, &shown)
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
		req  ops.TerminalRequest
		code errdefs.Code
	}{
		"NUL":      {ops.TerminalRequest{Command: []string{"a\x00"}}, errdefs.InvalidArgument},
		"too long": {ops.TerminalRequest{Command: []string{strings.Repeat("a", 1<<20)}}, errdefs.TooLarge},
		"term":     {ops.TerminalRequest{Term: "x\x1b"}, errdefs.InvalidArgument},
		"unknown":  {ops.TerminalRequest{Command: []string{"no-such-program"}}, errdefs.Unprocessable},
	} {
		if _, err := d.Execs.StartTerminal(t.Context(), everyone, string(s.ID), c.req); !errdefs.Is(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := d.Execs.StartTerminal(t.Context(), everyone, "nosuchsession", ops.TerminalRequest{})
	wantCode(t, err, errdefs.NotFound)
}
