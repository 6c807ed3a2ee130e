package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/coder/websocket"
)

// maxTunnelMessage bounds one message of a tunnel.
const maxTunnelMessage = 1 << 20

// Port is a port on which something in a session listens.
type Port struct {
	Port     int    `json:"port"`
	Address  string `json:"address"`
	Loopback bool   `json:"loopback"`
	URL      string `json:"url"`
}

// Ports lists the ports on which something in a session listens.
func (c *Client) Ports(ctx context.Context, id string) ([]Port, error) {
	ports := []Port{}
	err := c.call(ctx, http.MethodGet, sessionPath(id, "/ports"), nil, &ports)
	return ports, err
}

// Tunnel is a TCP connection to a port of a session. Read and Write may be
// called concurrently with each other. The caller closes it.
type Tunnel struct {
	conn *websocket.Conn
	ctx  context.Context
	in   io.Reader // the message being read, or nil
	read bool      // something of it
}

// Tunnel connects to a port. The connection lives until Close or the end of
// ctx.
func (c *Client) Tunnel(ctx context.Context, id string, port int) (*Tunnel, error) {
	header := http.Header{}
	c.authorize(header)
	query := url.Values{"port": {strconv.Itoa(port)}}
	address := "ws" + strings.TrimPrefix(c.base, "http") + sessionPath(id, "/tunnel?", query.Encode())
	conn, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: header})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return nil, replyError(resp)
		}
		return nil, &UnreachableError{URL: c.base, Cause: err}
	}
	conn.SetReadLimit(maxTunnelMessage)
	return &Tunnel{conn: conn, ctx: ctx}, nil
}

// Read returns what the port sends, and io.EOF when it sends no more.
func (t *Tunnel) Read(p []byte) (int, error) {
	for {
		if t.in == nil {
			kind, message, err := t.conn.Reader(t.ctx)
			if err != nil {
				return 0, fmt.Errorf("the tunnel broke: %w", err)
			}
			if kind != websocket.MessageBinary {
				return 0, errors.New("the tunnel broke: the daemon sent text")
			}
			t.in, t.read = message, false
		}
		n, err := t.in.Read(p)
		t.read = t.read || n > 0
		if errors.Is(err, io.EOF) {
			if !t.read { // an empty message is the end
				return 0, io.EOF
			}
			t.in, err = nil, nil
		}
		if err != nil {
			return n, fmt.Errorf("the tunnel broke: %w", err)
		}
		if n > 0 {
			return n, nil
		}
	}
}

// Write sends p to the port.
func (t *Tunnel) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		part := p[:min(len(p), maxTunnelMessage)]
		if err := t.conn.Write(t.ctx, websocket.MessageBinary, part); err != nil {
			return written, fmt.Errorf("send through the tunnel: %w", err)
		}
		written += len(part)
		p = p[len(part):]
	}
	return written, nil
}

// CloseWrite tells the port that nothing more comes.
func (t *Tunnel) CloseWrite() error {
	if err := t.conn.Write(t.ctx, websocket.MessageBinary, nil); err != nil {
		return fmt.Errorf("end the tunnel: %w", err)
	}
	return nil
}

// Close ends the connection.
func (t *Tunnel) Close() error {
	if err := t.conn.CloseNow(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
