// Package sockets is what goes over the WebSockets of any surface once a request for one
// was accepted: a terminal's keys and output, and the bytes of a connection to a
// port. Which terminal or port that is, who may have it and what a refusal looks
// like is decided before.
package sockets

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const (
	maxMessage = 1 << 20
	pingEvery  = 30 * time.Second // and that long for the answer
)

// Wanted refuses a request that does not ask for a WebSocket.
func Wanted(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return errdefs.New(errdefs.InvalidArgument, "this path speaks WebSocket; connect with a WebSocket client")
	}
	return nil
}

// accept makes the connection a WebSocket. If it fails, the client has been
// answered.
func accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the guard in front of every route has checked Origin
		CompressionMode:    websocket.CompressionDisabled,
		Subprotocols:       []string{api.Subprotocol},
	})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(maxMessage)
	return ws, nil
}

// ping asks the client again and again whether it is there, until unanswered
// says that it does not want to go on after an error.
func ping(ctx context.Context, ws *websocket.Conn, unanswered func(error) (goOn bool)) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		bounded, cancel := context.WithTimeout(ctx, pingEvery)
		err := ws.Ping(bounded)
		cancel()
		if err != nil && !unanswered(err) {
			return
		}
	}
}
