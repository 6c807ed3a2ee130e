package runner

import (
	"io"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/runner/files"
	"github.com/sandkasten/sandkasten/internal/runner/lookup"
	"github.com/sandkasten/sandkasten/protocol"
)

// home is what a sandbox has of its session. It changes once, with Settle.
type home struct {
	env   []string
	files *files.Server
}

func (c *conn) settle(req protocol.Settle, size int64) error {
	payload := make([]byte, size)
	if _, err := io.ReadFull(c.in, payload); err != nil {
		return err
	}
	env, err := variables(payload)
	if err != nil {
		return err
	}
	if err := c.r.settle(req, env); err != nil {
		return err
	}
	return c.out.Send(protocol.TypeOK, nil, nil)
}

// hold makes what is to start a program wait, or go on.
func (c *conn) hold(req protocol.Hold, _ int64) error {
	if req.On != nil {
		c.r.reaper.Hold(*req.On)
	}
	return c.out.Send(protocol.TypeHeld, protocol.Held{On: c.r.reaper.Held()}, nil)
}

// variables splits a list of NAME=VALUE, each with a zero byte behind it.
func variables(b []byte) ([]string, error) {
	env, ok := zeroEnded(b)
	if !ok {
		return nil, errZeroEnded
	}
	if slices.ContainsFunc(env, func(kv string) bool { return strings.IndexByte(kv, '=') < 1 }) {
		return nil, protocol.Refuse(protocol.CodeInvalid, "each variable must be NAME=VALUE")
	}
	return env, nil
}

// settle gives the sandbox to its session. A shell is not told of a change but
// replaced: some of what is in an environment counts for a shell only when it
// starts.
func (r *Runner) settle(req protocol.Settle, env []string) error {
	if err := r.takeSettling(); err != nil {
		return err
	}
	was := r.home.Load()
	now := home{env: lookup.Env(was.env, env), files: was.files}
	if req.Hostname != "" && r.opts.Rename != nil {
		if err := r.opts.Rename(req.Hostname, req.HostsFile); err != nil {
			return protocol.Refuse(protocol.CodeInternal, "the sandbox cannot be renamed: %v", err)
		}
	}
	if req.Moved {
		moved, err := files.Open(r.opts.Workspace, r.opts.Changes, r.opts.Baseline)
		if err != nil {
			return protocol.Refuse(protocol.CodeInternal, "the workspace cannot be opened: %v", err)
		}
		now.files = moved
	}
	r.home.Store(&now)
	if req.Moved {
		if err := was.files.Close(); err != nil {
			return protocol.Refuse(protocol.CodeInternal, "the old workspace cannot be closed: %v", err)
		}
	}
	if req.Hostname == "" && len(env) == 0 && !req.Moved {
		return nil
	}
	return r.replaceShell("")
}

// takeSettling refuses a sandbox that is somebody's.
func (r *Runner) takeSettling() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled || len(r.shells) > 1 || len(r.records.all()) > 0 {
		return protocol.Refuse(protocol.CodeConflict, "this sandbox has been used: it is somebody's already")
	}
	r.settled = true
	return nil
}

// replaceShell ends a shell when another one has begun to start in its place.
func (r *Runner) replaceShell(name string) error {
	r.mu.Lock()
	old := r.shells[name]
	delete(r.shells, name)
	r.mu.Unlock()
	_, err := r.shell(name)
	if old != nil {
		old.end()
	}
	return err
}
