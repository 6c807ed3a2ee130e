package ops

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/session/ids"
	"github.com/sandkasten/sandkasten/internal/tracing"
	"github.com/sandkasten/sandkasten/protocol"
)

// RunProcess runs a program without a shell, beside everything else that runs
// in the session, and is like Run in all else. An out that is a
// runnerclient.Sink learns which bytes are of which stream. A program that
// cannot be started is Unprocessable.
func (x *Execs) RunProcess(ctx context.Context, p auth.Principal, id string, req ProcessRequest, out io.Writer) (_ protocol.Record, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "run_process")
	defer func() { span.End(err) }()
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return protocol.Record{}, err
	}
	if err := check.Args(req.Args); err != nil {
		return protocol.Record{}, err
	}
	start, program, err := x.planStart(s, req)
	if err != nil {
		return protocol.Record{}, err
	}
	timeout, err := x.timeout(req.Timeout)
	if err != nil {
		return protocol.Record{}, err
	}
	start.TimeoutMS = timeout.Milliseconds()
	runner, end, err := s.Begin(ctx)
	if err != nil {
		return protocol.Record{}, err
	}
	defer end()
	watched, stop := x.supervise(ctx, runner, start.TimeoutMS)
	defer stop()
	began := beginning(start.ID, "", protocol.KindProcess, strings.Join(req.Args, " "))
	x.watch.Began(s, began)
	result, err := runner.Run(watched, start, program, out)
	return x.ended(ctx, s, began, result, endLeft(ctx, runner, start.ID, req.Leaving, err))
}

// StartProcess starts a program in the background and returns its record. Such
// a program is no use of the session by itself: it ends with the session when
// nobody uses that for its TTL.
func (x *Execs) StartProcess(ctx context.Context, p auth.Principal, id string, req ProcessRequest) (_ protocol.Record, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "start_process")
	defer func() { span.End(err) }()
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return protocol.Record{}, err
	}
	if err := check.Args(req.Args); err != nil {
		return protocol.Record{}, err
	}
	start, program, err := x.planStart(s, req)
	if err != nil {
		return protocol.Record{}, err
	}
	if req.Timeout != 0 {
		timeout, err := x.timeout(req.Timeout)
		if err != nil {
			return protocol.Record{}, err
		}
		start.TimeoutMS = timeout.Milliseconds()
	}
	return x.startProgram(ctx, s, start, program)
}

func (x *Execs) startProgram(ctx context.Context, s Session, start protocol.Start, program runnerclient.Program) (protocol.Record, error) {
	runner, end, err := s.Begin(ctx)
	if err != nil {
		return protocol.Record{}, err
	}
	defer end()
	record, err := runner.Start(ctx, start, program)
	if err != nil {
		return protocol.Record{}, s.Lost(ctx, err)
	}
	x.watch.Began(s, record)
	x.watch.Left(ctx, s, record.ID)
	return record, nil
}

// planStart turns a request into what the runner is asked, under a new id and
// without a timeout. Without arguments it is for a login shell.
func (x *Execs) planStart(s Session, req ProcessRequest) (protocol.Start, runnerclient.Program, error) {
	if err := check.Process(req.ID, req.Args, req.Env, req.Stdin, req.Cwd, req.User); err != nil {
		return protocol.Start{}, runnerclient.Program{}, err
	}
	file, err := outputFile(s, req.OutputFile)
	if err != nil {
		return protocol.Start{}, runnerclient.Program{}, err
	}
	start := protocol.Start{
		ID:           cmp.Or(req.ID, ids.New()),
		Cwd:          req.Cwd,
		User:         req.User,
		OpenStdin:    req.OpenStdin,
		GraceMS:      x.opts.KillGrace.Milliseconds(),
		OutputLimit:  x.opts.OutputBytes,
		OutputFile:   file,
		Merge:        req.Merged,
		AllowOutside: s.Now().AllFiles,
	}
	if size := req.Terminal; size != nil {
		start.TTY, start.Rows, start.Cols = true, size.Rows, size.Cols
	}
	return start, runnerclient.Program{Args: req.Args, Env: check.Variables(req.Env), Stdin: req.Stdin}, nil
}

// stdinPatience is how long a program may take to read what it is typed.
const stdinPatience = 5 * time.Second

// WriteStdin gives data to a program or a shell's command that was started with
// its stdin open, and ends its stdin behind it if last is set. It returns how much
// it took: less than all if it did not read within some seconds. Conflict says
// that its stdin is not open.
func (x *Execs) WriteStdin(ctx context.Context, p auth.Principal, id, execID string, data []byte, last bool) (taken protocol.Taken, err error) {
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return taken, err
	}
	if len(data) > protocol.MaxCommand {
		return taken, errdefs.OverLimit("data", protocol.MaxCommand)
	}
	err = x.onExec(ctx, s, execID, func(runner *runnerclient.Client) error {
		taken, err = runner.Stdin(ctx, protocol.Stdin{ID: execID, Close: last, WaitMS: stdinPatience.Milliseconds()}, data)
		return err
	})
	return taken, err
}

// Signal sends a signal to the processes of an exec's own group.
func (x *Execs) Signal(ctx context.Context, p auth.Principal, id, execID string, signal int) error {
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return err
	}
	if signal < 1 || signal > 64 {
		return errdefs.Invalid("signal", "must be between 1 and 64, or a name like TERM")
	}
	return x.onExec(ctx, s, execID, func(runner *runnerclient.Client) error { return runner.Signal(ctx, execID, signal) })
}

// Resize gives a program's terminal a size.
func (x *Execs) Resize(ctx context.Context, p auth.Principal, id, execID string, size TerminalSize) error {
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return err
	}
	if size.Rows == 0 || size.Cols == 0 {
		return errdefs.Invalid("rows", "and cols must be at least 1")
	}
	return x.onExec(ctx, s, execID, func(runner *runnerclient.Client) error {
		return runner.Resize(ctx, protocol.Resize{ID: execID, Rows: size.Rows, Cols: size.Cols})
	})
}

// Cancel ends an exec the way a timeout does. One that has ended already
// is not an error.
func (x *Execs) Cancel(ctx context.Context, p auth.Principal, id, execID string) error {
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return err
	}
	return x.onExec(ctx, s, execID, func(runner *runnerclient.Client) error { return runner.Cancel(ctx, execID) })
}

// onExec asks the runner for something that concerns one exec, which is
// activity.
func (x *Execs) onExec(ctx context.Context, s Session, execID string, ask func(*runnerclient.Client) error) error {
	if err := check.ExecID(execID); err != nil {
		return err
	}
	runner, end, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := ask(runner); err != nil {
		return s.Lost(ctx, err)
	}
	return nil
}
