package drivers

import (
	"context"
	"log/slog"
	"slices"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/runnerbin"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/docker"
)

var (
	_ runtime.DiskLimiter = (*docker.Driver)(nil)
	_ runtime.ImageLoader = (*docker.Driver)(nil)
	_ runtime.ImageSource = (*docker.Driver)(nil)
)

const dockerName = "docker"

func dockerRow() Row {
	return Row{Name: dockerName, Title: "Docker", Open: openDocker, Uses: dockerUses, LoadsImages: true, Workspaces: true}
}

// openDocker makes a driver that is named by the installation: another daemon's
// containers on the same engine are none of its business.
func openDocker(_ context.Context, cfg config.Config, store *images.Store, log *slog.Logger) (HostDriver, error) {
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
		Defaults: Limits(cfg.Defaults.Limits),
		Runtime:  cfg.Docker.Runtime,
		Userns:   cfg.Docker.Userns,
		Network:  cfg.Docker.Network,
		User:     cfg.Docker.User,
		Memory:   cfg.Docker.Workspace == config.WorkspaceInMemory,
		Tmpfs:    cfg.Docker.Tmpfs,
		Log:      log,
	})
}

// dockerUses does not ask the engine, which may be away.
func dockerUses(cfg config.Config) (string, error) {
	if slices.Contains(cfg.Drivers(), dockerName) {
		return "the Docker engine may have its containers", nil
	}
	return "", nil
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

// InMemory reports whether the sandboxes of a driver lose their files when they stop.
func InMemory(cfg config.Config, driver string) bool {
	return driver == dockerName && cfg.Docker.Workspace == config.WorkspaceInMemory
}
