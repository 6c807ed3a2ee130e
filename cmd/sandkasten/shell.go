package main

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/terminal"
	"github.com/sandkasten/sandkasten/internal/client"
)

type shellCmd struct {
	Attach  string `placeholder:"TERMINAL" help:"Attach to this terminal instead of opening one; ps shows which there are."`
	Session string `arg:"" help:"Session id."`
}

func (shellCmd) Help() string {
	return `A login shell of its own on a terminal: it shares the session's files and
processes, not the directory and variables of its exec shell. Ctrl-C and resizes
go inside. Ctrl-\, or ~. at the beginning of a line, detaches; ~~ types one ~.
What runs on the terminal goes on, for 10 minutes unless the daemon is
configured otherwise, and --attach comes back to it. When the connection breaks
sandkasten attaches again by itself.

  sandkasten shell $(sandkasten create)
  sandkasten shell --attach f5q2 $id`
}

func (c shellCmd) Run(ctx context.Context, a *cli.App) error {
	if err := terminal.Needed(a, "shell"); err != nil {
		return err
	}
	cl, err := a.Client()
	if err != nil {
		return cli.NotRun(err)
	}
	defer cl.Close()
	return terminal.Run(ctx, a, cl, c.Session, client.TerminalRequest{
		Term: terminal.Kind(), Size: terminal.Size(a.Out), ID: c.Attach, Seq: -1,
	})
}
