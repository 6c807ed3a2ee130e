package api_test

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// connecting is a server with a limit of connections, and its clients.
type connecting struct {
	t    *testing.T
	addr string
	from chan string
	*api.Connections
}

func startConnecting(t *testing.T, most int, proxies api.Proxies) *connecting {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &connecting{t: t, addr: l.Addr().String(), from: make(chan string, 1), Connections: api.NewConnections(most, proxies)}
	server := api.NewServer(handler(t), slog.New(slog.DiscardHandler))
	c.Watch(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(testenv.FromAddresses{Listener: l, Next: c.from}) })
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return c
}

// client is a connection that keeps what it has read.
type client struct {
	net.Conn
	reader *bufio.Reader
}

func (c *connecting) dial(from string) *client {
	c.t.Helper()
	c.from <- from
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	return &client{conn, bufio.NewReader(conn)}
}

// ask makes a request, and returns its status; 0 is that the connection was closed.
func (c *client) ask() int {
	if _, err := io.WriteString(c, "GET /public HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return 0
	}
	answer, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0 // it was closed before the answer came through
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// idle is a connection that has made its first request.
func (c *connecting) idle(from string) *client {
	c.t.Helper()
	one := c.dial(from)
	if status := one.ask(); status != http.StatusOK {
		c.t.Fatalf("from %s: %d", from, status)
	}
	return one
}

// busy is a connection that has begun a request, which does not end.
func (c *connecting) busy(from string) *client {
	c.t.Helper()
	one := c.dial(from)
	if _, err := io.WriteString(one, "POST /thing/x HTTP/1.1\r\nHost: localhost\r\n"); err != nil {
		c.t.Fatal(err)
	}
	return one
}

func (c *connecting) wantClosed(what string, one *client) {
	c.t.Helper()
	if _, err := one.reader.ReadByte(); !errors.Is(err, io.EOF) {
		c.t.Errorf("%s is open: %v", what, err)
	}
}

func (c *connecting) wantRefused(from string, want int) {
	c.t.Helper()
	if status := c.dial(from).ask(); status != http.StatusServiceUnavailable && status != 0 {
		c.t.Errorf("from %s: over the limit: %d", from, status)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	wantMetrics(c.t, registry, map[string]float64{"sandkasten_http_connections_refused_total": float64(want)})
}

const (
	one = "198.51.100.1"
	two = "203.0.113.2"
)

// A connection over the limit is told so and closed where none is idle; one that ends makes
// room.
func TestConnections(t *testing.T) {
	c := startConnecting(t, 2, nil)
	first := c.busy("127.0.0.1")
	c.busy("127.0.0.1")
	c.wantRefused("127.0.0.1", 1)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); c.dial("127.0.0.1").ask() != http.StatusOK; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no room after one has closed")
		}
	}
}

// Where there is no room, the idle connections of the address that has the most go, the
// oldest first; nobody else's does, and none that is in use.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	c := startConnecting(t, 8, nil)
	var many []*client
	for range 4 {
		many = append(many, c.idle(one))
	}
	few := []*client{c.idle(two), c.idle(two)}
	host := []*client{c.busy("127.0.0.1"), c.idle("127.0.0.1")}
	many[0].ask() // which makes the second the oldest
	added := c.idle(two)
	c.wantClosed("the oldest of the one that has the most", many[1])
	for i, kept := range append(append([]*client{many[0], many[2], many[3]}, few...), host[1], added) {
		if status := kept.ask(); status != http.StatusOK {
			t.Errorf("connection %d is not kept: %d", i, status)
		}
	}
}

// An address has half of all connections, whatever others have, and makes room by its own;
// a /64 of IPv6 is one address. The host itself and proxies that are trusted are many.
func TestConnectionsOfOneAddress(t *testing.T) {
	c := startConnecting(t, 8, api.Proxies{netip.MustParsePrefix("10.0.0.0/8")})
	other := c.idle(two)
	oldest := c.idle("2001:db8::1")
	for _, from := range []string{"2001:db8::2", "2001:db8::3"} {
		c.busy(from)
	}
	c.busy("2001:db8::1")
	c.busy("2001:db8::5") // a fifth: the idle one goes for it
	c.wantClosed("the idle one", oldest)
	c.wantRefused("2001:db8::4", 1)
	if status := other.ask(); status != http.StatusOK {
		t.Errorf("another's: %d", status)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for _, many := range []string{"10.0.0.1", "127.0.0.1"} {
		c := startConnecting(t, 8, api.Proxies{netip.MustParsePrefix("10.0.0.0/8")})
		for range 7 {
			c.busy(many)
		}
		c.idle(two)
	}
}
