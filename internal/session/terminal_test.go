package session_test

import (
	"io"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

func TestTerminal(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	term, err := d.Terminal(t.Context(), s.ID, session.TerminalRequest{
		Command: []string{"sh", "-c", `echo "$TERM"; read line; stty size; exit 5`}, Term: "xterm-256color", Rows: 30, Cols: 90,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	if err := term.Resize(40, 100); err != nil {
		t.Error(err)
	}
	if _, err := term.Write([]byte("go\r")); err != nil {
		t.Error(err)
	}
	shown, err := io.ReadAll(term)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(shown); !strings.Contains(got, "xterm-256color") || !strings.Contains(got, "40 100") {
		t.Errorf("shown %q", got)
	}
	if r, err := term.Wait(); err != nil || r.ExitCode != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTerminalRefuses(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	for name, req := range map[string]session.TerminalRequest{
		"NUL":       {Command: []string{"a\x00"}},
		"not UTF-8": {Command: []string{"a\xff"}},
		"too long":  {Command: []string{strings.Repeat("a", 1<<20)}},
		"term":      {Term: "x\x1b"},
	} {
		if _, err := d.Terminal(t.Context(), s.ID, req); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := d.Terminal(t.Context(), "nosuchsession", session.TerminalRequest{})
	wantCode(t, err, errdefs.NotFound)
}
