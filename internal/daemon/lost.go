package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// refuseLost keeps a daemon whose database is gone from taking all that lives for
// what a crash has left. It is asked before the database is opened, which makes
// one.
func (d *Daemon) refuseLost(ctx context.Context) error {
	info, err := os.Stat(d.cfg.DBPath)
	if err == nil && info.Size() > 0 {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.refuseUnnamed(ctx, fsck.Rows{})
}

// refuseUnnamed does the same for a database that names none of the sandboxes.
func (d *Daemon) refuseUnnamed(ctx context.Context, rows fsck.Rows) error {
	seen, err := runtime.Survey(ctx, d.drivers.Driver)
	if err != nil {
		return nil //nolint:nilerr // it is asked again, and until it answers nothing is removed
	}
	found := fsck.Found{Reserved: pool.Owns, Inspection: map[string]runtime.Inspection{"": {Sandboxes: seen.Sandboxes}}}
	if why := fsck.Lost(rows, found); why != "" {
		return fsck.LostError(d.cfg.DBPath, why)
	}
	return nil
}
