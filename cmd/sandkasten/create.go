package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/networks"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// sessionFlags say what a new session is like.
type sessionFlags struct {
	policyFlags
	networks.Flags

	Name      string             `short:"n" placeholder:"NAME" help:"Name, which works in place of the id; unique among your sessions."`
	Driver    string             `placeholder:"NAME" help:"Driver of the sandbox, such as docker; by default the daemon's."`
	Workspace string             `short:"w" placeholder:"ID" help:"Workspace to mount at /workspace; it outlives the session, and is made if it does not exist."`
	CPU       float64            `name:"cpu" placeholder:"CORES" help:"Cores, as 1.5."`
	Memory    cli.LimitMebibytes `placeholder:"SIZE" help:"Memory, such as 512m or 2g; a plain number is MiB."`
	Pids      int64              `placeholder:"N" help:"Processes and threads."`
	Disk      cli.LimitMebibytes `placeholder:"SIZE" help:"Disk, such as 512m or 10g; a plain number is MiB."`
	Env       map[string]string  `short:"e" mapsep:"none" placeholder:"NAME=VALUE" help:"Environment variable. Repeatable."`
	Hostname  string             `placeholder:"NAME" help:"Host name inside."`
	FileScope string             `placeholder:"SCOPE" enum:"workspace,sandbox," default:"" help:"Reach of file calls: workspace, or sandbox for any path."`
}

// policyFlags say how long a session lives, and what it is called.
type policyFlags struct {
	TTL         cli.Seconds       `name:"ttl" placeholder:"TIME" help:"End after this idle time, such as 10m or 1d; a plain number is seconds."`
	OnExpiry    string            `placeholder:"WHAT" enum:"stop,destroy," default:"" help:"Action at that end: stop, which keeps the files for a week by default, or destroy."`
	Lifetime    cli.Seconds       `placeholder:"TIME" help:"End at this age, used or not."`
	OnIdle      string            `placeholder:"WHAT" enum:"pause,stop,destroy," default:"" help:"Action when nothing uses the session: pause, stop or destroy."`
	IdleTimeout cli.Seconds       `placeholder:"TIME" help:"Idle time before that action, such as 5m."`
	AutoResume  *bool             `negatable:"" help:"Wake the paused session for a request that needs its programs. The default."`
	Label       map[string]string `short:"l" mapsep:"none" placeholder:"NAME=VALUE" help:"Label. Repeatable."`
}

func (f policyFlags) options() sandkasten.UpdateOptions {
	return sandkasten.UpdateOptions{
		TTL:         f.TTL.Duration(),
		Lifetime:    f.Lifetime.Duration(),
		OnExpiry:    f.OnExpiry,
		OnIdle:      f.OnIdle,
		IdleTimeout: f.IdleTimeout.Duration(),
		AutoResume:  f.AutoResume,
		Labels:      f.Label,
	}
}

func (f sessionFlags) options(a *cli.App, image string) (*sandkasten.CreateOptions, error) {
	network, err := f.Policy(a)
	if err != nil {
		return nil, err
	}
	policy := f.policyFlags.options()
	return &sandkasten.CreateOptions{
		TTL:         policy.TTL,
		OnExpiry:    policy.OnExpiry,
		Lifetime:    policy.Lifetime,
		OnIdle:      policy.OnIdle,
		IdleTimeout: policy.IdleTimeout,
		AutoResume:  policy.AutoResume,
		Labels:      policy.Labels,
		Name:        f.Name,
		Image:       image,
		Driver:      f.Driver,
		WorkspaceID: f.Workspace,
		CPU:         f.CPU,
		MemoryMB:    int64(f.Memory),
		Pids:        f.Pids,
		DiskMB:      int64(f.Disk),
		Env:         f.Env,
		Hostname:    f.Hostname,
		FileScope:   f.FileScope,
		Network:     network,
	}, nil
}

type createCmd struct {
	sessionFlags

	Image   string `arg:"" optional:"" help:"Image; by default the snapshot's, or the daemon's default_image."`
	Restore string `placeholder:"SNAPSHOT" help:"Begin with the files of this snapshot, by its id or its name."`
	JSON    bool   `name:"json" help:"Print the whole session as JSON."`
}

