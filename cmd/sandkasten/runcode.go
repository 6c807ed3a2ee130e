package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/code"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type runCodeCmd struct {
	rawFlag
	cli.FormFlags

	Language string   `short:"l" default:"python" placeholder:"NAME" help:"Language of a kernel that the session's image has. By default python."`
	Context  string   `short:"c" placeholder:"NAME" help:"Run the code in this context of the session, by its name or id, instead of the default one."`
	Timeout  cli.Span `placeholder:"TIME" help:"Interrupt the code after this time, such as 90s."`
	Pictures string   `placeholder:"DIR" help:"Write the pictures that the code shows to this directory of this machine."`
	Session  string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Code     string   `arg:"" help:"Code, or - to read it from standard input."`
}

func (runCodeCmd) Help() string {
	return `The code runs in a kernel that remembers: the next code finds its variables,
imports and functions. The session's image needs a Jupyter kernel, as python has.

sandkasten prints what the code prints and the value of its last expression. It exits
with 1 if the code raised an exception, with 124 if its time was up, and with 137 if the
kernel ended.

  sandkasten run-code $id 'x = 20'
  sandkasten run-code $id 'x + 1'
  sandkasten run-code $id - < analysis.py
  sandkasten run-code --pictures plots $id - < plot.py
  sandkasten run-code --json $id 'table.describe()'`
}

// mostCode is what the API takes, and more: it refuses the rest with its reason.
const mostCode = 2 << 20

func (c runCodeCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	source := c.Code
	if source == "-" {
		text, err := io.ReadAll(io.LimitReader(a.In, mostCode))
		if err != nil {
			return cli.NotRun(fmt.Errorf("read the code: %w", err))
		}
		source = string(text)
	}
	s := cl.Session(c.Session)
	out := c.outputs(a)
	o := &sandkasten.RunCodeOptions{Language: c.Language, Timeout: c.Timeout.Duration()}
	var run sandkasten.CodeRun
	var err, lost error // lost is of what could not be printed
	if !c.Wanted() {
		o.OnStdout = func(text string) { lost = errors.Join(lost, printTo(out.out, text)) }
		o.OnStderr = func(text string) { lost = errors.Join(lost, printTo(out.err, text)) }
	}
	if c.Context != "" {
		run, err = s.Context(c.Context).Run(ctx, source, o)
	} else {
		run, err = s.RunCode(ctx, source, o)
	}
	if err = errors.Join(err, lost); err != nil {
		return cli.NotRun(err)
	}
	if c.Pictures != "" {
		if err := code.SavePictures(a, c.Pictures, run); err != nil {
			return err
		}
	}
	done, err := c.Done(a, run)
	if err != nil {
		return err
	}
	if !done {
		shown, told := code.Rest(run)
		if err := errors.Join(printTo(out.out, shown), printTo(out.err, told)); err != nil {
			return err
		}
	}
	if exit := code.Exit(run); exit != 0 {
		return cli.CodeError(exit)
	}
	return nil
}

func printTo(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}
