package maintenance

import (
	"context"
	"sync"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// requireRows refuses to go on where the database is missing, empty or another
// installation's: all that lives would look like garbage. It changes nothing.
func requireRows(ctx context.Context, cfg config.Config) error {
	pid, _, err := dirlock.Holder(cfg.DataDir)
	if err != nil {
		return err
	}
	seen := fsck.Found{Keeper: cfg.Driver, Inspection: map[string]runtime.Inspection{}, Reserved: pool.Owns}
	for _, name := range cfg.Drivers() {
		inspection, err := drivers.Inspect(ctx, cfg, name, pid)
		if errdefs.Is(err, errdefs.Unavailable) {
			continue // of what is away nothing is removed
		}
		if err != nil {
			return err
		}
		seen.Inspection[name] = inspection
	}
	if seen.Blobs, err = listBlobs(ctx, cfg); err != nil {
		return err
	}
	rows, err := readRows(ctx, cfg)
	if err != nil {
		return err
	}
	if why := fsck.Lost(rows, seen); why != "" {
		return fsck.LostError(cfg.DBPath, why)
	}
	return nil
}

// ImagesInUse knows which images the sessions of cfg's daemon have, from its
// database, where a session is before its sandbox. Where the database is lost it
// is an error: all images would look unused.
func ImagesInUse(ctx context.Context, cfg config.Config) images.InUse {
	known := sync.OnceValue(func() error { return requireRows(ctx, cfg) })
	return func(digest string) (sessions []string, err error) {
		if err := known(); err != nil {
			return nil, err
		}
		rows, err := readRows(ctx, cfg)
		for _, s := range rows.Sessions {
			if s.ImageDigest == digest {
				sessions = append(sessions, string(s.ID))
			}
		}
		return sessions, err
	}
}
