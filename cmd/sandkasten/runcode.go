package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sandkasten/sandkasten/internal/cli"
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
	code := c.Code
	if code == "-" {
		text, err := io.ReadAll(io.LimitReader(a.In, mostCode))
		if err != nil {
			return cli.NotRun(fmt.Errorf("read the code: %w", err))
		}
		code = string(text)
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
		run, err = s.Context(c.Context).Run(ctx, code, o)
	} else {
		run, err = s.RunCode(ctx, code, o)
	}
	if err = errors.Join(err, lost); err != nil {
		return cli.NotRun(err)
	}
	if err := c.savePictures(a, run); err != nil {
		return err
	}
	done, err := c.Done(a, run)
	if err != nil {
		return err
	}
	if !done {
		shown, told := restOfRun(run)
		if err := errors.Join(printTo(out.out, shown), printTo(out.err, told)); err != nil {
			return err
		}
	}
	if code := codeOfRun(run); code != 0 {
		return cli.CodeError(code)
	}
	return nil
}

func printTo(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// restOfRun is what of a run was not printed while it ran.
func restOfRun(run sandkasten.CodeRun) (stdout, stderr string) {
	for _, result := range run.Results {
		if text := result.Text(); text != "" {
			stdout += text + "\n"
		}
		for mime, file := range result.FilePaths {
			stderr += fmt.Sprintf("%s is in the session's file %s\n", mime, file)
		}
	}
	if run.Error != nil {
		stderr += run.Error.Traceback + "\n"
	}
	switch {
	case run.StateLost:
		stderr += fmt.Sprintf("sandkasten: the kernel ended (%s), and variables are gone\n", run.Cause)
	case run.Cause == "timeout":
		stderr += "sandkasten: the time was up; variables are kept\n"
	}
	return stdout, stderr
}

// savePictures writes the pictures of a run to files.
func (c runCodeCmd) savePictures(a *cli.App, run sandkasten.CodeRun) error {
	if c.Pictures == "" {
		return nil
	}
	if err := os.MkdirAll(c.Pictures, 0o755); err != nil {
		return err
	}
	number := 0
	for i := range run.Results {
		png, err := run.Results[i].PNG()
		if err != nil {
			return err
		}
		if png == nil {
			continue
		}
		number++
		name := filepath.Join(c.Pictures, fmt.Sprintf("%d.png", number))
		if err := os.WriteFile(name, png, 0o644); err != nil {
			return err
		}
		a.Say("%s", name)
	}
	return nil
}

// codeOfRun is the exit code that says how a run ended.
func codeOfRun(run sandkasten.CodeRun) int {
	switch run.Cause {
	case "completed":
		return 0
	case "timeout":
		return cli.ExitTimeout
	case "interrupted", "canceled":
		return 130
	case "error":
		return cli.ExitFailed
	}
	return 137
}
