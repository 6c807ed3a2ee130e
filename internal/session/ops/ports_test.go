package ops_test

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// listen serves echo on a loopback port, which is the sandbox's too: the local
// driver does not isolate.
func listen(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
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
			io.Copy(c, c)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().(*net.TCPAddr).Port
}

func TestDial(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	conn, err := d.Execs.Dial(t.Context(), everyone, string(s.ID), listen(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Error(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(conn); string(got) != "hello" || err != nil {
		t.Errorf("echo %q, %v", got, err)
	}
}

// TestDialIsUse: an open connection keeps a session from expiring, a closed
// one does not.
func TestDialIsUse(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	active := func() time.Time {
		now, err := d.Sessions.Get(t.Context(), everyone, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now.LastActivity
	}
	conn, err := d.Execs.Dial(t.Context(), everyone, string(s.ID), listen(t))
	if err != nil {
		t.Fatal(err)
	}
	if first := active(); !active().After(first) {
		t.Error("an open connection is no activity")
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if first := active(); active().After(first) {
		t.Error("a closed connection is activity")
	}
}

func TestDialRefuses(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	for port, code := range map[int]errdefs.Code{
		0: errdefs.InvalidArgument, -1: errdefs.InvalidArgument, 65536: errdefs.InvalidArgument, testenv.UnusedPort(t): errdefs.NotFound,
	} {
		_, err := d.Execs.Dial(t.Context(), everyone, string(s.ID), port)
		wantCode(t, err, code)
	}
	_, err := d.Execs.Dial(t.Context(), everyone, "nosuchsession", 80)
	wantCode(t, err, errdefs.NotFound)
}

func TestDialEndsWithTheSession(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	conn, err := d.Execs.Dial(t.Context(), everyone, string(s.ID), listen(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the connection outlives its session: %v", err)
	}
	_, err = d.Execs.Dial(t.Context(), everyone, string(s.ID), 80)
	wantCode(t, err, errdefs.Conflict)
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

func TestPorts(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	port := listen(t)
	got, err := d.Execs.Ports(t.Context(), everyone, string(s.ID))
	if err != nil || !slices.Contains(got, protocol.Port{Port: port, Address: "127.0.0.1", Loopback: true}) {
		t.Errorf("no port %d in %+v, %v", port, got, err)
	}
}
