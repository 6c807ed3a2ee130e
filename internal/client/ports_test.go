package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/client"
)

func TestPorts(t *testing.T) {
	c := serve(t, "GET /v1/sessions/abc/ports", answer(http.StatusOK, `[{"port":3000,"address":"127.0.0.1","loopback":true,"url":"http://x/"}]`))
	got, err := c.Ports(t.Context(), "abc")
	if diff := cmp.Diff([]client.Port{{Port: 3000, Address: "127.0.0.1", Loopback: true, URL: "http://x/"}}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// tunnelTo is a tunnel whose other end is a script.
func tunnelTo(t *testing.T, script func(*websocket.Conn, *http.Request) error) *client.Tunnel {
	t.Helper()
	c := serve(t, "GET /v1/sessions/abc/tunnel", func(w http.ResponseWriter, r *http.Request) {
		if port := r.URL.Query().Get("port"); port != "3000" {
			t.Errorf("port %s", port)
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.CloseNow()
		if err := script(ws, r); err != nil {
			t.Error(err)
		}
	})
	tunnel, err := c.Tunnel(t.Context(), "abc", 3000)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tunnel.Close(); err != nil {
			t.Error(err)
		}
	})
	return tunnel
}

func TestTunnel(t *testing.T) {
	big := strings.Repeat("x", 3<<20)
	tunnel := tunnelTo(t, func(ws *websocket.Conn, r *http.Request) error {
		ws.SetReadLimit(1 << 20)
		got := 0
		for {
			kind, p, err := ws.Read(r.Context())
			if err != nil || kind != websocket.MessageBinary {
				return errors.Join(err, errors.New("no end"))
			}
			if got += len(p); len(p) == 0 {
				break
			}
		}
		if got != len(big) {
			t.Errorf("%d bytes arrived", got)
		}
		for _, text := range []string{"one ", "two", ""} {
			if err := ws.Write(r.Context(), websocket.MessageBinary, []byte(text)); err != nil {
				return err
			}
		}
		return nil
	})
	if n, err := io.WriteString(tunnel, big); n != len(big) || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if err := tunnel.CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(tunnel); string(got) != "one two" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTunnelBreaks: what is cut off does not look like an end.
func TestTunnelBreaks(t *testing.T) {
	for name, script := range map[string]func(*websocket.Conn, *http.Request) error{
		"text": func(ws *websocket.Conn, r *http.Request) error {
			return ws.Write(r.Context(), websocket.MessageText, []byte("x"))
		},
		"cut off": func(ws *websocket.Conn, _ *http.Request) error { return ws.CloseNow() },
		"too big": func(ws *websocket.Conn, r *http.Request) error {
			if err := ws.Write(r.Context(), websocket.MessageBinary, make([]byte, 2<<20)); err != nil {
				return nil // the client does not wait for the rest
			}
			return nil
		},
	} {
		if got, err := io.ReadAll(tunnelTo(t, script)); err == nil {
			t.Errorf("%s: ends with %d bytes", name, len(got))
		}
	}
}

func TestTunnelRefused(t *testing.T) {
	c := serve(t, "GET /v1/sessions/abc/tunnel", answer(http.StatusNotFound, `{"code":"not_found","error":"nothing listens"}`))
	_, err := c.Tunnel(t.Context(), "abc", 3000)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "not_found" {
		t.Error(err)
	}
}
