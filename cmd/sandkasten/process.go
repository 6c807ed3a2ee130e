package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/cli/terminal"
	"github.com/sandkasten/sandkasten/internal/client"
)

// processFlags are those that make exec run a program without a shell.
type processFlags struct {
	Argv       bool     `name:"argv" help:"Run a program without a shell. Its standard error goes to ours."`
	TTY        bool     `name:"tty" short:"t" help:"Run a program on a terminal, with our keyboard."`
	User       string   `short:"u" placeholder:"USER" help:"Run a program as this user of the sandbox: a name or number, with :group if wanted."`
	Cwd        string   `short:"w" placeholder:"DIR" help:"Run a program in this directory. Relative ones begin at /workspace."`
	Env        []string `short:"e" placeholder:"NAME=VALUE" sep:"none" help:"Give a program a variable. May be repeated."`
	Background bool     `short:"d" help:"Start a program, print its id and leave it running."`
}

func (f processFlags) wanted() bool {
	return f.Argv || f.TTY || f.User != "" || f.Cwd != "" || len(f.Env) > 0 || f.Background
}

// process runs the words as a program.
func (c execCmd) process(ctx context.Context, a *cli.App, cl *client.Client) error {
	req, err := c.processRequest()
	if err != nil {
		return cli.NotRun(err)
	}
	switch {
	case c.TTY && !c.Background:
		return c.onTerminal(ctx, a, cl, req)
	case c.Background:
		return c.start(ctx, a, cl, req)
	case c.JSON:
		return c.wait(ctx, a, cl, req)
	}
	return c.stream(ctx, a, cl, req)
}

func (c execCmd) processRequest() (client.ProcessRequest, error) {
	words := c.Command
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	req := client.ProcessRequest{
		Cmd: words, Cwd: c.Cwd, User: c.User, TTY: c.TTY, OpenStdin: c.Stdin, TimeoutMS: c.Timeout.Milliseconds(), RawOutput: true,
	}
	for _, variable := range c.Env {
		name, value, ok := strings.Cut(variable, "=")
		if !ok {
			return req, fmt.Errorf("--env %s has no value: write it as NAME=VALUE", name)
		}
		if req.Env == nil {
			req.Env = make(map[string]string)
		}
		req.Env[name] = value
	}
	if c.Stdin && (c.JSON || c.Background) {
		return req, errors.New("--stdin needs a program that we stay with: leave --json and --background out")
	}
	return req, nil
}

func (c execCmd) start(ctx context.Context, a *cli.App, cl *client.Client, req client.ProcessRequest) error {
	p, err := cl.StartProcess(ctx, c.Session, req)
	if err != nil {
		return cli.NotRun(err)
	}
	if c.JSON {
		return show.JSON(a.Out, p)
	}
	_, err = fmt.Fprintln(a.Out, show.Printable(p.ID))
	return err
}

// wait runs a program to its end and prints the result.
func (c execCmd) wait(ctx context.Context, a *cli.App, cl *client.Client, req client.ProcessRequest) error {
	req.RawOutput = false
	p, err := cl.RunProcess(ctx, c.Session, req)
	if err != nil {
		return cli.NotRun(err)
	}
	if err := show.JSON(a.Out, p); err != nil {
		return err
	}
	r := client.ExecResult{Cause: p.Cause}
	if p.ExitCode != nil {
		r.ExitCode = *p.ExitCode
	}
	return ended(r)
}

// stream runs a program and passes on its output and, if asked, our input.
func (c execCmd) stream(ctx context.Context, a *cli.App, cl *client.Client, req client.ProcessRequest) error {
	fed, over := context.WithCancel(ctx)
	defer over()
	out := client.Streams{Stdout: a.Out, Stderr: a.Err}
	r, err := cl.ProcessStream(ctx, c.Session, req, out, func(exec string) {
		if c.Stdin {
			// Not waited for: its read of our input cannot be interrupted, and
			// ends with this process.
			go feed(fed, a, cl, c.Session, exec)
		}
	})
	return conclude(ctx, a, cl, c.Session, r, err)
}

// feed gives our standard input to a program as it comes.
func feed(ctx context.Context, a *cli.App, cl *client.Client, id, exec string) {
	if err := known(ctx, cl, id, exec); err != nil {
		return // it could not be started, and who follows it says so
	}
	buf := make([]byte, 256<<10)
	for {
		n, readErr := a.In.Read(buf)
		err := give(ctx, cl, id, exec, buf[:n], readErr != nil)
		if refused, ok := errors.AsType[*client.Error](err); ok && (refused.Code == "conflict" || refused.Code == "not_found") {
			return // it reads no more, as programs may
		}
		if err != nil && ctx.Err() == nil {
			// It must not take for the end what is not, nor wait for ever.
			a.Say("sandkasten: standard input was not passed on, and the program is ended: %s", cli.Explain(err))
			if err := cl.CancelExec(ctx, id, exec); err != nil {
				a.Say("sandkasten: %s", cli.Explain(err))
			}
		}
		if err != nil || readErr != nil {
			if readErr != nil && !errors.Is(readErr, io.EOF) {
				a.Say("sandkasten: standard input ends early: %v", readErr)
			}
			return
		}
	}
}

// known waits until the session knows an exec of which we have the id: a stream
// tells it a moment before, and ends ctx if it is never known.
func known(ctx context.Context, cl *client.Client, id, exec string) error {
	const pause = 50 * time.Millisecond
	for {
		_, err := cl.Wait(ctx, id, exec, 0)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// give waits until a program has taken all of data, and its end if it is the last.
func give(ctx context.Context, cl *client.Client, id, exec string, data []byte, last bool) error {
	for {
		taken, closed, err := cl.Stdin(ctx, id, exec, data, last)
		if err != nil {
			return err
		}
		if data = data[taken:]; len(data) == 0 && closed == last {
			return nil
		}
	}
}

// onTerminal runs a program on a terminal and converses with it.
func (c execCmd) onTerminal(ctx context.Context, a *cli.App, cl *client.Client, req client.ProcessRequest) error {
	if err := terminal.Needed(a, "exec --tty"); err != nil {
		return err
	}
	size := terminal.Size(a.Out)
	req.Rows, req.Cols = size.Rows, size.Cols
	if _, given := req.Env["TERM"]; !given {
		if req.Env == nil {
			req.Env = make(map[string]string)
		}
		req.Env["TERM"] = terminal.Kind()
	}
	req.OpenStdin = false
	p, err := cl.StartProcess(ctx, c.Session, req)
	if err != nil {
		return cli.NotRun(err)
	}
	return terminal.Run(ctx, a, cl, c.Session, client.TerminalRequest{ID: p.ID, Size: size})
}
