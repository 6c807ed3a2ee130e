package main

import (
	"context"

	"github.com/sandkasten/sandkasten/sdk/go"
)

type killCmd struct {
	Signal  string `short:"s" placeholder:"SIGNAL" help:"Send only this signal, as HUP or 1."`
	Session string `arg:"" help:"Session: its name, its id or the beginning of that."`
	Exec    string `arg:"" help:"Exec id, as ps shows it."`
}

func (killCmd) Help() string {
	return `Without --signal everything that the command or process started is ended: TERM,
and KILL for what does not go. A shell lives on.

  sandkasten kill $id e3k5
  sandkasten kill -s HUP $id e3k5`
}

func (c killCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	p := cl.Session(c.Session).Process(c.Exec)
	if c.Signal == "" {
		return p.Kill(ctx)
	}
	return p.Signal(ctx, c.Signal)
}
