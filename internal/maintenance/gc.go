package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/fsck"
)

// Garbage is something that nothing needs.
type Garbage struct {
	What  string `json:"what"`
	Where string `json:"where"`
	Bytes int64  `json:"bytes"` // that it takes on the disk
}

// FindGarbage lists what Collect would remove, with archives of no snapshot if
// archives is set: no crash leaves them, so they are lost snapshots or others'. Beside a running daemon that is
// less: what it has in its hands looks the same as what an earlier one left.
func FindGarbage(ctx context.Context, cfg config.Config, archives bool) ([]Garbage, error) {
	if err := requireRows(ctx, cfg); err != nil {
		return nil, err
	}
	_, running, err := dirlock.Holder(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	store, err := datadir.OpenImages(cfg, nil)
	if err != nil {
		return nil, err
	}
	unused, err := store.Garbage(ctx, ImagesNeeded(ctx, cfg))
	if err != nil {
		return nil, err
	}
	var all []Garbage
	for _, g := range unused {
		all = append(all, Garbage{What: g.What, Where: g.Path, Bytes: bytesBelow(g.Path)})
	}
	if archives {
		stray, err := strayArchives(ctx, cfg)
		if err != nil {
			return nil, err
		}
		all = append(all, stray...)
	}
	if running {
		return all, nil
	}
	for what, dir := range map[string]string{"upload": cfg.SpoolDir(), "scratch": filepath.Join(cfg.DataDir, "scratch"), "archive, cut off": cfg.Snapshots.Dir} {
		names, err := namesIn(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if path := filepath.Join(dir, name); dir != cfg.Snapshots.Dir || strings.HasPrefix(name, ".put-") {
				all = append(all, Garbage{What: what, Where: path, Bytes: bytesBelow(path)})
			}
		}
	}
	return all, nil
}

// strayArchives are those of no snapshot. They are listed before the rows are
// read: a row is there before its archive, and goes after it.
func strayArchives(ctx context.Context, cfg config.Config) ([]Garbage, error) {
	sizes, err := listBlobs(ctx, cfg)
	maps.DeleteFunc(sizes, func(key string, _ int64) bool { return !fsck.IsSnapshot(key) })
	if err != nil || len(sizes) == 0 {
		return nil, err
	}
	rows, err := readRows(ctx, cfg)
	if err != nil {
		return nil, err
	}
	found := len(sizes)
	for _, s := range rows.Snapshots {
		delete(sizes, s.Key())
	}
	if len(sizes) == found {
		return nil, fsck.LostError(cfg.DBPath, fmt.Sprintf("the session database names none of the %d archives of snapshots that are there", found))
	}
	var all []Garbage
	for key, size := range sizes {
		all = append(all, Garbage{What: "archive", Where: key, Bytes: size})
	}
	return all, nil
}

// Collect removes what nothing needs, and says what is gone. While no daemon
// runs repair finishes what the last one left: it is the daemon's own start.
func Collect(ctx context.Context, cfg config.Config, archives bool, repair func(context.Context) error) ([]Garbage, error) {
	before, err := FindGarbage(ctx, cfg, archives)
	if err != nil {
		return nil, err
	}
	_, running, err := dirlock.Holder(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	if archives {
		if err := deleteArchives(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if running {
		store, openErr := datadir.OpenImages(cfg, nil)
		if openErr != nil {
			return nil, openErr
		}
		_, err = store.GC(ctx, ImagesNeeded(ctx, cfg))
	} else {
		err = repair(ctx)
	}
	after, listErr := FindGarbage(ctx, cfg, archives)
	gone := slices.DeleteFunc(before, func(g Garbage) bool {
		return slices.ContainsFunc(after, func(a Garbage) bool { return a.Where == g.Where })
	})
	return gone, errors.Join(err, listErr)
}

func deleteArchives(ctx context.Context, cfg config.Config) error {
	stray, err := strayArchives(ctx, cfg)
	if err != nil || len(stray) == 0 {
		return err
	}
	blobs, err := datadir.OpenBlobs(cfg)
	if err != nil {
		return err
	}
	for _, g := range stray {
		if err := blobs.Delete(ctx, g.Where); err != nil {
			return err
		}
	}
	return nil
}

// bytesBelow is what a file or directory takes on the disk, as far as it can be
// read.
func bytesBelow(path string) (total int64) {
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it is only counted
		}
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total += st.Blocks * 512
			}
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return total
}
