package main

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type waitCmd struct {
	cli.FormFlags

	Timeout cli.Span `placeholder:"TIME" help:"Give up after this time, such as 90s, with exit code 124. The command goes on."`
	Session string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Exec    string   `arg:"" help:"Exec id, as ps shows it."`
}

func (waitCmd) Help() string {
	return `Exits with the exit code of the command or process.

  server=$(sandkasten exec -d $id -- npm start)
  sandkasten wait $id $server
  sandkasten wait --format '{{.Cause}} after {{.DurationMS}} ms' $id $server`
}

// errPatience is why we give up.
var errPatience = errors.New("it still runs")

func (c waitCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout.Duration(), errPatience)
		defer cancel()
	}
	r, err := cl.Session(c.Session).Process(c.Exec).Wait(ctx)
	switch {
	case errors.Is(err, errPatience):
		a.Say("sandkasten: %v after %s", errPatience, c.Timeout.Duration())
		return cli.CodeError(cli.ExitTimeout)
	case err != nil:
		return cli.NotRun(err)
	}
	end, _ := r.End()
	if done, err := c.Done(a, r); err != nil {
		return cli.NotRun(err)
	} else if !done {
		comment(a, end)
	}
	return exitWith(end)
}
