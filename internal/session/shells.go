package session

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
func (m *Manager) Shells(ctx context.Context, id ID) ([]protocol.ShellInfo, error) {
	e, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	shells, err := e.box().client.Shells(ctx)
	if err != nil {
		return nil, m.lost(ctx, e, err)
	}
	return shells, nil
}

// CloseShell ends a shell with all that it started; its execs end as canceled.
// The next exec that names it gets a new one.
func (m *Manager) CloseShell(ctx context.Context, id ID, name string) error {
	if !check.IsName(name) {
		return errdefs.New(errdefs.NotFound, "no such shell; list the session's shells for those that it has")
	}
	e, end, err := m.use(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	if err := e.box().client.CloseShell(ctx, wireShell(name)); err != nil {
		return m.lost(ctx, e, err)
	}
	return nil
}
