package main

import (
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
}

func (c versionCmd) Run(a *cli.App) error {
	info := thisBuild()
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
	return err
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
