package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// programs is a container's, which do what they are told.
type programs struct {
	paused bool
	err    error
}

func (p *programs) Pause(context.Context) error {
	p.paused = p.err == nil
	return p.err
}

func (p *programs) Resume() error {
	p.paused = false
	return p.err
}

func (p *programs) Paused() (bool, error) { return p.paused, p.err }

// pair is a link to a relay whose runner does what serve does with each of its
// connections.
func pair(t *testing.T, p Programs, serve func(*net.UnixConn)) *Link {
	t.Helper()
	socket := "@" + rand.Text()
	listener, err := net.Listen("unix", socket) //nolint:noctx // closed below
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn.(*net.UnixConn)) //nolint:forcetypeassert // what the listener is of
		}
	}()
	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(theirs, socket, p) }()
	l, err := Open(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), <-ended, listener.Close()); err != nil {
			t.Error(err)
		}
		<-served
	})
	return l
}

func dial(t *testing.T, l *Link) net.Conn {
	t.Helper()
	c, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// echo sends everything back, and the end as well.
func echo(c *net.UnixConn) {
	defer c.Close()
	io.Copy(c, c)
}

func TestConnectionsAreApart(t *testing.T) {
	l := pair(t, &programs{}, echo)
	a, b := dial(t, l), dial(t, l)
	big := bytes.Repeat([]byte("0123456789"), 1<<18) // more than is on its way without a reader
	wrote := make(chan error, 1)
	go func() {
		_, err := a.Write(big)
		wrote <- errors.Join(err, a.(interface{ CloseWrite() error }).CloseWrite())
	}()
	// The one that nobody reads does not hold up the other.
	if _, err := b.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 6)
	if _, err := io.ReadFull(b, got); err != nil || string(got) != "hello\n" {
		t.Errorf("%q, %v", got, err)
	}
	all, err := io.ReadAll(a)
	if err := errors.Join(err, <-wrote); err != nil || !bytes.Equal(all, big) {
		t.Errorf("%d bytes came back of %d, %v", len(all), len(big), err)
	}
}

// TestClose shows that a runner hears of a connection's end even while it
// speaks itself, and of a half's end that it is one.
func TestClose(t *testing.T) {
	heard := make(chan string, 3)
	l := pair(t, &programs{}, func(c *net.UnixConn) {
		defer c.Close()
		what, err := io.ReadAll(c)
		for err == nil && len(what) > 0 { // until nobody listens
			_, err = c.Write(make([]byte, 1<<16))
		}
		if err != nil {
			heard <- "all"
		} else {
			heard <- "half"
		}
	})
	if what := <-heard; what != "half" {
		t.Errorf("the relay's own first connection ended with %s", what)
	}
	c := dial(t, l)
	if _, err := c.Write([]byte("speak")); err != nil {
		t.Fatal(err)
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1<<20)); err != nil {
		t.Errorf("after the end of one half: %v", err)
	}
	for range 2 { // a second time changes nothing
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if what := <-heard; what != "all" {
		t.Errorf("the runner heard of the end of %s", what)
	}
	quiet := dial(t, l)
	if err := quiet.Close(); err != nil {
		t.Error(err)
	}
	if what := <-heard; what != "half" && what != "all" {
		t.Errorf("the runner heard of the end of %s", what)
	}
}

// TestCloseEndsReads: also if the other side never ends its half.
func TestCloseEndsReads(t *testing.T) {
	released := make(chan struct{})
	l := pair(t, &programs{}, func(c *net.UnixConn) {
		<-released
		closeQuietly(c)
	})
	defer close(released)
	c := dial(t, l)
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err == nil {
		t.Error("read of a closed connection")
	}
}

func TestPrograms(t *testing.T) {
	p := &programs{}
	l := pair(t, p, echo)
	for _, step := range []struct {
		do   func(context.Context) error
		want bool
	}{{l.Pause, true}, {l.Resume, false}, {l.Pause, true}} {
		if err := step.do(t.Context()); err != nil {
			t.Error(err)
		}
		if paused, err := l.Paused(t.Context()); err != nil || paused != step.want {
			t.Errorf("paused %v, %v", paused, err)
		}
	}
	p.err = errors.New("two\nlines")
	if err := l.Pause(t.Context()); err == nil || !strings.Contains(err.Error(), "two; lines") {
		t.Errorf("%v", err)
	}
	if _, err := l.Paused(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestLinkEnds(t *testing.T) {
	l := pair(t, &programs{}, echo)
	c := dial(t, l)
	if l.Ended() {
		t.Error("ended")
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Dial(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("read of a link that has ended")
	}
	if _, err := l.Dial(t.Context()); err == nil || !l.Ended() {
		t.Error("dialled over a link that has ended")
	}
}

// TestOpen gives up on who says nothing, and on who says something else.
func TestOpen(t *testing.T) {
	for name, say := range map[string]string{"silent": "", "hostile": strings.Repeat("nonsense", 100)} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go io.Copy(io.Discard, theirs)
			go io.WriteString(theirs, say)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if l, err := Open(ctx, ours); err == nil {
				t.Errorf("opened; closing it: %v", l.Close())
			}
		})
	}
}

// A relay opens no streams. One that does is not the relay any more, and what it
// sends is not kept.
func TestStreamsOfTheOtherSideEndTheLink(t *testing.T) {
	ours, theirs := net.Pipe()
	session, err := yamux.Server(theirs, config())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	l, err := Open(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stream, err := session.OpenStream()
	if err == nil {
		_, err = stream.Write(make([]byte, 1<<10))
	}
	// The link may have ended before the stream was written to.
	select {
	case <-session.CloseChan():
	case <-time.After(20 * time.Second):
		t.Errorf("the link goes on; the stream: %v", err)
	}
}

// TestServeUnknown answers what it does not know, and goes on.
func TestServeUnknown(t *testing.T) {
	l := pair(t, &programs{}, echo)
	if err := l.order(t.Context(), '?'); err == nil || !strings.Contains(err.Error(), "unknown kind") {
		t.Errorf("%v", err)
	}
	if _, err := dial(t, l).Write([]byte("x")); err != nil {
		t.Error(err)
	}
}
