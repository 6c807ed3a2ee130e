package api

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/sandkasten/sandkasten/internal/tracing"
)

// Inside is a listener for the daemon's own requests to its API, which take no
// network. Requests by its Transport are checked, counted and logged like any other.
type Inside struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewInside returns a listener. The server that serves it closes it.
func NewInside() *Inside {
	return &Inside{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Transport returns what sends requests to the listener, whatever their host.
func (l *Inside) Transport() http.RoundTripper {
	return traced{&http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 16}}
}

// traced has requests belong to the span of the one that they are made for.
type traced struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	tracing.Hand(r.Context(), r.Header)
	return t.base.RoundTrip(r)
}

// isInside reports whether a request came by such a listener.
func isInside(ctx context.Context) bool {
	_, inside := ctx.Value(http.LocalAddrContextKey).(insideAddr)
	return inside
}

func (l *Inside) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *Inside) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return insideConn{conn}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Inside) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Inside) Addr() net.Addr { return insideAddr{} }

// insideConn tells the server that a request came by the listener.
type insideConn struct{ net.Conn }

// LocalAddr implements net.Conn.
func (insideConn) LocalAddr() net.Addr { return insideAddr{} }

type insideAddr struct{}

func (insideAddr) Network() string { return "inside" }
func (insideAddr) String() string  { return "inside" }
