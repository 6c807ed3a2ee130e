package v1

import (
	"context"
	"encoding/json"
	"errors"
	"net"
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
	scrollback         = 64 << 10         // bytes of what a terminal showed, for who comes back

	defaultRows, defaultCols = 24, 80
)

type terminalInput struct {
	SessionPath
	Cols       uint16   `query:"cols" default:"80" minimum:"1" maximum:"4096"`
	Rows       uint16   `query:"rows" default:"24" minimum:"1" maximum:"4096"`
	Term       string   `query:"term" maxLength:"64" pattern:"^[A-Za-z0-9._+-]*$" doc:"The client's kind of terminal." example:"xterm-256color"`
	Cmd        string   `query:"cmd" maxLength:"16384" doc:"Shell code to run instead of a login shell." example:"htop"`
	Command    []string `query:"command,explode" maxItems:"1000" doc:"A program and its arguments, to run instead of a login shell: repeat the parameter."`
	TerminalID string   `query:"terminal_id" maxLength:"26" doc:"Attach to this terminal instead of starting one; any process with a terminal will do." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	SinceSeq   int64    `query:"since_seq" default:"-1" minimum:"-1" maximum:"9007199254740991" doc:"With terminal_id, where in all that it showed to begin. Without it, with its last 64 KiB."`
}

func (in *terminalInput) size() session.TerminalSize {
	return session.TerminalSize{Rows: in.Rows, Cols: in.Cols}
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
		t, err := s.openTerminal(ctx, id, in)
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		t.ws, err = websocket.Accept(w, r, &websocket.AcceptOptions{
			InsecureSkipVerify: true, // the guard in front of every route has checked Origin
			CompressionMode:    websocket.CompressionDisabled,
		})
		if err != nil { // Accept has answered
			api.Failed(ctx, err)
			return
		}
		t.ws.SetReadLimit(maxTerminalMessage)
		if err := t.run(ctx); err != nil {
			api.Failed(ctx, err)
		}
	}), nil
}

// openTerminal starts a terminal or finds the one that is asked for. One that
// nobody attaches to after all is hung up when its time is up.
func (s *surface) openTerminal(ctx context.Context, id session.ID, in *terminalInput) (*terminalLine, error) {
	t := &terminalLine{manager: s.manager, session: id}
	t.started.TerminalID = in.TerminalID
	if in.TerminalID == "" {
		req := session.TerminalRequest{Command: in.Command, Term: in.Term, Size: in.size()}
		if in.Cmd != "" {
			req.Command = []string{"/bin/sh", "-c", in.Cmd}
		}
		record, err := s.manager.StartTerminal(ctx, id, req)
		t.started.TerminalID = record.ID
		return t, err
	}
	if in.Cmd != "" || len(in.Command) > 0 {
		return nil, errdefs.Invalid("terminal_id", "is of a terminal that runs already; leave the command out")
	}
	record, err := s.manager.ExecRecord(ctx, id, in.TerminalID)
	switch {
	case err != nil:
		return nil, err
	case !record.TTY:
		return nil, errdefs.New(errdefs.Conflict, "exec %s has no terminal; follow its output at execs/{exec_id}/stream", in.TerminalID)
	case record.State != protocol.StateEnded:
		if err := s.manager.ResizeExec(ctx, id, record.ID, in.size()); err != nil && !ended(err) {
			return nil, err
		}
	}
	t.started.Reattached = true
	t.started.Seq = in.SinceSeq
	if in.SinceSeq < 0 {
		t.started.Seq = max(0, record.OutputBytes-scrollback)
	}
	return t, nil
}

// ended reports whether err says that a program has ended, or its stdin: what
// that means for the terminal, its output tells.
func ended(err error) bool {
	return errdefs.Is(err, errdefs.Conflict) || errdefs.Is(err, errdefs.NotFound)
}

// terminalLine is a WebSocket and the terminal at its other end.
type terminalLine struct {
	manager *session.Manager
	session session.ID
	started terminalStarted
	ws      *websocket.Conn

	ctx context.Context // of the output, which is written through Write
	seq int64           // of the next byte to show
}

// terminalStarted is the first message.
type terminalStarted struct {
	TerminalID string `json:"terminal_id"`
	Reattached bool   `json:"reattached"`
	Seq        int64  `json:"seq"` // of the first byte of output that follows
}

// run passes everything on until the program ends or the client goes away,
// which detaches from the terminal and does nothing else to it.
func (t *terminalLine) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.ctx, t.seq = ctx, t.started.Seq
	if err := t.say(ctx, map[string]any{"started": t.started}); err != nil {
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
	record, err := t.manager.Attach(ctx, t.session, t.started.TerminalID, t.seq, t)
	switch {
	case err == nil:
		err = errors.Join(t.say(ctx, exitOf(record)), t.ws.Close(websocket.StatusNormalClosure, ""))
	case ctx.Err() != nil:
		err = t.ws.CloseNow()
	default:
		body, _ := api.Describe(ctx, err)
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
func (t *terminalLine) At(_ protocol.Stream, offset int64) {
	if missing := offset - t.seq; missing > 0 {
		// If it fails, so does the Write that follows.
		if err := t.say(t.ctx, map[string]any{"dropped": map[string]int64{"bytes": missing}}); err != nil {
			api.Failed(t.ctx, err)
		}
	}
	t.seq = offset
}

// Write shows p.
func (t *terminalLine) Write(p []byte) (int, error) {
	t.seq += int64(len(p))
	if err := t.send(t.ctx, websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// terminalExit is the last message of a terminal whose program ended.
type terminalExit struct {
	Exit struct {
		ExitCode int            `json:"exit_code"`
		Cause    protocol.Cause `json:"cause"`
	} `json:"exit"`
}

func exitOf(record session.ExecResult) (message terminalExit) {
	message.Exit.ExitCode = record.ExitCode
	message.Exit.Cause = record.Cause
	return message
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
			err = t.keys(ctx, message)
		} else {
			err = t.resize(ctx, message)
		}
		if err == nil || ended(err) {
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
func (t *terminalLine) keys(ctx context.Context, typed []byte) error {
	for len(typed) > 0 {
		taken, err := t.manager.WriteStdin(ctx, t.session, t.started.TerminalID, typed, false)
		if err != nil || taken == 0 {
			return err
		}
		typed = typed[taken:]
	}
	return nil
}

func (t *terminalLine) resize(ctx context.Context, message []byte) error {
	var m terminalMessage
	if err := api.DecodeJSON(message, &m); err != nil {
		return err
	}
	if m.Resize == nil || m.Resize.Rows == 0 || m.Resize.Cols == 0 {
		return errdefs.Invalid("resize", "must have rows and cols of at least 1")
	}
	return t.manager.ResizeExec(ctx, t.session, t.started.TerminalID, session.TerminalSize(*m.Resize))
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
			return
		}
	}
}
