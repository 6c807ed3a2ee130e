package main

import (
	"context"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/files"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type workspaceCmd struct {
	Create  workspaceCreateCmd  `cmd:"" help:"Make an empty workspace and print its id."`
	Ls      workspaceLsCmd      `cmd:"" help:"List workspaces."`
	Inspect workspaceInspectCmd `cmd:"" help:"Show a workspace as JSON."`
	Files   workspaceFilesCmd   `cmd:"" help:"List the files of a directory in a workspace."`
	Cp      workspaceCpCmd      `cmd:"" help:"Copy files into and out of a workspace."`
	Rm      workspaceRmCmd      `cmd:"" help:"Remove workspaces and their files."`
}

func (workspaceCmd) Help() string {
	return `A workspace is a directory that outlives sessions. One or more sessions mount it at
/workspace:

  sandkasten workspace create project --size 2048
  id=$(sandkasten create python --workspace project)
  sandkasten exec $id 'echo kept > notes'
  sandkasten rm $id
  sandkasten workspace cp project:notes .
  sandkasten run base --workspace project cat notes`
}

type workspaceCreateCmd struct {
	Size  cli.Mebibytes     `placeholder:"SIZE" help:"Limit of its files, such as 512m or 2g; a plain number is MiB."`
	Label map[string]string `short:"l" mapsep:"none" placeholder:"NAME=VALUE" help:"Label. Repeatable."`
	ID    string            `arg:"" optional:"" help:"Name, of a-z, A-Z, 0-9, '.', '_' and '-'; by default a new one."`
	JSON  bool              `name:"json" help:"Print the whole workspace as JSON."`
}

func (workspaceCreateCmd) Help() string {
	return `Makes a workspace and prints its id.

  sandkasten workspace create project --size 2048 --label team=a
  w=$(sandkasten workspace create)`
}

func (c workspaceCreateCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	w, err := cl.CreateWorkspace(ctx, &sandkasten.WorkspaceOptions{ID: c.ID, Labels: c.Label, SizeMB: int64(c.Size)})
	if err != nil {
		return err
	}
	return a.PrintMade(w.ID, w.Info, c.JSON)
}

type workspaceLsCmd struct{ cli.ListFlags }

func (c workspaceLsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	all, err := cl.ListWorkspaces(ctx)
	if err != nil {
		return err
	}
	list := make([]sandkasten.WorkspaceInfo, len(all))
	for i, w := range all {
		list[i] = w.Info
	}
	return c.Print(a, list, workspaceRows(list, time.Now()), "No workspaces. `sandkasten workspace create` makes one.")
}

func workspaceRows(list []sandkasten.WorkspaceInfo, now time.Time) [][]string {
	rows := [][]string{{"ID", "USED", "SIZE", "SESSIONS", "AGE", "LAST USED"}}
	for _, w := range list {
		rows = append(rows, []string{
			w.ID, show.Size(w.SizeBytes), show.Size(w.SizeMB << 20), strconv.Itoa(w.ActiveSessionCount), show.Span(now.Sub(w.CreatedAt)), show.Span(now.Sub(w.LastUsedAt)),
		})
	}
	return rows
}

type workspaceInspectCmd struct {
	Workspace string `arg:"" help:"Workspace id."`
}

func (c workspaceInspectCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	w, err := cl.GetWorkspace(ctx, c.Workspace)
	if err != nil {
		return err
	}
	return show.JSON(a.Out, w.Info)
}

type workspaceFilesCmd struct {
	Workspace string `arg:"" help:"Workspace id."`
	Path      string `arg:"" default:"/workspace" help:"A directory below /workspace, absolute or relative to it."`
	cli.FormFlags
}

func (workspaceFilesCmd) Help() string {
	return `This needs no session:

  sandkasten workspace files project
  sandkasten workspace files project src`
}

func (c workspaceFilesCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	list, err := files.List(cl.Workspace(c.Workspace).List(ctx, c.Path, nil))
	if err != nil {
		return err
	}
	if done, err := c.Done(a, list); done {
		return err
	}
	rows := [][]string{{"TYPE", "SIZE", "NAME"}}
	for _, e := range list {
		rows = append(rows, []string{e.Type, show.Size(e.Size), e.Name})
	}
	return show.Table(a.Out, rows)
}

type workspaceCpCmd struct {
	cli.FormFlags

	From string `arg:"" help:"A local path, or WORKSPACE:PATH."`
	To   string `arg:"" help:"A local path, or WORKSPACE:PATH."`
}

func (workspaceCpCmd) Help() string {
	return `Works like sandkasten cp, but needs no session. A local path with a colon needs a
slash before it: ./a:b.

  sandkasten workspace cp ./project work:
  sandkasten workspace cp work:result.json .`
}

func (c workspaceCpCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	r := files.Remote{Noun: "WORKSPACE", Never: "/", Files: func(id string) *sandkasten.Files { return &cl.Workspace(id).Files }}
	return files.Copy(ctx, a, r, c.From, c.To, c.FormFlags)
}

type workspaceRmCmd struct {
	Force      bool     `short:"f" help:"Also end the sessions that use them."`
	Workspaces []string `arg:"" name:"workspace" help:"Workspace ids."`
}

func (workspaceRmCmd) Help() string {
	return `Removes workspaces and their files.

  sandkasten workspace rm project
  sandkasten workspace rm --force project`
}

func (c workspaceRmCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return a.RemoveEach(c.Workspaces, func(id string) error {
		return cl.DeleteWorkspace(ctx, id, &sandkasten.DeleteWorkspaceOptions{Force: c.Force})
	})
}
