package commands

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/tracing"
	"github.com/sandkasten/sandkasten/protocol"
)

// maxArgument is what the kernel takes as one argument or variable.
const maxArgument = 128<<10 - 1

// RunProcess runs a program without a shell, beside everything else that runs
// in the session, and is like Exec in all else. An out that is a
// runnerclient.Sink learns which bytes are of which stream. A program that
// cannot be started is Unprocessable.
func (c *Commands[ID]) RunProcess(ctx context.Context, id ID, req ProcessRequest, out io.Writer) (_ ExecResult, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "run_process")
	defer func() { span.End(err) }()
	if err := checkArgs(req.Args); err != nil {
		return ExecResult{}, err
	}
	start, program, err := c.planStart(id, req)
	if err != nil {
		return ExecResult{}, err
	}
	timeout, err := c.timeout(req.Timeout)
	if err != nil {
		return ExecResult{}, err
	}
	start.TimeoutMS = timeout.Milliseconds()
	use, err := c.opts.Begin(ctx, id)
	if err != nil {
		return ExecResult{}, err
	}
	defer use.End()
	watched, stop := c.watch(ctx, use, start.TimeoutMS)
	defer stop()
	began := beginning(start.ID, "", protocol.KindProcess)
	result, err := use.Client.Run(watched, start, program, out)
	return c.ended(use, began, result, c.left(ctx, use, start.ID, req.Leaving, err))
}

// StartProcess starts a program in the background and returns its record. Such
// a program is no use of the session by itself: it ends with the session when
// nobody uses that for its TTL.
func (c *Commands[ID]) StartProcess(ctx context.Context, id ID, req ProcessRequest) (_ ExecResult, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "start_process")
	defer func() { span.End(err) }()
	if err := checkArgs(req.Args); err != nil {
		return ExecResult{}, err
	}
	start, program, err := c.planStart(id, req)
	if err != nil {
		return ExecResult{}, err
	}
	if req.Timeout != 0 {
		timeout, err := c.timeout(req.Timeout)
		if err != nil {
			return ExecResult{}, err
		}
		start.TimeoutMS = timeout.Milliseconds()
	}
	return c.start(ctx, id, start, program)
}

func (c *Commands[ID]) start(ctx context.Context, id ID, start protocol.Start, program runnerclient.Program) (ExecResult, error) {
	use, err := c.opts.Begin(ctx, id)
	if err != nil {
		return ExecResult{}, err
	}
	defer use.End()
	record, err := use.Client.Start(ctx, start, program)
	if err != nil {
		return ExecResult{}, use.Lost(err)
	}
	return record, nil
}

// planStart turns a request into what the runner is asked, under a new id and
// without a timeout. Without arguments it is for a login shell.
func (c *Commands[ID]) planStart(id ID, req ProcessRequest) (protocol.Start, runnerclient.Program, error) {
	if err := checkProcess(req); err != nil {
		return protocol.Start{}, runnerclient.Program{}, err
	}
	file, err := c.outputFile(id, req.OutputFile)
	if err != nil {
		return protocol.Start{}, runnerclient.Program{}, err
	}
	start := protocol.Start{
		ID:           c.opts.NewID(),
		Cwd:          req.Cwd,
		User:         req.User,
		OpenStdin:    req.OpenStdin,
		GraceMS:      c.opts.KillGrace.Milliseconds(),
		OutputLimit:  c.opts.OutputBytes,
		OutputFile:   file,
		Merge:        req.Merged,
		AllowOutside: c.opts.Anywhere(id),
	}
	if size := req.Terminal; size != nil {
		start.TTY, start.Rows, start.Cols = true, size.Rows, size.Cols
	}
	return start, runnerclient.Program{Args: req.Args, Env: variables(req.Env), Stdin: req.Stdin}, nil
}

func variables(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list) // so that one request is one payload
	return list
}

func checkArgs(args []string) error {
	if len(args) == 0 || args[0] == "" {
		return errdefs.Invalid("cmd", "must begin with a program, like [\"ls\", \"-l\"]")
	}
	return nil
}

