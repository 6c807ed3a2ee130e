// Command crash makes a workspace, and a sandbox with it, and destroys them. Built with the tag failpoint
// it dies where SANDKASTEN_FAILPOINT says, as a daemon may die at any line.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux"
)

type images string

func (dir images) Rootfs(context.Context, string) (linux.Rootfs, error) {
	return linux.Rootfs{Layers: []string{string(dir)}, Shell: "/bin/bash"}, nil
}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dataDir, runDir, runner, rootfs string) error {
	program, err := os.ReadFile(runner)
	if err != nil {
		return err
	}
	d, err := linux.New(linux.Options{DataDir: dataDir, RunDir: runDir, Runner: program, Images: images(rootfs)})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := d.CreateWorkspace(ctx, "kept", 64); err != nil && !errdefs.Is(err, errdefs.AlreadyExists) {
		return err
	}
	if _, err := d.Create(ctx, "crashed", runtime.Spec{Image: "test", Limits: runtime.Limits{DiskMB: 64}, Workspace: "kept"}); err != nil {
		return err
	}
	if err := d.Destroy(ctx, "crashed"); err != nil {
		return err
	}
	return d.DestroyWorkspace(ctx, "kept")
}
