package daemon

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/maintenance"
)

// repairer is what gc does while no daemon runs.
func repairer(cfg config.Config) func(context.Context) error {
	return func(ctx context.Context) error { return Repair(ctx, cfg, Options{Log: silent}) }
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const lostArchive = "abcdefghijklmnopqrstuvwxyz"

// withThings is a data directory that has an archive and a sandbox's directory.
func withThings(t *testing.T) config.Config {
	t.Helper()
	cfg := testConfig(t)
	cfg.Snapshots.Enabled = true
	for _, dir := range []string{cfg.Snapshots.Dir, filepath.Join(cfg.DataDir, "sandboxes", "kept")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(cfg.Snapshots.Dir, lostArchive), "an archive")
	return cfg
}

// Whatever has happened to the database, maintenance removes nothing of what it
// does not know, and says how rows come back.
func TestMaintenanceWithoutItsDatabase(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"missing": func(*testing.T, string) {},
		"empty":   func(t *testing.T, path string) { write(t, path, "") },
		"foreign": func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), "CREATE TABLE songs (id)"); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"damaged": func(t *testing.T, path string) { write(t, path, strings.Repeat("nonsense", 1000)) },
	} {
		for command, run := range map[string]func(t *testing.T, cfg config.Config) error{
			"gc --dry-run": func(t *testing.T, cfg config.Config) error {
				_, err := maintenance.FindGarbage(t.Context(), cfg, false)
				return err
			},
			"gc": func(t *testing.T, cfg config.Config) error {
				_, err := maintenance.Collect(t.Context(), cfg, false, repairer(cfg))
				return err
			},
			"gc --archives": func(t *testing.T, cfg config.Config) error {
				_, err := maintenance.Collect(t.Context(), cfg, true, repairer(cfg))
				return err
			},
			"fsck --repair": func(t *testing.T, cfg config.Config) error { return Repair(t.Context(), cfg, Options{Log: silent}) },
			"backup": func(t *testing.T, cfg config.Config) error {
				err := maintenance.Backup(t.Context(), cfg, "", filepath.Join(t.TempDir(), "b"))
				if errors.Is(err, fs.ErrNotExist) {
					return errors.New("recover") // there is nothing to advise
				}
				return err
			},
			"image rm": func(t *testing.T, cfg config.Config) error {
				_, err := maintenance.ImagesInUse(t.Context(), cfg)("sha256:a")
				return err
			},
			"image rm, alone": func(t *testing.T, cfg config.Config) error {
				if err := os.RemoveAll(filepath.Join(cfg.DataDir, "sandboxes")); err != nil {
					return err
				}
				_, err := maintenance.ImagesInUse(t.Context(), cfg)("sha256:a")
				return err
			},
		} {
			t.Run(name+"/"+command, func(t *testing.T) {
				cfg := withThings(t)
				spoil(t, cfg.DBPath)
				err := run(t, cfg)
				if err == nil || !strings.Contains(err.Error(), "recover") {
					t.Errorf("%v; want it refused, with the advice to recover", err)
				}
				if _, err := os.Stat(filepath.Join(cfg.Snapshots.Dir, lostArchive)); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(filepath.Join(cfg.DataDir, "sandboxes", "kept")); err != nil && command != "image rm, alone" {
					t.Error(err)
				}
				if _, err := os.Stat(cfg.DBPath); name == "missing" && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a database was made: %v", err)
				}
			})
		}
	}
}

func TestRepairBesideADaemon(t *testing.T) {
	cfg := testConfig(t)
	if err := os.Mkdir(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := dirlock.Acquire(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Repair(t.Context(), cfg, Options{Log: silent}); err == nil || !strings.Contains(err.Error(), "works on") {
		t.Errorf("repair beside a daemon: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}
