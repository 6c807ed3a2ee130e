package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/networks"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/cli/terminal"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// removeTimeout bounds the removal of a session when the user has given up.
const removeTimeout = 15 * time.Second

type runCmd struct {
	sessionFlags
	rawFlag
	cli.FormFlags

	Timeout cli.Span `placeholder:"TIME" help:"End the command after this time, such as 90s."`
	Stdin   bool     `short:"i" help:"Stream standard input to the command. By default it is empty."`
	TTY     bool     `name:"tty" short:"t" help:"Run the command, or a login shell, on a terminal with your keyboard."`
	Keep    bool     `help:"Keep the session and print its id to standard error."`
	Image   string   `arg:"" help:"Image of the session."`
	Command []string `arg:"" optional:"" passthrough:"partial" help:"Command; with --tty a login shell by default. One word is a line for the shell, several are a program and its arguments."`
}

func (runCmd) Help() string {
	return `Prints output as it is written, and exits with the command's exit code. At the end,
also after Ctrl-C, it removes the session; not if you detach from its terminal.

  sandkasten run python -- python3 -c 'print(1)'
  sandkasten run base 'ls / | wc -l'
  sandkasten run -it python
  sandkasten run --json python 'pip list'
  sandkasten run base --memory 256m --timeout 10s -- ./check.sh
  sandkasten run --allow @pip python 'pip install requests'`
}

func (c runCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	run, err := c.prepare(a)
	if err != nil {
		return cli.NotRun(err)
	}
	o, err := c.options(a, c.Image)
	if err != nil {
		return cli.NotRun(err)
	}
	if o.OnExpiry == "" {
		o.OnExpiry = "destroy" // it is for this command
	}
	s, err := createSession(ctx, a, cl, o)
	if err != nil {
		return cli.NotRun(err)
	}
	if c.Keep {
		a.Say("session %s", show.Printable(s.ID))
		return run(ctx, s)
	}
	err = run(ctx, s)
	if errors.Is(err, terminal.ErrDetached) {
		a.Say("session %s stays until it has been idle for long; `sandkasten rm %s` removes it", show.Printable(s.ID), show.Printable(s.ID))
		return err
	}
	if removeErr := remove(ctx, s); removeErr != nil {
		a.Say("sandkasten: %s", cli.Explain(removeErr)) // the exit code is the command's
	}
	return err
}

// prepare reads what the command needs, before a session is made for it, and
// returns what runs it.
func (c runCmd) prepare(a *cli.App) (func(context.Context, *sandkasten.Session) error, error) {
	if err := cli.RefuseBytes(c.Command); err != nil {
		return nil, err
	}
	switch {
	case c.TTY && c.Wanted():
		return nil, errors.New("a terminal's output goes to ours as it comes: leave --json and --format out")
	case c.TTY:
		if err := terminal.Needed(a, "run --tty"); err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *sandkasten.Session) error { return c.onTerminal(ctx, a, s) }, nil
	case len(c.Command) == 0:
		return nil, errors.New("name a command to run, or write -it for a shell on this terminal")
	}
	cmd, o := execOptions(c.Command, c.Timeout.Duration(), c.Stdin)
	if c.Wanted() {
		return func(ctx context.Context, s *sandkasten.Session) error {
			return showResult(ctx, a, s, cmd, o, c.FormFlags)
		}, nil
	}
	return func(ctx context.Context, s *sandkasten.Session) error {
		to := c.outputs(a)
		to.allow = "sandkasten run --allow " // the session is gone by then
		if c.Keep {
			to.allow = networks.AllowCommand(s.ID)
		}
		return runIn(ctx, a, s, cmd, o, to)
	}, nil
}

// onTerminal runs the command, or a login shell, on a terminal.
func (c runCmd) onTerminal(ctx context.Context, a *cli.App, s *sandkasten.Session) error {
	if cmd := programOf(c.Command, false); len(cmd) > 0 {
		return onTerminal(ctx, a, s, cmd, &sandkasten.ProcessOptions{TTY: true, Env: make(map[string]string), Timeout: c.Timeout.Duration(), RawOutput: true})
	}
	t, err := shellCmd{}.open(ctx, a, s)
	if err != nil {
		return cli.NotRun(err)
	}
	return terminal.Run(ctx, a, s, t)
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
