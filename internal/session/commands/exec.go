package commands

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/tracing"
	"github.com/sandkasten/sandkasten/internal/weaken"
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
// result's cause is sandbox_gone. An out that is a runnerclient.Witness is told the
// exec's id when it can be attached to.
func (c *Commands[ID]) Exec(ctx context.Context, id ID, req ExecRequest, out io.Writer) (_ ExecResult, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "exec")
	defer func() { span.End(err) }()
	exec, err := c.planExec(req)
	if err != nil {
		return ExecResult{}, err
	}
	use, err := c.opts.Begin(ctx, id)
	if err != nil {
		return ExecResult{}, err
	}
	defer use.End()
	watched, stop := c.watch(ctx, use, exec.TimeoutMS)
	defer stop()
	result, err := use.Client.Exec(watched, exec, req.Command, req.Stdin, out)
	return c.ended(use, exec.ID, result, err)
}

// Attach writes an exec's output from offset on to out and follows it to its
// end, as Exec does. Where output was dropped it goes on behind the gap, which
// the result counts, and of which an out that is a runnerclient.Sink is told.
func (c *Commands[ID]) Attach(ctx context.Context, id ID, execID string, offset int64, out io.Writer) (_ ExecResult, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "attach")
	defer func() { span.End(err) }()
	if err := c.checkExecID(execID); err != nil {
		return ExecResult{}, err
	}
	if offset < 0 {
		return ExecResult{}, errdefs.Invalid("offset", "must not be negative")
	}
	use, err := c.opts.Begin(ctx, id)
	if err != nil {
		return ExecResult{}, err
	}
	defer use.End()
	watched, stop := c.watch(ctx, use, 0)
	defer stop()
	result, err := use.Client.Attach(watched, execID, offset, out)
	return c.ended(use, execID, result, err)
}

// planExec turns a request into what the runner is asked, under a new id.
func (c *Commands[ID]) planExec(req ExecRequest) (protocol.Exec, error) {
	switch {
	case req.Command == "":
		return protocol.Exec{}, errdefs.Invalid("cmd", "must not be empty")
	case len(req.Command) > protocol.MaxCommand:
		return protocol.Exec{}, errdefs.OverLimit("cmd", protocol.MaxCommand)
	case len(req.Stdin) > protocol.MaxCommand:
		return protocol.Exec{}, errdefs.OverLimit("stdin", protocol.MaxCommand)
	case strings.ContainsRune(req.Command, 0) && !weaken.Off(weaken.CommandText):
		return protocol.Exec{}, errdefs.Invalid("cmd", "must not contain a NUL byte")
	case req.Shell != "" && !check.IsName(req.Shell):
		return protocol.Exec{}, errdefs.Invalid("shell", "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'")
	}
	file, err := c.outputFile(req.OutputFile)
	if err != nil {
		return protocol.Exec{}, err
	}
	timeout, err := c.timeout(req.Timeout)
	if err != nil {
		return protocol.Exec{}, err
	}
	return protocol.Exec{
		ID:           c.opts.NewID(),
		Shell:        wireShell(req.Shell),
		TimeoutMS:    timeout.Milliseconds(),
		GraceMS:      c.opts.KillGrace.Milliseconds(),
		OutputLimit:  c.opts.OutputBytes,
		OutputFile:   file,
		AllowOutside: c.opts.Anywhere,
	}, nil
}

// outputFile returns an output_file as the runner is asked for it; "" is none.
func (c *Commands[ID]) outputFile(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return c.opts.Path("output_file", name)
}

// timeout returns the timeout to set: the default for 0.
func (c *Commands[ID]) timeout(asked time.Duration) (time.Duration, error) {
	switch {
	case asked < 0:
		return 0, errdefs.Invalid("timeout_ms", "must not be negative")
	case asked > c.opts.MaxTimeout:
		return 0, errdefs.Invalid("timeout_ms", "must be at most %d", c.opts.MaxTimeout.Milliseconds())
	case asked > 0 && asked < time.Millisecond:
		return time.Millisecond, nil // 0 would be no timeout on the wire
	case asked == 0:
		return c.opts.Timeout, nil
	}
	return asked, nil
}

func (c *Commands[ID]) checkExecID(id string) error {
	if !c.opts.IsID(id) {
		return errdefs.New(errdefs.NotFound, "no such exec; list the session's execs for those that it still knows")
	}
	return nil
}
