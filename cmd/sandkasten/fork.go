package main

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type forkCmd struct {
	policyFlags

	Count    int               `short:"n" default:"1" placeholder:"N" help:"How many, up to 100."`
	Env      map[string]string `short:"e" mapsep:"none" placeholder:"NAME=VALUE" help:"Environment variable; replaces all of the session's. Repeatable."`
	Hostname string            `placeholder:"NAME" help:"Host name inside."`
	JSON     bool              `name:"json" help:"Print the daemon's answer as JSON."`
	Session  string            `arg:"" name:"session" help:"Session: its name, its id or a prefix of the id."`
}

func (forkCmd) Help() string {
	return `Each fork begins with the session's current files, without its programs. Prints
only the ids to standard output:

  for id in $(sandkasten fork $session --count 3); do
    sandkasten exec $id -- ./try-something-else
  done

A session with a workspace shares it with its forks.`
}

func (c forkCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	policy := c.policyFlags.options()
	made, err := cl.Session(c.Session).Fork(ctx, c.Count, &sandkasten.ForkOptions{
		TTL: policy.TTL, OnExpiry: policy.OnExpiry, Lifetime: policy.Lifetime, OnIdle: policy.OnIdle, IdleTimeout: policy.IdleTimeout, AutoResume: policy.AutoResume, Labels: policy.Labels,
		Env: c.Env, Hostname: c.Hostname,
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return show.JSON(a.Out, map[string]any{"sessions": sessionInfos(made.Sessions), "copied": made.Copied})
	}
	for _, s := range made.Sessions {
		if err := a.PrintID(s.ID); err != nil {
			return err
		}
	}
	return nil
}
