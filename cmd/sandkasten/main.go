// Command sandkasten is the daemon and its command line: one file per
// subcommand. A subcommand reads flags, calls internal/client (or, for
// daemon, doctor and image, the package that does the work) and prints. What
// it prints and how it exits belongs here; what happens does not.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/sandkasten/sandkasten/internal/client"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Exit codes. run, exec and shell end with the code of what ran inside, so
// their own failures have a code that programs rarely use.
const (
	exitFailed      = 1
	exitUsage       = 2   // wrong flags, or mistakes in the configuration
	exitNoDaemon    = 3   // nothing answers
	exitTimeout     = 124 // run, exec: the command's time was up
	exitNotRun      = 125 // run, exec, shell: the command could not be run
	exitSignaled    = 128 // and the signal's number
	explanationTail = `
Exit codes:
  0    it worked
  1    it failed
  2    wrong flags, or mistakes in the configuration
  3    no daemon answers
  run, exec, wait and shell end with the code of the command that ran inside;
  124 says that its time was up, and 125 that it could not be run.
`
)

type cli struct {
	Config string `placeholder:"FILE" env:"SANDKASTEN_CONFIG" help:"Configuration file."`
	URL    string `name:"url" placeholder:"URL" env:"SANDKASTEN_URL" help:"Daemon to talk to, as http://127.0.0.1:8787. By default the one of the configuration."`
	APIKey string `name:"api-key" placeholder:"KEY" env:"SANDKASTEN_API_KEY" help:"Key for the daemon. The variable is better: other users see a flag."`

	Run    runCmd    `cmd:"" help:"Run one command in a new session and remove the session." group:"session"`
	Create createCmd `cmd:"" help:"Make a session and print its id." group:"session"`
	Exec   execCmd   `cmd:"" help:"Run a command in a session's shell." group:"session"`
	Shell  shellCmd  `cmd:"" help:"Open an interactive terminal in a session." group:"session"`
	Ps     psCmd     `cmd:"" help:"Show what runs in a session: commands, processes and terminals." group:"session"`
	Kill   killCmd   `cmd:"" help:"End a command or process, or send it a signal." group:"session"`
	Wait   waitCmd   `cmd:"" help:"Wait for a command or process and end with its exit code." group:"session"`
	Shells shellsCmd `cmd:"" help:"List a session's shells, or close one." group:"session"`
	Cp     cpCmd     `cmd:"" help:"Copy files into and out of a session." group:"session"`
	Fs     fsCmd     `cmd:"" help:"Work on the files of a session." group:"session"`
	Ls     lsCmd     `cmd:"" help:"List sessions." group:"session"`
	Stats  statsCmd  `cmd:"" help:"Show what sessions use." group:"session"`
	Logs   logsCmd   `cmd:"" help:"Show the commands of a session, or the output of one." group:"session"`
	Pause  pauseCmd  `cmd:"" help:"Make sessions stand still, with their memory." group:"session"`
	Resume resumeCmd `cmd:"" help:"Let paused sessions go on." group:"session"`
	Stop   stopCmd   `cmd:"" help:"End the processes of sessions and keep their files." group:"session"`
	Start  startCmd  `cmd:"" help:"Boot stopped sessions on their files." group:"session"`
	Keep   keepCmd   `cmd:"" help:"Count sessions as used." group:"session"`
	Set    setCmd    `cmd:"" help:"Change how long a session lives, and its labels." group:"session"`
	Rm     rmCmd     `cmd:"" help:"End sessions." group:"session"`

	Ports       portsCmd       `cmd:"" help:"List the ports on which a session listens." group:"session"`
	PortForward portForwardCmd `cmd:"" name:"port-forward" help:"Connect ports of this machine to a session's." group:"session"`

	Workspace workspaceCmd `cmd:"" help:"Make, list, fill and remove workspaces, which outlive sessions." group:"session"`

	Daemon daemonCmd `cmd:"" help:"Run the daemon." group:"host"`
	Doctor doctorCmd `cmd:"" help:"Check this host and say how to mend what is wrong." group:"host"`
	Image  imageCmd  `cmd:"" help:"Import, pull, build, list, inspect and remove images." group:"host"`

	Version    versionCmd    `cmd:"" help:"Print the version." group:"other"`
	Completion completionCmd `cmd:"" help:"Print completions for a shell." group:"other"`
	Complete   completeCmd   `cmd:"" name:"__complete" hidden:"" group:"other"`
}

