package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/client"
)

type lsCmd struct {
	All   bool `short:"a" help:"Also sessions that ended not long ago."`
	JSON  bool `name:"json" xor:"form" help:"Print JSON."`
	Quiet bool `short:"q" xor:"form" help:"Print ids only."`
}

func (lsCmd) Help() string {
	return `  sandkasten ls
  sandkasten rm $(sandkasten ls -q)`
}

func (c lsCmd) Run(ctx context.Context, a *app) error {
	cl, err := a.client()
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
		return printJSON(a.out, list)
	case c.Quiet:
		for _, s := range list {
			if _, err := fmt.Fprintln(a.out, printable(s.ID)); err != nil {
				return err
			}
		}
		return nil
	case len(list) == 0:
		a.say("No sessions. `sandkasten create` makes one.")
		return nil
	}
	return table(a.out, sessionRows(list, time.Now()))
}

func sessionRows(list []client.Session, now time.Time) [][]string {
	rows := [][]string{{"ID", "IMAGE", "STATUS", "AGE", "IDLE", "WHEN IDLE", "ENDS IN", "DIRECTORY"}}
	for _, s := range list {
		rows = append(rows, []string{
			s.ID, s.Image, s.Status, span(now.Sub(s.CreatedAt)), span(now.Sub(s.LastActivity)), whenIdle(s), span(s.ExpiresAt.Sub(now)), s.Cwd,
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
	return s.OnIdle + " after " + span(time.Duration(after)*time.Second)
}
