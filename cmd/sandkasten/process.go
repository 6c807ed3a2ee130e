package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

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
func (c execCmd) process(ctx context.Context, a *app, cl *client.Client) error {
	req, err := c.processRequest()
	if err != nil {
		return notRunError{err}
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

func (c execCmd) start(ctx context.Context, a *app, cl *client.Client, req client.ProcessRequest) error {
	p, err := cl.StartProcess(ctx, c.Session, req)
	if err != nil {
		return notRunError{err}
	}
	if c.JSON {
		return printJSON(a.out, p)
	}
	_, err = fmt.Fprintln(a.out, printable(p.ID))
	return err
}

// wait runs a program to its end and prints the result.
func (c execCmd) wait(ctx context.Context, a *app, cl *client.Client, req client.ProcessRequest) error {
	req.RawOutput = false
	p, err := cl.RunProcess(ctx, c.Session, req)
	if err != nil {
		return notRunError{err}
	}
	if err := printJSON(a.out, p); err != nil {
		return err
	}
	r := client.ExecResult{Cause: p.Cause}
	if p.ExitCode != nil {
		r.ExitCode = *p.ExitCode
	}
	return ended(r)
}

// stream runs a program and passes on its output and, if asked, our input.
func (c execCmd) stream(ctx context.Context, a *app, cl *client.Client, req client.ProcessRequest) error {
	out := client.Streams{Stdout: a.out, Stderr: a.err}
	r, err := cl.ProcessStream(ctx, c.Session, req, out, func(exec string) {
		if c.Stdin {
			// Not waited for: its read of our input cannot be interrupted, and
			// ends with this process.
			go a.feed(ctx, cl, c.Session, exec)
		}
	})
	return conclude(ctx, a, cl, c.Session, r, err)
}

// feed gives our standard input to a program as it comes.
func (a *app) feed(ctx context.Context, cl *client.Client, id, exec string) {
	if err := known(ctx, cl, id, exec); err != nil {
		return // it could not be started, and who follows it says so
	}
	buf := make([]byte, 256<<10)
	for {
		n, readErr := a.in.Read(buf)
		err := give(ctx, cl, id, exec, buf[:n], readErr != nil)
		if refused, ok := errors.AsType[*client.Error](err); ok && (refused.Code == "conflict" || refused.Code == "not_found") {
			return // it reads no more, as programs may
		}
		if err != nil && ctx.Err() == nil {
			a.say("sandkasten: standard input was not passed on: %s", explain(err))
		}
		if err != nil || readErr != nil {
			if readErr != nil && !errors.Is(readErr, io.EOF) {
				a.say("sandkasten: standard input ends early: %v", readErr)
			}
			return
		}
	}
}

// known waits until the session knows an exec of which we have the id: a stream
// tells it a moment before.
func known(ctx context.Context, cl *client.Client, id, exec string) error {
	const tries, pause = 100, 50 * time.Millisecond
	var err error
	for range tries {
		if _, err = cl.Wait(ctx, id, exec, 0); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return err
}

// give waits until a program has taken all of data.
func give(ctx context.Context, cl *client.Client, id, exec string, data []byte, last bool) error {
	for {
		taken, err := cl.Stdin(ctx, id, exec, data, last)
		if err != nil || taken == len(data) {
			return err
		}
		data = data[taken:]
	}
}

// onTerminal runs a program on a terminal and converses with it.
func (c execCmd) onTerminal(ctx context.Context, a *app, cl *client.Client, req client.ProcessRequest) error {
	if err := a.needsTerminal("exec --tty"); err != nil {
		return err
	}
	size := terminalSize(a.out)
	req.Rows, req.Cols = size.Rows, size.Cols
	if _, given := req.Env["TERM"]; !given {
		if req.Env == nil {
			req.Env = make(map[string]string)
		}
		req.Env["TERM"] = terminalKind()
	}
	req.OpenStdin = false
	p, err := cl.StartProcess(ctx, c.Session, req)
	if err != nil {
		return notRunError{err}
	}
	return interactive(ctx, a, cl, c.Session, client.TerminalRequest{ID: p.ID, Size: size})
}
