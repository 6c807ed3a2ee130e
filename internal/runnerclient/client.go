// Package runnerclient speaks to a runner over connections that a driver
// dialled. It knows the protocol and nothing about sessions, drivers or HTTP.
//
// The runner is hostile: every frame is bounded, every number is checked and
// every string is made fit to show before a caller sees it. An answer that no
// honest runner gives ends the connection with ErrProtocol.
package runnerclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// What may be wrong with the way to a runner, as marks for errors.Is. What the
// runner itself refuses is an *errdefs.Error, and what ends because ctx is
// done has ctx's error.
var (
	// ErrUnreachable says that nothing was sent: the dial failed.
	ErrUnreachable = errors.New("the runner cannot be reached")
	// ErrLost says that the connection broke or stalled before the answer was
	// complete. Whether the runner did what was asked is not known.
	ErrLost = errors.New("the connection to the runner broke")
	// ErrProtocol says that the runner sent what it must not. Nothing from its
	// sandbox is to be trusted after it.
	ErrProtocol = errors.New("the runner broke the protocol")
)

// Failed reports whether a runner did not answer, or not as it should.
func Failed(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrLost) || errors.Is(err, ErrProtocol)
}

const (
	// maxIdle connections are kept for the next operations: one shell's worth
	// and a few reads beside it.
	maxIdle = 4
	// sendBuffer is how far a file that is sent may be ahead of the runner. Each
	// time one waits for the other costs more than moving the bytes.
	sendBuffer = 1 << 20
	// answerTimeout is for the answer to what needs no work in the sandbox.
	answerTimeout = 30 * time.Second
	// workTimeout is for what goes over whole trees or large files.
	workTimeout = 15 * time.Minute
	// stallTimeout is for the next bytes of a file, in either direction.
	stallTimeout = 30 * time.Second
)

// Client speaks to the runner of one sandbox. Each operation has a connection
// to itself; one that ended cleanly is kept for the next. Methods may be
// called concurrently. When ctx is done a method closes its connection and
// returns: that ends the attachment, not what runs in the sandbox.
type Client struct {
	// Dial connects to the runner. It is required.
	Dial func(ctx context.Context) (net.Conn, error)
	// Park is given a connection that Close leaves unused, to be dialled again.
	// Without it all are closed.
	Park func(net.Conn)

	refused atomic.Pointer[errdefs.Error] // why nothing can be asked of the runner; see Ping

	mu     sync.Mutex
	idle   []*conn                // guarded by mu; the last is the youngest
	ports  map[*portConn]struct{} // guarded by mu; open ones
	closed bool                   // guarded by mu
}

// conn is a connection between operations or in one.
type conn struct {
	net.Conn
	r      *protocol.Reader
	w      *protocol.Writer
	reused bool
}

// Close parks an idle connection, closes the others and those to ports, and the others when
// their operations end. Operations that start later use connections of their
// own.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	ports := slices.Collect(maps.Keys(c.ports))
	if n := len(c.idle); n > 0 && c.Park != nil {
		c.Park(c.idle[n-1].Conn)
		c.idle = c.idle[:n-1]
	}
	c.mu.Unlock()
	var errs []error
	for _, p := range ports {
		errs = append(errs, p.Close())
	}
	return errors.Join(append(errs, c.closeIdle())...)
}

func (c *Client) closeIdle() error {
	c.mu.Lock()
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	var errs []error
	for _, k := range idle {
		errs = append(errs, k.Close())
	}
	return errors.Join(errs...)
}

// connect returns an idle connection or a new one.
func (c *Client) connect(ctx context.Context) (*conn, error) {
	if err := c.refused.Load(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		k := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		k.reused = true
		return k, nil
	}
	c.mu.Unlock()
	raw, err := c.Dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, givenUp(ctx)
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if u, ok := raw.(*net.UnixConn); ok {
		if err := u.SetWriteBuffer(sendBuffer); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", ErrUnreachable, err), raw.Close())
		}
	}
	return &conn{Conn: raw, r: protocol.NewReader(raw, protocol.Runner), w: protocol.NewWriter(stallWriter{raw})}, nil
}

// keep puts a connection among the idle ones, or closes it.
func (c *Client) keep(k *conn) error {
	c.mu.Lock()
	if !c.closed && len(c.idle) < maxIdle {
		c.idle = append(c.idle, k)
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	return k.Close()
}

// stallWriter gives every write stallTimeout, so that a runner that does not
// read holds nobody.
type stallWriter struct{ conn net.Conn }

func (w stallWriter) Write(p []byte) (int, error) {
	if err := w.conn.SetWriteDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return w.conn.Write(p)
}
