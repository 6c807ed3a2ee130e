package session

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// Terminal opens an interactive terminal in the session: a login shell, or the
// command of the request. It lives until its program ends, ctx is done or the
// caller closes it, which the caller must. While it is open the session is in
// use.
func (m *Manager) Terminal(ctx context.Context, id ID, req TerminalRequest) (*runnerclient.Terminal, error) {
	if err := checkTerminal(req); err != nil {
		return nil, err
	}
	e, end, err := m.use(ctx, id)
	if err != nil {
		return nil, err
	}
	t := protocol.Terminal{ID: newID(), Command: req.Command, Rows: req.Rows, Cols: req.Cols}
	if req.Term != "" {
		t.Env = map[string]string{"TERM": req.Term}
	}
	terminal, err := e.box().client.Terminal(ctx, t, end)
	if err != nil {
		end()
		return nil, m.lost(ctx, e, err)
	}
	return terminal, nil
}

func checkTerminal(req TerminalRequest) error {
	total := 0
	for _, argument := range req.Command {
		total += len(argument)
		if strings.ContainsRune(argument, 0) || !utf8.ValidString(argument) {
			return errdefs.Invalid("command", "must be valid UTF-8 without NUL bytes")
		}
	}
	if total > protocol.MaxHeader/4 {
		return errdefs.Invalid("command", "must be at most %d bytes", protocol.MaxHeader/4)
	}
	if req.Term != "" && !isName(req.Term) {
		return errdefs.Invalid("term", "must be the name of a terminal, like xterm-256color")
	}
	return nil
}
