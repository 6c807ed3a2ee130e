package linux

import (
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// parked are connections to runners that nobody uses: at most one for each
// sandbox, for whoever dials next. A runner that has slept needs longer to
// accept a connection than to answer a command on one that it has.
type parked struct {
	mu    sync.Mutex
	conns map[runtime.ID]net.Conn // guarded by mu
}

// put takes conn over. A second one for the same sandbox is closed.
func (p *parked) put(id runtime.ID, conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		p.conns = map[runtime.ID]net.Conn{}
	}
	if p.conns[id] != nil {
		conn.Close()
		return
	}
	p.conns[id] = conn
}

// take returns the connection to a sandbox, or nil if there is none that the
// runner keeps open and silent.
func (p *parked) take(id runtime.ID) net.Conn {
	p.mu.Lock()
	conn := p.conns[id]
	delete(p.conns, id)
	p.mu.Unlock()
	if conn != nil && !isSilent(conn) {
		conn.Close()
		return nil
	}
	return conn
}

// move gives the connection of one sandbox to the one that it has become.
func (p *parked) move(from, to runtime.ID) {
	if conn := p.take(from); conn != nil {
		p.put(to, conn)
	}
}

// drop closes the connection to a sandbox.
func (p *parked) drop(id runtime.ID) {
	if conn := p.take(id); conn != nil {
		conn.Close()
	}
}

func (p *parked) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

// isSilent reports whether the other end of conn is open and has sent nothing.
func isSilent(conn net.Conn) bool {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		open = err == unix.EAGAIN
	})
	return err == nil && open
}
