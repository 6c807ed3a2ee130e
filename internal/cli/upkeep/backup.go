package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/maintenance"
)

// BackupCmd saves what a daemon cannot find out again by itself.
type BackupCmd struct {
	File string `arg:"" help:"File to write, a tar file. One that is there is replaced."`
}

// Help implements kong's HelpProvider.
func (BackupCmd) Help() string {
	return `Saves the database as it is at one moment, the API key, the secrets of previews
and of the engine's objects, the key of encrypted snapshots and the configuration
file. The daemon may be running. The file is as secret as they are. What sessions,
workspaces, images and snapshots hold is not in it.

  sandkasten backup /var/backups/sandkasten.tar`
}

// Run implements the command.
func (c BackupCmd) Run(ctx context.Context, a *cli.App) error {
	cfg, err := a.Configuration()
	if err != nil {
		return err
	}
	if err := maintenance.Backup(ctx, cfg, a.Config, c.File); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out, c.File)
	return err
}

// RestoreCmd brings a backup back.
type RestoreCmd struct {
	File  string `arg:"" help:"File that backup has written."`
	Owner string `default:"admin" help:"Whose sessions those become that the backup does not know."`
}

// Help implements kong's HelpProvider.
func (RestoreCmd) Help() string {
	return `Brings back the files of a backup, while no daemon runs. Those that are there are
kept, under names that end with .before- and the time. Sandboxes, workspaces and
snapshots that are newer than the backup get rows as by ` + "`sandkasten recover`" + `: nothing
is removed and no session ends.

  systemctl stop sandkasten
  sandkasten restore /var/backups/sandkasten.tar
  systemctl start sandkasten`
}

// Run implements the command.
func (c RestoreCmd) Run(ctx context.Context, a *cli.App) error {
	cfg, err := a.Configuration()
	if err != nil {
		return err
	}
	done, err := maintenance.Restore(ctx, cfg, c.File)
	var said []string
	for _, path := range done.Files {
		said = append(said, "restored "+path)
	}
	for _, path := range done.Aside {
		said = append(said, "kept "+path)
	}
	for _, path := range done.Skipped {
		said = append(said, "left "+path+" as it is")
	}
	if err := errors.Join(err, lines(a.Out, said)); err != nil {
		return err
	}
	return recovered(ctx, a, c.Owner)
}

func lines(w io.Writer, said []string) error {
	for _, line := range said {
		if _, err := fmt.Fprintln(w, show.Printable(line)); err != nil {
			return err
		}
	}
	return nil
}

// RecoverCmd makes rows for what has none.
type RecoverCmd struct {
	Owner string `default:"admin" help:"Whose the sessions and workspaces become: the name of an API key's owner."`
}

// Help implements kong's HelpProvider.
func (RecoverCmd) Help() string {
	return `Makes sessions of sandboxes, workspaces of volumes and snapshots of archives that
the database does not know, for when it is lost. Processes go on, and nothing is
removed. Their ids are those that they had, but for workspaces, whose id is that of
the volume; labels, names, owners and times of expiry are lost. It is for the native
driver, and while no daemon runs.

  sandkasten recover --owner admin`
}

// Run implements the command.
func (c RecoverCmd) Run(ctx context.Context, a *cli.App) error { return recovered(ctx, a, c.Owner) }

func recovered(ctx context.Context, a *cli.App, owner string) error {
	cfg, err := a.Configuration()
	if err != nil {
		return err
	}
	r, err := maintenance.Recover(ctx, cfg, owner)
	for what, ids := range map[string][]string{"session": r.Sessions, "workspace": r.Workspaces, "snapshot": r.Snapshots} {
		for _, id := range ids {
			err = errors.Join(err, lines(a.Out, []string{"recovered " + what + " " + id}))
		}
	}
	if err == nil && len(r.Sessions)+len(r.Workspaces)+len(r.Snapshots) == 0 {
		a.Say("Nothing is without a row: %s", strings.TrimSpace(cfg.DataDir))
	}
	return err
}
