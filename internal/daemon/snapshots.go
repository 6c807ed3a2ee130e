package daemon

import (
	"fmt"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

func snapshotOptions(cfg config.Config, rows snapshots.Store) (snapshots.Options, error) {
	c := cfg.Snapshots
	if !c.Enabled {
		return snapshots.Options{}, nil
	}
	blobs, err := datadir.OpenBlobs(c)
	if err != nil {
		return snapshots.Options{}, fmt.Errorf("snapshots: %w", err)
	}
	return snapshots.Options{
		Store:     rows,
		Blobs:     blobs,
		SpoolDir:  cfg.SpoolDir(),
		MaxBytes:  c.MaxMB << 20,
		MaxUnpack: c.MaxUnpackMB << 20,
		MaxFiles:  c.MaxFiles,
		MaxCount:  c.MaxCount,
		Retention: c.Retention,
	}, nil
}
