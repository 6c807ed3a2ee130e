package session

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
)

// use is an operation in progress on a session.
type use struct {
	core   *core
	entry  *entry
	client *runnerclient.Client
	end    func() // must be called
}

// lost returns what the failure of an operation means; see core.lost.
func (u use) lost(ctx context.Context, err error) error { return u.core.lost(ctx, u.entry, err) }

// running returns the entry of a session whose sandbox answers. It may be
// paused: who wants its programs to run calls begin.
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
	sandbox, err := c.driver.Open(ctx, e.snapshot().Sandbox)
	if err != nil {
		return c.lost(ctx, e, errors.Join(runnerclient.ErrUnreachable, err))
	}
	e.open(sandbox)
	return nil
}

// look is for asking after what runs in a session, which is no activity.
func (c *core) look(ctx context.Context, p auth.Principal, id ID) (use, error) {
	e, err := c.running(ctx, p, id)
	if err != nil {
		return use{}, err
	}
	return use{core: c, entry: e, client: e.box().client, end: func() {}}, nil
}

// begin begins an operation on a running session, and wakes it if it is paused.
func (c *core) begin(ctx context.Context, e *entry) (use, error) {
	if err := c.reachable(ctx, e); err != nil {
		return use{}, err
	}
	end, err := e.begin()
	if errors.Is(err, errPaused) {
		end, err = c.wake(ctx, e)
	}
	if err != nil {
		return use{}, err
	}
	return use{core: c, entry: e, client: e.box().client, end: end}, nil
}

// beginFile is begin for an operation on files, of which a session has only so
// many at once.
func (c *core) beginFile(ctx context.Context, e *entry) (use, error) {
	u, err := c.begin(ctx, e)
	if err != nil {
		return use{}, err
	}
	filed, err := e.beginFiling()
	if err != nil {
		u.end()
		return use{}, err
	}
	used := u.end
	u.end = func() { filed(); used() }
	return u, nil
}
