package daemon

import (
	"context"
	"errors"
	"fmt"
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

// loader is a driver that has to be brought images before it can use them.
type loader interface {
	Load(ctx context.Context, digest string, progress func(bytes int64)) error
}

// LoadImage brings an image of the store into the Docker engine of cfg's daemon,
// which may be running, so that no session has to wait for that. It does nothing
// if the engine has it. The error is Unavailable if the engine does not answer.
func LoadImage(ctx context.Context, cfg config.Config, img images.Image, progress images.ProgressFunc) (err error) {
	log := slog.New(slog.DiscardHandler)
	imageStore, err := openImages(cfg, log)
	if err != nil {
		return err
	}
	d, err := newNamed(engineDriver, cfg, imageStore, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	engine, ok := d.(loader)
	if !ok {
		return fmt.Errorf("the driver %s is brought no images", engineDriver)
	}
	return engine.Load(ctx, img.Digest, func(bytes int64) {
		progress(images.Progress{Phase: "load into the engine", Done: min(bytes, img.Size), Total: img.Size})
	})
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
