package relay

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandkasten/sandkasten/internal/guard"
)

// Link is the daemon's side of a session. Its methods may be called
// concurrently. What it hears comes from a container and is not to be trusted.
type Link struct{ session *yamux.Session }

// Open begins a session over conn, which is the Link's from then on. It
// returns when the runner listens, or with an error when ctx is done.
func Open(ctx context.Context, conn io.ReadWriteCloser) (*Link, error) {
	session, err := yamux.Client(conn, config())
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l := &Link{session}
	stop := guard.WhenDone(ctx, func() { closeQuietly(session) }, func(error) {})
	defer stop()
	if _, err := session.Ping(); err != nil {
		return nil, errors.Join(context.Cause(ctx), err, session.Close())
	}
	guard.Go(func() { refuseStreams(session) }, func(error) { closeQuietly(session) })
	return l, nil
}

// refuseStreams ends a session whose other side opens a stream, which a relay
// never does: what it sent over that would be kept here and read by nobody.
func refuseStreams(session *yamux.Session) {
	if _, err := session.AcceptStream(); err == nil {
		closeQuietly(session)
	}
}

// Dial returns a new connection to the runner. The caller closes it.
func (l *Link) Dial(ctx context.Context) (net.Conn, error) {
	stream, err := l.stream(ctx, kindDial)
	if err != nil {
		return nil, err
	}
	return &conn{Stream: stream, link: l}, nil
}

// conn is a connection to the runner. Closing a stream ends one direction, as
// CloseWrite does of a connection.
type conn struct {
	*yamux.Stream
	link *Link
	once sync.Once
}

// CloseWrite says that nothing more comes. What comes back can be read.
func (c *conn) CloseWrite() error { return c.Stream.Close() }

// Close ends both directions.
func (c *conn) Close() error {
	var err error
	c.once.Do(func() {
		// Whoever reads it must not depend on the other side's word.
		err = errors.Join(c.SetDeadline(time.Unix(1, 0)), c.hangUp(), c.Stream.Close())
	})
	return err
}

func (c *conn) hangUp() error {
	if c.link.Ended() {
		return nil // and the connection with it
	}
	stream, err := c.link.session.OpenStream()
	if err != nil {
		return err
	}
	_, err = stream.Write(binary.BigEndian.AppendUint32([]byte{kindHangUp}, c.StreamID()))
	return errors.Join(err, stream.Close())
}

// Pause stops every program in the container. When it fails none is stopped.
func (l *Link) Pause(ctx context.Context) error { return l.order(ctx, kindPause) }

// Resume lets the programs go on.
func (l *Link) Resume(ctx context.Context) error { return l.order(ctx, kindResume) }

// Paused reports whether the programs stand still.
func (l *Link) Paused(ctx context.Context) (bool, error) {
	text, err := l.ask(ctx, kindPaused)
	switch {
	case err != nil:
		return false, err
	case text == answerYes:
		return true, nil
	case text == answerNo:
		return false, nil
	}
	return false, fmt.Errorf("in the sandbox: %q", text)
}

// Ended reports whether the session has.
func (l *Link) Ended() bool { return l.session.IsClosed() }

// Close ends the session and every connection over it.
func (l *Link) Close() error { return l.session.Close() }

func (l *Link) order(ctx context.Context, kind byte) error {
	text, err := l.ask(ctx, kind)
	if err == nil && text != answerDone {
		err = fmt.Errorf("in the sandbox: %q", text)
	}
	return err
}

func (l *Link) ask(ctx context.Context, kind byte) (text string, err error) {
	stream, err := l.stream(ctx, kind)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	stop := guard.WhenDone(ctx, func() {
		if err := stream.SetDeadline(time.Unix(1, 0)); err != nil {
			return // it is over
		}
	}, func(error) {})
	defer stop()
	text, err = bufio.NewReader(io.LimitReader(stream, maxAnswer)).ReadString('\n')
	if err != nil {
		return "", errors.Join(context.Cause(ctx), err)
	}
	return strings.TrimSuffix(text, "\n"), nil
}

func (l *Link) stream(ctx context.Context, kind byte) (*yamux.Stream, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	stream, err := l.session.OpenStream()
	if err != nil {
		return nil, err
	}
	if _, err := stream.Write([]byte{kind}); err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	return stream, nil
}
