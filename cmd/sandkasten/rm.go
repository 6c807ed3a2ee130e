package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type rmCmd struct {
	All      bool     `help:"End every session that is yours."`
	Force    bool     `short:"f" help:"Ignore sessions that do not exist."`
	Sessions []string `arg:"" optional:"" name:"session" help:"Sessions: names, ids or prefixes of ids."`
}

func (rmCmd) Help() string {
	return `Removes a session with its processes and files. Removing an ended session by its id
is no error. A name ends with its session; -f ignores unknown names.

  sandkasten rm $id
  sandkasten rm -f build $(sandkasten ls -q --label task=42)
  sandkasten rm --all`
}

func (c rmCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	if c.All == (len(c.Sessions) > 0) && !(c.Force && !c.All) {
		return cli.Wrong("name the sessions to end, or write --all")
	}
	ids := c.Sessions
	if c.All {
		list, err := cl.ListSessions(ctx, &sandkasten.ListSessionsOptions{Mine: true})
		if err != nil {
			return err
		}
		for _, s := range list {
			ids = append(ids, s.ID)
		}
	}
	return changeSessions(ctx, cl, sandkasten.BulkDestroy, ids, func(one sandkasten.BulkResult) error {
		if err := problemOf(one); err != nil && !(c.Force && errors.Is(err, sandkasten.ErrNotFound)) {
			return fmt.Errorf("%s: %w", show.Printable(one.ID), err)
		}
		return a.PrintID(one.ID)
	})
}
