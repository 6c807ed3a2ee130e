package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
)

func openImages(cfg config.Config, log *slog.Logger) (*images.Store, error) {
	return images.Open(images.Options{Dir: filepath.Join(cfg.DataDir, "images"), Allowed: cfg.AllowedImages, Log: log})
}

// OpenImages opens the store of cfg's daemon, which may be running: the
// `image` commands work beside it.
func OpenImages(cfg config.Config) (*images.Store, error) {
	return openImages(cfg, slog.New(slog.DiscardHandler))
}

// ImagesInUse knows which images the sessions of cfg's daemon have, from its
// database, where a session is before its sandbox.
func ImagesInUse(ctx context.Context, cfg config.Config) images.InUse {
	return func(digest string) (used bool, err error) {
		if _, err := os.Stat(cfg.DBPath); errors.Is(err, os.ErrNotExist) {
			return false, nil // no daemon has run yet
		}
		rows, err := store.Open(ctx, cfg.DBPath)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		living, err := rows.List(ctx, session.ListFilter{})
		if err != nil {
			return false, err
		}
		for _, s := range living {
			if s.ImageDigest == digest {
				return true, nil
			}
		}
		return false, nil
	}
}
