package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/session"
)

func openImages(cfg config.Config, log *slog.Logger) (*images.Store, error) {
	return images.Open(images.Options{Dir: imageDir(cfg), Allowed: cfg.AllowedImages, Log: log})
}

func imageDir(cfg config.Config) string { return filepath.Join(cfg.DataDir, "images") }

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
	return loadInto(ctx, engine, img, progress)
}

func loadInto(ctx context.Context, engine loader, img images.Image, progress images.ProgressFunc) error {
	return engine.Load(ctx, img.Digest, func(bytes int64) {
		if progress != nil {
			progress(images.Progress{Phase: "load into the engine", Done: min(bytes, img.Size), Total: img.Size})
		}
	})
}

// openLibrary makes what clients do with the images. Its jobs end before the driver
// closes.
func (d *Daemon) openLibrary(ctx context.Context) *jobs.Library {
	ctx = context.WithoutCancel(ctx) // of the start, which ends before
	l := &jobs.Library{Store: d.images, Jobs: jobs.New(ctx, d.log), InUse: ImagesInUse(ctx, d.cfg)}
	d.closers = append(d.closers, l.Jobs.Close)
	if engine, ok := d.driver.(loader); ok {
		l.Stored = func(ctx context.Context, img images.Image, progress images.ProgressFunc) error {
			err := loadInto(ctx, engine, img, progress)
			if errdefs.Is(err, errdefs.Unavailable) {
				d.log.WarnContext(ctx, "the image is stored and not loaded into the engine; its first session does that", "digest", img.Digest, "err", err)
				return nil
			}
			return err
		}
	}
	return l
}

// ImagesInUse knows which images the sessions of cfg's daemon have, from its
// database, where a session is before its sandbox. Where the database is lost it
// is an error: all images would look unused.
func ImagesInUse(ctx context.Context, cfg config.Config) images.InUse {
	known := sync.OnceValue(func() error { return requireRows(ctx, cfg) })
	return func(digest string) (used bool, err error) {
		if err := known(); err != nil {
			return false, err
		}
		rows, err := readRows(ctx, cfg)
		return slices.ContainsFunc(rows.Sessions, func(s session.Session) bool { return s.ImageDigest == digest }), err
	}
}
