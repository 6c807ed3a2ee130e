package session

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/session/commands"
)

// use begins an operation on a running session, and wakes it if it is paused;
// the caller ends the operation.
func (m *Manager) use(ctx context.Context, id ID) (e *entry, end func(), err error) {
	e, err = m.running(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	end, err = e.begin()
	if errors.Is(err, errPaused) {
		end, err = m.wake(ctx, e)
	}
	return e, end, err
}

// beginCommand is use for what runs in a session.
func (m *Manager) beginCommand(ctx context.Context, id ID) (commands.Use, error) {
	e, end, err := m.use(ctx, id)
	if err != nil {
		return commands.Use{}, err
	}
	return m.commandUse(ctx, e, end), nil
}

// lookAtCommands is for asking after what runs in a session, which is no
// activity.
func (m *Manager) lookAtCommands(ctx context.Context, id ID) (commands.Use, error) {
	e, err := m.running(ctx, id)
	if err != nil {
		return commands.Use{}, err
	}
	return m.commandUse(ctx, e, func() {}), nil
}

func (m *Manager) commandUse(ctx context.Context, e *entry, end func()) commands.Use {
	return commands.Use{
		Client: e.box().client,
		End:    end,
		Lost:   func(err error) error { return m.lost(ctx, e, err) },
		Moved:  e.moved,
		Alive: func() (string, bool) {
			s := e.snapshot()
			return s.Cwd, s.State.Alive()
		},
	}
}
