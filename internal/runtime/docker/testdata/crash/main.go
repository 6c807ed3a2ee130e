// Command crash makes a sandbox, claims one or forks one. Built with the tag
// failpoint it dies where SANDKASTEN_FAILPOINT says, as a daemon may die at any
// line.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/docker"
)

type images string

func (dir images) Rootfs(context.Context, string) (docker.Rootfs, error) {
	return docker.Rootfs{Layers: []string{string(dir)}, Shell: "/bin/bash"}, nil
}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(what, host, node, runner, rootfs, image string) error {
	program, err := os.ReadFile(runner)
	if err != nil {
		return err
	}
	d, err := docker.New(docker.Options{Host: host, Node: node, Runner: program, Images: images(rootfs)})
	if err != nil {
		return err
	}
	ctx, spec := context.Background(), runtime.Spec{Image: image}
	first := map[string]runtime.ID{"create": "crashed", "claim": "ready", "fork": "source"}[what]
	if _, err := d.Create(ctx, first, spec); err != nil {
		return err
	}
	spec.Env = map[string]string{"GREETING": "hi"}
	switch what {
	case "claim":
		_, err = d.Claim(ctx, first, "crashed", spec)
	case "fork":
		_, err = d.Fork(ctx, first, []runtime.Branch{{ID: "crashed"}, {ID: "other"}}, spec)
	}
	return err
}
