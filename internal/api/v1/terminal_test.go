package v1_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/protocol"
)

// dial opens a terminal.
func (s *server) dial(tb testing.TB, path string, edits ...edit) (*websocket.Conn, *http.Response, error) {
	tb.Helper()
	r := &http.Request{Header: http.Header{}}
	r.Header.Set("X-API-Key", aliceKey)
	for _, e := range edits {
		e(r)
	}
	offered := r.Header["Subprotocol"] // an edit's way to name them; the library wants them apart
	r.Header.Del("Subprotocol")
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	ws, response, err := websocket.Dial(ctx, s.URL+path, &websocket.DialOptions{HTTPHeader: r.Header, HTTPClient: s.Client(), Subprotocols: offered})
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
	if shown := screen(t, ws, `"exit"`); !strings.Contains(shown, `{"exit":{"exit_code":3,"cause":"exited"}}`) {
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
	if shown := screen(t, ws, `"exit"`); !strings.Contains(shown, "given") || !strings.Contains(shown, `{"exit":{"exit_code":9,"cause":"exited"}}`) {
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

// TestTerminalForPages: a script in a browser has no other way to say its key, and
// the daemon does not repeat it, in whatever order it comes.
func TestTerminalForPages(t *testing.T) {
	s := start(t)
	path := s.create(t) + "/terminal"
	key := "sandkasten.key." + base64.RawURLEncoding.EncodeToString([]byte(aliceKey))
	for _, offered := range [][]string{{"sandkasten", key}, {key, "sandkasten"}} {
		ws, response, err := s.dial(t, path, func(r *http.Request) {
			r.Header.Del("X-API-Key")
			r.Header["Subprotocol"] = offered
		})
		if err != nil {
			t.Fatal(err)
		}
		if chosen := response.Header.Get("Sec-WebSocket-Protocol"); chosen != "sandkasten" || ws.Subprotocol() != chosen {
			t.Errorf("of %q the daemon chose %q", offered, chosen)
		}
		say(t, ws, websocket.MessageBinary, "echo from-a-$((1+1))-page\n")
		screen(t, ws, "from-a-2-page")
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

// begun reads the first message of a terminal.
func begun(tb testing.TB, ws *websocket.Conn) (id string, reattached bool, seq int64) {
	tb.Helper()
	kind, text, err := ws.Read(tb.Context())
	var m struct {
		Started struct {
			TerminalID string `json:"terminal_id"`
			Reattached bool   `json:"reattached"`
			Seq        int64  `json:"seq"`
		} `json:"started"`
	}
	if err := firstOf(err, json.Unmarshal(text, &m)); err != nil || kind != websocket.MessageText || m.Started.TerminalID == "" {
		tb.Fatalf("%v: first message %s", err, text)
	}
	return m.Started.TerminalID, m.Started.Reattached, m.Started.Seq
}

func TestTerminalReattached(t *testing.T) {
	s := start(t, func(o *setup) { o.session.TerminalDetach = time.Hour })
	path := s.create(t)
	ws, _, err := s.dial(t, path+"/terminal?command=sh&command=-c&command=echo+one%3Bcat")
	if err != nil {
		t.Fatal(err)
	}
	id, again, seq := begun(t, ws)
	if again || seq != 0 {
		t.Errorf("a new terminal is reattached %v at %d", again, seq)
	}
	shown := screen(t, ws, "one\r\n")
	if err := ws.CloseNow(); err != nil {
		t.Fatal(err)
	}

	// Where it broke, exactly.
	ws, _, err = s.dial(t, fmt.Sprintf("%s/terminal?terminal_id=%s&since_seq=%d&rows=40&cols=111", path, id, len(shown)))
	if err != nil {
		t.Fatal(err)
	}
	if got, again, seq := begun(t, ws); got != id || !again || seq != int64(len(shown)) {
		t.Errorf("terminal %s, reattached %v at %d", got, again, seq)
	}
	say(t, ws, websocket.MessageBinary, "two\n")
	if got := screen(t, ws, "two\r\ntwo\r\n"); got != "two\r\ntwo\r\n" {
		t.Errorf("shown %q", got)
	}

	// Another one beside it, with what was before.
	other, _, err := s.dial(t, path+"/terminal?terminal_id="+id)
	if err != nil {
		t.Fatal(err)
	}
	begun(t, other)
	if got := screen(t, other, "two\r\ntwo\r\n"); got != "one\r\ntwo\r\ntwo\r\n" {
		t.Errorf("scrollback %q", got)
	}
	say(t, other, websocket.MessageBinary, "\x04")
	for _, one := range []*websocket.Conn{ws, other} {
		if got := screen(t, one, `"exit"`); !strings.Contains(got, `{"exit":{"exit_code":0,"cause":"exited"}}`) {
			t.Errorf("exit: %q", got)
		}
	}

	// Of one that has ended, what it showed and its end.
	ws, _, err = s.dial(t, path+"/terminal?terminal_id="+id)
	if err != nil {
		t.Fatal(err)
	}
	begun(t, ws)
	if got := screen(t, ws, `"exit"`); !strings.Contains(got, "one\r\ntwo\r\n") {
		t.Errorf("after the end: %q", got)
	}
}

func TestTerminalCannotBeAttached(t *testing.T) {
	s := start(t)
	path := s.create(t)
	plain := s.exec(t, path, "true").ExecID
	for query, want := range map[string]int{
		"terminal_id=" + plain:                   409,
		"terminal_id=" + strings.Repeat("a", 26): 404,
		"terminal_id=x":                          404,
		"terminal_id=" + plain + "&cmd=ls":       400,
		"command=/no/such/program":               422,
		"rows=0":                                 400,
		"term=x%1b":                              400,
		"terminal_id=" + plain + "&since_seq=-2": 400,
	} {
		_, response, err := s.dial(t, path+"/terminal?"+query)
		if err == nil || response == nil || response.StatusCode != want {
			t.Errorf("%s: %v, want %d", query, err, want)
		}
	}
}

// TestTerminalHungUp: without a client a terminal ends when its time is up.
func TestTerminalHungUp(t *testing.T) {
	s := start(t)
	path := s.create(t)
	ws, _, err := s.dial(t, path+"/terminal?cmd=echo+up%3Bcat")
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := begun(t, ws)
	screen(t, ws, "up")
	if err := ws.CloseNow(); err != nil {
		t.Fatal(err)
	}
	var r v1.ExecRecord
	s.do(t, "GET", path+"/execs/"+id, "").into(t, 200, &r)
	s.exec(t, path, fmt.Sprintf("while kill -0 %d; do sleep 0.05; done", r.PID))
	s.do(t, "POST", path+"/execs/"+id+"/wait", `{"timeout_ms":60000}`).into(t, 200, &r)
	if r.State != protocol.StateEnded || r.Cause != protocol.CauseCanceled {
		t.Errorf("%+v", r)
	}
}
