package daemon

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/store"
)

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
				_, err := FindGarbage(t.Context(), cfg, false)
				return err
			},
			"gc": func(t *testing.T, cfg config.Config) error {
				_, err := Collect(t.Context(), cfg, false, Options{Log: silent})
				return err
			},
			"gc --archives": func(t *testing.T, cfg config.Config) error {
				_, err := Collect(t.Context(), cfg, true, Options{Log: silent})
				return err
			},
			"fsck --repair": func(t *testing.T, cfg config.Config) error { return Repair(t.Context(), cfg, Options{Log: silent}) },
			"backup": func(t *testing.T, cfg config.Config) error {
				err := Backup(t.Context(), cfg, "", filepath.Join(t.TempDir(), "b"))
				if errors.Is(err, fs.ErrNotExist) {
					return errors.New("recover") // there is nothing to advise
				}
				return err
			},
			"image rm": func(t *testing.T, cfg config.Config) error {
				_, err := ImagesInUse(t.Context(), cfg)("sha256:a")
				return err
			},
			"image rm, alone": func(t *testing.T, cfg config.Config) error {
				if err := os.RemoveAll(filepath.Join(cfg.DataDir, "sandboxes")); err != nil {
					return err
				}
				_, err := ImagesInUse(t.Context(), cfg)("sha256:a")
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

// An archive without a row is a lost snapshot or another daemon's: it goes when
// that is asked for, and only from a database that knows some.
func TestArchivesAreKeptUnlessAskedFor(t *testing.T) {
	cfg := testConfig(t)
	cfg.Snapshots.Enabled = true
	if err := os.MkdirAll(cfg.Snapshots.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(cfg.Snapshots.Dir, lostArchive)
	write(t, stray, "an archive")
	addSession(t, cfg, "first")
	if all, err := FindGarbage(t.Context(), cfg, false); len(all) > 0 || err != nil {
		t.Errorf("garbage is %v, %v", all, err)
	}
	if _, err := FindGarbage(t.Context(), cfg, true); err == nil || !strings.Contains(err.Error(), "none of the 1 archives") {
		t.Errorf("with archives, of which none is known: %v", err)
	}
	own := strings.Repeat("b", len(lostArchive))
	write(t, filepath.Join(cfg.Snapshots.Dir, own), "an archive")
	rows, err := store.Open(t.Context(), cfg.DBPath)
	if err != nil {
		t.Fatal(err)
	}
	err = rows.AddSnapshot(t.Context(), snapshots.Snapshot{ID: own, Owner: "o", CreatedAt: time.Now()}, 0)
	if err := errors.Join(err, rows.Close()); err != nil {
		t.Fatal(err)
	}
	all, err := FindGarbage(t.Context(), cfg, true)
	if err != nil || len(all) != 1 || all[0].Where != lostArchive {
		t.Errorf("garbage is %v, %v", all, err)
	}
	if err := deleteArchives(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(cfg.Snapshots.Dir); len(left) != 1 || left[0].Name() != own || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}
