package main

import (
	"context"

	"github.com/sandkasten/sandkasten/sdk/go"
)

type killCmd struct {
	Signal  string `short:"s" placeholder:"SIGNAL" help:"Only send this signal, such as HUP or 1."`
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Exec    string `arg:"" help:"Exec id, as ps shows it."`
}

func (killCmd) Help() string {
	return `Without --signal all processes of the command or process end: by TERM, and by KILL
if they ignore it. A shell lives on.

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
