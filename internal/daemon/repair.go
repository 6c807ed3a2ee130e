package daemon

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
)

// Repair does what the daemon does at its start, and a round of its reaper, and
// returns when that is done. No daemon may be running.
func Repair(ctx context.Context, cfg config.Config, opts Options) (err error) {
	d := &Daemon{cfg: cfg, opts: opts, log: opts.Log, settled: make(chan struct{})}
	defer func() { err = errors.Join(err, d.Close()) }()
	release, err := datadir.Lock(cfg)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, release)
	if _, err := d.openSessions(ctx); err != nil {
		return err
	}
	g, inner := errgroup.WithContext(ctx)
	inner, stop := context.WithCancel(inner)
	g.Go(func() error {
		if err := d.drivers.Sweep(inner); err != nil {
			d.log.ErrorContext(inner, "cannot remove everything that a crash left", "err", err)
		}
		return d.manager.Run(inner)
	})
	g.Go(func() error {
		defer stop()
		select {
		case <-d.settled:
		case <-inner.Done():
			return inner.Err()
		}
		d.sweepFiles(inner)
		return d.reaper.Round(inner)
	})
	return g.Wait()
}
