package ops

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// atOnce is the least that a terminal without a client waits for one: whoever
// starts it attaches a moment later.
const atOnce = time.Second

// StartTerminal starts an interactive terminal in the background: a login
// shell, or the command of the request. It is a process like others, to be
// attached to by any number of clients. When it is without one for
// Options.TerminalDetach it is hung up.
func (x *Execs) StartTerminal(ctx context.Context, p auth.Principal, id string, req TerminalRequest) (protocol.Record, error) {
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return protocol.Record{}, err
	}
	process := ProcessRequest{Args: req.Command, Terminal: &req.Size}
	if req.Term != "" {
		if !check.IsName(req.Term) {
			return protocol.Record{}, errdefs.Invalid("term", "must be the name of a terminal, like xterm-256color")
		}
		process.Env = map[string]string{"TERM": req.Term}
	}
	start, program, err := x.planStart(s, process)
	if err != nil {
		return protocol.Record{}, err
	}
	start.HangupMS = max(x.opts.TerminalDetach, atOnce).Milliseconds()
	return x.startProgram(ctx, s, start, program)
}
