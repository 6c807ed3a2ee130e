package session

import (
	"context"
	"sync"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/files"
	"github.com/sandkasten/sandkasten/protocol"
)

// maxFiling bounds the operations on files at once in one session. Each holds a
// connection to the runner, which has 256 for everything.
const maxFiling = 64

// beginFile is use for an operation on files, of which a session has only so many
// at once.
func (m *Manager) beginFile(ctx context.Context, id ID) (files.Use, error) {
	e, used, err := m.use(ctx, id)
	if err != nil {
		return files.Use{}, err
	}
	filed, err := e.beginFiling()
	if err != nil {
		used()
		return files.Use{}, err
	}
	return files.Use{
		Client: e.box().client,
		End:    func() { filed(); used() },
		Lost:   func(err error) error { return m.lost(ctx, e, err) },
	}, nil
}

// beginFiling counts one more operation on files, until end is called.
func (e *entry) beginFiling() (end func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.filing == maxFiling {
		return nil, errdefs.New(errdefs.ResourceExhausted, "the session has %d operations on files in progress, which is the limit; wait for one to end", maxFiling)
	}
	e.filing++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.filing--
	}, nil
}

// WatchFiles tells what changes in a directory, first that it is ready, until
// ctx is done, tell fails or the session ends, each of which is an error. To watch is no activity: who
// only looks on does not keep a session alive.
func (m *Manager) WatchFiles(ctx context.Context, id ID, w protocol.Watch, tell func(protocol.Change) error) (err error) {
	if err := files.CheckUser(w.User); err != nil {
		return err
	}
	if w.Path, err = m.Directory(id, w.Path); err != nil {
		return err
	}
	w.AllowOutside = m.reachesAll(id)
	e, err := m.running(ctx, id)
	if err != nil {
		return err
	}
	end, err := e.beginFiling()
	if err != nil {
		return err
	}
	defer end()
	err = watch(ctx, e, w, tell)
	select {
	case <-e.over:
		return notRunning(e.snapshot())
	default:
		return m.lost(ctx, e, err)
	}
}

// watch is WatchFiles on a runner. It also ends with the session, of which not
// every driver's connections tell.
func watch(ctx context.Context, e *entry, w protocol.Watch, tell func(protocol.Change) error) error {
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
