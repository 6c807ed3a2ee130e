package attack

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// canaries are what the host has and no session may reach: a file that only
// root can read, and a server by TCP, by a path and by an abstract name.
type canaries struct {
	File     string // its path
	Port     int    // on all addresses of the host
	Socket   string // a path
	Abstract string // with the leading @
	Text     string // in the file, and what the servers say

	watch int // inotify of the file

	looking sync.Mutex // held by touched, which opens the file itself

	mu      sync.Mutex
	reached []string // guarded by mu
}

// plantCanaries makes them until the end of t.
func plantCanaries(t testing.TB) *canaries {
	name := fmt.Sprintf("sk_canary_%d", os.Getpid())
	c := &canaries{
		File: "/root/" + name, Socket: "/run/" + name + ".sock", Abstract: "@" + name,
		Text: "canary-" + rand.Text(),
	}
	if err := os.WriteFile(c.File, []byte(c.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(c.File) })
	var err error
	if c.watch, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(c.watch) })
	if err := c.rewatch(); err != nil {
		t.Fatal(err)
	}
	tcp := c.serve(t, "tcp", ":0")
	c.Port = tcp.(*net.TCPAddr).Port
	c.serve(t, "unix", c.Socket)
	c.serve(t, "unix", c.Abstract)
	return c
}

func (c *canaries) rewatch() error {
	_, err := unix.InotifyAddWatch(c.watch, c.File,
		unix.IN_OPEN|unix.IN_ACCESS|unix.IN_MODIFY|unix.IN_ATTRIB|unix.IN_MOVE_SELF|unix.IN_DELETE_SELF)
	return err
}

// serve notes each connection until the end of t.
func (c *canaries) serve(t testing.TB, network, address string) net.Addr {
	l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.reached = append(c.reached, fmt.Sprintf("%s %s was connected to from %s", network, l.Addr(), conn.RemoteAddr()))
			c.mu.Unlock()
			fmt.Fprintln(conn, c.Text)
			conn.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return l.Addr()
}

// touched returns what has been done to the canaries since the last call.
func (c *canaries) touched() []string {
	c.looking.Lock()
	defer c.looking.Unlock()
	c.mu.Lock()
	found := c.reached
	c.reached = nil
	c.mu.Unlock()
	if c.opened() {
		found = append(found, c.File+" was opened or changed")
	}
	text, err := os.ReadFile(c.File)
	if err != nil || string(text) != c.Text {
		found = append(found, fmt.Sprintf("%s has %q, %v", c.File, text, err))
	}
	c.opened() // by this function
	return found
}

// opened reads what inotify has seen.
func (c *canaries) opened() bool {
	seen := false
	for buffer := make([]byte, 4096); ; {
		n, err := unix.Read(c.watch, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return seen
		}
		seen = true
	}
}

// replant makes the file as it was.
func (c *canaries) replant(t testing.TB) {
	t.Helper()
	c.looking.Lock()
	defer c.looking.Unlock()
	if err := os.WriteFile(c.File, []byte(c.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.rewatch(); err != nil {
		t.Fatal(err)
	}
	c.opened()
}
