package session

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// killGrace is the time between TERM and KILL for a command that is out of time.
const killGrace = 2 * time.Second

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
	timeout, err := m.checkExec(req)
	if err != nil {
		return ExecResult{}, err
	}
	e, end, err := m.use(ctx, id)
	if err != nil {
		return ExecResult{}, err
	}
	defer end()
	exec := protocol.Exec{
		ID:          newID(),
		Shell:       req.Shell,
		TimeoutMS:   timeout.Milliseconds(),
		GraceMS:     killGrace.Milliseconds(),
		OutputLimit: m.opts.Defaults.OutputBytes,
	}
	if req.Started != nil {
		req.Started(exec.ID)
	}
	result, err := e.box().client.Exec(ctx, exec, req.Command, req.Stdin, out)
	return m.ended(ctx, e, exec.ID, result, err)
}

// Attach writes an exec's output from offset on to out and follows it to its
// end, as Exec does. Where output was dropped it goes on behind the gap, which
// the result counts.
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
	result, err := e.box().client.Attach(ctx, execID, offset, out)
	return m.ended(ctx, e, execID, result, err)
}

// ended completes the result of an exec.
func (m *Manager) ended(ctx context.Context, e *entry, execID string, result ExecResult, err error) (ExecResult, error) {
	if err == nil {
		if result.Shell == "" {
			e.moved(result.Cwd)
		}
		return result, nil
	}
	broke := errors.Is(err, runnerclient.ErrLost)
	err = m.lost(ctx, e, err)
	s := e.snapshot()
	result.ID = execID
	if broke && !s.State.Alive() {
		result.State = protocol.StateEnded
		result.Cause = protocol.CauseSandboxGone
		result.ExitCode = goneExitCode
		result.Cwd = s.Cwd
		return result, nil
	}
	return result, err
}

// Execs lists the execs that the session still knows, oldest first. It is not
// activity.
func (m *Manager) Execs(ctx context.Context, id ID) ([]ExecResult, error) {
	e, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	execs, err := e.box().client.Execs(ctx)
	if err != nil {
		return nil, m.lost(ctx, e, err)
	}
	return execs, nil
}

// CancelExec ends an exec the way a timeout does. One that has ended already
// is not an error.
func (m *Manager) CancelExec(ctx context.Context, id ID, execID string) error {
	if err := checkExecID(execID); err != nil {
		return err
	}
	e, end, err := m.use(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	if err := e.box().client.Cancel(ctx, execID); err != nil {
		return m.lost(ctx, e, err)
	}
	return nil
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

func (m *Manager) checkExec(req ExecRequest) (timeout time.Duration, err error) {
	switch {
	case req.Command == "":
		return 0, errdefs.Invalid("cmd", "must not be empty")
	case len(req.Command) > protocol.MaxCommand:
		return 0, tooLarge("cmd", protocol.MaxCommand)
	case len(req.Stdin) > protocol.MaxCommand:
		return 0, tooLarge("stdin", protocol.MaxCommand)
	case strings.ContainsRune(req.Command, 0):
		return 0, errdefs.Invalid("cmd", "must not contain a NUL byte")
	case req.Shell != "" && !isName(req.Shell):
		return 0, errdefs.Invalid("shell", "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'")
	case req.Timeout < 0:
		return 0, errdefs.Invalid("timeout_ms", "must not be negative")
	case req.Timeout > m.opts.Maxima.ExecTimeout:
		return 0, errdefs.Invalid("timeout_ms", "must be at most %d", m.opts.Maxima.ExecTimeout.Milliseconds())
	case req.Timeout > 0 && req.Timeout < time.Millisecond:
		return time.Millisecond, nil // 0 would be no timeout on the wire
	case req.Timeout == 0:
		return m.opts.Defaults.ExecTimeout, nil
	}
	return req.Timeout, nil
}

func checkExecID(id string) error {
	if !isID(id) {
		return errdefs.New(errdefs.NotFound, "no such exec; list the session's execs for those that it still knows")
	}
	return nil
}

func tooLarge(field string, limit int64) error {
	err := errdefs.New(errdefs.TooLarge, "%s must be at most %d bytes", field, limit)
	err.Field = field
	return err
}
