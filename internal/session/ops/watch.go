package ops

import (
	"context"
	"sync"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// Watch tells what changes in a directory, first that it is ready, until
// ctx is done, tell fails or the session ends, each of which is an error. To watch is no activity: who
// only looks on does not keep a session alive.
func (f *Files) Watch(ctx context.Context, p auth.Principal, id string, w protocol.Watch, tell func(protocol.Change) error) (err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return err
	}
	if err := check.User(w.User); err != nil {
		return err
	}
	if w.Path, err = directory(s, w.Path); err != nil {
		return err
	}
	w.AllowOutside = s.Now().AllFiles
	runner, err := s.Reach(ctx)
	if err != nil {
		return err
	}
	release, err := f.slots.take(s)
	if err != nil {
		return err
	}
	defer release()
	over := s.Now().Over
	err = watchUntilOver(ctx, over, runner, w, tell)
	select {
	case <-over:
		_, err = s.Reach(ctx) // which says how the session ended
		return err
	default:
		return s.Lost(ctx, err)
	}
}

// watchUntilOver is Watch on a runner. It also ends with the session, of which not
// every driver's connections tell.
func watchUntilOver(ctx context.Context, over <-chan struct{}, runner *runnerclient.Client, w protocol.Watch, tell func(protocol.Change) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel()
	looking.Go(func() {
		select {
		case <-over:
			cancel()
		case <-ctx.Done():
		}
	})
	watching, err := runner.Watch(ctx, w)
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