func (createCmd) Help() string {
	return `Prints only the id to standard output, and to standard error when the session
ends and how: by default it is stopped after 30 idle minutes, and keeps its files.

  id=$(sandkasten create python --ttl 1h)
  sandkasten exec $id -- pip list
  sandkasten rm $id

A name is easier to type, and so is a prefix of the id:

  sandkasten create python --name build
  sandkasten exec build -- pip list

Stopped, it goes on where its files are. One that nobody comes back to is destroyed:

  sandkasten start build
  sandkasten create python --ttl 10m --on-expiry destroy

This session pauses after five idle minutes and wakes when it is used again:

  sandkasten create python --ttl 8h --on-idle pause --idle-timeout 5m

Files that are to stay go to a workspace:

  id=$(sandkasten create python --workspace project)

A session reaches nothing unless a flag, or the configuration, says otherwise. A
secret's value stays outside, and goes only to its hosts:

  sandkasten create python --allow @pip --allow files.example.org
  sandkasten create python --network internet --deny '*.ads.example.org' --max-mbit 50
  sandkasten create python --allow api.example.org \
    --secret TOKEN,host=api.example.org,header=Authorization,file=token`
}

func (c createCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	o, err := c.options(a, c.Image)
	if err != nil {
		return err
	}
	o.RestoreSnapshotID = c.Restore
	if o.OnExpiry == "" && o.Name == "" {
		o.OnExpiry = expiryByHand(ctx, cl)
	}
	s, err := createSession(ctx, a, cl, o)
	if err != nil {
		return err
	}
	a.Say("%s", whenEnds(s.Info))
	return a.PrintMade(s.ID, s.Info, c.JSON)
}

// expiryByHand is the on_expiry of a session without a name that somebody makes by hand,
// and means to come back to: stop, unless the operator has set one for all. It is "" for
// the daemon's, also where that does not say: the create tells what is wrong with it.
func expiryByHand(ctx context.Context, cl *sandkasten.Client) string {
	info, err := cl.Info(ctx)
	if err != nil || info.Defaults.OnExpiry != "named" {
		return ""
	}
	return "stop"
}

// whenEnds says when a session ends that nothing uses, and how.
func whenEnds(s sandkasten.SessionInfo) string {
	ref, at := show.Printable(cmp.Or(s.Name, s.ID)), s.ExpiresAt.Local().Format(time.DateTime)
	if expiryOf(s) != "stop" {
		return fmt.Sprintf("Without use it is destroyed with its files at %s; `sandkasten set %s --ttl 8h` gives it longer.", at, ref)
	}
	kept := s.ExpiresAt.Add(time.Duration(s.RetentionSeconds) * time.Second)
	if end := s.CreatedAt.Add(time.Duration(s.LifetimeSeconds) * time.Second); s.LifetimeSeconds > 0 && end.Before(kept) {
		kept = end
	}
	return fmt.Sprintf("Without use it is stopped at %s, and its files are kept until %s; `sandkasten start %s` goes on with them.", at, kept.Local().Format(time.DateTime), ref)
}

// expiryOf is what becomes of a session at its ExpiresAt: it may have asked to be destroyed
// when it is idle, which is before its ttl is over, or its lifetime ends first.
func expiryOf(s sandkasten.SessionInfo) string {
	ttl := s.LastActivity.Add(time.Duration(s.TTLSeconds) * time.Second)
	if s.Status == "stopped" || s.OnIdle == "destroy" && s.IdleTimeoutSeconds > 0 || s.LifetimeSeconds > 0 && s.ExpiresAt.Before(ttl) {
		return "destroy"
	}
	return s.OnExpiry
}

// createSession makes a session. The daemon goes on making one whose request an interrupt
// cuts off, so that it can be asked for again; we ask, to remove it.
func createSession(ctx context.Context, a *cli.App, cl *sandkasten.Client, o *sandkasten.CreateOptions) (*sandkasten.Session, error) {
	o.IdempotencyKey = rand.Text()
	stop := networks.SayWhileAsked(ctx, a, cl, o, 2*time.Second)
	s, err := cl.CreateSession(ctx, o)
	stop()
	if err == nil || ctx.Err() == nil {
		return s, err
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if made, againErr := cl.CreateSession(asking, o); againErr == nil {
		if removeErr := remove(asking, made); removeErr != nil {
			a.Say("sandkasten: %s", cli.Explain(removeErr))
		}
	}
	return nil, err
}
