package main

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type rmCmd struct {
	All      bool     `help:"End every session."`
	Sessions []string `arg:"" optional:"" name:"session" help:"Session ids."`
}

func (rmCmd) Help() string {
	return `Everything in a session goes with it. Ending one that has ended already is not
an error.

  sandkasten rm $id
  sandkasten rm --all`
}

func (c rmCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	if c.All == (len(c.Sessions) > 0) {
		return errors.New("name the sessions to end, or write --all")
	}
	ids := c.Sessions
	if c.All {
		list, err := cl.ListSessions(ctx, nil)
		if err != nil {
			return err
		}
		for _, s := range list {
			ids = append(ids, s.ID)
		}
	}
	return a.RemoveEach(ids, func(id string) error { return cl.Session(id).Destroy(ctx) })
}
