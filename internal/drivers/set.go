package drivers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/multidriver"
)

// Set is the drivers of a daemon.
type Set struct {
	// Driver is what sessions, pool and reaper see: the one that there is, or one
	// that is made of all.
	Driver runtime.Driver

	Parts []Part // in the order of the configuration

	WorkspaceDriver string // which of them keeps the workspaces; "" if none can
}

// Part is one driver of a Set.
type Part struct {
	Row

	Driver HostDriver
}

// How long what is not on this host may take before the start goes on without it.
const (
	openTime    = 30 * time.Second
	sweepTime   = 30 * time.Second
	inspectTime = time.Minute
)

// Open makes the drivers that cfg wants, which are of the table or of more. The caller
// closes them.
func Open(ctx context.Context, cfg config.Config, store *images.Store, log *slog.Logger, more ...Row) (*Set, error) {
	rows, err := rowsOf(cfg, more...)
	if err != nil {
		return nil, err
	}
	set := &Set{WorkspaceDriver: WorkspaceDriver(cfg, more...)}
	made := map[string]runtime.Driver{}
	for _, row := range rows {
		d, err := row.open(ctx, cfg, store, log)
		if err != nil {
			return nil, errors.Join(err, set.Close())
		}
		set.Parts, made[row.Name] = append(set.Parts, Part{row, d}), d
	}
	set.Driver = set.Parts[0].Driver
	if len(set.Parts) > 1 {
		set.Driver = multidriver.New(made, set.WorkspaceDriver)
	}
	return set, nil
}

func (r Row) open(ctx context.Context, cfg config.Config, store *images.Store, log *slog.Logger) (HostDriver, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	d, err := r.Open(ctx, cfg, store, log.With("driver", r.Name))
	if err != nil {
		return nil, fmt.Errorf("prepare the driver %s: %w", r.Name, err)
	}
	return d, nil
}

// openQuietly opens a driver for a command that may run beside the daemon.
func (r Row) openQuietly(ctx context.Context, cfg config.Config) (HostDriver, error) {
	log := slog.New(slog.DiscardHandler)
	store, err := datadir.OpenImages(cfg, log)
	if err != nil {
		return nil, err
	}
	return r.open(ctx, cfg, store, log)
}

