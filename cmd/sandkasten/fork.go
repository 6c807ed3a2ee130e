package main

import (
	"context"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/client"
)

type forkCmd struct {
	policyFlags

	Count    int               `short:"n" default:"1" placeholder:"N" help:"How many, up to 100."`
	Env      map[string]string `short:"e" mapsep:"none" placeholder:"NAME=VALUE" help:"Environment variable, instead of all that the session has. Repeatable."`
	Hostname string            `placeholder:"NAME" help:"Host name inside."`
	JSON     bool              `name:"json" help:"Print the daemon's answer as JSON."`
	Session  string            `arg:"" name:"session" help:"Session id."`
}

func (forkCmd) Help() string {
	return `Each fork begins with the files that the session has now, and goes its own way.
Programs are not copied. The ids are the only thing on standard output:

  for id in $(sandkasten fork $session --count 3); do
    sandkasten exec $id -- ./try-something-else
  done

A session with a workspace shares it with its forks.`
}

func (c forkCmd) Run(ctx context.Context, a *cli.App) error {
	cl, err := a.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	made, err := cl.Fork(ctx, c.Session, client.ForkRequest{
		Count: c.Count, Env: c.Env, Hostname: c.Hostname, UpdateRequest: c.policyFlags.request(),
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return show.JSON(a.Out, made)
	}
	for _, s := range made.Sessions {
		if _, err := fmt.Fprintln(a.Out, show.Printable(s.ID)); err != nil {
			return err
		}
	}
	return nil
}
