package upkeep

import (
	"context"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/daemon"
	"github.com/sandkasten/sandkasten/internal/maintenance"
)

// GCCmd removes what nothing needs.
type GCCmd struct {
	DryRun   bool `name:"dry-run" help:"Only list what gc would remove."`
	Archives bool `help:"Also delete archives of snapshots without a row. sandkasten recover makes snapshots from them instead."`
	JSON     bool `name:"json" help:"Print JSON."`
}

// Help implements kong's HelpProvider.
func (GCCmd) Help() string {
	return `Removes images without a name and a session, layers without an image, and
interrupted imports and uploads. It keeps archives of snapshots without a row unless
--archives is given. If the database is gone, empty or foreign, it removes nothing:
see ` + "`sandkasten recover`" + `.

The daemon does most of this at its start. While the daemon runs, gc leaves its
current work alone; without a daemon, gc also finishes the leftovers of a crash, as
` + "`sandkasten fsck --repair`" + ` does. Run it as root.

  sandkasten gc --dry-run`
}

// Run implements the command.
func (c GCCmd) Run(ctx context.Context, a *cli.App) error {
	cfg, err := a.Configuration()
	if err != nil {
		return err
	}
	var gone []maintenance.Garbage
	if c.DryRun {
		gone, err = maintenance.FindGarbage(ctx, cfg, c.Archives)
	} else {
		gone, err = maintenance.Collect(ctx, cfg, c.Archives, func(ctx context.Context) error {
			return daemon.Repair(ctx, cfg, daemon.Options{Version: "gc", Log: daemon.NewLog(cfg.Log, a.Err)})
		})
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return show.JSON(a.Out, append([]maintenance.Garbage{}, gone...))
	}
	rows := [][]string{{"WHAT", "WHERE", "SIZE"}}
	total := int64(0)
	for _, g := range gone {
		rows = append(rows, []string{g.What, show.Printable(g.Where), show.Size(g.Bytes)})
		total += g.Bytes
	}
	if len(gone) > 0 {
		if err := show.Table(a.Out, rows); err != nil {
			return err
		}
	}
	said := "removed"
	if c.DryRun {
		said = "to remove"
	}
	_, err = fmt.Fprintf(a.Out, "%s: %d, %s\n", said, len(gone), show.Size(total))
	return err
}
