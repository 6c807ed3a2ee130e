package service

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestMain is also the process that a manager starts, in the tests that pass
// descriptors to one.
func TestMain(m *testing.M) {
	if os.Getenv("SERVICE_TEST_CHILD") != "" {
		child()
	}
	os.Exit(m.Run())
}

// child listens at its argument, and says whether it was passed the socket.
func child() {
	os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())) // it cannot fail
	m, err := FromEnviron()
	if err != nil {
		panic(err)
	}
	passed := inode(m.passed[0])
	l, err := m.Listen(context.Background(), os.Args[len(os.Args)-1])
	if err != nil {
		panic(err)
	}
	now, err := l.(*net.TCPListener).File()
	if err != nil {
		panic(err)
	}
	conn, err := l.Accept()
	if err != nil {
		panic(err)
	}
	answer := "new"
	if inode(now) == passed {
		answer = "kept"
	}
	if len(os.Getenv("LISTEN_FDS")+os.Getenv("NOTIFY_SOCKET")) > 0 {
		answer += ", and the environment tells"
	}
	conn.Write([]byte(answer)) // the test reads it
	conn.Close()               // the process ends
	os.Exit(0)
}

// inode names the socket of a descriptor.
func inode(f *os.File) string {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		panic(err)
	}
	return name
}

// listenManager is a service manager's end of the notification socket.
func listenManager(t *testing.T) (*net.UnixConn, *Manager) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, &Manager{socket: path}
}

// receive is one message, and the descriptors that came with it.
func receive(t *testing.T, conn *net.UnixConn) (string, []int) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	text, rights := make([]byte, 256), make([]byte, 256)
	n, oob, _, _, err := conn.ReadMsgUnix(text, rights)
	if err != nil {
		t.Fatal(err)
	}
	var fds []int
	messages, err := syscall.ParseSocketControlMessage(rights[:oob])
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range messages {
		some, err := syscall.ParseUnixRights(&message)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, some...)
	}
	return string(text[:n]), fds
}

func TestNobody(t *testing.T) {
	for _, m := range []*Manager{nil, {}} {
		l, err := m.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Close(), m.Notify(Ready), m.Watch(t.Context(), nil), m.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestNotify(t *testing.T) {
	conn, m := listenManager(t)
	if err := m.Notify(Ready); err != nil {
		t.Fatal(err)
	}
	if text, _ := receive(t, conn); text != "READY=1" {
		t.Errorf("notified %q", text)
	}
	if err := m.Notify(StoppingWithin(90 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if text, _ := receive(t, conn); text != "STOPPING=1\nEXTEND_TIMEOUT_USEC=90000000" {
		t.Errorf("notified %q", text)
	}
	if err := (&Manager{socket: m.socket + "x"}).Notify(Ready); err == nil {
		t.Error("no error without a listener")
	}
}

// TestListenerIsKept passes the socket to the manager, closes it, connects, and
// has another process answer.
func TestListenerIsKept(t *testing.T) {
	conn, m := listenManager(t)
	l, err := m.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	text, fds := receive(t, conn)
	if text != "FDSTORE=1\nFDNAME="+keptName || len(fds) != 1 {
		t.Fatalf("told %q with %d descriptors", text, len(fds))
	}
	kept := os.NewFile(uintptr(fds[0]), "kept")
	defer kept.Close()
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("while nobody serves: %v", err)
	}
	defer client.Close()

	if got := answer(t, client, kept, address); got != "kept" {
		t.Errorf("the next process has %q", got)
	}
}

// TestListenerOfAnotherAddress is a configuration that has changed meanwhile.
func TestListenerOfAnotherAddress(t *testing.T) {
	old, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := old.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := other.Addr().String()
	if err := errors.Join(other.Close(), old.Close()); err != nil {
		t.Fatal(err)
	}
	if got := answer(t, nil, kept, address); got != "new" {
		t.Errorf("the next process has %q", got)
	}
}

// answer starts a process that is passed a socket, and reads what it tells who
// connects; client is a connection that waits already, or nil.
func answer(t *testing.T, client net.Conn, kept *os.File, address string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], address)
	cmd.ExtraFiles = []*os.File{kept}
	cmd.Env = append(os.Environ(), "SERVICE_TEST_CHILD=1", "LISTEN_FDS=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); client == nil; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			defer c.Close()
			client = c
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	text := make([]byte, 100)
	n, err := client.Read(text)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	return string(text[:n])
}

func TestWatch(t *testing.T) {
	conn, m := listenManager(t)
	m.watchdog = 30 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	well := errors.New("not yet")
	checks := 0
	ran := make(chan error, 1)
	go func() {
		ran <- m.Watch(ctx, func(context.Context) error {
			if checks++; checks < 3 {
				return well
			}
			return nil
		})
	}()
	if text, _ := receive(t, conn); text != alive {
		t.Errorf("told %q", text)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if checks < 3 {
		t.Errorf("a process that is not well says that it is, after %d checks", checks)
	}
}

func TestFromEnviron(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/nowhere")
	t.Setenv("WATCHDOG_USEC", "3000000")
	t.Setenv("WATCHDOG_PID", "1") // another's
	m, err := FromEnviron()
	if err != nil || m.watchdog != 0 || m.socket != "/nowhere" {
		t.Errorf("%+v, %v", m, err)
	}
	t.Setenv("WATCHDOG_USEC", "soon")
	if _, err := FromEnviron(); err == nil {
		t.Error("no error for a time that is none")
	}
	t.Setenv("WATCHDOG_USEC", "3000000")
	if m, err := FromEnviron(); err != nil || m.watchdog != 3*time.Second {
		t.Errorf("%+v, %v", m, err)
	}
	if _, ok := os.LookupEnv("WATCHDOG_USEC"); ok {
		t.Error("children would hear of it")
	}
}
