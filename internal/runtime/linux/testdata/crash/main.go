// Command crash makes a workspace and a sandbox with it, forks, stops and starts
// the sandbox, claims another one for the workspace, and destroys all. Built
// with the tag failpoint it dies where SANDKASTEN_FAILPOINT says, as a daemon
// may die at any line.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux"
	"github.com/sandkasten/sandkasten/protocol"
)

type images string

func (dir images) Rootfs(context.Context, string) (linux.Rootfs, error) {
	return linux.Rootfs{Layers: []string{string(dir)}, Shell: "/bin/bash"}, nil
}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dataDir, runDir, runner, rootfs, poolMB string) error {
	pool, err := strconv.ParseInt(poolMB, 10, 64)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(runner)
	if err != nil {
		return err
	}
	d, err := linux.New(linux.Options{DataDir: dataDir, LeaseDir: runDir, Runner: program, Images: images(rootfs), PoolMB: pool})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := d.CreateWorkspace(ctx, "kept", 64); err != nil && !errdefs.Is(err, errdefs.AlreadyExists) {
		return err
	}
	spec := runtime.Spec{Image: "test", Limits: runtime.Limits{DiskMB: 64}, Workspace: "kept"}
	sandbox, err := d.Create(ctx, "crashed", spec)
	if err != nil {
		return err
	}
	client := &runnerclient.Client{Dial: sandbox.DialRunner}
	if _, err := client.Exec(ctx, protocol.Exec{ID: "e"}, "echo kept > /etc/kept", nil, io.Discard); err != nil {
		return err
	}
	forks := []runtime.Branch{{ID: "fork-1"}, {ID: "fork-2"}}
	if _, err := d.Fork(ctx, "crashed", forks, spec); err != nil {
		return err
	}
	for _, fork := range forks {
		if err := d.Destroy(ctx, fork.ID); err != nil {
			return err
		}
	}
	if err := errors.Join(client.Close(), d.Stop(ctx, "crashed")); err != nil {
		return err
	}
	if _, err := d.Start(ctx, "crashed"); err != nil {
		return err
	}
	if err := claim(ctx, d); err != nil {
		return err
	}
	if err := d.Destroy(ctx, "crashed"); err != nil {
		return err
	}
	return d.DestroyWorkspace(ctx, "kept")
}

// claim makes a sandbox ready and takes it for a session that wants everything.
func claim(ctx context.Context, d *linux.Driver) error {
	limits := runtime.Limits{DiskMB: 64}
	if _, err := d.Create(ctx, "ready", runtime.Spec{Image: "test", Limits: limits}); err != nil {
		return err
	}
	limits.MemoryMB = 128
	spec := runtime.Spec{Image: "test", Limits: limits, Workspace: "kept", Env: map[string]string{"A": "b"}, Hostname: "claimed"}
	if _, err := d.Claim(ctx, "ready", "claimed", spec); err != nil {
		return err
	}
	return d.Destroy(ctx, "claimed")
}
