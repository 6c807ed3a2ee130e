package v1_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// dial opens a terminal.
func (s *server) dial(tb testing.TB, path string, edits ...edit) (*websocket.Conn, *http.Response, error) {
	tb.Helper()
	r := &http.Request{Header: http.Header{}}
	r.Header.Set("X-API-Key", aliceKey)
	for _, e := range edits {
		e(r)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	ws, response, err := websocket.Dial(ctx, s.URL+path, &websocket.DialOptions{HTTPHeader: r.Header, HTTPClient: s.Client()})
	if err == nil {
		tb.Cleanup(func() {
			if err := ws.CloseNow(); err != nil && !errors.Is(err, net.ErrClosed) {
				tb.Error(err)
			}
		})
	}
	return ws, response, err
}

// screen reads from a terminal until it has shown text, and returns all.
func screen(tb testing.TB, ws *websocket.Conn, text string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	var shown strings.Builder
	for !strings.Contains(shown.String(), text) {
		_, p, err := ws.Read(ctx)
		if err != nil {
			tb.Fatalf("%v after %q", err, shown.String())
		}
		shown.Write(p)
	}
	return shown.String()
}

func say(tb testing.TB, ws *websocket.Conn, kind websocket.MessageType, text string) {
	tb.Helper()
	if err := ws.Write(tb.Context(), kind, []byte(text)); err != nil {
		tb.Fatal(err)
	}
}

func TestTerminal(t *testing.T) {
	s := start(t)
	path := s.create(t)
	ws, _, err := s.dial(t, path+"/terminal?cols=91&rows=31&term=xterm-256color")
	if err != nil {
		t.Fatal(err)
	}
	say(t, ws, websocket.MessageBinary, "stty size; echo $TERM; tty\n")
	shown := screen(t, ws, "/dev/")
	if !strings.Contains(shown, "31 91") || !strings.Contains(shown, "xterm-256color") {
		t.Errorf("shown: %q", shown)
	}
	say(t, ws, websocket.MessageText, `{"resize":{"rows":40,"cols":100}}`)
	say(t, ws, websocket.MessageBinary, "stty size\n")
	screen(t, ws, "40 100")
	say(t, ws, websocket.MessageBinary, "exit 3\n")
	if shown := screen(t, ws, `"exit"`); !strings.Contains(shown, `{"exit":{"exit_code":3}}`) {
		t.Errorf("exit: %q", shown)
	}
	_, _, err = ws.Read(t.Context())
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("closed with %v", err)
	}
}

func TestTerminalCommand(t *testing.T) {
	s := start(t)
	path := s.create(t)
	ws, _, err := s.dial(t, path+"/terminal?cmd=echo+given%3B+exit+9")
	if err != nil {
		t.Fatal(err)
	}
	if shown := screen(t, ws, `"exit"`); !strings.Contains(shown, "given") || !strings.Contains(shown, `{"exit":{"exit_code":9}}`) {
		t.Errorf("%q", shown)
	}
}

func TestTerminalBadMessage(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for _, bad := range []string{`{"resize":{"rows":0,"cols":1}}`, `{"resize":{"rows":70000,"cols":1}}`, `{"rezise":{}}`, `{}`, `x`} {
		ws, _, err := s.dial(t, path+"/terminal")
		if err != nil {
			t.Fatal(err)
		}
		say(t, ws, websocket.MessageText, bad)
		for err == nil {
			_, _, err = ws.Read(t.Context())
		}
		if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("%s: closed with %v", bad, err)
		}
	}
}

func TestTerminalRefused(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.do(t, "GET", path+"/terminal", "").wantError(t, 400, "invalid_argument", "")
	tests := []struct {
		name   string
		edit   edit
		status int
	}{
		{"no key", func(r *http.Request) { r.Header.Del("X-API-Key") }, 401},
		{"another origin", header("Origin", "https://evil.test"), 403},
		{"another site", header("Sec-Fetch-Site", "cross-site"), 403},
		{"another key", header("X-API-Key", bobKey), 404},
	}
	for _, tt := range tests {
		_, response, err := s.dial(t, path+"/terminal", tt.edit)
		if err == nil || response == nil || response.StatusCode != tt.status {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	s.do(t, "DELETE", path, "")
	if _, response, err := s.dial(t, path+"/terminal"); err == nil || response.StatusCode != 409 {
		t.Errorf("in a destroyed session: %v", err)
	}
}

// TestTerminalsLeaveNothing is F25: clients that vanish, with and without a
// word. What they leave behind, TestMain finds.
func TestTerminalsLeaveNothing(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for i := range 20 {
		ws, _, err := s.dial(t, path+"/terminal?cmd=cat")
		if err != nil {
			t.Fatal(err)
		}
		say(t, ws, websocket.MessageBinary, "hello\n")
		screen(t, ws, "hello")
		if i%2 == 0 {
			err = ws.CloseNow()
		} else {
			err = ws.Close(websocket.StatusGoingAway, "")
		}
		if err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

func TestTerminalOfDestroyedSession(t *testing.T) {
	s := start(t)
	path := s.create(t)
	ws, _, err := s.dial(t, path+"/terminal?cmd=cat")
	if err != nil {
		t.Fatal(err)
	}
	say(t, ws, websocket.MessageBinary, "hello\n")
	screen(t, ws, "hello")
	s.do(t, "DELETE", path, "")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for err == nil {
		_, _, err = ws.Read(ctx)
	}
	if ctx.Err() != nil {
		t.Error("the terminal outlives its session")
	}
}
