package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/terminal"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// processFlags are those that make exec run a program without a shell.
type processFlags struct {
	Argv       bool     `name:"argv" help:"Run a program without a shell, with separate standard error."`
	TTY        bool     `name:"tty" short:"t" help:"Run a program on a terminal, with your keyboard."`
	User       string   `short:"u" placeholder:"USER" help:"Run the command as this user of the sandbox: a name or number, optionally with :group."`
	Cwd        string   `short:"w" placeholder:"DIR" help:"Run the command in this directory, absolute or relative to /workspace."`
	Env        []string `short:"e" placeholder:"NAME=VALUE" sep:"none" help:"Set a variable for the command. Repeatable."`
	Background bool     `short:"d" help:"Start the command, print its id and leave it running."`
}

func (f processFlags) wanted() bool {
	return f.Argv || f.TTY || f.User != "" || f.Cwd != "" || len(f.Env) > 0 || f.Background
}

// process runs the words as a program.
func (c execCmd) process(ctx context.Context, a *cli.App, s *sandkasten.Session) error {
	cmd, o, err := c.processOptions()
	if err != nil {
		return cli.NotRun(err)
	}
	switch {
	case c.TTY && !c.Background:
		return c.onTerminal(ctx, a, s, cmd, o)
	case c.Background:
		return c.start(ctx, a, s, cmd, o)
	case c.Wanted():
		return c.wait(ctx, a, s, cmd, o)
	}
	return c.stream(ctx, a, s, cmd, o)
}

func (c execCmd) processOptions() (cmd []string, o *sandkasten.ProcessOptions, err error) {
	cmd = programOf(c.Command, c.Argv)
	o = &sandkasten.ProcessOptions{
		Cwd: c.Cwd, User: c.User, Env: make(map[string]string), TTY: c.TTY, OpenStdin: c.Stdin, Timeout: c.Timeout.Duration(), RawOutput: true,
	}
	for _, variable := range c.Env {
		name, value, ok := strings.Cut(variable, "=")
		if !ok {
			return nil, nil, fmt.Errorf("--env %s has no value: write it as NAME=VALUE", name)
		}
		o.Env[name] = value
	}
	if c.Stdin && (c.Wanted() || c.Background) {
		return nil, nil, errors.New("--stdin of a program cannot be combined with --json, --format or --background")
	}
	return cmd, o, nil
}

// programOf makes a program of the words of a command. One word that is more than
// a name is a line for a shell, as it is without the flags that a program needs.
func programOf(words []string, argv bool) []string {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if argv || len(words) != 1 || cli.Quote(words[0]) == words[0] {
		return words
	}
	return []string{"sh", "-c", words[0]}
}

// started is what is known of a program in the background.
type started struct {
	ExecID string `json:"exec_id"`
	Status string `json:"status"`
	PID    int    `json:"pid"`
}

func (c execCmd) start(ctx context.Context, a *cli.App, s *sandkasten.Session, cmd []string, o *sandkasten.ProcessOptions) error {
	p, err := s.StartProcess(ctx, cmd, o)
	if err != nil {
		return cli.NotRun(err)
	}
	if done, err := c.Done(a, started{p.ID, "running", p.PID}); done || err != nil {
		return err
	}
	return a.PrintID(p.ID)
}

// wait runs a program to its end and prints the result.
func (c execCmd) wait(ctx context.Context, a *cli.App, s *sandkasten.Session, cmd []string, o *sandkasten.ProcessOptions) error {
	o.RawOutput, o.OnDisconnect = false, "kill" // nobody else knows of it
	r, err := s.RunProcess(ctx, cmd, o)
	if err != nil {
		return cli.NotRun(err)
	}
	if _, err := c.Done(a, r); err != nil {
		return err
	}
	return exitWith(r.ExecEnd)
}

// stream runs a program and passes on its output and, if asked, our input.
func (c execCmd) stream(ctx context.Context, a *cli.App, s *sandkasten.Session, cmd []string, o *sandkasten.ProcessOptions) error {
	fed, over := context.WithCancel(ctx)
	defer over()
	stream := s.StreamProcess(cmd, o)
	if c.Stdin {
		stream = feeding(fed, a, s, stream)
	}
	return passOn(ctx, a, s, stream, c.outputs(a))
}

// feeding gives what a stream starts our standard input, until ctx is over.
func feeding(ctx context.Context, a *cli.App, s *sandkasten.Session, stream *sandkasten.ExecStream) *sandkasten.ExecStream {
	stream.OnStart = func(execID string) {
		// Not waited for: its read of our input cannot be interrupted, and
		// ends with this process.
		go feed(ctx, a, s.Process(execID))
	}
	return stream
}

// feed gives our standard input to a command or program as it comes.
func feed(ctx context.Context, a *cli.App, p *sandkasten.Process) {
	err := p.WriteStdin(ctx, a.In)
	if err == nil {
		err = p.CloseStdin(ctx)
	}
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, sandkasten.ErrConflict), errors.Is(err, sandkasten.ErrNotFound): // it reads no more, as programs may
	default:
		// It must not take for the end what is not, nor wait for ever.
		a.Say("sandkasten: standard input could not be passed on, so the command was ended: %s", cli.Explain(err))
		if err := p.Kill(ctx); err != nil {
			a.Say("sandkasten: %s", cli.Explain(err))
		}
	}
}

// onTerminal does that with the terminal that we are on.
func (c execCmd) onTerminal(ctx context.Context, a *cli.App, s *sandkasten.Session, cmd []string, o *sandkasten.ProcessOptions) error {
	if err := terminal.Needed(a, "exec --tty"); err != nil {
		return err
	}
	return onTerminal(ctx, a, s, cmd, o)
}

// onTerminal runs a program on a terminal of its own and converses with it.
func onTerminal(ctx context.Context, a *cli.App, s *sandkasten.Session, cmd []string, o *sandkasten.ProcessOptions) error {
	o.Rows, o.Cols = terminal.Size(a.Out)
	if _, given := o.Env["TERM"]; !given {
		o.Env["TERM"] = terminal.Kind()
	}
	o.OpenStdin = false
	p, err := s.StartProcess(ctx, cmd, o)
	if err != nil {
		return cli.NotRun(err)
	}
	t, err := s.AttachTerminal(ctx, p.ID, &sandkasten.AttachTerminalOptions{Rows: o.Rows, Cols: o.Cols, SinceSeq: -1})
	if err != nil {
		return cli.NotRun(err)
	}
	return terminal.Run(ctx, a, s, t)
}
