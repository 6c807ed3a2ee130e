package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type psCmd struct {
	All     bool   `short:"a" help:"Also what has ended and is still known."`
	JSON    bool   `name:"json" help:"Print JSON."`
	Session string `arg:"" help:"Session id."`
}

func (psCmd) Help() string {
	return `Use of processor and memory is that of a process and all that it started. A
terminal can be attached to with its id.

  sandkasten ps $id
  sandkasten shell --attach e3k5 $id
  sandkasten kill $id e3k5`
}

func (c psCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	list, err := cl.Session(c.Session).ListExecs(ctx)
	if err != nil {
		return err
	}
	shown := list[:0]
	for _, r := range list {
		if c.All || r.State != "ended" {
			shown = append(shown, r)
		}
	}
	if c.JSON {
		return show.JSON(a.Out, shown)
	}
	rows := [][]string{{"EXEC", "KIND", "PID", "STATE", "AGE", "CPU", "MEMORY", "COMMAND"}}
	for _, r := range shown {
		rows = append(rows, processRow(r, time.Now()))
	}
	return show.Table(a.Out, rows)
}

func processRow(r sandkasten.ExecRecord, now time.Time) []string {
	kind, state, age, cpu, memory, pid := r.Kind, r.State, "", "", "", ""
	command := firstLine(r.Cmd)
	switch {
	case r.TTY:
		kind = "terminal"
		if command == "" {
			command = "(login shell)"
		}
	case r.Kind == "shell":
		kind = "shell " + r.Shell
	}
	if r.ExitCode != nil {
		state = fmt.Sprintf("%s (%d)", r.Cause, *r.ExitCode)
	}
	if !r.StartedAt.IsZero() {
		age = show.Span(now.Sub(r.StartedAt))
	}
	if r.PID != 0 {
		pid = strconv.Itoa(r.PID)
	}
	if r.Usage != nil {
		cpu = (time.Duration(r.Usage.CPUMS) * time.Millisecond).String()
		memory = show.Size(r.Usage.MemoryBytes)
	}
	return []string{r.ExecID, kind, pid, state, age, cpu, memory, command}
}
