package linux

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
)

// TestEscape_Ports: what the daemon dials for a session is in that session's
// network, on its loopback: not the host's services, and not a neighbour's,
// not even on the same number.
func TestEscape_Ports(t *testing.T) {
	const shared, lonely = 3000, 3001
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		host := b.serveOnHost("the host")
		dial := func(port int) (net.Conn, error) {
			if b.sandbox == nil {
				return new(net.Dialer).DialContext(b.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
			}
			return b.client.DialPort(b.t.Context(), port)
		}
		if b.sandbox != nil {
			other, err := b.d.Open(b.t.Context(), b.target.id)
			if err != nil {
				b.t.Fatal(err)
			}
			neighbour := b.dialler(other.(*sandbox))
			b.serve(neighbour, shared, "the neighbour")
			b.serve(neighbour, lonely, "the neighbour")
			b.serve(b.client, shared, "its own")
			if got := answerOf(b.t, dial, shared); got != "its own" {
				b.t.Errorf("port %d is %q", shared, got)
			}
			if got := answerOf(b.t, func(port int) (net.Conn, error) { return neighbour.DialPort(b.t.Context(), port) }, shared); got != "the neighbour" {
				b.t.Errorf("the neighbour's port %d is %q", shared, got)
			}
		}
		for _, port := range []int{host, lonely} {
			if conn, err := dial(port); err == nil {
				b.got("port %d answers %q", port, read(b.t, conn))
			} else if b.sandbox != nil && !errdefs.Is(err, errdefs.NotFound) {
				b.t.Errorf("port %d: %v", port, err)
			}
		}
	}}.run(t)
}

// serveOnHost listens on the host's loopback and returns the port.
func (b *box) serveOnHost(text string) int {
	b.t.Helper()
	l, err := new(net.ListenConfig).Listen(b.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, text)
			c.Close()
		}
	}()
	b.t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().(*net.TCPAddr).Port
}

// serve has a sandbox listen on a port and say text to everybody.
func (b *box) serve(c *runnerclient.Client, port int, text string) {
	b.t.Helper()
	program := fmt.Sprintf(`import socket
s = socket.socket()
s.bind(("127.0.0.1", %d))
s.listen()
print("listening", flush=True)
while True:
	c, _ = s.accept()
	c.sendall(b"%s")
	c.close()`, port, text)
	command := fmt.Sprintf("python3 -c '%s' > listening.%d 2>&1 & until grep -q . listening.%d; do sleep 0.01; done; cat listening.%d", program, port, port, port)
	out, _, err := run(b.t, c, fmt.Sprintf("serve%d", port), command, nil, 20*time.Second)
	if out != "listening\n" || err != nil {
		b.t.Fatalf("serve on port %d: %q, %v", port, out, err)
	}
}

func answerOf(t *testing.T, dial func(int) (net.Conn, error), port int) string {
	t.Helper()
	conn, err := dial(port)
	if err != nil {
		t.Fatalf("port %d: %v", port, err)
	}
	return read(t, conn)
}

func read(t *testing.T, conn net.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	return string(text)
}
