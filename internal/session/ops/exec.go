package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/session/ids"
	"github.com/sandkasten/sandkasten/internal/tracing"
	"github.com/sandkasten/sandkasten/protocol"
)

// Run runs a command in one of the session's shells, after those that came
// before it, and writes its output to out as it appears. It returns when the
// command has ended, ctx is done or out fails. In the last two cases the
// command goes on, and the result says which one to Attach to. An exit code
// that is not zero is not an error. If the sandbox dies under the command, the
// result's cause is sandbox_gone. An out that is a runnerclient.Witness gets the
// exec's id when it can be attached to.
func (x *Execs) Run(ctx context.Context, p auth.Principal, id string, req ExecRequest, out io.Writer) (_ protocol.Record, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "exec")
	defer func() { span.End(err) }()
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return protocol.Record{}, err
	}
	exec, err := x.planExec(s, req)
	if err != nil {
		return protocol.Record{}, err
	}
	command, err := check.CommandLine(req.Command, req.Cwd, req.Env)
	if err != nil {
		return protocol.Record{}, err
	}
	runner, end, err := s.Begin(ctx)
	if err != nil {
		return protocol.Record{}, err
	}
	defer end()
	watched, stop := x.supervise(ctx, runner, exec.TimeoutMS)
	defer stop()
	began := beginning(exec.ID, exec.Shell, protocol.KindShell, req.Command)
	x.watch.Began(s, began)
	result, err := runner.Exec(watched, exec, command, req.Stdin, out)
	return x.ended(ctx, s, began, result, endLeft(ctx, runner, exec.ID, req.Leaving, err))
}

// Attach writes an exec's output from offset on to out and follows it to its
// end, as Run does. Where output was dropped it goes on behind the gap. The result
// counts what is missing, and an out that is a runnerclient.Sink sees where.
func (x *Execs) Attach(ctx context.Context, p auth.Principal, id, execID string, offset int64, out io.Writer) (_ protocol.Record, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "attach")
	defer func() { span.End(err) }()
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return protocol.Record{}, err
	}
	if offset < 0 {
		return protocol.Record{}, errdefs.Invalid("offset", "must not be negative")
	}
	return x.readExec(ctx, s, execID, true, func(ctx context.Context, runner *runnerclient.Client) (protocol.Record, error) {
		return runner.Attach(ctx, execID, offset, out)
	})
}

// superviseMargin is what an answer may take beyond a command's time and grace.
const superviseMargin = 5 * time.Second

// supervise returns a context that ends when the runner stops answering. It is
// asked first when a command with a timeout must have ended, if that is soon; it
// may well be that it waits for its shell. The caller calls stop.
func (x *Execs) supervise(ctx context.Context, runner *runnerclient.Client, timeoutMS int64) (supervised context.Context, stop func()) {
	first := time.Hour // which is later than usual
	if timeoutMS > 0 {
		first = time.Duration(timeoutMS)*time.Millisecond + x.opts.KillGrace + superviseMargin
	}
	return runner.Supervise(ctx, first)
}

// planExec turns a request into what the runner is asked, under a new id.
func (x *Execs) planExec(s Session, req ExecRequest) (protocol.Exec, error) {
	if err := check.Command(req.ID, req.Command, req.Stdin, req.Shell); err != nil {
		return protocol.Exec{}, err
	}
	file, err := outputFile(s, req.OutputFile)
	if err != nil {
		return protocol.Exec{}, err
	}
	timeout, err := x.timeout(req.Timeout)
	if err != nil {
		return protocol.Exec{}, err
	}
	return protocol.Exec{
		ID:           cmp.Or(req.ID, ids.New()),
		Shell:        wireShell(req.Shell),
		TimeoutMS:    timeout.Milliseconds(),
		GraceMS:      x.opts.KillGrace.Milliseconds(),
		OutputLimit:  x.opts.OutputBytes,
		OutputFile:   file,
		OpenStdin:    req.OpenStdin,
		AllowOutside: s.Now().AllFiles,
	}, nil
}

// killTime is how long the end of a command is asked for whose client is gone.
const killTime = 10 * time.Second

// endLeft ends a command that ended its request by err, if its client wanted that. What
// never began, or has lost its sandbox, has ended; an id that was taken is another's.
func endLeft(ctx context.Context, runner *runnerclient.Client, execID string, leaving Leaving, err error) error {
	if err == nil || leaving == GoOn || errdefs.Is(err, errdefs.AlreadyExists) || ctx.Err() == nil && errors.Is(err, runnerclient.ErrLost) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	if failed := runner.Cancel(ctx, execID); failed != nil && !errdefs.Is(failed, errdefs.NotFound) {
		return errors.Join(err, fmt.Errorf("end a command whose client is gone: %w", failed))
	}
	return err
}

// outputFile returns an output_file as the runner is asked for it; "" is none.
func outputFile(s Session, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return runnerPath(s, "output_file", name)
}

// timeout returns the timeout to set: the default for 0.
func (x *Execs) timeout(asked time.Duration) (time.Duration, error) {
	return check.Timeout(asked, x.opts.ExecTimeout, x.opts.MaxExecTimeout)
}
