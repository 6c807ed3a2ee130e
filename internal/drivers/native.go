package drivers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/installation"
	"github.com/sandkasten/sandkasten/internal/runnerbin"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux"
)

var (
	_ runtime.DiskPool = (*linux.Driver)(nil)
	_ runtime.Preparer = (*linux.Driver)(nil)
)

func nativeRow() Row {
	return Row{
		Name: runtime.Native, Title: "native", Open: openNative, Inspect: inspectNative, Uses: nativeUses,
		HostKernel: true, Workspaces: true, MaxSandboxes: linux.MaxSandboxes,
		Mend: "run the daemon outside of chroots and of containers that may not make user namespaces and mounts",
	}
}

func openNative(_ context.Context, cfg config.Config, store *images.Store, log *slog.Logger) (HostDriver, error) {
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
		Defaults: Limits(cfg.Defaults.Limits),
		Durable:  cfg.Sessions.SurviveReboot,
		PoolMB:   cfg.Disk.PoolMB,
		Log:      log,

		ReserveMB: cfg.DiskReserveMB(),
	})
	if err != nil {
		return nil, err
	}
	if err := d.Own(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func inspectNative(cfg config.Config, daemon int) (runtime.Inspection, error) {
	node, err := installation.Read(cfg.NodeFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without one nothing has its name
		return runtime.Inspection{}, err
	}
	return linux.Inspect(linux.Options{DataDir: cfg.DataDir, Node: string(node)}, daemon)
}

// nativeUses counts the sandboxes that run, whatever drivers cfg names.
func nativeUses(cfg config.Config) (string, error) {
	living, err := linux.Living(cfg.DataDir)
	if err != nil || living == 0 {
		return "", err
	}
	return fmt.Sprintf("%d of its sandboxes run", living), nil
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
