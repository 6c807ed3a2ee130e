package main

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type inspectCmd struct {
	theSessions

	Format string `placeholder:"TEMPLATE" help:"Print this Go template instead of JSON, as '{{.Status}}'."`
}

func (inspectCmd) Help() string {
	return `Shows everything that the daemon knows about a session, even if it recently ended.

  sandkasten inspect $id
  sandkasten inspect --format '{{.Status}} {{.ExpiresAt}}' build`
}

func (c inspectCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return c.each(ctx, cl, func(s *sandkasten.Session) error {
		found, err := cl.GetSession(ctx, s.ID)
		if err != nil {
			return err
		}
		if c.Format == "" {
			return show.JSON(a.Out, found.Info)
		}
		_, err = cli.FormFlags{Format: c.Format}.Done(a, found.Info)
		return err
	})
}
