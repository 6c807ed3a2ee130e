package session

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
func (c *Execs) List(ctx context.Context, p auth.Principal, id ID) ([]protocol.Record, error) {
	use, err := c.look(ctx, p, id)
	if err != nil {
		return nil, err
	}
	execs, err := use.client.Execs(ctx)
	if err != nil {
		return nil, use.lost(ctx, err)
	}
	return execs, nil
}

// Get returns what the session knows of one exec, ended or not. It is
// not activity.
func (c *Execs) Get(ctx context.Context, p auth.Principal, id ID, execID string) (protocol.Record, error) {
	use, err := c.look(ctx, p, id)
	if err == nil {
		err = check.ExecID(execID)
	}
	if err != nil {
		return protocol.Record{}, err
	}
	record, err := use.client.Record(ctx, execID)
	if err != nil {
		return protocol.Record{}, use.lost(ctx, err)
	}
	return record, nil
}

// Wait returns an exec's record when it has ended, or as it is after wait.
func (c *Execs) Wait(ctx context.Context, p auth.Principal, id ID, execID string, wait time.Duration) (protocol.Record, error) {
	e, err := c.living(ctx, p, id)
	if err != nil {
		return protocol.Record{}, err
	}
	if wait < 0 || wait > MaxWait {
		return protocol.Record{}, errdefs.Invalid("timeout_ms", "must be between 0 and %d", MaxWait.Milliseconds())
	}
	return c.readExec(ctx, e, execID, wait > 0, func(ctx context.Context, runner *runnerclient.Client) (protocol.Record, error) {
		return runner.Wait(ctx, execID, wait)
	})
}

// Read writes what is kept of an exec's output from an offset on to out,
// without following it: next is the offset to go on from. The record may be of
// an exec that goes on. As with Attach, an out that is a runnerclient.Sink
// sees gaps.
func (c *Execs) Read(ctx context.Context, p auth.Principal, id ID, execID string, req ReadRequest, out io.Writer) (record protocol.Record, next int64, err error) {
	e, err := c.living(ctx, p, id)
	if err != nil {
		return protocol.Record{}, 0, err
	}
	switch {
	case req.Offset < 0:
		return protocol.Record{}, 0, errdefs.Invalid("since_seq", "must not be negative")
	case req.Wait < 0 || req.Wait > MaxWait:
		return protocol.Record{}, 0, errdefs.Invalid("wait_ms", "must be between 0 and %d", MaxWait.Milliseconds())
	}
	record, err = c.readExec(ctx, e, execID, req.Wait > 0, func(ctx context.Context, runner *runnerclient.Client) (protocol.Record, error) {
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
func (c *Execs) readExec(ctx context.Context, e *entry, execID string, waits bool, ask func(context.Context, *runnerclient.Client) (protocol.Record, error)) (protocol.Record, error) {
	if err := check.ExecID(execID); err != nil {
		return protocol.Record{}, err
	}
	use, err := c.begin(ctx, e)
	if err != nil {
		return protocol.Record{}, err
	}
	defer use.end()
	known := protocol.Record{ID: execID}
	if waits { // what is said of it if the sandbox ends meanwhile
		if known, err = use.client.Record(ctx, execID); err != nil {
			return protocol.Record{}, use.lost(ctx, err)
		}
	}
	watched, stop := c.supervise(ctx, use, 0)
	defer stop()
	record, err := ask(watched, use.client)
	if waits && errors.Is(err, runnerclient.ErrUnreachable) { // it was there a moment ago
		err = fmt.Errorf("%w: %w", runnerclient.ErrLost, err)
	}
	return c.ended(ctx, use, known, record, err)
}

// beginning is what is known of an exec that begins now.
func beginning(id, shell string, kind protocol.Kind, command string) protocol.Record {
	return protocol.Record{ID: id, Shell: shell, Kind: kind, Command: execwatch.Summary(command), State: protocol.StateRunning, StartedUnixMS: time.Now().UnixMilli()}
}

// ended completes the result of an exec, of which that much was known before, and
// tells subscribers to events.
func (c *Execs) ended(ctx context.Context, use use, known, result protocol.Record, err error) (protocol.Record, error) {
	result, err = c.completed(ctx, use, known, result, err)
	if err == nil && result.State == protocol.StateEnded {
		c.watch.Ended(use.entry, result)
	} else {
		c.watch.Left(ctx, use.entry, known.ID)
	}
	return result, err
}

func (c *Execs) completed(ctx context.Context, use use, known, result protocol.Record, err error) (protocol.Record, error) {
	if err == nil {
		if result.Shell == "" && result.Kind == protocol.KindShell && result.State == protocol.StateEnded {
			use.entry.moved(result.Cwd)
		}
		return result, nil
	}
	if protection.Off(protection.SandboxGone) {
		return result, err
	}
	broke := errors.Is(err, runnerclient.ErrLost)
	err = use.lost(ctx, err)
	s := use.entry.snapshot()
	if !broke || s.State.Alive() {
		result.ID = known.ID
		return result, err
	}
	known.State, known.Cause, known.ExitCode = protocol.StateEnded, protocol.CauseSandboxGone, execwatch.GoneExitCode
	known.Cwd, known.OutputBytes = s.Cwd, max(known.OutputBytes, result.OutputBytes)
	if known.StartedUnixMS > 0 {
		known.DurationUS = max(0, time.Since(time.UnixMilli(known.StartedUnixMS)).Microseconds())
	}
	return known, nil
}
