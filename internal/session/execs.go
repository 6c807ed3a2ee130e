package session

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// MaxWait is the longest that ReadExec and WaitExec wait.
const MaxWait = 10 * time.Minute

// Execs lists the execs that the session still knows, commands of shells and
// processes alike, oldest first. It is not activity.
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

// ExecRecord returns what the session knows of one exec, ended or not. It is
// not activity.
func (m *Manager) ExecRecord(ctx context.Context, id ID, execID string) (ExecResult, error) {
	if err := checkExecID(execID); err != nil {
		return ExecResult{}, err
	}
	e, err := m.running(ctx, id)
	if err != nil {
		return ExecResult{}, err
	}
	record, err := e.box().client.Record(ctx, execID)
	if err != nil {
		return ExecResult{}, m.lost(ctx, e, err)
	}
	return record, nil
}

// WaitExec returns an exec's record when it has ended, or as it is after wait.
func (m *Manager) WaitExec(ctx context.Context, id ID, execID string, wait time.Duration) (ExecResult, error) {
	if wait < 0 || wait > MaxWait {
		return ExecResult{}, errdefs.Invalid("timeout_ms", "must be between 0 and %d", MaxWait.Milliseconds())
	}
	return m.reading(ctx, id, execID, func(ctx context.Context, c *runnerclient.Client) (ExecResult, error) {
		return c.Wait(ctx, execID, wait)
	})
}

// ReadExec writes what is kept of an exec's output from an offset on to out,
// without following it: next is the offset to go on from. The record may be of
// an exec that goes on. As with Attach, an out that is a runnerclient.Sink is
// told of gaps.
func (m *Manager) ReadExec(ctx context.Context, id ID, execID string, req ReadRequest, out io.Writer) (record ExecResult, next int64, err error) {
	switch {
	case req.Offset < 0:
		return ExecResult{}, 0, errdefs.Invalid("since_seq", "must not be negative")
	case req.Wait < 0 || req.Wait > MaxWait:
		return ExecResult{}, 0, errdefs.Invalid("wait_ms", "must be between 0 and %d", MaxWait.Milliseconds())
	}
	record, err = m.reading(ctx, id, execID, func(ctx context.Context, c *runnerclient.Client) (ExecResult, error) {
		var record ExecResult
		var err error
		record, next, err = c.Poll(ctx, protocol.Attach{
			ID: execID, Offset: req.Offset, MaxBytes: req.MaxBytes, WaitMS: req.Wait.Milliseconds(),
		}, out)
		return record, err
	})
	return record, next, err
}

// reading asks the runner for something of one exec that it may wait for. The
// session is in use meanwhile. If the sandbox dies, so does the exec.
func (m *Manager) reading(ctx context.Context, id ID, execID string, ask func(context.Context, *runnerclient.Client) (ExecResult, error)) (ExecResult, error) {
	if err := checkExecID(execID); err != nil {
		return ExecResult{}, err
	}
	e, end, err := m.use(ctx, id)
	if err != nil {
		return ExecResult{}, err
	}
	defer end()
	watched, stop := m.watch(ctx, e, 0)
	defer stop()
	record, err := ask(watched, e.box().client)
	return m.ended(ctx, e, execID, record, err)
}

// ended completes the result of an exec.
func (m *Manager) ended(ctx context.Context, e *entry, execID string, result ExecResult, err error) (ExecResult, error) {
	if err == nil {
		if result.Shell == "" && result.Kind == protocol.KindShell && result.State == protocol.StateEnded {
			e.moved(result.Cwd)
		}
		return result, nil
	}
	broke := errors.Is(err, runnerclient.ErrLost)
	err = m.lost(ctx, e, err)
	s := e.snapshot()
	result.ID = execID
	if broke && s.State != Running {
		result.State = protocol.StateEnded
		result.Cause = protocol.CauseSandboxGone
		result.ExitCode = goneExitCode
		result.Cwd = s.Cwd
		return result, nil
	}
	return result, err
}
