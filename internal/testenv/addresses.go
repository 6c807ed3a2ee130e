package testenv

import (
	"net"
	"net/netip"
)

// FromAddresses is a listener whose connections come from the addresses that Next says,
// one for each that is accepted, as those of clients elsewhere do.
type FromAddresses struct {
	net.Listener
	Next chan string
}

// Accept implements net.Listener.
func (l FromAddresses) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &addressedConn{conn, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(<-l.Next), 4711))}, nil
}

type addressedConn struct {
	net.Conn
	remote net.Addr
}

func (c *addressedConn) RemoteAddr() net.Addr { return c.remote }
