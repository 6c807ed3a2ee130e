// Package upkeep is the part of the command line that looks after a daemon's
// data: comparing, repairing and clearing it away. It works on
// the data directory itself, with or without a daemon; what is compared and how
// it is repaired is package maintenance's.
package upkeep

import (
	"context"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/daemon"
	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/internal/maintenance"
)

// FsckCmd compares what there is with what should be.
type FsckCmd struct {
	Repair bool `help:"Remove and finish the leftovers of a crash, as a start of the daemon does. Stop the daemon first."`
	JSON   bool `name:"json" help:"Print JSON."`
}

// Help implements kong's HelpProvider.
func (FsckCmd) Help() string {
	return `Compares the database with this host: sandboxes, their processes, control groups,
loop devices and user ids, workspaces, snapshots, images and uploads. It changes
nothing, and can run while the daemon works: it reports only differences that last
for some seconds. Run it as root, with the daemon's configuration.

It exits with 0 if nothing differs, 1 if something does, and 2 if it cannot tell.
With --repair it lists the repairs, and the exit code is about the rest.

  sandkasten fsck --config sandkasten.yaml`
}

// Run implements the command.
func (c FsckCmd) Run(ctx context.Context, a *cli.App) error {
	cfg, err := a.Configuration()
	if err != nil {
		return err
	}
	found, err := maintenance.Fsck(ctx, cfg)
	if err != nil {
		return unreadable(a, err)
	}
	var mended []fsck.Difference
	if c.Repair {
		left, err := repair(ctx, a, cfg)
		if err != nil {
			return unreadable(a, err)
		}
		mended, found = except(found, left), left
	}
	if err := c.print(a, found, mended); err != nil {
		return err
	}
	if len(found) > 0 {
		return cli.CodeError(cli.ExitFailed)
	}
	return nil
}

func repair(ctx context.Context, a *cli.App, cfg config.Config) ([]fsck.Difference, error) {
	if err := daemon.Repair(ctx, cfg, daemon.Options{Version: "fsck", Log: daemon.NewLog(cfg.Log, a.Err)}); err != nil {
		return nil, err
	}
	return maintenance.Fsck(ctx, cfg)
}

// unreadable ends the command with the code for not knowing.
func unreadable(a *cli.App, err error) error {
	a.Say("sandkasten: %s", show.Printable(err.Error()))
	return cli.CodeError(cli.ExitUsage)
}

// except is what is in all and not in left.
func except(all, left []fsck.Difference) []fsck.Difference {
	kept := make(map[fsck.Difference]bool, len(left))
	for _, d := range left {
		kept[d] = true
	}
	var gone []fsck.Difference
	for _, d := range all {
		if !kept[d] {
			gone = append(gone, d)
		}
	}
	return gone
}

func (c FsckCmd) print(a *cli.App, found, mended []fsck.Difference) error {
	if c.JSON {
		return show.JSON(a.Out, struct {
			Differences []fsck.Difference `json:"differences"`
			Mended      []fsck.Difference `json:"mended"`
		}{append([]fsck.Difference{}, found...), append([]fsck.Difference{}, mended...)})
	}
	if len(found)+len(mended) == 0 {
		_, err := fmt.Fprintln(a.Out, "Nothing differs.")
		return err
	}
	rows := [][]string{{"WHAT", "WHERE", "EXPECTED", "FOUND", "MEND"}}
	for _, d := range found {
		rows = append(rows, row(d, d.Mend))
	}
	for _, d := range mended {
		rows = append(rows, row(d, "mended"))
	}
	return show.Table(a.Out, rows)
}

func row(d fsck.Difference, mend string) []string {
	cells := []string{d.What, d.Where, d.Expected, d.Found, mend}
	for i, cell := range cells {
		cells[i] = show.Printable(cell)
	}
	return cells
}
