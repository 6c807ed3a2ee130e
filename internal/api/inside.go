package api

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"sync"

	"github.com/sandkasten/sandkasten/internal/tracing"
)

// Inside is a listener for the daemon's own requests to its API, which take no
// network. One that is made for a request of a client is a part of that: it acts for whom
// that was admitted, has its id and address, and takes no second place, rate or line in the
// audit log. What its route asks of a principal is checked like for any other. Others are
// admitted by the key that they show.
type Inside struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	parts map[string]*Request // guarded by mu; whose part a request is, by what it shows in partHeader
}

// partHeader is of a request inside. It says nothing in one that comes by another listener.
const partHeader = "Sandkasten-Inside"

// NewInside returns a listener. The server that serves it closes it.
func NewInside() *Inside {
	return &Inside{conns: make(chan net.Conn), closed: make(chan struct{}), parts: make(map[string]*Request)}
}

// Transport returns what sends requests to the listener, whatever their host.
func (l *Inside) Transport() http.RoundTripper {
	return insideTransport{l, &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 16}}
}

type insideTransport struct {
	inside *Inside
	base   http.RoundTripper
}

// RoundTrip implements http.RoundTripper. The request belongs to the span of the one that it
// is made for, too.
func (t insideTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	tracing.Hand(r.Context(), r.Header)
	r.Header.Del(partHeader)
	if outer, ok := r.Context().Value(requestKey{}).(*Request); ok && !outer.hasEnded() {
		shown := rand.Text()
		t.inside.tell(shown, outer)
		defer t.inside.outerOf(shown) // which nothing may have asked for
		r.Header.Set(partHeader, shown)
	}
	return t.base.RoundTrip(r)
}

func (l *Inside) tell(shown string, outer *Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts[shown] = outer
}

// outerOf returns whose part a request is that shows this, once.
func (l *Inside) outerOf(shown string) *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	outer := l.parts[shown]
	delete(l.parts, shown)
	return outer
}

// hasEnded reports whether the request has been answered: nothing is a part of it any more.
func (r *Request) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

func (r *Request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// partOf makes a request a part of the one that it was made for, if it is of our own and
// that goes on.
func (h *handler) partOf(r *http.Request, req *Request) {
	if h.inside == nil || !isInside(r.Context()) {
		return
	}
	outer := h.inside.outerOf(r.Header.Get(partHeader))
	r.Header.Del(partHeader)
	if outer == nil || outer.hasEnded() {
		return
	}
	req.outer, req.ID, req.Remote, req.Host, req.TLS = outer, outer.ID, outer.Remote, outer.Host, outer.TLS
	req.SignIn, req.ends = outer.SignIn, outer.ends // with which a part ends, too
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
