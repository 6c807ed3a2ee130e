package main

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type logsCmd struct {
	cli.FormFlags
	Raw     bool   `help:"Print the output unchanged. By default control characters appear as \\x1b and the like."`
	Follow  bool   `short:"f" xor:"form" help:"Print the output as it appears, from its beginning to its end."`
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Exec    string `arg:"" optional:"" help:"Exec id: print only its output."`
}

func (logsCmd) Help() string {
	return `A session remembers its last commands, with the beginning and the end of their
output. They outlive their client and the daemon, not the session.

  sandkasten logs $id
  sandkasten logs $id e3k5
  sandkasten logs -f $id e3k5

Following an ended command prints its output and exits. Standard error of a process
goes to standard error.`
}

func (c logsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	if c.Exec == "" {
		if c.Follow {
			return cli.Wrong("--follow needs the id of an exec; `sandkasten ps` shows what runs")
		}
		return c.list(ctx, a, cl)
	}
	if c.Follow {
		return c.follow(ctx, a, cl)
	}
	r, err := cl.Session(c.Session).Process(c.Exec).Get(ctx, &sandkasten.AttachOptions{RawOutput: true})
	if err != nil {
		return err
	}
	if done, err := c.Done(a, r); done {
		return err
	}
	output, err := r.Bytes()
	if err != nil {
		return err
	}
	text := string(output)
	if !c.Raw {
		text = show.Visible(text, "\n\t")
	}
	_, err = io.WriteString(a.Out, text)
	return err
}

func (c logsCmd) follow(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	to := outputs{out: a.Out, err: a.Err}
	if !c.Raw {
		to = outputs{out: show.NewScreen(a.Out), err: show.NewScreen(a.Err)}
	}
	end, err := cl.Session(c.Session).Attach(c.Exec, &sandkasten.AttachOptions{RawOutput: true}).Copy(ctx, to.out, to.err)
	if err = errors.Join(err, to.flush()); err != nil {
		return err
	}
	comment(a, end)
	return nil
}

func (c logsCmd) list(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	list, err := cl.Session(c.Session).ListExecs(ctx)
	if err != nil {
		return err
	}
	if done, err := c.Done(a, list); done {
		return err
	}
	rows := [][]string{{"EXEC", "STARTED", "STATE", "EXIT", "TOOK", "OUTPUT", "COMMAND"}}
	for _, r := range list {
		rows = append(rows, execRow(r, time.Now()))
	}
	return show.Table(a.Out, rows)
}

func execRow(r sandkasten.ExecRecord, now time.Time) []string {
	state, exit, took := r.State, "", ""
	if r.ExitCode != nil {
		state, exit = r.Cause, strconv.Itoa(*r.ExitCode)
		took = (time.Duration(r.DurationMS) * time.Millisecond).String()
	}
	started := ""
	if !r.StartedAt.IsZero() {
		started = show.Span(now.Sub(r.StartedAt)) + " ago"
	}
	return []string{r.ExecID, started, state, exit, took, show.Size(r.OutputBytes), firstLine(r.Cmd)}
}

// firstLine is as much of a command as fits into a table.
func firstLine(command string) string {
	const most = 60
	line, _, more := strings.Cut(command, "\n")
	if runes := []rune(line); len(runes) > most {
		line, more = string(runes[:most]), true
	}
	if more {
		line += " ..."
	}
	return line
}
