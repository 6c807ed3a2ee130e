package api

import (
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// loopback sets whether the loopback device of this thread's network namespace is up.
func loopback(t *testing.T, up bool) {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	if up {
		ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	}
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		t.Fatal(err)
	}
}

// A client whose network is gone ends no connection. One that something is to be sent to ends
// all the same, with whatever waits for it.
func TestHalfOpenConnectionsEnd(t *testing.T) {
	testenv.NeedsRoot(t)
	runtime.LockOSThread() // and never unlock: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	loopback(t, true)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := endHalfOpen(plain, 200*time.Millisecond, 20*time.Millisecond)
	defer l.Close()
	client, err := net.Dial("tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	loopback(t, false)
	if _, err := conn.Write([]byte("is anybody there?")); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	if late, ok := err.(net.Error); err == nil || ok && late.Timeout() {
		t.Errorf("the connection has not ended: %v", err)
	}
}

// Who takes nothing for a while, has nothing to take or has sent something is there.
func TestPausedConnectionsStay(t *testing.T) {
	const silent = 1000 // milliseconds
	for what, c := range map[string]struct {
		info unix.TCPInfo
		gone bool
	}{
		"silent, and owes an acknowledgement":    {unix.TCPInfo{Unacked: 1, Last_ack_recv: silent + 1, Last_data_recv: silent + 1}, true},
		"silent, and takes no packet":            {unix.TCPInfo{Notsent_bytes: 1, Last_ack_recv: silent + 1, Last_data_recv: silent + 1}, true},
		"idle":                                   {unix.TCPInfo{Last_ack_recv: silent + 1, Last_data_recv: silent + 1}, false},
		"takes nothing, and acknowledges probes": {unix.TCPInfo{Notsent_bytes: 1 << 20, Last_ack_recv: silent, Last_data_recv: silent + 1}, false},
		"sends":                                  {unix.TCPInfo{Unacked: 1, Last_ack_recv: silent + 1, Last_data_recv: silent}, false},
	} {
		if got := isGone(&c.info, silent*time.Millisecond); got != c.gone {
			t.Errorf("%s: is gone: %v", what, got)
		}
	}
}
