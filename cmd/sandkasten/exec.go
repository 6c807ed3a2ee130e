package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/networks"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type execCmd struct {
	processFlags
	rawFlag
	cli.FormFlags

	Timeout cli.Span `placeholder:"TIME" help:"End the command after this time, such as 90s."`
	Stdin   bool     `short:"i" help:"Stream standard input to the command. By default it is empty."`
	Shell   string   `placeholder:"NAME" help:"Use this shell of the session instead of the default one. Its first use makes it."`
	Session string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Command []string `arg:"" passthrough:"partial" help:"Command: one word is a line for the shell, several are a program and its arguments."`
}

func (execCmd) Help() string {
	return `The command runs in the session's shell. The next command finds its directory,
variables and background jobs. sandkasten exits with the command's exit code.

With -e, -w, -u, -t or -d the command is a process outside the shell, with
separate standard output and error. One word is then a line for sh, several are a
program and its arguments; with --argv one word is a program too.

On a terminal sandkasten shows control characters instead of sending them, so
that a program inside cannot move the cursor, fill the clipboard or type for you.
--raw and --tty send them.

  sandkasten exec $id 'cd /workspace && export MODE=fast'
  sandkasten exec $id 'echo $PWD $MODE'
  sandkasten exec $id -- grep -r 'two words' .
  sandkasten exec -i $id 'psql mydb' < dump.sql
  tar c src | sandkasten exec -i $id 'tar x'
  sandkasten exec --argv $id -- ./check --all 2>errors
  sandkasten exec -i --argv $id -- tar x < source.tar
  sandkasten exec -t -u root -w /etc $id -- vi hosts
  sandkasten exec -u root -e A=1 $id 'id; echo $A'
  sandkasten exec -d -e PORT=3000 $id -- npm start

--json and --format wait for the end and print the result, with the output in it.`
}

func (c execCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	if err := cli.RefuseBytes(c.Command); err != nil {
		return cli.NotRun(err)
	}
	s := cl.Session(c.Session)
	if c.wanted() {
		if c.Shell != "" {
			return cli.NotRun(errors.New("--shell cannot be combined with --argv, --tty, --user, --cwd, --env or --background"))
		}
		return c.process(ctx, a, s)
	}
	cmd, o := execOptions(c.Command, c.Timeout.Duration(), c.Stdin)
	o.Shell = c.Shell
	if !c.Wanted() {
		return runIn(ctx, a, s, cmd, o, c.outputs(a))
	}
	return showResult(ctx, a, s, cmd, o, c.FormFlags)
}

// showResult runs a command to its end and prints the result, with the output in it.
func showResult(ctx context.Context, a *cli.App, s *sandkasten.Session, cmd string, o *sandkasten.ExecOptions, form cli.FormFlags) error {
	o.RawOutput = false
	r, err := resultOf(ctx, a, s, cmd, o)
	if err != nil {
		return cli.NotRun(err)
	}
	if _, err := form.Done(a, r); err != nil {
		return err
	}
	return exitWith(r.ExecEnd)
}

func execOptions(words []string, timeout time.Duration, stdin bool) (cmd string, o *sandkasten.ExecOptions) {
	return commandLine(words), &sandkasten.ExecOptions{Timeout: timeout, RawOutput: true, OpenStdin: stdin}
}

// resultOf runs a command to its end. One that reads our input is followed meanwhile,
// because only its stream tells where to send that.
func resultOf(ctx context.Context, a *cli.App, s *sandkasten.Session, cmd string, o *sandkasten.ExecOptions) (r sandkasten.ExecResult, err error) {
	if !o.OpenStdin {
		o.OnDisconnect = "kill" // nobody else knows of it
		return s.Exec(ctx, cmd, o)
	}
	fed, over := context.WithCancel(ctx)
	defer over()
	stream := feeding(fed, a, s, s.ExecStream(cmd, o))
	if r.ExecEnd, err = stream.Copy(ctx, io.Discard, io.Discard); err != nil {
		if ctx.Err() != nil && stream.ExecID() != "" { // its input will not end
			err = errors.Join(err, cancel(ctx, s.Process(stream.ExecID())))
		}
		return r, err
	}
	detail, err := s.Process(stream.ExecID()).Get(ctx, nil)
	r.Text = detail.Text
	return r, err
}

