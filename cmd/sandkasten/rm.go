package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/client"
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

func (c rmCmd) Run(ctx context.Context, a *cli.App) error {
	if c.All == (len(c.Sessions) > 0) {
		return errors.New("name the sessions to end, or write --all")
	}
	cl, err := a.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	ids := c.Sessions
	if c.All {
		list, err := cl.Sessions(ctx, client.Living)
		if err != nil {
			return err
		}
		for _, s := range list {
			ids = append(ids, s.ID)
		}
	}
	var failed error
	for _, id := range ids {
		if err := cl.Delete(ctx, id); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", show.Printable(id), err))
			continue
		}
		if _, err := fmt.Fprintln(a.Out, show.Printable(id)); err != nil {
			return err
		}
	}
	return failed
}
