package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/client"
)

type lsCmd struct {
	All   bool `short:"a" help:"Also sessions that ended not long ago."`
	JSON  bool `name:"json" xor:"form" help:"Print JSON."`
	Quiet bool `short:"q" xor:"form" help:"Print ids only."`
}

func (lsCmd) Help() string {
	return `Shows the sessions of your key, oldest first.

  sandkasten ls
  sandkasten rm $(sandkasten ls -q)`
}

func (c lsCmd) Run(ctx context.Context, a *cli.App) error {
	cl, err := a.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	which := client.Living
	if c.All {
		which = client.LivingOrEnded
	}
	list, err := cl.Sessions(ctx, which)
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
		return show.JSON(a.Out, list)
	case c.Quiet:
		for _, s := range list {
			if _, err := fmt.Fprintln(a.Out, show.Printable(s.ID)); err != nil {
				return err
			}
		}
		return nil
	case len(list) == 0:
		a.Say("No sessions. `sandkasten create` makes one.")
		return nil
	}
	return show.Table(a.Out, sessionRows(list, time.Now()))
}

func sessionRows(list []client.Session, now time.Time) [][]string {
	rows := [][]string{{"ID", "IMAGE", "STATUS", "AGE", "IDLE", "WHEN IDLE", "ENDS IN", "DIRECTORY"}}
	for _, s := range list {
		rows = append(rows, []string{
			s.ID, s.Image, s.Status, show.Span(now.Sub(s.CreatedAt)), show.Span(now.Sub(s.LastActivity)), whenIdle(s), show.Span(s.ExpiresAt.Sub(now)), s.Cwd,
		})
	}
	return rows
}

// whenIdle says what becomes of a session that nothing uses: "pause after 5m".
func whenIdle(s client.Session) string {
	after := s.IdleTimeout
	if after == 0 {
		after = s.TTLSeconds
	}
	return s.OnIdle + " after " + show.Span(time.Duration(after)*time.Second)
}
