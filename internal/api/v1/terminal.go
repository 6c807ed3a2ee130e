package v1

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

const (
	maxTerminalMessage = 1 << 20
	terminalPing       = 30 * time.Second // a client that does not answer one is gone
)

type terminalInput struct {
	SessionPath
	Cols uint16 `query:"cols" default:"80" minimum:"1" maximum:"4096"`
	Rows uint16 `query:"rows" default:"24" minimum:"1" maximum:"4096"`
	Term string `query:"term" maxLength:"64" pattern:"^[A-Za-z0-9._+-]*$" doc:"The client's kind of terminal." example:"xterm-256color"`
	Cmd  string `query:"cmd" maxLength:"16384" doc:"Shell code to run instead of a login shell." example:"htop"`
}

func (in *terminalInput) request() session.TerminalRequest {
	req := session.TerminalRequest{Term: in.Term, Rows: in.Rows, Cols: in.Cols}
	if in.Cmd != "" {
		req.Command = []string{"/bin/sh", "-c", in.Cmd}
	}
	return req
}

func (s *surface) terminal(ctx context.Context, in *terminalInput) (*huma.StreamResponse, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return streaming(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			api.WriteError(w, r, errdefs.New(errdefs.InvalidArgument, "this path speaks WebSocket; connect with a WebSocket client"))
			return
		}
		// Before the upgrade, so that a refusal is an ordinary answer.
		terminal, err := s.manager.Terminal(ctx, id, in.request())
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		defer closeTerminal(ctx, terminal)
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			InsecureSkipVerify: true, // the guard in front of every route has checked Origin
			CompressionMode:    websocket.CompressionDisabled,
		})
		if err != nil { // Accept has answered
			api.Failed(ctx, err)
			return
		}
		ws.SetReadLimit(maxTerminalMessage)
		t := &terminalLine{ws: ws, terminal: terminal}
		if err := t.run(ctx); err != nil {
			api.Failed(ctx, err)
		}
	}), nil
}

// program is what runs on a terminal, as the manager opens it.
type program interface {
	io.ReadWriteCloser
	Resize(rows, cols uint16) error
	Wait() (protocol.Record, error)
}

func closeTerminal(ctx context.Context, terminal program) {
	if err := terminal.Close(); err != nil {
		api.Failed(ctx, err)
	}
}

// terminalLine is a WebSocket and the terminal at its other end.
type terminalLine struct {
	ws       *websocket.Conn
	terminal program
}

// run passes everything on until the program ends or the client goes away.
func (t *terminalLine) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var typing sync.WaitGroup
	typing.Go(func() {
		t.typed(ctx)
		// Whatever ended it, nobody is there any more: this ends shown too.
		closeTerminal(ctx, t.terminal)
	})
	typing.Go(func() { t.ping(ctx) })
	err := t.shown(ctx)
	cancel()
	typing.Wait()
	return err
}

// shown passes on what the program prints, and then its end.
func (t *terminalLine) shown(ctx context.Context) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := t.terminal.Read(buf)
		if n > 0 {
			if err := t.send(ctx, websocket.MessageBinary, buf[:n]); err != nil {
				return errors.Join(err, t.ws.CloseNow())
			}
		}
		if errors.Is(err, io.EOF) {
			return t.exit(ctx)
		}
		if err != nil {
			body, _ := api.Describe(ctx, err)
			return errors.Join(t.say(ctx, body), t.ws.Close(websocket.StatusInternalError, "the terminal ended"))
		}
	}
}

// terminalExit is the last message of a terminal whose program ended.
type terminalExit struct {
	Exit struct {
		ExitCode int `json:"exit_code"`
	} `json:"exit"`
}

func (t *terminalLine) exit(ctx context.Context) error {
	record, err := t.terminal.Wait()
	if err != nil {
		return errors.Join(err, t.ws.CloseNow())
	}
	var message terminalExit
	message.Exit.ExitCode = record.ExitCode
	return errors.Join(t.say(ctx, message), t.ws.Close(websocket.StatusNormalClosure, ""))
}

func (t *terminalLine) say(ctx context.Context, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.send(ctx, websocket.MessageText, text)
}

// send gives up on a client that takes nothing.
func (t *terminalLine) send(ctx context.Context, kind websocket.MessageType, p []byte) error {
	ctx, cancel := context.WithTimeout(ctx, api.WriteTimeout)
	defer cancel()
	return t.ws.Write(ctx, kind, p)
}

// terminalMessage is what a client may say in a text message.
type terminalMessage struct {
	Resize *terminalSize `json:"resize"`
}

type terminalSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// typed passes on what the client types until it is gone or says something
// that nobody understands.
func (t *terminalLine) typed(ctx context.Context) {
	for {
		kind, message, err := t.ws.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			_, err = t.terminal.Write(message)
		} else {
			err = t.resize(message)
		}
		if err == nil {
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

func (t *terminalLine) resize(message []byte) error {
	var m terminalMessage
	if err := api.DecodeJSON(message, &m); err != nil {
		return err
	}
	if m.Resize == nil || m.Resize.Rows == 0 || m.Resize.Cols == 0 {
		return errdefs.Invalid("resize", "must have rows and cols of at least 1")
	}
	return t.terminal.Resize(m.Resize.Rows, m.Resize.Cols)
}

// ping finds out that a client is gone which never said so.
func (t *terminalLine) ping(ctx context.Context) {
	ticker := time.NewTicker(terminalPing)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		bounded, cancel := context.WithTimeout(ctx, terminalPing)
		err := t.ws.Ping(bounded)
		cancel()
		if err != nil {
			closeTerminal(ctx, t.terminal)
			return
		}
	}
}
