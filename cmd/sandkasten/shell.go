package main

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/terminal"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type shellCmd struct {
	Attach  string `placeholder:"TERMINAL" help:"Attach to this terminal instead of opening one; ps lists terminals."`
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
}

func (shellCmd) Help() string {
	return `Opens a login shell on a terminal. It shares the session's files and processes, not
the directory and variables of exec's shell. Ctrl-C and resizes go inside. Ctrl-\,
or ~. at the beginning of a line, detaches; ~~ types one ~. After that the terminal
goes on, by default for 10 minutes, and --attach returns to it. When the connection
breaks, sandkasten attaches again.

  sandkasten shell $(sandkasten create)
  sandkasten shell --attach f5q2 $id`
}

func (c shellCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	if err := terminal.Needed(a, "shell"); err != nil {
		return err
	}
	s := cl.Session(c.Session)
	t, err := c.open(ctx, a, s)
	if err != nil {
		return cli.NotRun(err)
	}
	return terminal.Run(ctx, a, s, t)
}

func (c shellCmd) open(ctx context.Context, a *cli.App, s *sandkasten.Session) (*sandkasten.Terminal, error) {
	rows, cols := terminal.Size(a.Out)
	if c.Attach != "" {
		return s.AttachTerminal(ctx, c.Attach, &sandkasten.AttachTerminalOptions{Rows: rows, Cols: cols})
	}
	return s.OpenTerminal(ctx, &sandkasten.TerminalOptions{Term: terminal.Kind(), Rows: rows, Cols: cols})
}
