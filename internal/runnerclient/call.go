package runnerclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/tracing"
	"github.com/sandkasten/sandkasten/protocol"
)

// call is one operation on one connection, from its request to its final
// frame. Its errors carry the marks of this package.
type call struct {
	*conn
	client *Client
	ctx    context.Context
	stop   func() bool      // of the watch on ctx
	first  *protocol.Header // received, and not yet returned by next
	lent   bool             // the connection was given to others in the sandbox
	ended  bool
	span   tracing.Span
}

// begin sends a request and waits for the first frame of its answer. If the
// connection was an idle one that has died since, it tries once more on a new
// one, provided that a second time does no harm. It asks repeatable only then.
func (c *Client) begin(ctx context.Context, send func(*call) error, repeatable func() bool) (*call, error) {
	for {
		k, err := c.open(ctx)
		if err != nil {
			return nil, err
		}
		err = send(k)
		if err == nil {
			var h protocol.Header
			h, err = k.receive()
			k.first = &h
		}
		if err == nil {
			return k, nil
		}
		reused := k.reused
		err = k.fail(err)
		if !reused || !errors.Is(err, ErrLost) || !repeatable() {
			return nil, err
		}
		// The other idle connections are no younger: dial.
		if err := c.closeIdle(); err != nil {
			return nil, fmt.Errorf("%w: close idle connections: %w", ErrLost, err)
		}
	}
}

// open returns a call on a connection that closes when ctx is done.
func (c *Client) open(ctx context.Context) (*call, error) {
	k, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	// The watcher only closes; whoever uses the connection sees the error of
	// that and reports ctx's. Closing twice is harmless.
	stop := context.AfterFunc(ctx, func() { k.Close() })
	_, span := tracing.Start(ctx, tracing.Runner, "call")
	return &call{conn: k, client: c, ctx: ctx, stop: stop, span: span}, nil
}

// send sends the request's one frame.
func (k *call) send(t protocol.Type, body any, payload []byte) error {
	k.span.Name(tracing.Runner, string(t))
	return k.w.Send(t, body, payload)
}

// always is for requests that may be repeated, never for the others.
func always() bool { return true }
func never() bool  { return false }

// request sends a frame without payload that may be repeated.
func (c *Client) request(ctx context.Context, t protocol.Type, body any) (*call, error) {
	return c.begin(ctx, func(k *call) error { return k.send(t, body, nil) }, always)
}

// ask sends a request whose answer is one frame of type want, decoded into
// answer unless that is nil.
func (c *Client) ask(ctx context.Context, t protocol.Type, body any, want protocol.Type, answer any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	return c.await(ctx, t, body, want, answer)
}

// work is ask for what may take the sandbox long.
func (c *Client) work(ctx context.Context, t protocol.Type, body any, want protocol.Type, answer any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, workTimeout, errTooLong)
	defer cancel()
	return c.await(ctx, t, body, want, answer)
}

func (c *Client) await(ctx context.Context, t protocol.Type, body any, want protocol.Type, answer any) error {
	k, err := c.request(ctx, t, body)
	if err != nil {
		return err
	}
	h, err := k.next(want)
	if err != nil {
		return err
	}
	if answer != nil {
		if err := h.Decode(answer); err != nil {
			return k.fail(err)
		}
	}
	return k.done()
}

var (
	errNoAnswer = fmt.Errorf("%w: no answer within %s", ErrLost, answerTimeout)
	errTooLong  = fmt.Errorf("%w: no answer within %s", ErrLost, workTimeout)
)

// receive returns the next frame of the answer, and notes on its way that the
// runner lends the connection.
func (k *call) receive() (protocol.Header, error) {
	h, err := k.r.Next()
	if err == nil && h.Type == protocol.TypeLent && !k.lent {
		k.lent = true
		return k.r.Next()
	}
	return h, err
}

// next returns the next frame, which must be of one of the given types. If
// the runner refuses the operation instead, the call is over and the error is
// the runner's.
func (k *call) next(want ...protocol.Type) (protocol.Header, error) {
	var h protocol.Header
	if k.first != nil {
		h, k.first = *k.first, nil
	} else {
		var err error
		if h, err = k.receive(); err != nil {
			return h, k.fail(err)
		}
	}
	for _, t := range want {
		if h.Type == t {
			return h, nil
		}
	}
	if h.Type != protocol.TypeError {
		return h, k.violation("it sent %s instead of %v", h.Type, want)
	}
	refusal, err := decodeError(h)
	if err != nil {
		return h, k.fail(err)
	}
	k.span.Fail(refusal)
	if err := k.done(); err != nil {
		return h, err
	}
	return h, refusal
}

// done ends a call whose final frame has been read. It keeps its connection
// unless that was lent: somebody else may have it still.
func (k *call) done() error {
	if k.r.Buffered() {
		return k.violation("it sent more after its final frame")
	}
	k.ended = true
	k.span.End(nil)
	if !k.stop() { // ctx was done, and the connection is being closed
		return nil
	}
	if k.lent || k.SetReadDeadline(time.Time{}) != nil {
		return k.Close()
	}
	return k.client.keep(k.conn)
}

// abort ends a call early. It may follow done.
func (k *call) abort() {
	if !k.ended {
		k.ended = true
		k.span.End(nil)
		k.stop()
		k.Close()
	}
}

// fail ends a call that cannot go on, and gives err its mark.
func (k *call) fail(err error) error {
	over := k.ctx.Err() != nil
	k.span.Fail(err)
	k.abort()
	switch {
	case over:
		return givenUp(k.ctx)
	case errors.Is(err, ErrProtocol), isViolation(err):
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	default:
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
}

// givenUp is the error of an operation whose ctx is done. Who ends ctx because
// the runner does not answer gives it a cause with the mark ErrLost.
func givenUp(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrLost) {
		return cause
	}
	return ctx.Err()
}

func (k *call) violation(format string, args ...any) error {
	err := fmt.Errorf("%w: "+format, append([]any{ErrProtocol}, args...)...)
	k.span.Fail(err)
	k.abort()
	return err
}

// isViolation reports whether err is a Reader's judgement of its peer.
func isViolation(err error) bool {
	for _, v := range []error{
		protocol.ErrHeaderTooLong, protocol.ErrMalformed, protocol.ErrUnexpectedType,
		protocol.ErrPayloadSize, protocol.ErrPayloadUnread,
	} {
		if errors.Is(err, v) {
			return true
		}
	}
	return false
}
