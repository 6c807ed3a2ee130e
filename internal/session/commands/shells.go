package commands

import (
	"context"

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
func (c *Commands[ID]) Shells(ctx context.Context, id ID) ([]protocol.ShellInfo, error) {
	use, err := c.opts.Look(ctx, id)
	if err != nil {
		return nil, err
	}
	shells, err := use.Client.Shells(ctx)
	if err != nil {
		return nil, use.Lost(err)
	}
	return shells, nil
}

// CloseShell ends a shell with all that it started; its execs end as canceled.
// The next exec that names it gets a new one.
func (c *Commands[ID]) CloseShell(ctx context.Context, id ID, name string) error {
	if !check.IsName(name) {
		return errdefs.New(errdefs.NotFound, "no such shell; list the session's shells for those that it has").Because(errdefs.NoSuchShell)
	}
	use, err := c.opts.Begin(ctx, id)
	if err != nil {
		return err
	}
	defer use.End()
	if err := use.Client.CloseShell(ctx, wireShell(name)); err != nil {
		return use.Lost(err)
	}
	return nil
}
