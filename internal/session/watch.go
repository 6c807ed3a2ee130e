package session

import (
	"context"
	"sync"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// maxFiling bounds the operations on files at once in one session. Each holds a
// connection to the runner, which has 256 for everything.
const maxFiling = 64

// beginFiling counts one more operation on files, until end is called.
func (e *entry) beginFiling() (end func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.activity.filing == maxFiling {
		return nil, errdefs.New(errdefs.ResourceExhausted, "the session has %d operations on files in progress, which is the limit; wait for one to end", maxFiling)
	}
	e.activity.filing++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.activity.filing--
	}, nil
}

// Watch tells what changes in a directory, first that it is ready, until
// ctx is done, tell fails or the session ends, each of which is an error. To watch is no activity: who
// only looks on does not keep a session alive.
func (c *Files) Watch(ctx context.Context, p auth.Principal, id ID, w protocol.Watch, tell func(protocol.Change) error) (err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return err
	}
	if err := check.User(w.User); err != nil {
		return err
	}
	if w.Path, err = c.directory(e, w.Path); err != nil {
		return err
	}
	w.AllowOutside = c.reachesAll(e)
	if err := c.reachable(ctx, e); err != nil {
		return err
	}
	end, err := e.beginFiling()
	if err != nil {
		return err
	}
	defer end()
	err = watchUntilOver(ctx, e, w, tell)
	select {
	case <-e.over:
		return notRunning(e.snapshot())
	default:
		return c.lost(ctx, e, err)
	}
}

// watchUntilOver is Watch on a runner. It also ends with the session, of which not
// every driver's connections tell.
func watchUntilOver(ctx context.Context, e *entry, w protocol.Watch, tell func(protocol.Change) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel()
	looking.Go(func() {
		select {
		case <-e.over:
			cancel()
		case <-ctx.Done():
		}
	})
	client := e.box().client
	watching, err := client.Watch(ctx, w)
	if err != nil {
		return err
	}
	defer watching.Close() //nolint:errcheck // nothing is written on it
	change := protocol.Change{Op: "ready"}
	for {
		if err := tell(change); err != nil {
			return err
		}
		if change, err = watching.Next(); err != nil {
			return err
		}
	}
}
