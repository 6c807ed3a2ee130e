package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/installation"
	"github.com/sandkasten/sandkasten/internal/runnerbin"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/docker"
	"github.com/sandkasten/sandkasten/internal/runtime/linux"
	"github.com/sandkasten/sandkasten/internal/runtime/multidriver"
)

// hostDriver is a driver with what belongs to a process rather than to a
// sandbox.
type hostDriver interface {
	runtime.Driver

	// Sweep removes what an earlier process left and no sandbox owns. It is
	// called once, before anything is created.
	Sweep(ctx context.Context) error

	// Close lets go of what this process holds. Sandboxes live on.
	Close() error
}

// drivers is the list of what can make sandboxes, by its name in the
// configuration.
var drivers = map[string]func(config.Config, *images.Store, *slog.Logger) (hostDriver, error){
	runtime.Native: native,
	engineDriver:   dockerEngine,
}

// engineDriver is the name of the driver of a Docker engine.
const engineDriver = "docker"

// diskLimiter is a hostDriver that cannot bound what every sandbox writes.
type diskLimiter interface {
	LimitsDisk(readonlyRoot bool) bool
}

// diskLimited asks the drivers that d is made of, which have those names.
func diskLimited(d hostDriver, names []string) func(driver string, readonlyRoot bool) bool {
	parts := []hostDriver{d}
	if all, ok := d.(hostDrivers); ok {
		parts = all.parts
	}
	return func(driver string, readonlyRoot bool) bool {
		i := slices.Index(names, driver)
		if i < 0 {
			return true // what has no driver is refused for that
		}
		l, ok := parts[i].(diskLimiter)
		return !ok || l.LimitsDisk(readonlyRoot)
	}
}

// newDriver makes the driver of all that cfg wants.
func newDriver(cfg config.Config, store *images.Store, log *slog.Logger) (hostDriver, error) {
	if len(cfg.ExtraDrivers) == 0 {
		return newNamed(cfg.Driver, cfg, store, log)
	}
	all := hostDrivers{}
	made := map[string]runtime.Driver{}
	for _, name := range cfg.Drivers() {
		d, err := newNamed(name, cfg, store, log)
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all.parts, made[name] = append(all.parts, d), d
	}
	all.Driver = multidriver.New(made, cfg.Driver)
	return all, nil
}

func newNamed(name string, cfg config.Config, store *images.Store, log *slog.Logger) (hostDriver, error) {
	construct, ok := drivers[name]
	if !ok {
		return nil, fmt.Errorf("no driver %q: there is %s", name, strings.Join(slices.Sorted(maps.Keys(drivers)), ", "))
	}
	d, err := construct(cfg, store, log.With("driver", name))
	if err != nil {
		return nil, fmt.Errorf("prepare the driver %s: %w", name, err)
	}
	return d, nil
}

// hostDrivers is a hostDriver made of several.
type hostDrivers struct {
	*multidriver.Driver

	parts []hostDriver
}

// Sweep implements hostDriver.
func (d hostDrivers) Sweep(ctx context.Context) error {
	var errs []error
	for _, part := range d.parts {
		errs = append(errs, part.Sweep(ctx))
	}
	return errors.Join(errs...)
}

// Close implements hostDriver.
func (d hostDrivers) Close() error {
	var errs []error
	for _, part := range d.parts {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}

func native(cfg config.Config, store *images.Store, log *slog.Logger) (hostDriver, error) {
	runner, err := runnerbin.Bytes()
	if err != nil {
		return nil, err
	}
	node, err := identify(cfg, log)
	if err != nil {
		return nil, err
	}
	d, err := linux.New(linux.Options{
		DataDir:  cfg.DataDir,
		Node:     string(node),
		Runner:   runner,
		Images:   nativeImages{store},
		Defaults: limits(cfg.Defaults.Limits),
		Durable:  cfg.Sessions.SurviveReboot,
		PoolMB:   cfg.Disk.PoolMB,
		Log:      log,

		ReserveMB: diskReserveMB(cfg),
	})
	if err != nil {
		return nil, err
	}
	if err := d.Own(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// poolDir is where a driver has disks that are not in data_dir, or "".
func poolDir(driver hostDriver) string {
	switch d := driver.(type) {
	case *linux.Driver:
		return d.PoolDir()
	case hostDrivers:
		for _, part := range d.parts {
			if dir := poolDir(part); dir != "" {
				return dir
			}
		}
	}
	return ""
}

// identify returns what names all that the daemon has beside its data directory.
func identify(cfg config.Config, log *slog.Logger) (installation.ID, error) {
	bootID, err := linux.BootID()
	if err != nil {
		return "", err
	}
	id, copied, err := installation.Open(cfg.NodeFile(), bootID, func() (string, error) { return hostUses(cfg) })
	if copied {
		log.Warn("data_dir is a copy of another one: this installation has a new identity", "installation", id)
	}
	return id, err
}

// hostUses has words for what the host may have of the data directory that this one
// is a copy of.
func hostUses(cfg config.Config) (string, error) {
	living, err := linux.Living(cfg.DataDir)
	switch {
	case err != nil:
		return "", err
	case living > 0:
		return fmt.Sprintf("%d of its sandboxes run", living), nil
	case slices.Contains(cfg.Drivers(), engineDriver):
		return "the Docker engine may have its containers", nil
	}
	return "", nil
}

// dockerEngine is named by the installation: another daemon's containers on the
// same engine are none of its business.
func dockerEngine(cfg config.Config, store *images.Store, log *slog.Logger) (hostDriver, error) {
	runner, err := runnerbin.Bytes()
	if err != nil {
		return nil, err
	}
	node, err := identify(cfg, log)
	if err != nil {
		return nil, err
	}
	return docker.New(docker.Options{
		Host:     cfg.Docker.Host,
		CertPath: cfg.Docker.CertPath,
		Node:     string(node),
		Runner:   runner,
		Images:   dockerImages{store},
		Defaults: limits(cfg.Defaults.Limits),
		Runtime:  cfg.Docker.Runtime,
		Userns:   cfg.Docker.Userns,
		User:     cfg.Docker.User,
		Log:      log,
	})
}

// dockerImages gives the driver what it loads into the engine.
type dockerImages struct{ store *images.Store }

func (n dockerImages) Rootfs(ctx context.Context, digest string) (docker.Rootfs, error) {
	r, err := n.store.Rootfs(ctx, digest)
	if err != nil {
		return docker.Rootfs{}, err
	}
	return docker.Rootfs{Layers: r.Layers, Env: r.Env, Shell: r.Shell, User: r.User}, nil
}

// nativeImages gives the driver the part of an image that it mounts.
type nativeImages struct{ store *images.Store }

func (n nativeImages) Rootfs(ctx context.Context, digest string) (linux.Rootfs, error) {
	r, err := n.store.Rootfs(ctx, digest)
	if err != nil {
		return linux.Rootfs{}, err
	}
	return linux.Rootfs{Layers: r.Layers, Env: r.Env, Shell: r.Shell}, nil
}

func limits(l config.Limits) runtime.Limits {
	return runtime.Limits{CPU: l.CPU, MemoryMB: l.MemoryMB, Pids: l.Pids, DiskMB: l.DiskMB}
}
