package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
)

// version is set by releases: -ldflags "-X main.version=v1.2.3".
var version string

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// buildInfo says what this binary was made of.
type buildInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Daemon   string `json:"daemon,omitempty"` // the version of the daemon that answers
}

func (c versionCmd) Run(ctx context.Context, a *cli.App) error {
	info := thisBuild()
	info.Daemon = daemonVersion(ctx, a)
	if c.JSON {
		return show.JSON(a.Out, info)
	}
	revision := info.Revision
	if info.Modified {
		revision += ", modified"
	}
	if revision != "" {
		revision = " (" + revision + ")"
	}
	_, err := fmt.Fprintf(a.Out, "sandkasten %s%s, %s\n", info.Version, revision, info.Go)
	if info.Daemon != "" && err == nil {
		_, err = fmt.Fprintf(a.Out, "daemon %s\n", show.Printable(info.Daemon))
	}
	return err
}

// daemonVersion is that of the daemon that the user means, or "" where none answers.
func daemonVersion(ctx context.Context, a *cli.App) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cl, err := a.Client()
	if err != nil {
		return ""
	}
	defer cl.Close()
	info, err := cl.Info(ctx)
	if err != nil {
		return ""
	}
	return info.Version
}

func thisBuild() buildInfo {
	info := buildInfo{Version: version}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	info.Go = build.GoVersion
	if info.Version == "" {
		info.Version = build.Main.Version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Revision = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	return info
}
