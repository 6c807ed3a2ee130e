package api

import (
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A client whose host or network is gone ends no connection. The kernel notices after a few
// minutes if nothing is to be sent, and after a quarter of an hour if something is: so long it
// would keep a session in use. A limit of the kernel's (TCP_USER_TIMEOUT) would end clients
// that only take nothing for a while, too: those acknowledge a probe of the kernel's at least
// every two minutes.
const (
	silentFor = 3 * time.Minute
	lookEvery = time.Minute
)

// living is a listener that ends connections whose other side is gone.
type living struct {
	net.Listener
	silent time.Duration
	ended  chan struct{} // closed with the listener
	once   sync.Once

	mu    sync.Mutex
	conns map[*livingConn]struct{} // guarded by mu
}

// endHalfOpen returns a listener on whose connections a look is had every so often, and
// those ended that have something to send and whose other side was silent for so long.
func endHalfOpen(l net.Listener, silent, every time.Duration) *living {
	all := &living{Listener: l, silent: silent, ended: make(chan struct{}), conns: make(map[*livingConn]struct{})}
	go all.watch(every)
	return all
}

type livingConn struct {
	*net.TCPConn
	of *living
}

// Accept implements net.Listener.
func (l *living) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn, err
	}
	c := &livingConn{tcp, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return c, nil
}

// Close implements net.Listener. Connections are watched no more: who closes the listener
// ends them.
func (l *living) Close() error {
	l.once.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// Close implements net.Conn.
func (c *livingConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.TCPConn.Close()
}

func (l *living) watch(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.look()
		case <-l.ended:
			return
		}
	}
}

func (l *living) look() {
	l.mu.Lock()
	var gone []*livingConn
	for c := range l.conns {
		if info, err := tcpInfo(c.TCPConn); err == nil && isGone(info, l.silent) {
			gone = append(gone, c)
		}
	}
	l.mu.Unlock()
	for _, c := range gone {
		_ = c.SetLinger(0) // what is left to send has nobody to take it
		_ = c.Close()      // reads and writes of it end, and the server closes it too
	}
}

// isGone reports whether the other side owes an acknowledgement and was silent for so long.
func isGone(info *unix.TCPInfo, silent time.Duration) bool {
	least := uint32(silent.Milliseconds())
	return (info.Unacked > 0 || info.Notsent_bytes > 0) && info.Last_ack_recv > least && info.Last_data_recv > least
}

func tcpInfo(conn syscall.Conn) (info *unix.TCPInfo, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	asked := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if asked != nil {
		return nil, asked
	}
	return info, err
}
