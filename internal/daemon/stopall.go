package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

// stopsAtOnce bounds how many sessions are stopped at one time: each is written
// out to the disk.
const stopsAtOnce = 8

// stopper is in whose name all sessions are stopped.
var stopper = auth.System("stop-sessions")

// stopSessions stops the sessions of all owners, which keep their files, once
// they have been taken up. It goes on where one cannot be stopped; the error
// names those.
func (d *Daemon) stopSessions(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.settled:
	}
	all, err := d.manager.Sessions.List(ctx, stopper, session.ListRequest{Helpers: true})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed []error // guarded by mu
	var g errgroup.Group
	g.SetLimit(stopsAtOnce)
	for _, s := range all {
		g.Go(func() error {
			// One that ends by itself meanwhile is gone as it should be.
			if err := d.stopOne(ctx, s); err != nil && !errdefs.Is(err, errdefs.NotFound) {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, fmt.Errorf("stop session %s: %w", s.ID, err))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	d.log.InfoContext(ctx, "stopped all sessions", "sessions", len(all)-len(failed))
	return errors.Join(failed...)
}

// stopOne ends a hidden session: its files are a workspace's.
func (d *Daemon) stopOne(ctx context.Context, s session.Session) error {
	if s.Helper {
		return d.manager.Sessions.Destroy(ctx, stopper, s.ID)
	}
	_, err := d.manager.Sessions.Stop(ctx, stopper, s.ID)
	return err
}

// NeverRan reports whether no daemon has ever worked with cfg: there is nothing to
// stop then.
func NeverRan(cfg config.Config) bool {
	for _, made := range []string{cfg.DBPath, filepath.Join(cfg.DataDir, "sandboxes")} {
		if _, err := os.Lstat(made); !errors.Is(err, os.ErrNotExist) {
			return false
		}
	}
	return true
}
