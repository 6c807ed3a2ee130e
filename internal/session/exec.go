package session

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// goneExitCode is that of a command whose sandbox died: what a shell reports
// after SIGKILL, since that is what the kernel sends to all that is inside.
const goneExitCode = 137

// Exec runs a command in one of the session's shells, after those that came
// before it, and writes its output to out as it appears. It returns when the
// command has ended, ctx is done or out fails. In the last two cases the
// command goes on, and the result says which one to Attach to. An exit code
// that is not zero is not an error. If the sandbox dies under the command, the
// result's cause is sandbox_gone.
func (m *Manager) Exec(ctx context.Context, id ID, req ExecRequest, out io.Writer) (ExecResult, error) {
	exec, err := m.planExec(req)
	if err != nil {
		return ExecResult{}, err
	}
	e, end, err := m.use(ctx, id)
	if err != nil {
		return ExecResult{}, err
	}
	defer end()
	if req.Started != nil {
		req.Started(exec.ID)
	}
	watched, stop := m.watch(ctx, e, exec.TimeoutMS)
	defer stop()
	result, err := e.box().client.Exec(watched, exec, req.Command, req.Stdin, out)
	return m.ended(ctx, e, exec.ID, result, err)
}

// Attach writes an exec's output from offset on to out and follows it to its
// end, as Exec does. Where output was dropped it goes on behind the gap, which
// the result counts, and of which an out that is a runnerclient.Sink is told.
func (m *Manager) Attach(ctx context.Context, id ID, execID string, offset int64, out io.Writer) (ExecResult, error) {
	if err := checkExecID(execID); err != nil {
		return ExecResult{}, err
	}
	if offset < 0 {
		return ExecResult{}, errdefs.Invalid("offset", "must not be negative")
	}
	e, end, err := m.use(ctx, id)
	if err != nil {
		return ExecResult{}, err
	}
	defer end()
	watched, stop := m.watch(ctx, e, 0)
	defer stop()
	result, err := e.box().client.Attach(watched, execID, offset, out)
	return m.ended(ctx, e, execID, result, err)
}

// use begins an operation on a running session, and wakes it if it is paused;
// the caller ends the operation.
func (m *Manager) use(ctx context.Context, id ID) (e *entry, end func(), err error) {
	e, err = m.running(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	end, err = e.begin()
	if errors.Is(err, errPaused) {
		end, err = m.wake(ctx, e)
	}
	return e, end, err
}

// planExec turns a request into what the runner is asked, under a new id.
func (m *Manager) planExec(req ExecRequest) (protocol.Exec, error) {
	switch {
	case req.Command == "":
		return protocol.Exec{}, errdefs.Invalid("cmd", "must not be empty")
	case len(req.Command) > protocol.MaxCommand:
		return protocol.Exec{}, errdefs.OverLimit("cmd", protocol.MaxCommand)
	case len(req.Stdin) > protocol.MaxCommand:
		return protocol.Exec{}, errdefs.OverLimit("stdin", protocol.MaxCommand)
	case strings.ContainsRune(req.Command, 0):
		return protocol.Exec{}, errdefs.Invalid("cmd", "must not contain a NUL byte")
	case req.Shell != "" && !check.IsName(req.Shell):
		return protocol.Exec{}, errdefs.Invalid("shell", "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'")
	}
	file, err := m.outputFile(req.OutputFile)
	if err != nil {
		return protocol.Exec{}, err
	}
	timeout, err := m.timeout(req.Timeout)
	if err != nil {
		return protocol.Exec{}, err
	}
	return protocol.Exec{
		ID:           newID(),
		Shell:        wireShell(req.Shell),
		TimeoutMS:    timeout.Milliseconds(),
		GraceMS:      m.opts.KillGrace.Milliseconds(),
		OutputLimit:  m.opts.Defaults.OutputBytes,
		OutputFile:   file,
		AllowOutside: m.opts.FilesOutsideWorkspace,
	}, nil
}

// outputFile returns an output_file as the runner is asked for it; "" is none.
func (m *Manager) outputFile(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return m.RunnerPath("output_file", name)
}

// timeout returns the timeout to set: the default for 0.
func (m *Manager) timeout(asked time.Duration) (time.Duration, error) {
	switch {
	case asked < 0:
		return 0, errdefs.Invalid("timeout_ms", "must not be negative")
	case asked > m.opts.Maxima.ExecTimeout:
		return 0, errdefs.Invalid("timeout_ms", "must be at most %d", m.opts.Maxima.ExecTimeout.Milliseconds())
	case asked > 0 && asked < time.Millisecond:
		return time.Millisecond, nil // 0 would be no timeout on the wire
	case asked == 0:
		return m.opts.Defaults.ExecTimeout, nil
	}
	return asked, nil
}

func checkExecID(id string) error {
	if !isID(id) {
		return errdefs.New(errdefs.NotFound, "no such exec; list the session's execs for those that it still knows")
	}
	return nil
}
