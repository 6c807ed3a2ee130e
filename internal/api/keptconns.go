package api

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// keptConns are the open connections of clients, by their address.
type keptConns struct {
	most, ofAddress int // 0 is no limit

	mu        sync.Mutex
	conns     map[net.Conn]*keptConn       // guarded by mu
	addresses map[netip.Addr]*addressConns // guarded by mu
}

// addressConns are the connections of one address.
type addressConns struct {
	at   netip.Addr
	open int
	idle list.List // of net.Conn, the oldest first
}

type keptConn struct {
	of   *addressConns
	idle *list.Element // nil while a request is under way, or none has come yet
}

func newKeptConns(most int) *keptConns {
	return &keptConns{
		most: most, ofAddress: (most + 1) / 2,
		conns: make(map[net.Conn]*keptConn), addresses: make(map[netip.Addr]*addressConns),
	}
}

// open is how many there are.
func (k *keptConns) open() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.conns)
}

// add counts a connection of an address, the zero one of which has no bound. Where there is
// no room for it, or where descriptors are scarce, an idle one has to go, which the caller
// closes; without one it is not taken.
func (k *keptConns) add(conn net.Conn, at netip.Addr, scarce bool) (victim net.Conn, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.addresses[at]
	switch {
	case k.most > 0 && at.IsValid() && of != nil && of.open >= k.ofAddress:
		victim = k.takeIdle(of)
	case k.most > 0 && len(k.conns) >= k.most || scarce:
		victim = k.takeIdle(k.mostIdle())
	default:
		k.put(conn, at)
		return nil, true
	}
	if victim != nil {
		k.put(conn, at)
	}
	return victim, victim != nil
}

// put has a connection counted. The caller holds mu.
func (k *keptConns) put(conn net.Conn, at netip.Addr) {
	of := k.addresses[at]
	if of == nil {
		of = &addressConns{at: at}
		k.addresses[at] = of
	}
	of.open++
	k.conns[conn] = &keptConn{of: of}
}

// mostIdle is the address that has the most connections of those that have idle ones; nil
// is that there is none. The caller holds mu.
func (k *keptConns) mostIdle() (most *addressConns) {
	for _, of := range k.addresses {
		if of.idle.Len() > 0 && (most == nil || of.open > most.open) {
			most = of
		}
	}
	return most
}

// takeIdle removes the oldest idle connection of an address; nil has none. The caller holds mu.
func (k *keptConns) takeIdle(of *addressConns) net.Conn {
	if of == nil {
		return nil
	}
	oldest := of.idle.Front()
	if oldest == nil {
		return nil
	}
	conn, _ := oldest.Value.(net.Conn)
	k.forget(conn)
	return conn
}

// idles notes that a connection awaits its next request.
func (k *keptConns) idles(conn net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.conns[conn]; c != nil && c.idle == nil {
		c.idle = c.of.idle.PushBack(conn)
	}
}

// works notes that a request has come.
func (k *keptConns) works(conn net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.conns[conn]; c != nil && c.idle != nil {
		c.of.idle.Remove(c.idle)
		c.idle = nil
	}
}

// remove notes that a connection has ended. It may be called of one that is not counted.
func (k *keptConns) remove(conn net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(conn)
}

// forget is remove. The caller holds mu.
func (k *keptConns) forget(conn net.Conn) {
	c := k.conns[conn]
	if c == nil {
		return
	}
	if c.idle != nil {
		c.of.idle.Remove(c.idle)
	}
	if c.of.open--; c.of.open == 0 {
		delete(k.addresses, c.of.at)
	}
	delete(k.conns, conn)
}
