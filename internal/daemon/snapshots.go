package daemon

import (
	"context"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// openStores opens where snapshots and artifacts are kept. Without snapshots there are
// neither.
func openStores(ctx context.Context, cfg config.Config) (stores datadir.Stores, err error) {
	if !cfg.Snapshots.Enabled {
		return stores, nil
	}
	if !cfg.Orchestrator.Enabled {
		stores.Snapshots, err = datadir.OpenBlobs(cfg)
	} else {
		stores, err = datadir.OpenStores(ctx, cfg)
	}
	if err != nil {
		return stores, fmt.Errorf("snapshots: %w", err)
	}
	return stores, nil
}

func snapshotOptions(cfg config.Config, rows snapshots.Store, blobs snapshots.Blobs) snapshots.Options {
	c := cfg.Snapshots
	if !c.Enabled {
		return snapshots.Options{}
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
	}
}
