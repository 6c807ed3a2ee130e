package runner

import (
	"github.com/sandkasten/sandkasten/internal/runner/fileops"
	"github.com/sandkasten/sandkasten/internal/spawn"
	"github.com/sandkasten/sandkasten/protocol"
)

// maxWatches is how many watches of directories there are at once.
const maxWatches = 16

// answerFiles answers a request about files. What may take much is done by a
// tool, a process that counts against the sandbox's limits and not the
// runner's.
func (c *conn) answerFiles(h protocol.Header) error {
	if h.Type == protocol.TypeWatch {
		defer c.r.watches.Add(-1)
		if c.r.watches.Add(1) > maxWatches {
			return protocol.Refuse(protocol.CodeExhausted, "the sandbox has %d watches, which is the limit; end one", maxWatches)
		}
	}
	ops := &fileops.Conn{Files: c.r.home.Load().files, File: c.file, FD: c.fd, In: c.in, Out: c.out}
	if c.r.opts.Tool > 0 && ops.Heavy(h) {
		user := c.r.opts.User
		if fileops.RestoresOwners(h) {
			user = nil
		}
		start := func(cmd *spawn.Cmd) (fileops.Process, error) { return c.r.startTool(cmd, user) }
		tool := fileops.Tool{Program: c.r.opts.Tool, Workspace: c.r.opts.Workspace, Start: start, Stop: c.r.closing}
		return tool.Answer(ops, h)
	}
	return ops.Answer(h)
}

// startTool starts a tool as user; nil is the runner's own.
func (r *Runner) startTool(cmd *spawn.Cmd, user *User) (fileops.Process, error) {
	cmd.Steps = append(append(cmd.Steps, spawn.Umask(0o022)), user.steps()...)
	tool, err := r.reaper.StartTool(cmd)
	if err != nil {
		return nil, err
	}
	return tool, nil
}