// Sweep removes what an earlier process left; see HostDriver.
func (s *Set) Sweep(ctx context.Context) error {
	errs := make([]error, len(s.Parts))
	var all sync.WaitGroup
	for i, part := range s.Parts {
		all.Go(func() { errs[i] = part.sweep(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// sweep is Sweep of one, which holds up the sessions of all.
func (p Part) sweep(ctx context.Context) error {
	if !p.HostKernel {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sweepTime)
		defer cancel()
	}
	if err := p.Driver.Sweep(ctx); err != nil {
		return fmt.Errorf("driver %s: %w", p.Name, err)
	}
	return nil
}

// Close closes all.
func (s *Set) Close() error {
	var errs []error
	for _, part := range s.Parts {
		errs = append(errs, part.Driver.Close())
	}
	return errors.Join(errs...)
}

// Able yields those of a Set that have an optional part of the contract, by their
// names.
func Able[T any](s *Set) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, part := range s.Parts {
			if t, ok := part.Driver.(T); ok && !yield(part.Name, t) {
				return
			}
		}
	}
}

// DiskLimited reports whether a limit of the disk holds for a sandbox of that
// driver. What has no driver is refused for that.
func (s *Set) DiskLimited(name string, readonlyRoot bool) bool {
	for limiter, d := range Able[runtime.DiskLimiter](s) {
		if limiter == name {
			return d.LimitsDisk(readonlyRoot)
		}
	}
	return true
}

// Elsewhere returns the driver of that name if its sandboxes do not run on this host,
// and nil otherwise.
func (s *Set) Elsewhere(name string) runtime.Remote {
	for remote, d := range Able[runtime.Remote](s) {
		if remote == name && d.Remote() {
			return d
		}
	}
	return nil
}

// IsElsewhere reports whether the sandboxes of the driver of that name do not run on
// this host.
func (s *Set) IsElsewhere(name string) bool { return s.Elsewhere(name) != nil }

// EngineNetwork is the network of an engine that a driver gives its sandboxes, or "".
func (s *Set) EngineNetwork(name string) string {
	for networker, d := range Able[runtime.EngineNetworker](s) {
		if networker == name {
			return d.EngineNetwork()
		}
	}
	return ""
}

// PoolDir is where disks are that are not in the data directory, or "".
func (s *Set) PoolDir() string {
	for _, d := range Able[runtime.DiskPool](s) {
		if dir := d.PoolDir(); dir != "" {
			return dir
		}
	}
	return ""
}

// Inspect is what there is of one driver's sandboxes, beside the daemon of that
// process, or 0. The error is Unavailable if the driver does not answer in time.
func Inspect(ctx context.Context, cfg config.Config, name string, daemon int, more ...Row) (seen runtime.Inspection, err error) {
	row, err := Find(name, more...)
	if err != nil {
		return seen, err
	}
	if row.Inspect != nil {
		return row.Inspect(cfg, daemon)
	}
	if _, err := os.Stat(cfg.NodeFile()); errors.Is(err, fs.ErrNotExist) {
		return seen, nil // it has never run, and nothing has its name
	}
	err = runtime.InTime(ctx, inspectTime, func(ctx context.Context) (err error) {
		seen, err = row.inspect(ctx, cfg)
		return err
	}, "the driver %s does not answer", name)
	return seen, err
}

// inspect opens the driver for what it sees.
func (r Row) inspect(ctx context.Context, cfg config.Config) (seen runtime.Inspection, err error) {
	d, err := r.openQuietly(ctx, cfg)
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	all, err := runtime.Survey(ctx, d)
	if err != nil {
		return seen, err
	}
	seen.Sandboxes = all.Sandboxes
	keeper, ok := d.(runtime.WorkspaceKeeper)
	if !ok {
		return seen, nil
	}
	seen.Workspaces = map[runtime.WorkspaceID]bool{}
	for id, err := range keeper.Workspaces(ctx) {
		if err != nil {
			return seen, err
		}
		seen.Workspaces[id] = true
	}
	return seen, nil
}

// InspectHost is what this host has of sandboxes whose drivers need not be opened
// for that, whatever drivers cfg names. No daemon may be running.
func InspectHost(cfg config.Config) (map[string]runtime.Inspection, error) {
	all := map[string]runtime.Inspection{}
	for _, row := range table() {
		if row.Inspect == nil {
			continue
		}
		seen, err := row.Inspect(cfg, 0)
		if err != nil {
			return nil, err
		}
		all[row.Name] = seen
	}
	return all, nil
}

// LoadImage brings an image of the store to the drivers of cfg's daemon that have
// to be brought images. The daemon may be running. The error is Unavailable if one
// does not answer.
func LoadImage(ctx context.Context, cfg config.Config, img images.Image, progress images.ProgressFunc) error {
	rows, err := rowsOf(cfg)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if !row.LoadsImages {
			continue
		}
		d, err := row.openQuietly(ctx, cfg)
		if err != nil {
			return err
		}
		loader, ok := d.(runtime.ImageLoader)
		if !ok {
			return errors.Join(fmt.Errorf("the driver %s is brought no images", row.Name), d.Close())
		}
		if err := errors.Join(Load(ctx, loader, img, progress), d.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Load brings an image to one driver. Progress may be nil.
func Load(ctx context.Context, loader runtime.ImageLoader, img images.Image, progress images.ProgressFunc) error {
	return loader.Load(ctx, img.Digest, func(bytes int64) {
		if progress != nil {
			progress(images.Progress{Phase: "load into the engine", Done: min(bytes, img.Size), Total: img.Size})
		}
	})
}
