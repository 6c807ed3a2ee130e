package main

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/client"
)

type logsCmd struct {
	JSON    bool   `name:"json" xor:"form" help:"Print JSON."`
	Raw     bool   `xor:"form" help:"Print the output as it was written. By default control characters are shown as \\x1b and the like."`
	Session string `arg:"" help:"Session id."`
	Exec    string `arg:"" optional:"" help:"Exec id: print the output of this one."`
}

func (logsCmd) Help() string {
	return `A session remembers its last commands, ended or not, with the beginning and the
end of their output. They outlive their client and the daemon, not the session.

  sandkasten logs $id
  sandkasten logs $id e3k5`
}

func (c logsCmd) Run(ctx context.Context, a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if c.Exec == "" {
		return c.list(ctx, a, cl)
	}
	r, err := cl.ExecOutput(ctx, c.Session, c.Exec)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.out, r)
	}
	output, err := r.Bytes()
	if err != nil {
		return err
	}
	text := string(output)
	if !c.Raw {
		text = visible(text, "\n\t")
	}
	_, err = io.WriteString(a.out, text)
	return err
}

func (c logsCmd) list(ctx context.Context, a *app, cl *client.Client) error {
	list, err := cl.Execs(ctx, c.Session)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.out, list)
	}
	rows := [][]string{{"EXEC", "STARTED", "STATE", "EXIT", "TOOK", "OUTPUT", "COMMAND"}}
	for _, r := range list {
		rows = append(rows, execRow(r, time.Now()))
	}
	return table(a.out, rows)
}

func execRow(r client.ExecRecord, now time.Time) []string {
	const most = 60
	state, exit, took := r.State, "", ""
	if r.ExitCode != nil {
		state, exit = r.Cause, strconv.Itoa(*r.ExitCode)
		took = (time.Duration(r.DurationMS) * time.Millisecond).String()
	}
	command, _, more := strings.Cut(r.Command, "\n")
	if runes := []rune(command); len(runes) > most {
		command, more = string(runes[:most]), true
	}
	if more {
		command += " ..."
	}
	started := ""
	if !r.StartedAt.IsZero() {
		started = span(now.Sub(r.StartedAt)) + " ago"
	}
	return []string{r.ID, started, state, exit, took, size(r.OutputBytes), command}
}
