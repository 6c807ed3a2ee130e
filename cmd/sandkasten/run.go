package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// removeTimeout bounds the removal of a session when the user has given up.
const removeTimeout = 15 * time.Second

type runCmd struct {
	sessionFlags
	rawFlag

	Timeout time.Duration `placeholder:"TIME" help:"End the command after this time, as 90s."`
	Stdin   bool          `short:"i" help:"Give the command our standard input, up to 1 MiB. Without this it has none."`
	Keep    bool          `help:"Keep the session and print its id to standard error."`
	Image   string        `arg:"" help:"Image of the session."`
	Command []string      `arg:"" passthrough:"partial" help:"Command. One word is a line for the shell, several are a program and its arguments."`
}

func (runCmd) Help() string {
	return `Output appears as it is written, and sandkasten ends with the command's exit
code. The session is removed at the end, after Ctrl-C too.

  sandkasten run python -- python3 -c 'print(1)'
  sandkasten run base 'ls / | wc -l'
  sandkasten run base --memory 256 --timeout 10s -- ./check.sh`
}

func (c runCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	cmd, o, err := execOptions(a, c.Command, c.Timeout, c.Stdin)
	if err != nil {
		return cli.NotRun(err)
	}
	s, err := cl.CreateSession(ctx, c.options(c.Image))
	if err != nil {
		return cli.NotRun(err)
	}
	if c.Keep {
		a.Say("session %s", show.Printable(s.ID))
		return runIn(ctx, a, s, cmd, o, c.outputs(a))
	}
	err = runIn(ctx, a, s, cmd, o, c.outputs(a))
	if removeErr := remove(ctx, s); removeErr != nil {
		a.Say("sandkasten: %s", cli.Explain(removeErr)) // the exit code is the command's
	}
	return err
}

// remove ends a session even when ctx is over already.
func remove(ctx context.Context, s *sandkasten.Session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := s.Destroy(ctx); err != nil {
		return fmt.Errorf("session %s could not be removed; `sandkasten rm %s` tries again: %w", s.ID, s.ID, err)
	}
	return nil
}
