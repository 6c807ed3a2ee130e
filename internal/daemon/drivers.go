package daemon

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/runnerbin"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/docker"
	"github.com/sandkasten/sandkasten/internal/runtime/linux"
	"github.com/sandkasten/sandkasten/internal/runtime/several"
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
	all.Driver = several.New(made, cfg.Driver)
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
	*several.Driver

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
	return linux.New(linux.Options{
		DataDir:  cfg.DataDir,
		Runner:   runner,
		Images:   nativeImages{store},
		Defaults: limits(cfg.Defaults.Limits),
		Durable:  cfg.Sessions.SurviveReboot,
		PoolMB:   cfg.Disk.PoolMB,
		Log:      log,

		ReserveMB: diskReserveMB(cfg),
	})
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

// dockerEngine is named by a secret of the data directory's own: another
// daemon's containers on the same engine are none of its business.
func dockerEngine(cfg config.Config, store *images.Store, log *slog.Logger) (hostDriver, error) {
	runner, err := runnerbin.Bytes()
	if err != nil {
		return nil, err
	}
	node, _, err := auth.KeyFile(cfg.NodeFile())
	if err != nil {
		return nil, err
	}
	name := auth.HashKey(node)
	return docker.New(docker.Options{
		Host:     cfg.Docker.Host,
		CertPath: cfg.Docker.CertPath,
		Node:     hex.EncodeToString(name[:6]),
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
