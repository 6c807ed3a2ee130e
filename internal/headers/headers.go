// Package headers bounds what the headers of requests cost before anybody has read them.
// A field of three bytes takes many times its size once it is parsed, and net/http parses
// whatever its limit of bytes lets come. So the fields are counted as they arrive, and the
// bytes of all headers that have not come to their end together.
package headers

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/internal/rawpath"
)

// Limits of one request.
type Limits struct {
	Fields int // lines, with the first one and the empty one at the end
	Bytes  int

	// TooLarge is the whole answer to what is over one of them, and Scarce that to what
	// finds no room among the unfinished headers. The connection is closed then.
	TooLarge, Scarce []byte
}

// Room is what unfinished headers have together.
type Room struct {
	all, perAddress int64
	refused         atomic.Int64

	mu        sync.Mutex
	used      int64                // guarded by mu
	addresses map[netip.Addr]int64 // guarded by mu
}

// NewRoom returns room for so many bytes of all connections, and of those of one address.
func NewRoom(all, perAddress int64) *Room {
	return &Room{all: all, perAddress: perAddress, addresses: make(map[netip.Addr]int64)}
}

// Used is how many bytes of unfinished headers there are.
func (r *Room) Used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// Refused is how many connections found no room, ever.
func (r *Room) Refused() int64 { return r.refused.Load() }

func (r *Room) take(from netip.Addr, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > r.all || from.IsValid() && r.addresses[from]+n > r.perAddress {
		r.refused.Add(1)
		return false
	}
	r.used += n
	r.addresses[from] += n
	return true
}

func (r *Room) give(from netip.Addr, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.addresses[from] -= n; r.addresses[from] <= 0 {
		delete(r.addresses, from)
	}
}

// Listener has the headers on its connections bounded.
type Listener struct {
	net.Listener

	Limits Limits
	Room   *Room                 // nil is without bounds
	Shared func(netip.Addr) bool // reports the address of many clients, which has no bound of its own; nil knows none
}

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := NewConn(conn, l.Limits, l.Room)
	if at, ok := conn.RemoteAddr().(*net.TCPAddr); ok && l.Shared != nil && l.Shared(at.AddrPort().Addr()) {
		c.from = netip.Addr{}
	}
	return c, nil
}

// Conn is a connection whose reader is a http.Server: the fields of a header are counted
// until its end, and again when the server tells with Next that it awaits another request.
// What the server has read ahead by then, 4 KiB at most, is not counted; of a request that
// was sent ahead of the answer to the one before, the body may be taken for its header.
type Conn struct {
	net.Conn

	limits Limits
	room   *Room
	from   netip.Addr // the zero one has no bound of its own

	target rawpath.Reader // for the one goroutine that reads

	mu    sync.Mutex
	count count           // guarded by mu
	line  rawpath.Scanner // guarded by mu
}

// count is of one header.
type count struct {
	ended         bool // it has come to its end
	fields, bytes int
	line          int // bytes of the last line so far, without its end
}

// NewConn returns conn with its headers bounded.
func NewConn(conn net.Conn, limits Limits, room *Room) *Conn {
	c := &Conn{Conn: conn, limits: limits, room: room}
	if at, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		c.from = Network(at.AddrPort().Addr())
	}
	return c
}

// Network is what connections of one remote are counted by: all of an IPv6 network that one
// customer has are one.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a
	}
	network, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return network.Addr()
}

// SyscallConn implements syscall.Conn where the connection does.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// ReadFrom has the kernel send files as it does without us.
func (c *Conn) ReadFrom(from io.Reader) (int64, error) { return io.Copy(c.Conn, from) }

// CloseWrite ends one direction, where the connection can.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Read implements net.Conn. Of a header that is over a limit the client is told so, and the
// server finds the connection ended.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.target.Read(c.Conn, p, c.scan)
	if n == 0 {
		return n, err
	}
	if answer := c.arrived(p[:n]); answer != nil {
		c.refuse(answer)
		return 0, io.EOF
	}
	return n, err
}

// For so long, and so much, what a refused client still sends is read: the kernel would take
// the answer back if the connection was closed before.
const (
	lingering = 500 * time.Millisecond
	mostLeft  = 4 << 20
)

// refuse tells the client, as far as can be, and ends the connection.
func (c *Conn) refuse(answer []byte) {
	err := errors.Join(c.SetWriteDeadline(time.Now().Add(lingering)), c.SetReadDeadline(time.Now().Add(lingering)))
	if err == nil {
		_, err = c.Write(answer)
	}
	if err == nil && c.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c.Conn, mostLeft)) // until it has read the answer
	}
	c.Conn.Close() // the server closes it, too
}

// scan has the request line's path pass net/http as it is.
func (c *Conn) scan(p, ahead []byte, last bool) (done, need int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line.Scan(p, ahead, last)
}

// refusedLine answers a request whose path has a byte that is in no text.
var refusedLine = []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"The path has a byte 0xFF, which has to be escaped as %FF.\n")

// arrived counts what has come, and returns the answer to what is over a limit.
func (c *Conn) arrived(p []byte) (answer []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count.ended {
		return nil
	}
	if c.line.Refused() {
		c.settle(c.count.bytes)
		return refusedLine
	}
	before := c.count.bytes
	c.count.add(p)
	if c.count.fields > c.limits.Fields || c.count.bytes > c.limits.Bytes {
		c.settle(before)
		return c.limits.TooLarge
	}
	if c.room != nil && !c.room.take(c.from, int64(c.count.bytes-before)) {
		c.settle(before)
		return c.limits.Scarce
	}
	if c.count.ended {
		c.settle(c.count.bytes)
	}
	return nil
}

// settle gives back the room of the bytes of a header, which has ended. The caller holds mu.
func (c *Conn) settle(held int) {
	if c.room != nil && held > 0 {
		c.room.give(c.from, int64(held))
	}
	c.count = count{ended: true}
}

// add counts the bytes of a header, up to its end.
func (c *count) add(p []byte) {
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		c.bytes += len(p) - len(rest)
		c.line += len(bytes.TrimSuffix(line, []byte{'\r'}))
		if p = rest; !whole {
			return
		}
		if c.fields++; c.line == 0 {
			c.ended = true
			return
		}
		c.line = 0
	}
}

// Next has the header of another request counted.
func (c *Conn) Next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settleUnended()
	c.count = count{}
	c.line.Next()
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.settleUnended()
	c.mu.Unlock()
	return c.Conn.Close()
}

// settleUnended is settle of a header that has not come to its end. The caller holds mu.
func (c *Conn) settleUnended() {
	if !c.count.ended {
		c.settle(c.count.bytes)
	}
}

// Watch is for the ConnState of the server that reads conn.
func Watch(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*Conn); ok && state == http.StateIdle {
		c.Next()
	}
}
