package sandkasten

import (
	"context"
	"time"
)

// Shell is one of a session's shells; ExecOptions.Shell makes them.
type Shell struct {
	Name      string    `json:"name"`
	State     string    `json:"state"`             // idle, busy
	ExecID    string    `json:"exec_id,omitempty"` // of the command that it runs
	Cmd       string    `json:"cmd,omitempty"`     // that command's beginning
	Queued    int       `json:"queued"`            // commands behind that one
	PID       int       `json:"pid,omitempty"`     // inside; 0 while it has no process
	Cwd       string    `json:"cwd"`               // after its last command
	Restarts  int       `json:"restarts"`
	CreatedAt time.Time `json:"created_at"`
	Jobs      []Job     `json:"jobs,omitempty"` // what its commands have left running
}

// Job is a process in the background of a shell.
type Job struct {
	PID     int    `json:"pid"`
	Command string `json:"command"` // its name for itself
	Usage   Usage  `json:"usage"`   // with all that it started
}

// ListShells returns the session's shells by name, the default one first.
func (s *Session) ListShells(ctx context.Context) ([]Shell, error) {
	var list []Shell
	err := s.client.call(ctx, get(s.path+"/shells"), &list)
	return list, err
}

// CloseShell ends a shell with all that it started. The next command that names it
// gets a new one.
func (s *Session) CloseShell(ctx context.Context, name string) error {
	return s.client.call(ctx, remove(s.path+"/shells/"+segment(name)), nil)
}
