package main

import (
	"context"
	"strconv"

	"github.com/sandkasten/sandkasten/internal/cli"
)

type killCmd struct {
	Signal  string `short:"s" placeholder:"SIGNAL" help:"Send only this signal, as HUP or 1."`
	Session string `arg:"" help:"Session id."`
	Exec    string `arg:"" help:"Exec id, as ps shows it."`
}

func (killCmd) Help() string {
	return `Without --signal everything that the command or process started is ended: TERM,
and KILL for what does not go. A shell lives on.

  sandkasten kill $id e3k5
  sandkasten kill -s HUP $id e3k5`
}

func (c killCmd) Run(ctx context.Context, a *cli.App) error {
	cl, err := a.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if c.Signal == "" {
		return cl.CancelExec(ctx, c.Session, c.Exec)
	}
	return cl.Signal(ctx, c.Session, c.Exec, signalArgument(c.Signal))
}

// signalArgument is a name, or a number as one.
func signalArgument(s string) any {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return s
}
