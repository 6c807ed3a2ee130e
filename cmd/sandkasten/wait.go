package main

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
)

type waitCmd struct {
	Timeout time.Duration `placeholder:"TIME" help:"Give up after this time, as 90s, with exit code 124. What is waited for goes on."`
	Session string        `arg:"" help:"Session id."`
	Exec    string        `arg:"" help:"Exec id, as ps shows it."`
}

func (waitCmd) Help() string {
	return `sandkasten ends with the exit code of what it waited for.

  server=$(sandkasten exec -d $id -- npm start)
  sandkasten wait $id $server`
}

// waitStep is how long one request waits.
const waitStep = time.Minute

func (c waitCmd) Run(ctx context.Context, a *cli.App) error {
	cl, err := a.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	var deadline time.Time
	if c.Timeout > 0 {
		deadline = time.Now().Add(c.Timeout)
	}
	for {
		step := waitStep
		if !deadline.IsZero() {
			step = min(step, time.Until(deadline))
		}
		r, err := cl.Wait(ctx, c.Session, c.Exec, step)
		if err != nil {
			return cli.NotRun(err)
		}
		if r.State == "ended" {
			result := r.Result()
			comment(a, result)
			return ended(result)
		}
		if !deadline.IsZero() && !time.Now().Before(deadline) {
			a.Say("sandkasten: it still runs after %s", c.Timeout)
			return cli.CodeError(cli.ExitTimeout)
		}
	}
}
