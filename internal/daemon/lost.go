package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// lostError says that the database cannot be the one of what is on the disk, and
// what brings the rows back.
func lostError(path, why string) error {
	return fmt.Errorf("%s: nothing is removed; the database is %s: bring back a backup (`sandkasten restore FILE`), or make rows for what is there (`sandkasten recover`)", why, path)
}

// requireRows refuses to go on where the database is missing, empty or another
// installation's: all that lives would look like garbage. It changes nothing.
func requireRows(ctx context.Context, cfg config.Config) error {
	pid, _, err := dirlock.Holder(cfg.DataDir)
	if err != nil {
		return err
	}
	seen := fsck.Found{Keeper: cfg.Driver, Inspection: map[string]runtime.Inspection{}, Reserved: pool.Owns}
	for _, name := range cfg.Drivers() {
		inspection, err := inspectDriver(ctx, cfg, name, pid)
		if err != nil && name == runtime.Native {
			return err
		}
		if err == nil { // of an engine that is away nothing is removed
			seen.Inspection[name] = inspection
		}
	}
	if seen.Blobs, err = listBlobs(ctx, cfg); err != nil {
		return err
	}
	rows, err := readRows(ctx, cfg)
	if err != nil {
		return err
	}
	if why := fsck.Lost(rows, seen); why != "" {
		return lostError(cfg.DBPath, why)
	}
	return nil
}

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
	seen, err := runtime.Survey(ctx, d.driver)
	if err != nil {
		return nil //nolint:nilerr // it is asked again, and until it answers nothing is removed
	}
	found := fsck.Found{Reserved: pool.Owns, Inspection: map[string]runtime.Inspection{"": {Sandboxes: seen.Sandboxes}}}
	if why := fsck.Lost(rows, found); why != "" {
		return lostError(d.cfg.DBPath, why)
	}
	return nil
}
