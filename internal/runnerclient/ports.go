package runnerclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// Ports lists what is listened on in the sandbox, by number.
func (c *Client) Ports(ctx context.Context) ([]protocol.Port, error) {
	var list protocol.PortList
	if err := c.ask(ctx, protocol.TypePorts, nil, protocol.TypePortList, &list); err != nil {
		return nil, err
	}
	for _, p := range list.Ports {
		address, err := netip.ParseAddr(p.Address)
		if err != nil || p.Port < 1 || p.Port > 65535 || p.Loopback != address.IsLoopback() || address.Zone() != "" {
			return nil, fmt.Errorf("%w: port %d of %q", ErrProtocol, p.Port, clip(p.Address, maxName))
		}
	}
	return list.Ports, nil
}

// DialPort connects to a TCP port of the sandbox's loopback. It returns
// NotFound if nothing listens there. Once it has returned, ctx has no effect
// on the connection, which the caller closes, or else Close of the client does,
// and which has a method CloseWrite() error.
func (c *Client) DialPort(ctx context.Context, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	k, err := c.request(ctx, protocol.TypeDial, protocol.Dial{Port: port})
	if err != nil {
		return nil, err
	}
	if _, err := k.next(protocol.TypeOK); err != nil {
		return nil, err
	}
	if !k.stop() { // ctx was done, and the connection is being closed
		return nil, k.fail(ctx.Err())
	}
	k.span.End(nil) // what follows is the caller's
	// The request has left a deadline for writes.
	if err := k.SetDeadline(time.Time{}); err != nil {
		return nil, k.fail(err)
	}
	p := &portConn{Conn: k.Conn, client: c, r: k.r.Rest()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ports == nil {
		c.ports = make(map[*portConn]struct{})
	}
	c.ports[p] = struct{}{}
	return p, nil
}

// portConn is a connection that has become a port's. What came with the answer
// to the request has been read already.
//
// When its runner dies it ends as if the server had ended one direction, after
// which a peer that says nothing could leave it open for ever: so it is known
// to its client, which closes it.
type portConn struct {
	net.Conn
	client *Client
	r      io.Reader
}

func (c *portConn) Close() error {
	c.client.mu.Lock()
	_, open := c.client.ports[c]
	delete(c.client.ports, c)
	c.client.mu.Unlock()
	if !open {
		return nil
	}
	return c.Conn.Close()
}

func (c *portConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite tells the server that nothing more comes. What it still sends can
// be read.
func (c *portConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
