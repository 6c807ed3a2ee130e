package sockets

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/coder/websocket"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/strictjson"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

// Terminal is one that a client is to be attached to.
type Terminal struct {
	Manager *session.Manager
	Session session.ID
	Started Started
}

// Serve attaches the client of a request to the terminal, over a WebSocket.
func (t Terminal) Serve(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	ws, err := accept(w, r)
	if err != nil {
		api.Failed(ctx, err)
		return
	}
	line := &terminal{Terminal: t, ws: ws}
	if err := line.run(ctx); err != nil {
		api.Failed(ctx, err)
	}
}

// Ended reports whether err says that a program has ended, or its stdin: what
// that means for the terminal, its output tells.
func Ended(err error) bool {
	return errdefs.Is(err, errdefs.Conflict) || errdefs.Is(err, errdefs.NotFound)
}

// terminal is a WebSocket and the terminal at its other end.
type terminal struct {
	Terminal
	ws *websocket.Conn

	ctx context.Context // of the output, which is written through Write
	seq int64           // of the next byte to show
}

// Started is the first message to who opens a terminal.
type Started struct {
	TerminalID string `json:"terminal_id"`
	Reattached bool   `json:"reattached"`
	Seq        int64  `json:"seq"` // of the first byte of output that follows
}

// run passes everything on until the program ends or the client goes away,
// which detaches from the terminal and does nothing else to it.
func (t *terminal) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.ctx, t.seq = ctx, t.Started.Seq
	if err := t.say(ctx, map[string]any{"started": t.Started}); err != nil {
		return errors.Join(err, t.ws.CloseNow())
	}
	var typing sync.WaitGroup
	typing.Go(func() {
		defer cancel() // nobody is there any more: showing ends too
		t.typed(ctx)
	})
	typing.Go(func() {
		defer cancel()
		t.ping(ctx)
	})
	record, err := t.Manager.Execs.Attach(ctx, api.Caller(ctx), string(t.Session), t.Started.TerminalID, t.seq, t)
	switch {
	case err == nil:
		err = errors.Join(t.say(ctx, exitOf(record)), t.ws.Close(websocket.StatusNormalClosure, ""))
	case ctx.Err() != nil:
		err = t.ws.CloseNow()
	default:
		body, _ := api.ErrorForm(ctx, err)
		err = errors.Join(t.say(ctx, body), t.ws.Close(websocket.StatusInternalError, "the terminal ended"))
	}
	cancel()
	typing.Wait()
	if errors.Is(err, net.ErrClosed) { // the client was faster
		return nil
	}
	return err
}

// At is told of bytes that are not kept any more, and tells the client.
func (t *terminal) At(_ protocol.Stream, offset int64) {
	if missing := offset - t.seq; missing > 0 {
		// If it fails, so does the Write that follows.
		if err := t.say(t.ctx, map[string]any{"dropped": map[string]int64{"bytes": missing}}); err != nil {
			api.Failed(t.ctx, err)
		}
	}
	t.seq = offset
}

// Write shows p.
func (t *terminal) Write(p []byte) (int, error) {
	t.seq += int64(len(p))
	if err := t.send(t.ctx, websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// exit is the last message of a terminal whose program ended.
type exit struct {
	Exit struct {
		ExitCode int            `json:"exit_code"`
		Cause    protocol.Cause `json:"cause"`
	} `json:"exit"`
}

func exitOf(record protocol.Record) (message exit) {
	message.Exit.ExitCode = record.ExitCode
	message.Exit.Cause = record.Cause
	return message
}

func (t *terminal) say(ctx context.Context, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.send(ctx, websocket.MessageText, text)
}

// send gives up on a client that takes nothing.
func (t *terminal) send(ctx context.Context, kind websocket.MessageType, p []byte) error {
	ctx, cancel := context.WithTimeout(ctx, api.WriteTimeout)
	defer cancel()
	return t.ws.Write(ctx, kind, p)
}

// fromClient is what a client may say in a text message.
type fromClient struct {
	Resize *size `json:"resize"`
}

type size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// typed passes on what the client types until it is gone or says something
// that nobody understands.
func (t *terminal) typed(ctx context.Context) {
	for {
		kind, message, err := t.ws.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			err = t.keys(ctx, message)
		} else {
			err = t.resize(ctx, message)
		}
		if err == nil || Ended(err) {
			continue
		}
		if errdefs.Is(err, errdefs.InvalidArgument) {
			reason := errdefs.MessageOf(err)
			err = t.ws.Close(websocket.StatusPolicyViolation, reason[:min(len(reason), 120)])
		}
		if err != nil {
			api.Failed(ctx, err)
		}
		return
	}
}

// keys types into the terminal. As on any terminal, what a program leaves
// unread for long is lost when there is too much of it.
func (t *terminal) keys(ctx context.Context, typed []byte) error {
	for len(typed) > 0 {
		taken, err := t.Manager.Execs.WriteStdin(ctx, api.Caller(ctx), string(t.Session), t.Started.TerminalID, typed, false)
		if err != nil || taken.Bytes == 0 {
			return err
		}
		typed = typed[taken.Bytes:]
	}
	return nil
}

func (t *terminal) resize(ctx context.Context, message []byte) error {
	var m fromClient
	if err := strictjson.Decode(message, &m); err != nil {
		return err
	}
	if m.Resize == nil || m.Resize.Rows == 0 || m.Resize.Cols == 0 {
		return errdefs.Invalid("resize", "must have rows and cols of at least 1")
	}
	return t.Manager.Execs.Resize(ctx, api.Caller(ctx), string(t.Session), t.Started.TerminalID, ops.TerminalSize(*m.Resize))
}

// ping finds out that a client is gone which never said so.
func (t *terminal) ping(ctx context.Context) {
	ping(ctx, t.ws, func(error) (goOn bool) { return false })
}
