package main

import (
	"context"
	"strconv"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type poolCmd struct {
	Status poolStatusCmd `cmd:"" help:"Show which sandboxes are ready, and how often sessions needed one."`
}

func (poolCmd) Help() string {
	return `The daemon can keep sandboxes ready for new sessions: see pool.enabled in its
configuration.

  sandkasten pool status`
}

type poolStatusCmd struct{ cli.FormFlags }

func (c poolStatusCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	st, err := cl.PoolStatus(ctx)
	if err != nil {
		return err
	}
	if done, err := c.Done(a, st); done {
		return err
	}
	if !st.Enabled {
		a.Say("This daemon keeps no sandboxes ready: its configuration has no `pool: {enabled: true}`.")
		return nil
	}
	if err := show.Table(a.Out, poolRows(st)); err != nil {
		return err
	}
	if st.Short != "" {
		a.Say("The host is short of resources, so the pool removes sandboxes: %s", st.Short)
	}
	if st.Unmatched > 0 {
		a.Say("%d sessions used other images or disk sizes than the pool has.", st.Unmatched)
	}
	return nil
}

func poolRows(st sandkasten.PoolStatus) [][]string {
	rows := [][]string{{"IMAGE", "READY", "WANTED", "HITS", "MISSES", "MAKE MS", "ERROR"}}
	for _, one := range st.Images {
		wanted := strconv.Itoa(one.Wanted)
		if one.Auto {
			wanted += " (auto)"
		}
		rows = append(rows, []string{
			one.Image, strconv.Itoa(one.Ready), wanted, strconv.FormatInt(one.Hits, 10), strconv.FormatInt(one.Misses, 10),
			strconv.FormatFloat(one.MakeMS, 'f', 1, 64), one.Error,
		})
	}
	return rows
}
