package sandkasten

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// DialPort connects to a TCP port of the session, of any protocol. The connection
// lives until Close or the end of ctx. ErrNotFound says that nothing listens.
func (s *Session) DialPort(ctx context.Context, port int) (*Tunnel, error) {
	r := request{method: http.MethodGet, path: s.path + "/tunnel"}
	r.set("port", strconv.Itoa(port))
	conn, err := s.client.dial(ctx, r)
	if err != nil {
		return nil, err
	}
	return &Tunnel{conn: conn}, nil
}

// Tunnel is a connection to a port of a session. One goroutine may read while
// another writes.
type Tunnel struct {
	conn  *socket
	rest  []byte // of the last message
	ended bool
}

// Read returns what the port sends, and io.EOF when it sends no more.
func (t *Tunnel) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		if t.ended {
			return 0, io.EOF
		}
		kind, data, err := t.conn.read()
		if err == nil && kind != opBinary {
			err = t.conn.failed(errors.New("the daemon sent text"))
		}
		if err != nil {
			return 0, err
		}
		t.rest, t.ended = data, len(data) == 0 // an empty message is the end
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// Write sends p to the port.
func (t *Tunnel) Write(p []byte) (int, error) { return t.conn.Write(p) }

// CloseWrite tells the port that nothing more comes. Nothing can be written
// behind it.
func (t *Tunnel) CloseWrite() error { return t.conn.send(opBinary, nil) }

// Close ends the connection, in both directions.
func (t *Tunnel) Close() error {
	t.conn.close()
	return nil
}
