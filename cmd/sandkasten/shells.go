package main

import (
	"context"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type shellsCmd struct {
	Close string `placeholder:"NAME" xor:"form" help:"Close this shell and end its processes."`
	cli.ListFlags
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
}

func (shellsCmd) Help() string {
	return `Every session has the shell default. exec --shell makes others.

  sandkasten shells $id
  sandkasten shells --close build $id`
}

func (c shellsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	s := cl.Session(c.Session)
	if c.Close != "" {
		return s.CloseShell(ctx, c.Close)
	}
	list, err := s.ListShells(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"SHELL", "STATE", "EXEC", "QUEUED", "PID", "AGE", "RESTARTS", "CWD"}}
	for _, s := range list {
		pid := ""
		if s.PID != 0 {
			pid = strconv.Itoa(s.PID)
		}
		rows = append(rows, []string{
			s.Name, s.State, s.ExecID, strconv.Itoa(s.Queued), pid, show.Span(time.Since(s.CreatedAt)), strconv.Itoa(s.Restarts), s.Cwd,
		})
	}
	return c.Print(a, list, rows, "")
}