func checkProcess(req ProcessRequest) error {
	if err := checkStrings("cmd", req.Args); err != nil {
		return err
	}
	if err := checkEnv(req.Env); err != nil {
		return err
	}
	switch {
	case len(req.Stdin) > protocol.MaxCommand:
		return errdefs.OverLimit("stdin", protocol.MaxCommand)
	case len(req.Cwd) > protocol.MaxPath || strings.ContainsRune(req.Cwd, 0):
		return errdefs.Invalid("cwd", "must be a path of at most %d bytes without NUL", protocol.MaxPath)
	case req.User != "" && !check.IsUser(req.User):
		return errdefs.Invalid("user", "must be a name or a number, like agent, 1000 or 1000:1000")
	}
	return nil
}

func checkEnv(env map[string]string) error {
	for name := range env {
		if !check.IsEnvName(name) {
			return errdefs.Invalid("env", "must have names of letters, digits and '_' that do not start with a digit")
		}
	}
	return checkStrings("env", variables(env))
}

// checkStrings refuses arguments or variables that no program can be given.
func checkStrings(field string, list []string) error {
	total := 0
	for _, text := range list {
		total += len(text) + 1
		if strings.ContainsRune(text, 0) {
			return errdefs.Invalid(field, "must not contain a NUL byte")
		}
		if len(text) > maxArgument {
			err := errdefs.New(errdefs.TooLarge, "each entry of %s must be at most %d bytes", field, maxArgument)
			err.Field = field
			return err
		}
	}
	if total > protocol.MaxArguments {
		return errdefs.OverLimit(field, protocol.MaxArguments)
	}
	return nil
}

// stdinPatience is how long a program may take to read what it is typed.
const stdinPatience = 5 * time.Second

// WriteStdin gives data to a program or a shell's command that was started with its
// stdin open, and ends its stdin behind it if last is set. It returns how much the program
// took: less than all if it did not read within some seconds. Conflict says
// that its stdin is not open.
func (c *Commands[ID]) WriteStdin(ctx context.Context, id ID, execID string, data []byte, last bool) (taken protocol.Taken, err error) {
	if len(data) > protocol.MaxCommand {
		return taken, errdefs.OverLimit("data", protocol.MaxCommand)
	}
	err = c.onExec(ctx, id, execID, func(runner *runnerclient.Client) error {
		taken, err = runner.Stdin(ctx, protocol.Stdin{ID: execID, Close: last, WaitMS: stdinPatience.Milliseconds()}, data)
		return err
	})
	return taken, err
}

// SignalExec sends a signal to the processes of an exec's own group.
func (c *Commands[ID]) SignalExec(ctx context.Context, id ID, execID string, signal int) error {
	if signal < 1 || signal > 64 {
		return errdefs.Invalid("signal", "must be between 1 and 64, or a name like TERM")
	}
	return c.onExec(ctx, id, execID, func(runner *runnerclient.Client) error { return runner.Signal(ctx, execID, signal) })
}

// ResizeExec gives a program's terminal a size.
func (c *Commands[ID]) ResizeExec(ctx context.Context, id ID, execID string, size TerminalSize) error {
	if size.Rows == 0 || size.Cols == 0 {
		return errdefs.Invalid("rows", "and cols must be at least 1")
	}
	return c.onExec(ctx, id, execID, func(runner *runnerclient.Client) error {
		return runner.Resize(ctx, protocol.Resize{ID: execID, Rows: size.Rows, Cols: size.Cols})
	})
}

// CancelExec ends an exec the way a timeout does. One that has ended already
// is not an error.
func (c *Commands[ID]) CancelExec(ctx context.Context, id ID, execID string) error {
	return c.onExec(ctx, id, execID, func(runner *runnerclient.Client) error { return runner.Cancel(ctx, execID) })
}

// onExec asks the runner for something that concerns one exec, which is
// activity.
func (c *Commands[ID]) onExec(ctx context.Context, id ID, execID string, ask func(*runnerclient.Client) error) error {
	if err := c.checkExecID(execID); err != nil {
		return err
	}
	use, err := c.opts.Begin(ctx, id)
	if err != nil {
		return err
	}
	defer use.End()
	if err := ask(use.Client); err != nil {
		return use.Lost(err)
	}
	return nil
}
