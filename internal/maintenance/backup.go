package maintenance

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/durable"
	"github.com/sandkasten/sandkasten/internal/installation"
	"github.com/sandkasten/sandkasten/internal/store"
)

// A backup is a tar file of what the daemon cannot find out again by itself: the
// database, its secrets and its configuration. What sandboxes, workspaces,
// images and snapshots hold is not in it.
const (
	backupManifest = "backup.json" // first
	backupDB       = "sandkasten.db"
	backupConfig   = "sandkasten.yaml"
	backupFormat   = 1
	maxBackupFile  = 8 << 30 // of one file in it
)

// BackupManifest says what a backup is of.
type BackupManifest struct {
	Format    int       `json:"format"`
	DataDir   string    `json:"data_dir"`
	CreatedAt time.Time `json:"created_at"`
}

// secrets are the small files that a backup has, by their names in it. The keys
// that snapshots and stored secrets are encrypted with are where the configuration
// says.
func secrets(cfg config.Config) map[string]string {
	files := map[string]string{
		"api_key": cfg.KeyFile(), "preview_secret": cfg.PreviewSecretFile(), "node": cfg.NodeFile(), "secrets_key": cfg.SecretsKeyFile(),
	}
	if cfg.Snapshots.KeyFile != "" {
		files["snapshot_key"] = cfg.Snapshots.KeyFile
	}
	return files
}

// Backup writes a backup of cfg's daemon, which may be running, to path, for the
// owner's eyes only: whole or not at all. configPath may be empty.
func Backup(ctx context.Context, cfg config.Config, configPath, path string) (err error) {
	scratch, err := os.MkdirTemp(filepath.Dir(path), ".backup-")
	if err != nil {
		return fmt.Errorf("make a backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	db := filepath.Join(scratch, backupDB)
	if err := store.Copy(ctx, cfg.DBPath, db); err != nil {
		return err
	}
	manifest, err := json.Marshal(BackupManifest{Format: backupFormat, DataDir: cfg.DataDir, CreatedAt: time.Now().UTC()})
	if err != nil {
		return err
	}
	made := filepath.Join(scratch, "backup.tar")
	f, err := os.OpenFile(made, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make a backup: %w", err)
	}
	out := tar.NewWriter(f)
	err = addBytes(out, backupManifest, manifest)
	files := secrets(cfg)
	files[backupDB], files[backupConfig] = db, configPath
	for _, name := range []string{backupDB, "api_key", "preview_secret", "node", "secrets_key", "snapshot_key", backupConfig} {
		if files[name] != "" && err == nil {
			err = addFile(out, name, files[name])
		}
	}
	if err = errors.Join(err, out.Close(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("make a backup: %w", err)
	}
	if err := os.Rename(made, path); err != nil {
		return err
	}
	return durable.Sync(filepath.Dir(path))
}

func addBytes(out *tar.Writer, name string, text []byte) error {
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: time.Now()}); err != nil {
		return err
	}
	_, err := out.Write(text)
	return err
}

// addFile adds a file, if it is there.
func addFile(out *tar.Writer, name, path string) (err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return err
}

// Restored says what Restore has done.
type Restored struct {
	Manifest BackupManifest
	Files    []string // written
	Aside    []string // what was there before, under a new name
	Skipped  []string // in the backup, and not written: somebody has another one
}

// Restore puts the files of a backup where cfg says. No daemon may be running.
// What is there is kept under a name that ends with .before-TIME, but for the key
// of snapshots, which is not replaced. A backup that cannot be used changes
// nothing.
func Restore(ctx context.Context, cfg config.Config, path string) (done Restored, err error) {
	release, err := datadir.Lock(cfg)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, release()) }()
	scratch, err := os.MkdirTemp(cfg.DataDir, ".restore-")
	if err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if done.Manifest, err = unpackBackup(path, scratch); err != nil {
		return done, fmt.Errorf("%s is no backup that can be used: %w", path, err)
	}
	rows, err := store.Open(ctx, filepath.Join(scratch, backupDB)) // proves it, and brings it up to date
	if err != nil {
		return done, err
	}
	if err := rows.Close(); err != nil {
		return done, err
	}
	suffix := ".before-" + time.Now().UTC().Format("20060102T150405Z")
	targets := secrets(cfg)
	targets[backupDB] = cfg.DBPath
	for _, left := range []string{cfg.DBPath + "-wal", cfg.DBPath + "-shm"} { // of the database that goes
		if err := setAside(left, suffix, &done); err != nil {
			return done, err
		}
	}
	// Whoever restores says that this is the installation now.
	if err := os.Remove(installation.PlaceFile(cfg.NodeFile())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, fmt.Errorf("restore: %w", err)
	}
	for _, name := range []string{"api_key", "preview_secret", "node", "secrets_key", "snapshot_key", backupDB} {
		if err := putBack(filepath.Join(scratch, name), targets[name], suffix, &done); err != nil {
			return done, err
		}
	}
	for _, path := range slices.Concat(done.Files, done.Aside) {
		if err := durable.Sync(filepath.Dir(path)); err != nil {
			return done, fmt.Errorf("restore: %w", err)
		}
	}
	return done, nil
}

// putBack moves one file to where it belongs.
func putBack(from, to, suffix string, done *Restored) error {
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) || to == "" {
		return nil
	}
	if filepath.Base(from) == "snapshot_key" {
		if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
			done.Skipped = append(done.Skipped, to)
			return nil
		}
	}
	// The key of secrets may lie where nothing can be renamed, as a mount does.
	if filepath.Base(from) == "secrets_key" && sameText(from, to) {
		return nil
	}
	if err := setAside(to, suffix, done); err != nil {
		return err
	}
	if err := moveFile(from, to); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	done.Files = append(done.Files, to)
	return nil
}

// sameText reports whether two small files have the same content.
func sameText(a, b string) bool {
	first, err := os.ReadFile(a)
	second, otherErr := os.ReadFile(b)
	return err == nil && otherErr == nil && bytes.Equal(first, second)
}

// moveFile moves a file to a name that is free, on another file system too.
func moveFile(from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = writeFile(to, f, info.Size(), maxBackupFile)
	}
	return errors.Join(err, f.Close())
}

func setAside(path, suffix string, done *Restored) error {
	err := os.Rename(path, path+suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		done.Aside = append(done.Aside, path+suffix)
	}
	return err
}

// unpackBackup writes the files of a backup, under names that a backup has, to
// a directory.
func unpackBackup(path, dir string) (m BackupManifest, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	archive, err := f.Stat()
	if err != nil {
		return m, err
	}
	most := min(maxBackupFile, archive.Size()) // it is not compressed, and has no holes
	in := tar.NewReader(f)
	for first := true; ; first = false {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return m, err
		}
		if first {
			if h.Name != backupManifest {
				return m, fmt.Errorf("it begins with %q", h.Name)
			}
			if err := json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&m); err != nil {
				return m, err
			}
			if m.Format != backupFormat {
				return m, fmt.Errorf("its format is %d, and this version knows %d", m.Format, backupFormat)
			}
			continue
		}
		switch h.Name {
		case backupDB, "api_key", "preview_secret", "node", "secrets_key", "snapshot_key":
			if err := writeFile(filepath.Join(dir, h.Name), in, h.Size, most); err != nil {
				return m, err
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, backupDB)); err != nil {
		return m, errors.New("it has no database")
	}
	return m, nil
}

func writeFile(path string, r io.Reader, size, most int64) error {
	if size > most {
		return fmt.Errorf("%s has %d bytes, more than %d", filepath.Base(path), size, most)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, r, size)
	return errors.Join(err, f.Sync(), f.Close())
}
