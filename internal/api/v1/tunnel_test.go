package v1_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// dialHost opens a WebSocket at a host that is ours by name only, without a key.
func (s *server) dialHost(tb testing.TB, name, path string, edits ...edit) (*websocket.Conn, *http.Response, error) {
	tb.Helper()
	toUs := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
		},
		DisableKeepAlives: true,
	}}
	r := &http.Request{Header: http.Header{}}
	for _, e := range edits {
		e(r)
	}
	ws, response, err := websocket.Dial(tb.Context(), "ws://"+name+path, &websocket.DialOptions{HTTPHeader: r.Header, HTTPClient: toUs})
	if err == nil {
		tb.Cleanup(func() { ws.CloseNow() })
	}
	return ws, response, err
}

// received reads binary messages up to the empty one.
func received(t *testing.T, ws *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all strings.Builder
	for {
		kind, p, err := ws.Read(ctx)
		if err != nil || kind != websocket.MessageBinary {
			t.Fatalf("%v %v after %d bytes", kind, err, all.Len())
		}
		if len(p) == 0 {
			return all.String()
		}
		all.Write(p)
	}
}

func TestTunnel(t *testing.T) {
	s := start(t)
	path := s.create(t)
	port := raw(t, func(c net.Conn) { io.Copy(c, c) })
	ws, _, err := s.dial(t, path+"/tunnel?port="+port)
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(1 << 20)
	big := rand.Text() + strings.Repeat("\x00\xff", 1<<18)
	say(t, ws, websocket.MessageBinary, big)
	say(t, ws, websocket.MessageBinary, "") // no more
	if got := received(t, ws); got != big {
		t.Errorf("%d of %d bytes came back", len(got), len(big))
	}
	_, _, err = ws.Read(t.Context())
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("closed with %v", err)
	}
}

// TestTunnelHalfClosed: each direction ends by itself.
func TestTunnelHalfClosed(t *testing.T) {
	s := start(t)
	path := s.create(t)
	got := make(chan string, 1)
	port := raw(t, func(c net.Conn) {
		io.WriteString(c, "hello")
		c.(*net.TCPConn).CloseWrite()
		sent, _ := io.ReadAll(c)
		got <- string(sent)
	})
	ws, _, err := s.dial(t, path+"/tunnel?port="+port)
	if err != nil {
		t.Fatal(err)
	}
	if got := received(t, ws); got != "hello" {
		t.Errorf("%q", got)
	}
	say(t, ws, websocket.MessageBinary, "still ")
	say(t, ws, websocket.MessageBinary, "here")
	say(t, ws, websocket.MessageBinary, "")
	if sent := <-got; sent != "still here" {
		t.Errorf("%q", sent)
	}
}

func TestTunnelRefused(t *testing.T) {
	s := start(t)
	path := s.create(t)
	port := raw(t, func(c net.Conn) { io.Copy(c, c) })
	s.do(t, "GET", path+"/tunnel?port="+port, "").wantError(t, 400, "invalid_argument", "")
	for _, bad := range []string{"", "?port=0", "?port=65536", "?port=x", "?port=80%40evil"} {
		s.do(t, "GET", path+"/tunnel"+bad, "").wantError(t, 400, "invalid_argument", "port")
	}
	for name, tt := range map[string]struct {
		query  string
		edit   edit
		status int
	}{
		"nobody there":   {fmt.Sprint("?port=", testenv.UnusedPort(t)), header("A", "b"), 404},
		"no key":         {"?port=" + port, func(r *http.Request) { r.Header.Del("X-API-Key") }, 401},
		"another key":    {"?port=" + port, header("X-API-Key", bobKey), 404},
		"another origin": {"?port=" + port, header("Origin", "https://evil.test"), 403},
	} {
		if _, response, err := s.dial(t, path+"/tunnel"+tt.query, tt.edit); err == nil || response.StatusCode != tt.status {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, say2 := range map[string]func(*websocket.Conn){
		"text": func(ws *websocket.Conn) { say(t, ws, websocket.MessageText, "x") },
		"after its end": func(ws *websocket.Conn) {
			say(t, ws, websocket.MessageBinary, "")
			say(t, ws, websocket.MessageBinary, "x")
		},
		"end and silent": func(ws *websocket.Conn) { ws.CloseNow() },
	} {
		silent := raw(t, func(c net.Conn) { io.Copy(io.Discard, c) })
		ws, _, err := s.dial(t, path+"/tunnel?port="+silent)
		if err != nil {
			t.Fatal(err)
		}
		say2(ws)
		for err == nil {
			_, _, err = ws.Read(t.Context())
		}
		if got := websocket.CloseStatus(err); name == "text" && got != websocket.StatusUnsupportedData {
			t.Errorf("%s: closed with %v", name, err)
		}
	}
}

func TestTunnelEndsWithTheSession(t *testing.T) {
	s := start(t)
	path := s.create(t)
	port := raw(t, func(c net.Conn) { io.Copy(c, c) })
	ws, _, err := s.dial(t, path+"/tunnel?port="+port)
	if err != nil {
		t.Fatal(err)
	}
	say(t, ws, websocket.MessageBinary, "hello")
	screen(t, ws, "hello")
	s.do(t, "DELETE", path, "")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for err == nil {
		_, _, err = ws.Read(ctx)
	}
	if ctx.Err() != nil {
		t.Error("the tunnel outlives its session")
	}
}
