// Package datadir opens what is in the data directory of a configuration: for the
// daemon, and for the commands that work beside it or in its place. What is in
// there is the business of those that it opens.
package datadir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/blob/s3"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/images"
)

// Lock makes the data directory and takes it for this process. The caller calls
// release, which may be nil only with an error.
func Lock(cfg config.Config) (release func() error, err error) {
	for _, dir := range []string{cfg.DataDir, cfg.SpoolDir(), filepath.Dir(cfg.DBPath)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make data_dir: %w", err)
		}
	}
	lock, err := dirlock.Acquire(cfg.DataDir)
	if held, ok := errors.AsType[*dirlock.HeldError](err); ok {
		return nil, fmt.Errorf("a daemon (process %d) works on %s already: stop it, or choose another data_dir and listen", held.PID, held.Dir)
	}
	if err != nil {
		return nil, err
	}
	if err := emptyDir(cfg.SpoolDir()); err != nil { // of what a daemon that was killed had not finished
		return nil, errors.Join(err, lock.Release())
	}
	return lock.Release, nil
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}

// OpenImages opens the image store, which a daemon may be using: the `image`
// commands work beside it. Without a log nothing is logged.
func OpenImages(cfg config.Config, log *slog.Logger) (*images.Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return images.Open(images.Options{Dir: cfg.ImageDir(), Allowed: cfg.AllowedImages, Log: log})
}

// OpenBlobs opens where snapshots are kept. It does not ask a server whether it
// is there: the daemon works without.
func OpenBlobs(cfg config.Config) (blob.Store, error) {
	plain, _, err := openPlainBlobs(cfg)
	if err != nil {
		return nil, err
	}
	return encrypted(cfg.Snapshots, plain)
}

// Stores is where the daemon keeps blobs.
type Stores struct {
	Snapshots blob.Store
	Artifacts blob.Store
	Bucket    *s3.Store // that has both as they are; nil if none has, or they are encrypted
}

// OpenStores is OpenBlobs for the daemon. Artifacts go into the bucket of snapshots,
// which is swept with these, or into a directory of their own, which is swept here.
func OpenStores(ctx context.Context, cfg config.Config) (Stores, error) {
	c := cfg.Snapshots
	snapshots, bucket, err := openPlainBlobs(cfg)
	if err != nil {
		return Stores{}, err
	}
	var artifacts blob.Store = bucket
	if bucket == nil {
		if artifacts, err = blob.NewDir(cfg.ArtifactDir(), filepath.Join(cfg.DataDir, "artifacts.place")); err != nil {
			return Stores{}, err
		}
		if err := artifacts.Sweep(ctx); err != nil {
			return Stores{}, err
		}
	}
	stores := Stores{Bucket: bucket}
	if c.Encrypted() {
		stores.Bucket = nil
	}
	if stores.Snapshots, err = encrypted(c, snapshots); err != nil {
		return Stores{}, err
	}
	stores.Artifacts, err = encrypted(c, artifacts)
	return stores, err
}

// encrypted is a store behind the key of the configuration, if that has one.
func encrypted(c config.Snapshots, store blob.Store) (blob.Store, error) {
	if !c.Encrypted() {
		return blob.Plain{Store: store}, nil
	}
	key := c.Key
	if c.KeyFile != "" {
		text, err := os.ReadFile(c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the encryption key: %w", err)
		}
		key = strings.TrimSpace(string(text))
	}
	secret, err := blob.ParseKey(key)
	if err != nil {
		return nil, err
	}
	return blob.NewEncrypted(store, secret)
}

// openPlainBlobs opens a directory, or a bucket, which it returns by itself, too. A
// directory that is there beside a bucket has snapshots of the time before.
func openPlainBlobs(cfg config.Config) (blob.Store, *s3.Store, error) {
	c, record := cfg.Snapshots, filepath.Join(cfg.DataDir, "snapshots.place")
	if c.Store != "s3" {
		dir, err := blob.NewDir(c.Dir, record)
		return dir, nil, err
	}
	bucket, err := s3.New(s3.Options{
		Endpoint: c.S3.Endpoint, CAFile: c.S3.CAFile, Region: c.S3.Region, Bucket: c.S3.Bucket, Prefix: c.S3.Prefix,
		PathStyle: c.S3.PathStyle, AccessKey: c.S3.AccessKey, SecretKey: c.S3.SecretKey, Token: c.S3.Token,
	})
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(c.Dir); err != nil {
		return bucket, bucket, nil //nolint:nilerr // none is there
	}
	older, err := blob.NewDir(c.Dir, record)
	if err != nil {
		return nil, nil, err
	}
	return blob.NewFallback(bucket, older), bucket, nil
}
