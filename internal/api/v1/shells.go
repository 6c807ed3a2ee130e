package v1

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

// Shell is a persistent shell of a session.
type Shell struct {
	Name      string    `json:"name" example:"default"`
	State     string    `json:"state" enum:"idle,busy"`
	ExecID    string    `json:"exec_id,omitempty" doc:"The command that it runs." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	Command   string    `json:"cmd,omitempty" doc:"The first 256 bytes of that command." example:"make test"`
	Queued    int       `json:"queued" doc:"Commands that wait behind that one."`
	PID       int       `json:"pid,omitempty" doc:"Inside the sandbox; absent while it has no process." example:"7"`
	Cwd       string    `json:"cwd" doc:"After its last command." example:"/workspace"`
	Restarts  int       `json:"restarts" doc:"How often it ended and was replaced."`
	CreatedAt time.Time `json:"created_at"`
	Jobs      []Job     `json:"jobs,omitempty" doc:"What its commands have left running in the background."`
}

// Job is a process in the background of a shell.
type Job struct {
	PID     int    `json:"pid" doc:"Inside the sandbox." example:"12"`
	Command string `json:"command" doc:"The program's name for itself, of at most 15 bytes." example:"sleep"`
	Usage   Usage  `json:"usage" doc:"Of it and all that it started."`
}

type shellsOutput struct {
	Body []Shell `nullable:"false"`
}

func (s *surface) listShells(ctx context.Context, in *SessionPath) (*shellsOutput, error) {
	id, err := s.find(ctx, *in)
	if err != nil {
		return nil, err
	}
	all, err := s.manager.Execs.Shells(ctx, api.Caller(ctx), string(id))
	if err != nil {
		return nil, err
	}
	busy, err := s.commandsOf(ctx, id, all)
	if err != nil {
		return nil, err
	}
	out := &shellsOutput{Body: make([]Shell, len(all))}
	for i, one := range all {
		out.Body[i] = Shell{
			Name: shellName(one.Name), State: "idle", ExecID: one.Exec, Command: busy[one.Exec], Queued: one.Queued, PID: one.PID,
			Cwd: one.Cwd, Restarts: one.Restarts, CreatedAt: time.UnixMilli(one.CreatedMS).UTC(),
		}
		if one.Exec != "" {
			out.Body[i].State = "busy"
		}
		for _, job := range one.Jobs {
			out.Body[i].Jobs = append(out.Body[i].Jobs, Job{PID: job.PID, Command: job.Name, Usage: *usageOf(&job.Usage)})
		}
	}
	return out, nil
}

// commandsOf are the beginnings of the commands that shells run, by the execs' ids.
func (s *surface) commandsOf(ctx context.Context, id session.ID, shells []protocol.ShellInfo) (map[string]string, error) {
	if !slices.ContainsFunc(shells, func(one protocol.ShellInfo) bool { return one.Exec != "" }) {
		return nil, nil
	}
	execs, err := s.manager.Execs.List(ctx, api.Caller(ctx), string(id))
	commands := make(map[string]string, len(execs))
	for _, exec := range execs {
		commands[exec.ID] = exec.Command
	}
	return commands, err
}

// shellName is what clients call a shell.
func shellName(name string) string { return cmp.Or(name, ops.DefaultShell) }

type shellPath struct {
	SessionPath
	Name string `path:"name" doc:"The shell's name." example:"build"`
}

func (s *surface) closeShell(ctx context.Context, in *shellPath) (*contract.OKOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	if err := s.manager.Execs.CloseShell(ctx, api.Caller(ctx), string(id), in.Name); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}
