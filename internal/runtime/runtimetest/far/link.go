package far

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Link is a way between two hosts on which each byte takes its time. A test may block
// it: what is sent then arrives nowhere, and nobody is told, as behind a firewall.
type Link struct {
	listener net.Listener
	target   string
	delay    time.Duration

	serving sync.WaitGroup
	mu      sync.Mutex
	blocked chan struct{}         // guarded by mu; closed while bytes pass
	conns   map[net.Conn]struct{} // guarded by mu
	closed  bool                  // guarded by mu
}

// NewLink opens a way to target, which takes delay in each direction, until the test ends.
func NewLink(t testing.TB, target string, delay time.Duration) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{listener: listener, target: target, delay: delay, blocked: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	close(l.blocked)
	l.serving.Go(l.serve)
	t.Cleanup(l.close)
	return l
}

// Addr is where the way begins.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Block keeps all bytes until Unblock.
func (l *Link) Block() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked = make(chan struct{})
}

// Unblock lets them pass.
func (l *Link) Unblock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.blocked)
}

func (l *Link) close() {
	l.mu.Lock()
	l.closed = true
	conns := l.conns
	l.conns = nil
	select {
	case <-l.blocked:
	default:
		close(l.blocked)
	}
	l.mu.Unlock()
	_ = l.listener.Close() // which ends the goroutine that serves
	for conn := range conns {
		_ = conn.Close()
	}
	l.serving.Wait()
}

// open is closed while bytes pass.
func (l *Link) open() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blocked
}

// keep notes a connection that close ends, and reports whether it is not too late.
func (l *Link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.conns[conn] = struct{}{}
	}
	return !l.closed
}

func (l *Link) drop(conn net.Conn) {
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

func (l *Link) serve() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.serving.Go(func() { l.carry(near) })
	}
}

// carry joins a connection with one to the target.
func (l *Link) carry(near net.Conn) {
	defer l.drop(near)
	if !l.keep(near) {
		return
	}
	far, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer l.drop(far)
	if !l.keep(far) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(near, far) })
	both.Go(func() { l.pump(far, near) })
	both.Wait()
}

// parcel is what was read at one time, and when it arrives.
type parcel struct {
	due   time.Time
	bytes []byte
}

// inFlight bounds the parcels on the way in one direction.
const inFlight = 256

// pump carries one direction to its end.
func (l *Link) pump(from, to net.Conn) {
	way := make(chan parcel, inFlight)
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() {
		defer close(way)
		for {
			buffer := make([]byte, 32<<10)
			n, err := from.Read(buffer)
			way <- parcel{time.Now().Add(l.delay), buffer[:n]}
			if err != nil {
				return
			}
		}
	})
	var failed error
	for p := range way { // to the end, so that the reader is not held up
		if failed != nil {
			continue
		}
		time.Sleep(time.Until(p.due))
		<-l.open()
		if _, failed = to.Write(p.bytes); failed != nil {
			_ = from.Close() // the other end learns that nobody listens
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok && failed == nil {
		failed = half.CloseWrite()
	}
	if failed != nil && !errors.Is(failed, io.EOF) {
		_ = to.Close()
	}
}
