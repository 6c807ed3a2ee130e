package ops

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// DefaultShell is the name of the shell that every session has. "" means it
// too.
const DefaultShell = "default"

// wireShell is a shell's name as the runner knows it.
func wireShell(name string) string {
	if name == DefaultShell {
		return ""
	}
	return name
}

// Shells lists the session's shells by name. It is not activity.
func (x *Execs) Shells(ctx context.Context, p auth.Principal, id string) ([]protocol.ShellInfo, error) {
	s, runner, err := x.look(ctx, p, id)
	if err != nil {
		return nil, err
	}
	shells, err := runner.Shells(ctx)
	if err != nil {
		return nil, s.Lost(ctx, err)
	}
	return shells, nil
}

// CloseShell ends a shell with all that it started; its execs end as canceled.
// The next exec that names it gets a new one.
func (x *Execs) CloseShell(ctx context.Context, p auth.Principal, id string, name string) error {
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return err
	}
	if !check.IsName(name) {
		return errdefs.New(errdefs.NotFound, "no such shell; list the session's shells for those that it has").Because(errdefs.NoSuchShell)
	}
	runner, end, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := runner.CloseShell(ctx, wireShell(name)); err != nil {
		return s.Lost(ctx, err)
	}
	return nil
}
