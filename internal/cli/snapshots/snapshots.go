// Package snapshots is `sandkasten snapshot`: the commands that save the files of
// sessions and carry them between hosts.
package snapshots

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Cmd is `sandkasten snapshot`.
type Cmd struct {
	Create   createCmd   `cmd:"" help:"Save the files of a session and print the snapshot's id."`
	Ls       lsCmd       `cmd:"" help:"List snapshots."`
	Inspect  inspectCmd  `cmd:"" help:"Show a snapshot as JSON."`
	Download downloadCmd `cmd:"" help:"Write the archive of a snapshot to a file."`
	Upload   uploadCmd   `cmd:"" help:"Make a snapshot from an archive of another host."`
	Rm       rmCmd       `cmd:"" help:"Remove snapshots."`
}

// Help is what --help adds.
func (Cmd) Help() string {
	return `A snapshot is a copy of a session's files at one moment. Other sessions can begin
with it, on this host and others:

  snap=$(sandkasten snapshot create $id)
  sandkasten create --restore $snap
  sandkasten snapshot download $snap work.tar
  sandkasten image from-snapshot $snap tools`
}

type createCmd struct {
	Session string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Name    string   `help:"Name, of a-z, A-Z, 0-9, '.', '_' and '-'."`
	Label   string   `help:"A note."`
	Scope   string   `enum:"sandbox,workspace," default:"" help:"sandbox is all files, as by default; workspace is /workspace, for use with any image."`
	Include []string `sep:"none" placeholder:"PATH" help:"Only this path and everything below. Repeatable."`
	Exclude []string `sep:"none" placeholder:"PATH" help:"Not this. Repeatable."`
	JSON    bool     `name:"json" help:"Print the whole snapshot as JSON."`
}

func (createCmd) Help() string {
	return `The session's programs pause while the files are read. It saves /workspace and all
other changes to the image, and needs that image to be restored.

  sandkasten snapshot create $id --name before-upgrade
  sandkasten snapshot create $id --include src --exclude src/node_modules`
}

func (c createCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	began, done := time.Now(), show.Working(a.Err, "saving "+c.Session)
	s, err := cl.Session(c.Session).Snapshot(ctx, &sandkasten.SnapshotOptions{
		Name: c.Name, Label: c.Label, Scope: c.Scope, IncludePaths: c.Include, ExcludePaths: c.Exclude,
	})
	done()
	if err != nil {
		return err
	}
	if f, ok := a.Err.(*os.File); ok && show.IsTerminal(f) {
		a.Say("saved %d files of %s in %s", s.Files, show.Size(s.FileBytes), time.Since(began).Round(100*time.Millisecond))
	}
	if c.Scope == "" && s.Scope == "workspace" {
		a.Say("only /workspace was saved: the session's driver cannot tell what else was changed")
	}
	return a.PrintMade(s.ID, s, c.JSON)
}

type lsCmd struct {
	Session string `placeholder:"ID" help:"Only snapshots of this session."`
	Name    string `help:"Only snapshots with this name."`
	cli.ListFlags
}

func (c lsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	list, err := cl.ListSnapshots(ctx, &sandkasten.ListSnapshotsOptions{SessionID: c.Session, Name: c.Name})
	if err != nil {
		return err
	}
	return c.Print(a, list, rows(list, time.Now()), "No snapshots. `sandkasten snapshot create` makes one.")
}

func rows(list []sandkasten.Snapshot, now time.Time) [][]string {
	table := [][]string{{"ID", "NAME", "SCOPE", "IMAGE", "SIZE", "FILES", "OF", "AGE"}}
	for _, s := range list {
		table = append(table, []string{
			s.ID, s.Name, s.Scope, s.Image, show.Size(s.SizeBytes), strconv.FormatInt(s.Files, 10), show.Size(s.FileBytes), show.Span(now.Sub(s.CreatedAt)),
		})
	}
	return table
}

type inspectCmd struct {
	Snapshot string `arg:"" help:"Snapshot id."`
}

func (c inspectCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	s, err := cl.GetSnapshot(ctx, c.Snapshot)
	if err != nil {
		return err
	}
	return show.JSON(a.Out, s)
}

type downloadCmd struct {
	Snapshot string `arg:"" help:"Snapshot id."`
	File     string `arg:"" help:"Where to write it; - is standard output."`
}

func (downloadCmd) Help() string {
	return `The archive is a tar file with a manifest and one compressed tar file per part:

  sandkasten snapshot download $snap work.tar
  tar -xOf work.tar workspace.tar.zst | tar --zstd -xf -`
}

func (c downloadCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) (err error) {
	snapshot, err := cl.GetSnapshot(ctx, c.Snapshot)
	if err != nil {
		return err
	}
	content, err := cl.DownloadSnapshot(ctx, c.Snapshot)
	if err != nil {
		return err
	}
	archive, done := show.Reading(a.Err, content, "download", snapshot.SizeBytes)
	defer func() { done(); err = errors.Join(err, archive.Close()) }()
	if c.File == "-" {
		_, err = io.Copy(a.Out, archive)
		return err
	}
	f, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, archive)
	return errors.Join(err, f.Close())
}

type uploadCmd struct {
	File  string `arg:"" type:"existingfile" help:"File that a download wrote."`
	Name  string `help:"Name, of a-z, A-Z, 0-9, '.', '_' and '-'."`
	Label string `help:"A note."`
	JSON  bool   `name:"json" help:"Print the whole snapshot as JSON."`
}

func (c uploadCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	archive, done := show.Reading(a.Err, f, "upload", info.Size())
	s, err := cl.UploadSnapshot(ctx, archive, &sandkasten.UploadSnapshotOptions{Name: c.Name, Label: c.Label, Size: info.Size()})
	done()
	if err != nil {
		return err
	}
	return a.PrintMade(s.ID, s, c.JSON)
}

type rmCmd struct {
	Snapshots []string `arg:"" name:"snapshot" help:"Snapshot ids."`
}

func (c rmCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return a.RemoveEach(c.Snapshots, func(id string) error { return cl.DeleteSnapshot(ctx, id) })
}
