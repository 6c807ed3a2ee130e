// Package relay carries connections to a runner over one stream of bytes, for
// an engine that gives its callers no more than that: the standard input and
// output of a process that it starts in a container, be it the runner's own or
// one beside it.
//
// Serve is that process's side and Open the daemon's. Between the two is a
// yamux session. Each of its streams begins with one byte that says what it is
// for: a connection to the runner, or one question about the container's
// programs, which is answered with a line of text.
package relay

import (
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

// Socket is the abstract unix socket that the runner listens on, in the
// container's own network namespace.
const Socket = "@sandkasten-runner"

// Command is the argument that makes a runner's program a relay.
const Command = "relay"

// What a stream is for.
const (
	kindDial   = 'd' // then both sides' bytes, until one closes
	kindPause  = 'p' // answered with done or the reason why not
	kindResume = 'r' // the same
	kindPaused = 'q' // answered with yes or no
	kindHangUp = 'x' // followed by the number of a stream, whose connection ends: a stream's own end says only that no more comes
)

const (
	answerDone = "done"
	answerYes  = "yes"
	answerNo   = "no"
)

// maxAnswer bounds what the daemon reads of an answer: the other side is
// hostile.
const maxAnswer = 4 << 10

// dialPatience is how long a runner that was just started may take to listen.
const dialPatience = 20 * time.Second

// openPatience is how long a relay may take to take a stream. A session whose
// relay does not ends, and with it everybody's wait for a stream: only so many may
// be on their way, and whoever wants one more waits without regard to a deadline.
const openPatience = 2 * time.Minute

// config leaves the keep-alive to the engine's connection.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.AcceptBacklog = 256           // the runner's own limit of connections
	c.MaxStreamWindowSize = 1 << 20 // of one stream's bytes on their way
	c.StreamOpenTimeout = openPatience
	c.StreamCloseTimeout = time.Hour // for what one side has ended and the other has not
	c.ConnectionWriteTimeout = time.Minute
	c.LogOutput = io.Discard
	return c
}

// Programs are those of a container. Its runner and what the engine started
// beside it are none of them.
type Programs interface {
	// Pause stops every program, and those that they start meanwhile.
	Pause(ctx context.Context) error
	// Resume lets them go on.
	Resume() error
	// Paused reports whether there are any, and all stand still.
	Paused() (bool, error)
}

// Serve answers the streams that come over conn until that ends, for the
// runner that listens on socket. It first waits until it does, so that the
// session's first answer says that.
func Serve(conn io.ReadWriteCloser, socket string, programs Programs) error {
	first, err := dialPatiently(socket)
	if err != nil {
		return err
	}
	session, err := yamux.Server(conn, config())
	if err := errors.Join(err, first.Close()); err != nil {
		return err
	}
	defer closeQuietly(session)
	r := relay{socket: socket, programs: programs, joined: make(map[uint32]*net.UnixConn)}
	for {
		stream, err := session.AcceptStream()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, yamux.ErrSessionShutdown) {
			return nil
		}
		if err != nil {
			return err
		}
		// It ends with the session, and that with the process.
		guard.Go(func() { r.serve(stream) }, func(error) { closeQuietly(stream) })
	}
}

// relay is the state of Serve.
type relay struct {
	socket   string
	programs Programs

	mu     sync.Mutex
	joined map[uint32]*net.UnixConn // guarded by mu; by the number of the stream
}

// Runner connects a process in the container to its runner.
func Runner() (net.Conn, error) { return net.Dial("unix", Socket) } //nolint:noctx // on this machine

func dialPatiently(socket string) (net.Conn, error) {
	end := time.Now().Add(dialPatience)
	for {
		conn, err := net.Dial("unix", socket) //nolint:noctx // on this machine
		if err == nil || time.Now().After(end) {
			return conn, err
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // nothing tells of a socket that is there now
	}
}

// serve does what one stream is for. What fails ends the stream.
func (r *relay) serve(stream *yamux.Stream) {
	defer closeQuietly(stream)
	var kind [1]byte
	if _, err := io.ReadFull(stream, kind[:]); err != nil {
		return
	}
	switch kind[0] {
	case kindDial:
		r.join(stream)
	case kindHangUp:
		r.hangUp(stream)
	default:
		if _, err := io.WriteString(stream, r.answer(kind[0])+"\n"); err != nil {
			return // nobody is left to hear it
		}
	}
}

// join copies between the stream and a new connection of the runner's until
// both have ended.
func (r *relay) join(stream *yamux.Stream) {
	conn, err := net.Dial("unix", r.socket) //nolint:noctx // on this machine
	if err != nil {
		return
	}
	runner := conn.(*net.UnixConn) //nolint:forcetypeassert // what Dial returns for "unix"
	defer closeQuietly(runner)
	r.mu.Lock()
	r.joined[stream.StreamID()] = runner
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.joined, stream.StreamID())
		r.mu.Unlock()
	}()
	up := make(chan struct{})
	guard.Go(func() {
		defer close(up)
		pour(runner, stream)
		if err := runner.CloseWrite(); err != nil {
			return // it has ended altogether
		}
	}, func(error) { closeQuietly(runner) })
	pour(stream, runner)
	closeQuietly(stream)
	<-up
}

// hangUp closes the connection of another stream. There is none any more if
// the runner was faster.
func (r *relay) hangUp(stream *yamux.Stream) {
	var id [4]byte
	if _, err := io.ReadFull(stream, id[:]); err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if runner := r.joined[binary.BigEndian.Uint32(id[:])]; runner != nil {
		closeQuietly(runner)
	}
}

// closeQuietly ends what may have ended already. Nobody is left to hear of it.
func closeQuietly(c io.Closer) {
	if err := c.Close(); err != nil {
		return
	}
}

// pour copies until either side fails, which the other one hears of.
func pour(to io.Writer, from io.Reader) {
	if _, err := io.CopyBuffer(onlyWriter{to}, onlyReader{from}, make([]byte, 64<<10)); err != nil {
		return
	}
}

// onlyWriter and onlyReader hide shortcuts such as splice, which a container's
// filter refuses.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

func (r *relay) answer(kind byte) string {
	switch kind {
	case kindPause:
		ctx, cancel := context.WithTimeout(context.Background(), pauseTime) //nolint:forbidigo // the daemon's own deadline ends its wait
		defer cancel()
		return outcome(r.programs.Pause(ctx))
	case kindResume:
		return outcome(r.programs.Resume())
	case kindPaused:
		paused, err := r.programs.Paused()
		switch {
		case err != nil:
			return err.Error()
		case paused:
			return answerYes
		}
		return answerNo
	}
	return fmt.Sprintf("unknown kind of stream %q", kind)
}

// pauseTime is how long programs may take to stand still.
const pauseTime = 10 * time.Second

func outcome(err error) string {
	if err != nil {
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return answerDone
}
