package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/session/execwatch"
	"github.com/sandkasten/sandkasten/protocol"
)

// MaxWait is the longest that ReadExec and WaitExec wait.
const MaxWait = 10 * time.Minute

// List lists the execs that the session still knows, commands of shells and
// processes alike, oldest first. It is not activity.
func (x *Execs) List(ctx context.Context, p auth.Principal, id string) ([]protocol.Record, error) {
	s, runner, err := x.look(ctx, p, id)
	if err != nil {
		return nil, err
	}
	execs, err := runner.Execs(ctx)
	if err != nil {
		return nil, s.Lost(ctx, err)
	}
	return execs, nil
}

// Get returns what the session knows of one exec, ended or not. It is
// not activity.
func (x *Execs) Get(ctx context.Context, p auth.Principal, id, execID string) (protocol.Record, error) {
	s, runner, err := x.look(ctx, p, id)
	if err == nil {
		err = check.ExecID(execID)
	}
	if err != nil {
		return protocol.Record{}, err
	}
	record, err := runner.Record(ctx, execID)
	if err != nil {
		return protocol.Record{}, s.Lost(ctx, err)
	}
	return record, nil
}

// Wait returns an exec's record when it has ended, or as it is after wait.
func (x *Execs) Wait(ctx context.Context, p auth.Principal, id, execID string, wait time.Duration) (protocol.Record, error) {
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return protocol.Record{}, err
	}
	if wait < 0 || wait > MaxWait {
		return protocol.Record{}, errdefs.Invalid("timeout_ms", "must be between 0 and %d", MaxWait.Milliseconds())
	}
	return x.readExec(ctx, s, execID, wait > 0, func(ctx context.Context, runner *runnerclient.Client) (protocol.Record, error) {
		return runner.Wait(ctx, execID, wait)
	})
}

// Read writes what is kept of an exec's output from an offset on to out,
// without following it: next is the offset to go on from. The record may be of
// an exec that goes on. As with Attach, an out that is a runnerclient.Sink
// sees gaps.
func (x *Execs) Read(ctx context.Context, p auth.Principal, id, execID string, req ReadRequest, out io.Writer) (record protocol.Record, next int64, err error) {
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return protocol.Record{}, 0, err
	}
	switch {
	case req.Offset < 0:
		return protocol.Record{}, 0, errdefs.Invalid("since_seq", "must not be negative")
	case req.Wait < 0 || req.Wait > MaxWait:
		return protocol.Record{}, 0, errdefs.Invalid("wait_ms", "must be between 0 and %d", MaxWait.Milliseconds())
	}
	record, err = x.readExec(ctx, s, execID, req.Wait > 0, func(ctx context.Context, runner *runnerclient.Client) (protocol.Record, error) {
		var record protocol.Record
		var err error
		record, next, err = runner.Poll(ctx, protocol.Attach{
			ID: execID, Offset: req.Offset, MaxBytes: req.MaxBytes, WaitMS: req.Wait.Milliseconds(),
		}, out)
		return record, err
	})
	return record, next, err
}

// readExec asks the runner for something of one exec, and may wait for it. The
// session is in use meanwhile. If the sandbox dies, so does the exec.
func (x *Execs) readExec(ctx context.Context, s Session, execID string, waits bool, ask func(context.Context, *runnerclient.Client) (protocol.Record, error)) (protocol.Record, error) {
	if err := check.ExecID(execID); err != nil {
		return protocol.Record{}, err
	}
	runner, end, err := s.Begin(ctx)
	if err != nil {
		return protocol.Record{}, err
	}
	defer end()
	known := protocol.Record{ID: execID}
	if waits { // what is said of it if the sandbox ends meanwhile
		if known, err = runner.Record(ctx, execID); err != nil {
			return protocol.Record{}, s.Lost(ctx, err)
		}
	}
	watched, stop := x.supervise(ctx, runner, 0)
	defer stop()
	record, err := ask(watched, runner)
	if waits && errors.Is(err, runnerclient.ErrUnreachable) { // it was there a moment ago
		err = fmt.Errorf("%w: %w", runnerclient.ErrLost, err)
	}
	return x.ended(ctx, s, known, record, err)
}

// beginning is what is known of an exec that begins now.
func beginning(id, shell string, kind protocol.Kind, command string) protocol.Record {
	return protocol.Record{ID: id, Shell: shell, Kind: kind, Command: execwatch.Summary(command), State: protocol.StateRunning, StartedUnixMS: time.Now().UnixMilli()}
}

// ended completes the result of an exec, of which that much was known before, and
// tells subscribers to events.
func (x *Execs) ended(ctx context.Context, s Session, known, result protocol.Record, err error) (protocol.Record, error) {
	result, err = x.completed(ctx, s, known, result, err)
	if err == nil && result.State == protocol.StateEnded {
		x.watch.Ended(s, result)
	} else {
		x.watch.Left(ctx, s, known.ID)
	}
	return result, err
}

func (x *Execs) completed(ctx context.Context, s Session, known, result protocol.Record, err error) (protocol.Record, error) {
	if err == nil {
		if result.Shell == "" && result.Kind == protocol.KindShell && result.State == protocol.StateEnded {
			s.Moved(result.Cwd)
		}
		return result, nil
	}
	if protection.Off(protection.SandboxGone) {
		return result, err
	}
	broke := errors.Is(err, runnerclient.ErrLost)
	err = s.Lost(ctx, err)
	now := s.Now()
	if !broke || now.Alive {
		result.ID = known.ID
		return result, err
	}
	known.State, known.Cause, known.ExitCode = protocol.StateEnded, protocol.CauseSandboxGone, execwatch.GoneExitCode
	known.Cwd, known.OutputBytes = now.Cwd, max(known.OutputBytes, result.OutputBytes)
	if known.StartedUnixMS > 0 {
		known.DurationUS = max(0, time.Since(time.UnixMilli(known.StartedUnixMS)).Microseconds())
	}
	return known, nil
}
