package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// sessionFlags say what a new session is like.
type sessionFlags struct {
	policyFlags

	Driver    string            `placeholder:"NAME" help:"What makes the sandbox, as docker; by default the daemon's driver."`
	Workspace string            `short:"w" placeholder:"ID" help:"Workspace at /workspace, which outlives the session; made if there is none."`
	CPU       float64           `name:"cpu" placeholder:"CORES" help:"Cores, as 1.5."`
	Memory    int64             `placeholder:"MB" help:"Memory in MiB."`
	Pids      int64             `placeholder:"N" help:"Processes and threads."`
	Disk      int64             `placeholder:"MB" help:"Disk in MiB."`
	Env       map[string]string `short:"e" mapsep:"none" placeholder:"NAME=VALUE" help:"Environment variable. Repeatable."`
	Hostname  string            `placeholder:"NAME" help:"Host name inside."`
}

// policyFlags say how long a session lives, and what it is called.
type policyFlags struct {
	TTL         seconds           `name:"ttl" placeholder:"TIME" help:"Idle time after which it ends, as 10m."`
	Lifetime    seconds           `placeholder:"TIME" help:"Age at which it ends, active or not."`
	OnIdle      string            `placeholder:"WHAT" enum:"pause,stop,destroy," default:"" help:"What happens when nothing uses it: pause, stop or destroy."`
	IdleTimeout seconds           `placeholder:"TIME" help:"Idle time after which that happens, as 5m."`
	AutoResume  *bool             `negatable:"" help:"Wake it, when it is paused, for whatever needs its programs. The default."`
	Label       map[string]string `short:"l" mapsep:"none" placeholder:"NAME=VALUE" help:"Label. Repeatable."`
}

// seconds is a flag's time, in whole seconds: 0 only if the flag was not
// given.
type seconds int64

// UnmarshalText reads a time as 10m. Less than a second would ask for the
// daemon's default.
func (s *seconds) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < time.Second {
		return fmt.Errorf("%q is not a time of a second or more: write it as 90s, 10m or 2h", text)
	}
	*s = seconds(d / time.Second)
	return nil
}

func (s seconds) duration() time.Duration { return time.Duration(s) * time.Second }

func (f policyFlags) options() sandkasten.UpdateOptions {
	return sandkasten.UpdateOptions{
		TTL:         f.TTL.duration(),
		Lifetime:    f.Lifetime.duration(),
		OnIdle:      f.OnIdle,
		IdleTimeout: f.IdleTimeout.duration(),
		AutoResume:  f.AutoResume,
		Labels:      f.Label,
	}
}

func (f sessionFlags) options(image string) *sandkasten.CreateOptions {
	return &sandkasten.CreateOptions{
		Image:         image,
		Driver:        f.Driver,
		WorkspaceID:   f.Workspace,
		Limits:        sandkasten.Limits{CPU: f.CPU, MemoryMB: f.Memory, Pids: f.Pids, DiskMB: f.Disk},
		Env:           f.Env,
		Hostname:      f.Hostname,
		UpdateOptions: f.policyFlags.options(),
	}
}

type createCmd struct {
	sessionFlags

	Image   string `arg:"" optional:"" help:"Image; by default the snapshot's, or the daemon's default_image."`
	Restore string `placeholder:"ID" help:"Snapshot whose files it begins with."`
	JSON    bool   `name:"json" help:"Print the whole session as JSON."`
}

func (createCmd) Help() string {
	return `The id is the only thing on standard output:

  id=$(sandkasten create python --ttl 1h)
  sandkasten exec $id -- pip list
  sandkasten rm $id

A session that sleeps after five minutes and wakes when it is used again:

  sandkasten create python --ttl 8h --on-idle pause --idle-timeout 5m

Files that are to stay go to a workspace:

  id=$(sandkasten create python --workspace project)`
}

func (c createCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	o := c.options(c.Image)
	o.RestoreSnapshotID = c.Restore
	s, err := cl.CreateSession(ctx, o)
	if err != nil {
		return err
	}
	return a.PrintMade(s.ID, s.Info, c.JSON)
}
