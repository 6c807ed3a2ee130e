package daemon

import (
	"fmt"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/session"
)

func snapshotOptions(cfg config.Config, rows session.SnapshotStore) (session.SnapshotOptions, error) {
	c := cfg.Snapshots
	if !c.Enabled {
		return session.SnapshotOptions{}, nil
	}
	blobs, err := datadir.OpenBlobs(c)
	if err != nil {
		return session.SnapshotOptions{}, fmt.Errorf("snapshots: %w", err)
	}
	return session.SnapshotOptions{
		Store:     rows,
		Blobs:     blobs,
		SpoolDir:  cfg.SpoolDir(),
		MaxBytes:  c.MaxMB << 20,
		MaxUnpack: c.MaxUnpackMB << 20,
		MaxFiles:  c.MaxFiles,
		MaxCount:  c.MaxCount,
		MaxTotal:  c.MaxTotalMB << 20,
		Retention: c.Retention,
	}, nil
}
