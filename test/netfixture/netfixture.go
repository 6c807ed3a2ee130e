// Package netfixture is a small internet for the suites that look at sandboxes'
// networks from outside. A daemon runs in a network namespace of the test's own,
// whose only neighbour is another namespace that has every address of the lab. There
// the test is name server, web site and everybody else. What sandboxes may reach of
// it is the suites' to ask. Everything ends with the test.
package netfixture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// The addresses of the lab. The first four are local to the internet, and so are
// those of metadata services.
const (
	Public4  = "198.51.100.0/24"
	Others4  = "203.0.113.0/25"
	Public6  = "2001:db8:1::/48"
	Private4 = "10.77.0.0/24"

	Own4    = "203.0.113.200" // of the daemon's host, and looks public
	Inner4  = "172.31.255.2"  // of the daemon's host, and private
	gateway = "172.31.255.1"

	own6     = "2001:db8:ffff::2"
	gateway6 = "2001:db8:ffff::1"
)

// Metadata are where clouds answer with credentials.
var Metadata = []string{"169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254"}

// Lab is the two namespaces. Its servers answer until the test ends.
type Lab struct {
	CA string // the path of the certificate that the lab's sites are trusted by

	t         testing.TB
	world     *holder
	internet  *holder
	authority *authority
	names     *names
	sites     *sites
	stops     []func() // at the end, the last first
}

// New returns a lab in which nothing has a name yet.
func New(t testing.TB) *Lab {
	t.Helper()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	l := &Lab{t: t, CA: filepath.Join(dir, "ca.pem")}
	// Registered here, so that a daemon that begins later can still be asked to clean up.
	defer t.Cleanup(func() {
		for i := range l.stops {
			l.stops[len(l.stops)-1-i]()
		}
	})
	var err error
	if l.authority, err = newAuthority(l.CA); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(config, []byte("nameserver "+gateway+"\n"), 0o644); err != nil { //nolint:gosec // as the host's is
		t.Fatal(err)
	}
	l.world = hold(t, "--net", "--mount", "--propagation", "slave", "sh", "-c", `mount --bind "$1" /etc/resolv.conf && echo ready && exec cat`, "sh", config)
	l.internet = hold(t, "--net", "sh", "-c", "echo ready && exec cat")
	l.connect()
	l.serve()
	return l
}

// holder is a process that keeps namespaces. It ends with the test, or with its
// process at the latest: it reads from a pipe.
type holder struct {
	cmd *exec.Cmd
	in  io.Closer
}

func hold(t testing.TB, args ...string) *holder {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "unshare", args...) // ends when its input does
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &holder{cmd, in}
	t.Cleanup(func() {
		if err := errors.Join(h.in.Close(), h.cmd.Wait()); err != nil {
			t.Errorf("end a namespace: %v", err)
		}
	})
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	return h
}

func (h *holder) pid() int { return h.cmd.Process.Pid }

// connect lays the cable between the namespaces, and gives both their addresses.
func (l *Lab) connect() {
	l.t.Helper()
	l.ip(l.world, fmt.Sprintf(`
link set lo up
link add up0 type veth peer name down0 netns %d
link set up0 up
addr add %s/30 dev up0
addr add %s/32 dev up0
addr add %s/64 dev up0 nodad`, l.internet.pid(), Inner4, Own4, own6))
	local := []string{"link set lo up", "link set down0 up", "addr add " + gateway + "/30 dev down0", "addr add " + gateway6 + "/64 dev down0 nodad"}
	for _, prefix := range append([]string{Public4, Others4, Public6, Private4}, Metadata...) {
		local = append(local, "route add local "+prefix+" dev lo")
	}
	local = append(local, "route add "+Own4+"/32 via "+Inner4)
	l.ip(l.internet, strings.Join(local, "\n"))
	l.ip(l.world, "route add default via "+gateway+"\nroute add default via "+gateway6)
}

// ip runs lines of ip in a namespace.
func (l *Lab) ip(in *holder, lines string) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), "nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", in.pid()), "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(lines + "\n")
	if text, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("ip: %v\n%s%s", err, lines, text)
	}
}

// Program is a program that runs another one in the lab, as the daemon's host runs
// its programs: with the lab's name server, and trusting its sites.
func (l *Lab) Program(program string) string {
	l.t.Helper()
	wrapper := filepath.Join(l.t.TempDir(), "sandkasten")
	script := fmt.Sprintf("#!/bin/sh\nSSL_CERT_FILE=%s exec nsenter --net=/proc/%d/ns/net --mount=/proc/%d/ns/mnt -- %s \"$@\"\n", l.CA, l.world.pid(), l.world.pid(), program)
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil { //nolint:gosec // a program
		l.t.Fatal(err)
	}
	return wrapper
}

// Publish makes what listens on an address of the world's loopback, as
// http://127.0.0.1:8080, reachable by the test at the same address.
func (l *Lab) Publish(url string) {
	l.t.Helper()
	address := strings.TrimPrefix(url, "http://")
	outer, err := new(net.ListenConfig).Listen(l.t.Context(), "tcp", address)
	if err != nil {
		l.t.Fatal(err)
	}
	forward := func(conn net.Conn) {
		var inner net.Conn
		err := l.world.inside(func() (err error) {
			inner, err = net.Dial("tcp", address) //nolint:noctx // of loopback
			return err
		})
		if err != nil {
			conn.Close()
			return
		}
		splice(conn, inner)
	}
	l.serveConns(outer, forward)
}

// Listen notes who connects to a port of the daemon's host, at whatever address of it,
// and returns the port.
func (l *Lab) Listen(seen func(who string)) int {
	l.t.Helper()
	var listener net.Listener
	err := l.world.inside(func() (err error) {
		listener, err = net.Listen("tcp", ":0") //nolint:gosec,noctx // on all of its addresses
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.serveConns(listener, func(conn net.Conn) {
		seen(fmt.Sprintf("%s was connected to from %s", conn.LocalAddr(), conn.RemoteAddr()))
		conn.Close()
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// inside calls do in the network namespace of h. What do opens belongs to it.
func (h *holder) inside(do func() error) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	other, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", h.pid()))
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer other.Close()
	if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = do()
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// repeatTo copies without the kernel's help, whose pipes would stay open.
func repeatTo(to io.Writer, from io.Reader) {
	io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
}

// splice carries both directions of a connection to their ends.
func splice(a, b net.Conn) {
	done := make(chan struct{})
	half := func(to, from net.Conn) {
		repeatTo(to, from)
		if conn, ok := to.(*net.TCPConn); ok {
			conn.CloseWrite()
		}
	}
	go func() {
		defer close(done)
		half(a, b)
	}()
	half(b, a)
	<-done
	a.Close()
	b.Close()
}
