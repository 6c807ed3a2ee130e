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
	All bool `short:"a" help:"Also list ended ones that the session remembers."`
	cli.ListFlags
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
}

func (psCmd) Help() string {
	return `A job is a background process of a shell; it has a process number and no exec id.
Use of processor and memory includes all child processes. Attach to a terminal
with its id.

  sandkasten ps $id
  sandkasten shell --attach e3k5 $id
  sandkasten kill $id e3k5`
}

func (c psCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	s := cl.Session(c.Session)
	list, err := s.ListExecs(ctx)
	if err != nil {
		return err
	}
	shells, err := s.ListShells(ctx)
	if err != nil {
		return err
	}
	shown := list[:0]
	for _, r := range list {
		if c.All || r.State != "ended" {
			shown = append(shown, r)
		}
	}
	shown = append(shown, jobRecords(shells)...)
	rows := [][]string{{"EXEC", "KIND", "PID", "STATE", "AGE", "CPU", "MEMORY", "COMMAND"}}
	for _, r := range shown {
		rows = append(rows, processRow(r, time.Now()))
	}
	return c.Print(a, shown, rows, "")
}

// jobRecords are what shells have in the background, in the form of the rest.
func jobRecords(shells []sandkasten.Shell) (jobs []sandkasten.ExecRecord) {
	for _, s := range shells {
		for _, job := range s.Jobs {
			jobs = append(jobs, sandkasten.ExecRecord{
				Kind: "job", Shell: s.Name, PID: job.PID, Cmd: job.Command, State: "running", ExecEnd: sandkasten.ExecEnd{Usage: &job.Usage},
			})
		}
	}
	return jobs
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
	case r.Kind == "shell", r.Kind == "job":
		kind += " " + r.Shell
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
