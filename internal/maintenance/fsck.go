package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
)

// looks are the pauses before further looks at what differs: a difference that
// is not there in all of them was only something being made or removed.
var looks = map[bool][]time.Duration{
	true:  {2 * time.Second, 4 * time.Second}, // beside a daemon
	false: {500 * time.Millisecond},           // what it has ended may still be going
}

// Fsck says in what the host and the database of cfg's daemon differ, without
// changing either. The daemon may be running, and work meanwhile.
func Fsck(ctx context.Context, cfg config.Config) ([]fsck.Difference, error) {
	stay, running, err := lookAtAll(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for _, pause := range looks[running] {
		if len(stay) == 0 {
			return nil, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		again, _, err := lookAtAll(ctx, cfg)
		if err != nil {
			return nil, err
		}
		stay = fsck.Stay(stay, again)
	}
	return stay, nil
}

// lookAtAll compares once. What is made has its row first, and what is removed
// loses it last, so the rows are read after the things.
func lookAtAll(ctx context.Context, cfg config.Config) (found []fsck.Difference, running bool, err error) {
	pid, running, err := dirlock.Holder(cfg.DataDir)
	if err != nil {
		return nil, false, err
	}
	seen := fsck.Found{
		Now: time.Now(), Running: running, Inspection: map[string]runtime.Inspection{}, Silent: map[string]error{}, Keeper: drivers.WorkspaceDriver(cfg), Reserved: func(runtime.ID) bool { return false },
	}
	if cfg.Pool.Enabled {
		seen.Reserved = pool.Owns
	}
	for _, name := range cfg.Drivers() {
		inspection, err := drivers.Inspect(ctx, cfg, name, pid)
		if errdefs.Is(err, errdefs.Unavailable) {
			seen.Silent[name] = err
			continue
		}
		if err != nil {
			return nil, running, fmt.Errorf("look at the sandboxes of driver %s: %w", name, err)
		}
		seen.Inspection[name] = inspection
	}
	if seen.Blobs, err = listBlobs(ctx, cfg); err != nil {
		return nil, running, fmt.Errorf("look at the archives of snapshots: %w", err)
	}
	if seen.Spool, err = namesIn(cfg.SpoolDir()); err != nil {
		return nil, running, err
	}
	rows, err := readRows(ctx, cfg)
	if err != nil {
		return nil, running, err
	}
	seen.Images, err = checkImages(ctx, cfg, rows.Sessions)
	return fsck.Compare(rows, seen), running, err
}

// listBlobs has the sizes of the snapshots' archives, or nil without snapshots.
func listBlobs(ctx context.Context, cfg config.Config) (map[string]int64, error) {
	if !cfg.Snapshots.Enabled {
		return nil, nil
	}
	if cfg.Snapshots.Store != "s3" { // to open it would make it
		if _, err := os.Stat(cfg.Snapshots.Dir); errors.Is(err, fs.ErrNotExist) {
			return map[string]int64{}, nil
		}
	}
	blobs, err := datadir.OpenBlobs(cfg)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for info, err := range blobs.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		sizes[info.Key] = info.Size
	}
	return sizes, nil
}

// readRows reads the database. Where there is none there are no rows.
func readRows(ctx context.Context, cfg config.Config) (rows fsck.Rows, err error) {
	db, err := store.Look(ctx, cfg.DBPath)
	if errors.Is(err, fs.ErrNotExist) {
		return rows, nil
	}
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows.Exists = true
	if rows.Sessions, err = db.List(ctx, session.ListFilter{Helpers: true}); err != nil {
		return rows, err
	}
	volumes, err := db.AllWorkspaces(ctx)
	if err != nil {
		return rows, err
	}
	for _, w := range volumes {
		rows.Workspaces = append(rows.Workspaces, w.Workspace)
	}
	rows.Snapshots, err = db.AllSnapshots(ctx)
	return rows, err
}

// checkImages says which images of sessions cannot be used, and why.
func checkImages(ctx context.Context, cfg config.Config, sessions []session.Session) (map[string]error, error) {
	bad := map[string]error{}
	if len(sessions) == 0 {
		return bad, nil
	}
	store, err := datadir.OpenImages(cfg, nil)
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		if _, checked := bad[s.ImageDigest]; checked || drivers.OwnImages(s.Driver()) {
			continue
		}
		rootfs, err := store.Rootfs(ctx, s.ImageDigest)
		for _, layer := range rootfs.Layers {
			_, missing := os.Stat(layer)
			err = errors.Join(err, missing)
		}
		bad[s.ImageDigest] = err
	}
	return bad, nil
}

func namesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}
