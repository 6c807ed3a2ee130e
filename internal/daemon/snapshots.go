package daemon

import (
	"fmt"
	"os"
	"strings"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/blob/s3"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

func snapshotOptions(cfg config.Config, rows snapshots.Store) (snapshots.Options, error) {
	c := cfg.Snapshots
	if !c.Enabled {
		return snapshots.Options{}, nil
	}
	blobs, err := openBlobs(c)
	if err != nil {
		return snapshots.Options{}, fmt.Errorf("snapshots: %w", err)
	}
	return snapshots.Options{
		Store:     rows,
		Blobs:     blobs,
		SpoolDir:  spool(cfg),
		MaxBytes:  c.MaxMB << 20,
		MaxUnpack: c.MaxUnpackMB << 20,
		MaxFiles:  c.MaxFiles,
		MaxCount:  c.MaxCount,
		Retention: c.Retention,
	}, nil
}

// openBlobs opens where snapshots are kept. It does not ask a server whether it
// is there: the daemon works without.
func openBlobs(c config.Snapshots) (blob.Store, error) {
	store, err := openStore(c)
	if err != nil {
		return nil, err
	}
	key := c.Key
	if c.KeyFile != "" {
		text, err := os.ReadFile(c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the encryption key: %w", err)
		}
		key = strings.TrimSpace(string(text))
	}
	if key == "" {
		return store, nil
	}
	secret, err := blob.ParseKey(key)
	if err != nil {
		return nil, err
	}
	return blob.NewEncrypted(store, secret)
}

func openStore(c config.Snapshots) (blob.Store, error) {
	if c.Store != "s3" {
		return blob.NewDir(c.Dir)
	}
	return s3.New(s3.Options{
		Endpoint: c.S3.Endpoint, CAFile: c.S3.CAFile, Region: c.S3.Region, Bucket: c.S3.Bucket, Prefix: c.S3.Prefix,
		PathStyle: c.S3.PathStyle, AccessKey: c.S3.AccessKey, SecretKey: c.S3.SecretKey,
	})
}
