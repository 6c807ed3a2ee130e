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
	File string `arg:"" help:"Tar file to write. An existing file is replaced."`
}

// Help implements kong's HelpProvider.
func (BackupCmd) Help() string {
	return `Saves the database at one moment, the API key, the secrets of previews and of the
engine's objects, the key of encrypted snapshots and the configuration file. The
daemon may run meanwhile. Keep the file secret. It does not contain the files of
sessions, workspaces, images and snapshots.

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
	File  string `arg:"" help:"File that backup wrote."`
	Owner string `default:"admin" help:"Owner of sessions that the backup does not know."`
}

// Help implements kong's HelpProvider.
func (RestoreCmd) Help() string {
	return `Restores the files of a backup, while no daemon runs. It keeps the files that it
replaces, under names that end with .before- and the time. Sandboxes, workspaces
and snapshots that are newer than the backup get rows, as with ` + "`sandkasten recover`" + `:
nothing is removed and no session ends.

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
	Owner string `default:"admin" help:"Owner of sessions and workspaces that name none: the owner of an API key."`
}

// Help implements kong's HelpProvider.
func (RecoverCmd) Help() string {
	return `Rebuilds a lost database: it makes sessions from sandboxes, workspaces from volumes
and snapshots from archives without a row. Processes go on, and nothing is removed.
Sessions and snapshots keep their ids; a workspace gets the id of its volume.
Sessions of the orchestrator come back with the snapshots that they have, or with the
disk of their sandbox, which is newer. Archives that cannot be read are named and passed.
Names and times of expiry are lost; owners and labels are not. It works with the
native driver, while no daemon runs.

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
	for what, ids := range map[string][]string{"session": r.Sessions, "workspace": r.Workspaces, "snapshot": r.Snapshots, "session of the orchestrator": r.Orchestrated} {
		for _, id := range ids {
			err = errors.Join(err, lines(a.Out, []string{"recovered " + what + " " + id}))
		}
	}
	for _, why := range r.Unread {
		err = errors.Join(err, fmt.Errorf("not recovered: the archive %s", why))
	}
	if err == nil && len(r.Sessions)+len(r.Workspaces)+len(r.Snapshots)+len(r.Orchestrated) == 0 {
		a.Say("Nothing is without a row: %s", strings.TrimSpace(cfg.DataDir))
	}
	return err
}
