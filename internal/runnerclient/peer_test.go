package runnerclient_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is a runner that follows a script: one function per connection, in the
// order of the dials. A dial without a script fails.
type peer struct {
	t       *testing.T
	mu      sync.Mutex
	scripts []func(*link) // guarded by mu
	dials   atomic.Int32
	running sync.WaitGroup
}

// link is the runner's end of one connection.
type link struct {
	net.Conn
	t *testing.T
	r *protocol.Reader
	w *protocol.Writer
}

var errNoScript = errors.New("the runner does not listen")

// newClient returns a client of a scripted runner. The test fails if a script
// is not through at its end.
func newClient(t *testing.T, scripts ...func(*link)) (*runnerclient.Client, *peer) {
	t.Helper()
	p := &peer{t: t, scripts: scripts}
	c := &runnerclient.Client{Dial: p.dial}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		p.running.Wait()
	})
	return c, p
}

func (p *peer) dial(context.Context) (net.Conn, error) {
	p.dials.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.scripts) == 0 {
		return nil, errNoScript
	}
	script := p.scripts[0]
	p.scripts = p.scripts[1:]
	ours, theirs := net.Pipe()
	p.running.Go(func() {
		defer theirs.Close()
		script(&link{Conn: theirs, t: p.t, r: protocol.NewReader(theirs, protocol.Daemon), w: protocol.NewWriter(theirs)})
	})
	return ours, nil
}

// expect receives a request of one type, its payload included.
func (l *link) expect(want protocol.Type) protocol.Header {
	h, err := l.r.Next()
	if err != nil {
		l.t.Errorf("expected %s: %v", want, err)
		return h
	}
	if h.Type != want {
		l.t.Errorf("received %s, expected %s", h.Type, want)
	}
	if err := l.r.Discard(); err != nil {
		l.t.Errorf("payload of %s: %v", want, err)
	}
	return h
}

// send ignores errors: a client that does not like a frame hangs up.
func (l *link) send(t protocol.Type, body any, payload string) {
	if err := l.w.Send(t, body, []byte(payload)); err != nil {
		return
	}
}

// raw sends what no codec would.
func (l *link) raw(text string) {
	if _, err := l.Write([]byte(text)); err != nil {
		return
	}
}

// hold keeps the connection open until the client closes it.
func (l *link) hold() {
	if _, err := l.r.Next(); err == nil {
		l.t.Error("a request on a connection that should be closed")
	}
}

// done is the record of an exec that exited.
func done(id string) protocol.Record {
	return protocol.Record{ID: id, State: protocol.StateEnded, Cause: protocol.CauseExited}
}
