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
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

// requireRows refuses to go on where the database is missing, empty or another
// installation's: all that lives would look like garbage. It changes nothing.
func requireRows(ctx context.Context, cfg config.Config, more ...drivers.Row) error {
	pid, _, err := dirlock.Holder(cfg.DataDir)
	if err != nil {
		return err
	}
	seen := fsck.Found{Keeper: drivers.WorkspaceDriver(cfg, more...), Inspection: map[string]runtime.Inspection{}, Reserved: pool.Owns}
	for _, name := range cfg.Drivers() {
		inspection, err := drivers.Inspect(ctx, cfg, name, pid, more...)
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
// is an error: all images would look unused. More are drivers that the table has not.
func ImagesInUse(ctx context.Context, cfg config.Config, more ...drivers.Row) images.InUse {
	known := sync.OnceValue(func() error { return requireRows(ctx, cfg, more...) })
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

// ImagesNeeded is ImagesInUse, with the images that changes to a root in snapshots lie on: a
// build that moves a name to another image leaves those snapshots theirs. To remove such an
// image by its name stays an operator's right.
func ImagesNeeded(ctx context.Context, cfg config.Config, more ...drivers.Row) images.InUse {
	inUse := ImagesInUse(ctx, cfg, more...)
	return func(digest string) (users []string, err error) {
		if users, err = inUse(digest); len(users) > 0 || err != nil {
			return users, err
		}
		rows, err := readRows(ctx, cfg)
		for _, s := range rows.Snapshots {
			if _, changed := s.Manifest.Part(snapshot.Root); changed && s.Manifest.ImageDigest == digest {
				users = append(users, s.ID)
			}
		}
		return users, err
	}
}