func main() {
	ctx, stop := untilSignal()
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ()}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run is the whole program: it returns the process's exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.flags = &cli{}
	parser, err := kong.New(a.flags,
		kong.Name("sandkasten"),
		kong.Description("Linux sandboxes for agents: persistent shells and files over HTTP.\n"+explanationTail),
		kong.ExplicitGroups([]kong.Group{{Key: "session", Title: "Sessions:"}, {Key: "host", Title: "This host:"}, {Key: "other", Title: "Other:"}}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Writers(a.out, a.err),
	)
	if err != nil {
		panic(err) // the struct above is wrong: every start shows it
	}
	k, err := parser.Parse(args)
	if err != nil {
		return a.usage(err)
	}
	k.BindTo(ctx, (*context.Context)(nil))
	k.Bind(parser)
	return a.exit(k.Run(a))
}

// A signalError is why a context ended: somebody sent us a signal.
type signalError struct{ syscall.Signal }

func (e signalError) Error() string { return e.Signal.String() }

// untilSignal returns a context that the first interrupt or termination ends.
// What that starts (removing a session, draining requests) has an end of its
// own; who cannot wait for it sends two more signals, of which the last one
// kills us.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for count := 1; ; count++ {
			s, ok := <-signals
			if !ok {
				return
			}
			number := syscall.SIGINT
			if s == syscall.SIGTERM {
				number = syscall.SIGTERM
			}
			cancel(signalError{number})
			if count == 2 {
				signal.Reset(os.Interrupt, syscall.SIGTERM)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals) // nothing is sent to the channel after this
		close(signals)
		<-done
		cancel(nil)
	}
}

// codeError ends the process with a code and says nothing more.
type codeError int

func (e codeError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// notRunError is a failure of run, exec or shell itself.
type notRunError struct{ error }

func (e notRunError) Unwrap() error { return e.error }

func (a *app) usage(err error) int {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return a.exit(err)
	}
	a.say("sandkasten: %s", parse.Error())
	name := "sandkasten"
	if node := parse.Context.Selected(); node != nil {
		name = node.FullPath()
	}
	a.say("Try `%s --help`.", name)
	return exitUsage
}

// exit tells the user about err and returns the process's exit code.
func (a *app) exit(err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[codeError](err); ok {
		return int(code)
	}
	if s, ok := errors.AsType[signalError](err); ok {
		return exitSignaled + int(s.Signal)
	}
	a.say("sandkasten: %s", explain(err))
	if _, ok := errors.AsType[notRunError](err); ok {
		return exitNotRun
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*client.UnreachableError](err); ok {
		return exitNoDaemon
	}
	return exitFailed
}

// explain turns an error into what the user can do about it.
func explain(err error) string {
	if away, ok := errors.AsType[*client.UnreachableError](err); ok {
		return fmt.Sprintf("no daemon at %s (%v): start one with `sandkasten daemon`, or name another with --url", away.URL, away.Cause)
	}
	if refused, ok := errors.AsType[*client.Error](err); ok {
		text := visible(err.Error(), "\n") // a daemon wrote it
		if refused.Code == string(errdefs.Unauthenticated) {
			text += "\nThe key comes from --api-key, SANDKASTEN_API_KEY, or the configuration (api_key, else <data_dir>/api_key)."
		}
		if refused.Code == string(errdefs.Internal) && refused.RequestID != "" {
			text += "\nRequest id: " + printable(refused.RequestID)
		}
		return text
	}
	return err.Error()
}
