package sockets

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/coder/websocket"

	"github.com/sandkasten/sandkasten/internal/api"
)

const tunnelPiece = 32 << 10

// ServeTunnel connects a WebSocket with conn, the connection to a port, which it
// closes. Binary messages are bytes of the connection, and an empty one is the
// end of that direction.
func ServeTunnel(w http.ResponseWriter, r *http.Request, conn net.Conn) {
	ctx := r.Context()
	ws, err := accept(w, r)
	if err != nil {
		api.Failed(ctx, errors.Join(err, conn.Close()))
		return
	}
	t := &tunnel{ws: ws, conn: conn, half: make(chan struct{})}
	if err := t.run(ctx); err != nil {
		api.Failed(ctx, err)
	}
}

// tunnel is a WebSocket and the connection to a port at its other end.
type tunnel struct {
	ws   *websocket.Conn
	conn net.Conn
	half chan struct{} // closed when the client has said that nothing more comes
}

// run passes everything on until both directions have ended, or one of the
// two connections has.
func (t *tunnel) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan struct{})
	var received error
	var wg sync.WaitGroup
	wg.Go(func() { t.ping(ctx) })
	wg.Go(func() {
		defer close(gone)
		// Whatever ended it, nobody is there any more: this ends send too.
		received = errors.Join(t.receive(ctx), t.conn.Close())
	})
	err := t.send(ctx)
	if err == nil {
		select {
		case <-t.half:
			err = t.ws.Close(websocket.StatusNormalClosure, "")
		case <-gone:
		}
	}
	cancel()
	err = errors.Join(err, t.ws.CloseNow())
	wg.Wait()
	if err = errors.Join(err, received); errors.Is(err, net.ErrClosed) || websocket.CloseStatus(err) != -1 {
		return nil // one of the two has gone away, which is how tunnels end
	}
	return err
}

// receive passes on what the client sends. It goes on when the client has sent
// all, to see it go, and returns when it has gone.
func (t *tunnel) receive(ctx context.Context) error {
	for ended := false; ; {
		kind, message, err := t.ws.Reader(ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageBinary || ended {
			return t.ws.Close(websocket.StatusUnsupportedData, "a tunnel takes binary messages, and none after an empty one")
		}
		n, err := io.Copy(t.conn, message)
		if err != nil {
			return err
		}
		if ended = n == 0; ended {
			close(t.half)
			if err := t.conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				return err
			}
		}
	}
}

// send passes on what the port sends, and its end.
func (t *tunnel) send(ctx context.Context) error {
	buf := make([]byte, tunnelPiece)
	for {
		n, err := t.conn.Read(buf)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		if n > 0 || ended {
			if err := t.ws.Write(ctx, websocket.MessageBinary, buf[:n]); err != nil {
				return err
			}
		}
		if ended && n > 0 {
			return t.ws.Write(ctx, websocket.MessageBinary, nil)
		}
		if ended {
			return nil
		}
	}
}

// ping keeps what lies between the client and us from taking a quiet tunnel
// for a dead one. That the client is gone, TCP finds out: one whose bytes the
// server does not take cannot answer for as long as that lasts.
func (t *tunnel) ping(ctx context.Context) {
	ping(ctx, t.ws, func(err error) (goOn bool) {
		api.Failed(ctx, err)
		return true
	})
}
