package runner

import (
	"errors"

	"golang.org/x/sys/unix"

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
	user, other, err := c.r.fileUser(h)
	if err != nil {
		return err
	}
	if other || c.r.opts.Tool > 0 && ops.Heavy(h) {
		if fileops.RestoresOwners(h) {
			user = nil
		}
		start := func(cmd *spawn.Cmd) (fileops.Process, error) {
			p, err := c.r.startTool(cmd, user)
			if other && errors.Is(err, unix.EPERM) {
				err = noOther(user)
			}
			return p, err
		}
		tool := fileops.Tool{Program: c.r.opts.Tool, Workspace: c.r.opts.Workspace, Start: start, Stop: c.r.closing}
		return tool.Answer(ops, h)
	}
	return ops.Answer(h)
}

// fileUser is whose rights hold for a request about files. Those of another user
// than the sandbox's own, other, only a tool can have: a process which is that user
// from its start on has no right that is to be given back. That is so for root, too:
// the runner's own ids may be those of nobody in the sandbox.
func (r *Runner) fileUser(h protocol.Header) (user *User, other bool, err error) {
	spec, err := fileops.User(h)
	if err != nil || spec == "" {
		return r.opts.User, false, err
	}
	u, err := r.account(spec)
	if err != nil || r.opts.User != nil {
		return r.opts.User, false, err
	}
	user = &User{UID: u.UID, GID: u.GID, Groups: u.Groups}
	if r.opts.Tool <= 0 {
		return nil, false, noOther(user)
	}
	return user, true, nil
}

// noOther says that a runner without the right to make processes of other users, or
// without tools, cannot be somebody else.
func noOther(user *User) error {
	return protocol.Refuse(protocol.CodeUnprocessable, "this sandbox cannot work on files as %d:%d: leave user out",
		user.UID, user.GID).For("user")
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
