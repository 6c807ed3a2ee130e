package session

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/execwatch"
	"github.com/sandkasten/sandkasten/internal/session/ops"
)

// Living implements ops.Sessions.
func (h host) Living(ctx context.Context, p auth.Principal, id string) (ops.Session, error) {
	e, err := h.core.living(ctx, p, ID(id))
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Now implements ops.Session and execwatch.Session.
func (e *entry) Now() execwatch.Now {
	s := e.snapshot()
	return execwatch.Now{
		ID: string(e.id), Owner: e.owner, BootID: s.BootID, Cwd: s.Cwd, Alive: s.State.Alive(), Gone: s.State == Stopped || s.State.Ended(),
		AllFiles: e.core.reachesAll(s), Client: e.box().client, Over: e.over,
	}
}

// Reach implements ops.Session.
func (e *entry) Reach(ctx context.Context) (*runnerclient.Client, error) {
	if err := e.core.reachable(ctx, e); err != nil {
		return nil, err
	}
	return e.box().client, nil
}

// Begin implements ops.Session.
func (e *entry) Begin(ctx context.Context) (runner *runnerclient.Client, end func(), err error) {
	if err := e.core.reachable(ctx, e); err != nil {
		return nil, nil, err
	}
	end, err = e.begin()
	if errors.Is(err, errPaused) {
		end, err = e.core.wake(ctx, e)
	}
	if err != nil {
		return nil, nil, err
	}
	return e.box().client, end, nil
}

// Lost implements ops.Session.
func (e *entry) Lost(ctx context.Context, err error) error { return e.core.lost(ctx, e, err) }

// Moved implements ops.Session.
func (e *entry) Moved(cwd string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if cwd != "" {
		e.record.session.Cwd = cwd
		e.activity.unsaved = true
	}
}

// running returns the entry of a session whose sandbox answers. It may be
// paused: who wants its programs to run calls Begin.
func (c *core) running(ctx context.Context, p auth.Principal, id ID) (*entry, error) {
	e, err := c.living(ctx, p, id)
	if err != nil {
		return nil, err
	}
	return e, c.reachable(ctx, e)
}

// reachable refuses a session without processes, and opens the sandbox that the
// driver could not open at the start.
func (c *core) reachable(ctx context.Context, e *entry) error {
	s := e.snapshot()
	if !s.State.Alive() {
		return notRunning(s)
	}
	if e.box().sandbox != nil {
		c.attachAgain(ctx, e, s)
		return nil
	}
	sandbox, err := runtime.OpenInTime(ctx, c.driver, e.snapshot().Sandbox)
	if err != nil {
		return c.lost(ctx, e, errors.Join(runnerclient.ErrUnreachable, err))
	}
	e.open(sandbox)
	return nil
}
