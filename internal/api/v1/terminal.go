package v1

import (
	"context"
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/sockets"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

const (
	scrollback = 64 << 10 // bytes of what a terminal showed, for who comes back

	defaultRows, defaultCols = 24, 80
)

type terminalInput struct {
	SessionPath
	Cols       uint16   `query:"cols" default:"80" minimum:"1" maximum:"4096"`
	Rows       uint16   `query:"rows" default:"24" minimum:"1" maximum:"4096"`
	Term       string   `query:"term" maxLength:"64" pattern:"^[A-Za-z0-9._+-]*$" doc:"The client's kind of terminal. Without it that of the session's env, or xterm-256color." example:"xterm-256color"`
	Cmd        string   `query:"cmd" maxLength:"16384" doc:"Shell code to run instead of a login shell." example:"htop"`
	Command    []string `query:"command,explode" maxItems:"1000" doc:"A program and its arguments, to run instead of a login shell: repeat the parameter."`
	TerminalID string   `query:"terminal_id" maxLength:"26" doc:"Attach to this terminal instead of starting one; any process with a terminal will do." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	SinceSeq   int64    `query:"since_seq" default:"-1" minimum:"-1" maximum:"9007199254740991" doc:"With terminal_id, where in all that it showed to begin. Without it, with its last 64 KiB."`
}

func (in *terminalInput) size() ops.TerminalSize {
	return ops.TerminalSize{Rows: in.Rows, Cols: in.Cols}
}

func (s *surface) terminal(ctx context.Context, in *terminalInput) (*kit.Stream, error) {
	id, err := s.findKnown(ctx, in.SessionPath)
	if err == nil {
		in.TerminalID, err = s.execID(ctx, in.SessionPath, "terminal_id", in.TerminalID)
	}
	if err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		if err := sockets.Wanted(r); err != nil {
			api.WriteError(w, r, err)
			return
		}
		// Before the upgrade, so that a refusal is an ordinary answer.
		t, err := s.openTerminal(ctx, id, in)
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		t.Serve(w, r)
	}), nil
}

// openTerminal starts a terminal or finds the one that is asked for. One that
// nobody attaches to after all is hung up when its time is up.
func (s *surface) openTerminal(ctx context.Context, id session.ID, in *terminalInput) (sockets.Terminal, error) {
	t := sockets.Terminal{Manager: s.manager, Session: id}
	t.Started.TerminalID = in.TerminalID
	if in.TerminalID == "" {
		req := ops.TerminalRequest{Command: in.Command, Term: in.Term, Size: in.size()}
		if in.Cmd != "" {
			req.Command = []string{"/bin/sh", "-c", in.Cmd}
		}
		record, err := s.manager.Execs.StartTerminal(ctx, api.Caller(ctx), string(id), req)
		t.Started.TerminalID = record.ID
		return t, err
	}
	if in.Cmd != "" || len(in.Command) > 0 {
		return t, errdefs.Invalid("terminal_id", "is of a terminal that runs already; leave the command out")
	}
	record, err := s.manager.Execs.Get(ctx, api.Caller(ctx), string(id), in.TerminalID)
	switch {
	case err != nil:
		return t, err
	case !record.TTY:
		return t, errdefs.New(errdefs.Conflict, "exec %s has no terminal; follow its output at execs/{exec_id}/stream", in.TerminalID)
	case record.State != protocol.StateEnded:
		if err := s.manager.Execs.Resize(ctx, api.Caller(ctx), string(id), record.ID, in.size()); err != nil && !sockets.Ended(err) {
			return t, err
		}
	}
	t.Started.Reattached = true
	t.Started.Seq = in.SinceSeq
	if in.SinceSeq < 0 {
		t.Started.Seq = max(0, record.OutputBytes-scrollback)
	}
	return t, nil
}
