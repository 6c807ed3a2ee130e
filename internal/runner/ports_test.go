package runner_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// serveTCP listens on a free port of address and serves each connection in a
// goroutine. It returns the port.
func serveTCP(t *testing.T, address string, serve func(*net.TCPConn)) int {
	t.Helper()
	network := "tcp4" // 0.0.0.0 would be both
	if address == "::1" {
		network = "tcp6"
	}
	l, err := net.Listen(network, net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().(*net.TCPAddr).Port
}

// loopbacks are the addresses that this machine has.
func loopbacks() []string {
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil || l.Close() != nil {
		return []string{"127.0.0.1"}
	}
	return []string{"127.0.0.1", "::1"}
}

func echo(c *net.TCPConn) { io.Copy(c, c) }

// port makes a connection that is a port's from here on.
func (h *host) port(port int) *peer {
	h.t.Helper()
	p := h.dial()
	must(h.t, p.request(protocol.TypeDial, protocol.Dial{Port: port}))
	return p
}

// rest reads to the end.
func (p *peer) rest() string {
	p.t.Helper()
	b, err := io.ReadAll(p.in.Rest())
	if err != nil {
		p.t.Errorf("after %d bytes: %v", len(b), err)
	}
	return string(b)
}

func TestPorts(t *testing.T) {
	h := newHost(t)
	want := []protocol.Port{{Port: serveTCP(t, "0.0.0.0", echo), Address: "0.0.0.0"}}
	for _, address := range loopbacks() {
		want = append(want, protocol.Port{Port: serveTCP(t, address, echo), Address: address, Loopback: true})
	}
	p := h.dial()
	must(t, p.out.Send(protocol.TypePorts, nil, nil))
	var got protocol.PortList
	must(t, p.reply(protocol.TypePortList, &got))
	for _, port := range want {
		if !slices.Contains(got.Ports, port) {
			t.Errorf("no %+v in %+v", port, got.Ports)
		}
	}
	if !slices.IsSortedFunc(got.Ports, func(a, b protocol.Port) int { return a.Port - b.Port }) {
		t.Errorf("not sorted: %+v", got.Ports)
	}
}

func TestDialBothLoopbacks(t *testing.T) {
	h := newHost(t)
	for _, address := range loopbacks() {
		p := h.port(serveTCP(t, address, echo))
		must(t, p.out.Send(protocol.TypeStdin, nil, nil)) // no frame any more: bytes that come back
		if err := p.c.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got := p.rest(); got != `{"type":"stdin"}`+"\n" {
			t.Errorf("%s: echo %q", address, got)
		}
	}
}

func TestDialServerSpeaksFirst(t *testing.T) {
	h := newHost(t)
	p := h.port(serveTCP(t, "127.0.0.1", func(c *net.TCPConn) { io.WriteString(c, "220 hello\r\n") }))
	if got := p.rest(); got != "220 hello\r\n" {
		t.Errorf("read %q", got)
	}
}

// TestDialHalfClose: each direction ends by itself.
func TestDialHalfClose(t *testing.T) {
	h := newHost(t)
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	p := h.port(serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
		io.WriteString(c, "first")
		c.CloseWrite()
		sent, _ := io.ReadAll(c)
		if !bytes.Equal(sent, big) {
			t.Errorf("the server got %d bytes", len(sent))
		}
	}))
	if got := p.rest(); got != "first" {
		t.Errorf("read %q", got)
	}
	if _, err := p.c.Write(big); err != nil {
		t.Error(err)
	}
	if err := p.c.(*net.UnixConn).CloseWrite(); err != nil {
		t.Error(err)
	}
}

// TestDialEndsWithTheDaemon: a server that would wait for ever, before and
// after it was told that nothing more comes, loses its connection.
func TestDialEndsWithTheDaemon(t *testing.T) {
	for name, half := range map[string]bool{"at once": false, "half-closed before": true} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			accepted, eof, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
			p := h.port(serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
				close(accepted)
				io.Copy(io.Discard, c)
				close(eof)
				// Writing waits while nobody reads, and fails when nobody can.
				io.Copy(c, endless{})
				close(over)
			}))
			<-accepted
			if half {
				if err := p.c.(*net.UnixConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
				<-eof
			}
			p.c.Close()
			within(t, eof)
			within(t, over)
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func within(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("it did not end")
	}
}

func TestDialRefused(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	for _, tt := range []struct {
		port int
		code string
	}{{testenv.UnusedPort(t), "not_found"}, {0, "invalid_argument"}, {-1, "invalid_argument"}, {65536, "invalid_argument"}, {1 << 31, "invalid_argument"}} {
		if err := p.request(protocol.TypeDial, protocol.Dial{Port: tt.port}); codeOf(err) != tt.code {
			t.Errorf("port %d: %v, want %s", tt.port, err, tt.code)
		}
	}
	p.next() // the connection is still in order
}

// TestDialLimit: connections to ports leave room for everything else.
func TestDialLimit(t *testing.T) {
	h := newHost(t)
	port := serveTCP(t, "127.0.0.1", echo)
	var open []*peer
	for range 128 {
		open = append(open, h.port(port))
	}
	p := h.dial()
	if err := p.request(protocol.TypeDial, protocol.Dial{Port: port}); codeOf(err) != "resource_exhausted" {
		t.Errorf("one more: %v", err)
	}
	p.next()
	open[0].c.Close()
	for p.request(protocol.TypeDial, protocol.Dial{Port: port}) != nil {
		// until the runner has seen that
	}
}

// TestCloseEndsDials: Close, which newHost calls, waits for no server.
func TestCloseEndsDials(t *testing.T) {
	over := make(chan struct{})
	port := serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
		io.Copy(io.Discard, c)
		close(over)
	})
	t.Run("runner", func(t *testing.T) { newHost(t, func(*runner.Options) {}).port(port) })
	within(t, over)
}

func TestDialReset(t *testing.T) {
	h := newHost(t)
	joined := make(chan struct{}) // before it, a reset is a refusal
	p := h.port(serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
		<-joined
		c.SetLinger(0)
	}))
	close(joined)
	if _, err := io.ReadAll(p.in.Rest()); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Error(err)
	}
	h.dial().next()
}