// commandLine makes one line for the shell. A single word is one already;
// several are quoted, so that they arrive as they are.
func commandLine(words []string) string {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 1 {
		return words[0]
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = cli.Quote(w)
	}
	return strings.Join(quoted, " ")
}

// runIn streams one command's output. When we are told to stop, so is the
// command.
func runIn(ctx context.Context, a *cli.App, s *sandkasten.Session, cmd string, o *sandkasten.ExecOptions, to outputs) error {
	stream := s.ExecStream(cmd, o)
	if o.OpenStdin {
		fed, over := context.WithCancel(ctx)
		defer over()
		stream = feeding(fed, a, s, stream)
	}
	waiting, over := context.WithCancel(ctx)
	var saying sync.WaitGroup
	defer saying.Wait()
	defer over()
	begin := stream.OnStart
	stream.OnStart = func(execID string) {
		if begin != nil {
			begin(execID)
		}
		saying.Go(func() { sayBusy(waiting, a, s.Process(execID)) })
	}
	return passOn(ctx, a, s, stream, to)
}

// busyTime is how long a command waits for its shell before we say what for.
const busyTime = time.Second

// sayBusy says whose command keeps a command waiting, unless ctx ends before it waits long.
func sayBusy(ctx context.Context, a *cli.App, p *sandkasten.Process) {
	select {
	case <-time.After(busyTime):
	case <-ctx.Done():
		return
	}
	detail, err := p.Get(ctx, nil)
	if err != nil || detail.WaitsFor == nil { // the command itself will tell what is wrong
		return
	}
	before := detail.WaitsFor
	first, _, _ := strings.Cut(before.Cmd, "\n")
	a.Say("sandkasten: waiting for the shell, which runs %q (%s): `sandkasten kill` ends that, and --shell NAME has another shell", first, before.ExecID)
}

// passOn passes on the output of what we run and tells how it has ended, and ends
// it if we are to stop.
func passOn(ctx context.Context, a *cli.App, s *sandkasten.Session, stream *sandkasten.ExecStream, to outputs) error {
	end, err := stream.Copy(ctx, to.out, to.err)
	err = errors.Join(err, to.flush())
	exec := stream.ExecID()
	_, broken := errors.AsType[*sandkasten.ConnectionError](err)
	switch {
	case ctx.Err() != nil && exec != "":
		if cancelErr := cancel(ctx, s.Process(exec)); cancelErr != nil {
			a.Say("sandkasten: %s", cli.Explain(cancelErr))
		}
		return err
	case broken && exec != "":
		return cli.NotRun(fmt.Errorf("the connection broke before the command ended; `sandkasten logs -f %s %s` shows how it goes on: %s", s.ID, exec, cli.Explain(err)))
	case err != nil:
		return cli.NotRun(err)
	}
	comment(a, end)
	if end.ExitCode != 0 {
		networks.Explain(a, end.NetworkDenied, cmp.Or(to.allow, networks.AllowCommand(s.ID)))
	}
	return exitWith(end)
}

// comment says what an exit code does not.
func comment(a *cli.App, r sandkasten.ExecEnd) {
	if r.DroppedBytes > 0 {
		a.Say("sandkasten: %d bytes of output were dropped", r.DroppedBytes)
	}
	switch r.Cause {
	case "timeout":
		a.Say("sandkasten: the command's time was up after %d ms, so it was ended", r.DurationMS)
	case "oom_killed":
		a.Say("sandkasten: the session's memory was full, so the command was killed")
	case "sandbox_gone":
		a.Say("sandkasten: the session ended under the command")
	}
	if r.DiskFull {
		a.Say("sandkasten: the session's disk was full when the command ended; remove files, or create a session with a larger --disk")
	}
}

// exitWith returns the exit code of a command as an error, nil for zero.
func exitWith(r sandkasten.ExecEnd) error {
	switch {
	case r.Cause == "timeout":
		return cli.CodeError(cli.ExitTimeout)
	case r.Cause == "sandbox_gone" || r.Cause == "canceled":
		return cli.CodeError(cli.ExitNotRun)
	case r.ExitCode != 0:
		return cli.CodeError(r.ExitCode & 0xff)
	}
	return nil
}

// cancel ends a command although ctx is over.
func cancel(ctx context.Context, p *sandkasten.Process) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer stop()
	if err := p.Kill(ctx); err != nil {
		return fmt.Errorf("the command could not be stopped and goes on: %w", err)
	}
	return nil
}
