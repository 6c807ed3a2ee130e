// Command sandkasten is the daemon and its command line: one file per
// subcommand. A subcommand reads flags, calls the SDK (or, for
// daemon, doctor and image, the package that does the work) and prints. What
// it prints and how it exits belongs here; what happens does not.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/agents"
	"github.com/sandkasten/sandkasten/internal/cli/auditlog"
	"github.com/sandkasten/sandkasten/internal/cli/files"
	"github.com/sandkasten/sandkasten/internal/cli/man"
	"github.com/sandkasten/sandkasten/internal/cli/networks"
	"github.com/sandkasten/sandkasten/internal/cli/secrets"
	"github.com/sandkasten/sandkasten/internal/cli/snapshots"
	"github.com/sandkasten/sandkasten/internal/cli/upkeep"
	"github.com/sandkasten/sandkasten/internal/cli/users"
)

type commands struct {
	cli.Flags

	Run     runCmd        `cmd:"" help:"Run one command in a new session and remove the session." group:"session"`
	Create  createCmd     `cmd:"" help:"Make a session and print its id." group:"session"`
	Exec    execCmd       `cmd:"" help:"Run a command in a session's shell." group:"session"`
	RunCode runCodeCmd    `cmd:"" name:"run-code" help:"Run code in a kernel that remembers." group:"session"`
	Shell   shellCmd      `cmd:"" help:"Open an interactive terminal in a session." group:"session"`
	Ps      psCmd         `cmd:"" help:"Show what runs in a session: commands, processes and terminals." group:"session"`
	Kill    killCmd       `cmd:"" help:"End a command or process, or send it a signal." group:"session"`
	Wait    waitCmd       `cmd:"" help:"Wait for a command or process and end with its exit code." group:"session"`
	Shells  shellsCmd     `cmd:"" help:"List a session's shells, or close one." group:"session"`
	Cp      files.CopyCmd `cmd:"" help:"Copy files into and out of a session." group:"session"`
	Fs      files.Cmd     `cmd:"" help:"Work on the files of a session." group:"session"`
	Ls      lsCmd         `cmd:"" help:"List sessions." group:"session"`
	Inspect inspectCmd    `cmd:"" help:"Show sessions as JSON." group:"session"`
	Top     topCmd        `cmd:"" help:"Show continuously which sessions use processors and memory." group:"session"`
	Stats   statsCmd      `cmd:"" help:"Show the resource use of sessions." group:"session"`
	Events  eventsCmd     `cmd:"" help:"Show what happens, as it happens." group:"session"`
	Logs    logsCmd       `cmd:"" help:"Show the commands of a session, or the output of one." group:"session"`
	Pause   pauseCmd      `cmd:"" help:"Freeze sessions, which keep their memory." group:"session"`
	Fork    forkCmd       `cmd:"" help:"Make sessions from another session's files." group:"session"`
	Resume  resumeCmd     `cmd:"" help:"Wake paused sessions." group:"session"`
	Stop    stopCmd       `cmd:"" help:"End the processes of sessions and keep their files." group:"session"`
	Start   startCmd      `cmd:"" help:"Boot stopped sessions on their files." group:"session"`
	Keep    keepCmd       `cmd:"" help:"Count sessions as used." group:"session"`
	Set     setCmd        `cmd:"" help:"Change how long a session lives, and its labels." group:"session"`
	Rm      rmCmd         `cmd:"" help:"End sessions." group:"session"`

	Network networks.Cmd `cmd:"" help:"Show and change what a session may reach." group:"session"`

	Ports       portsCmd       `cmd:"" help:"List the ports on which a session listens." group:"session"`
	Preview     previewCmd     `cmd:"" help:"Print an address that opens a port of a session to who has it." group:"session"`
	PortForward portForwardCmd `cmd:"" name:"port-forward" help:"Forward ports of this machine to a session." group:"session"`

	Workspace workspaceCmd `cmd:"" help:"Manage workspaces, which outlive sessions." group:"session"`

	Secret secrets.Cmd `cmd:"" help:"Store credentials that sessions use and never see." group:"session"`

	Scope agents.ScopeCmd `cmd:"" help:"Manage the runs of agents that sessions belong to." group:"session"`

	Snapshot snapshots.Cmd `cmd:"" help:"Save files of sessions and begin others with them." group:"session"`

	Tools agents.ToolsCmd `cmd:"" help:"Print the definitions of the tools that agents call." group:"other"`
	MCP   agents.MCPCmd   `cmd:"" name:"mcp" help:"Offer the tools of agents by MCP on standard input and output." group:"other"`

	Init    cli.InitCmd       `cmd:"" help:"Write a configuration to begin with." group:"host"`
	Daemon  daemonCmd         `cmd:"" help:"Run the daemon." group:"host"`
	Doctor  doctorCmd         `cmd:"" help:"Check this host and name the fix for each problem." group:"host"`
	Fsck    upkeep.FsckCmd    `cmd:"" help:"Compare the database with this host, and repair differences." group:"host"`
	GC      upkeep.GCCmd      `cmd:"" name:"gc" help:"Remove images, layers and imports that nothing needs." group:"host"`
	Backup  upkeep.BackupCmd  `cmd:"" help:"Write the database and the secrets of a daemon to a file." group:"host"`
	Restore upkeep.RestoreCmd `cmd:"" help:"Restore the files of a backup." group:"host"`
	Recover upkeep.RecoverCmd `cmd:"" help:"Rebuild sessions and workspaces without the database." group:"host"`
	Image   imageCmd          `cmd:"" help:"Import, pull, build, list, inspect and remove images." group:"host"`

	Audit auditlog.Cmd `cmd:"" help:"Read and check the audit log of clients' requests." group:"host"`

	Pool poolCmd `cmd:"" help:"Show the sandboxes that are ready for new sessions." group:"host"`
	Host hostCmd `cmd:"" help:"Show how full the daemon's host is, and what is wrong with it." group:"host"`

	User  users.Cmd      `cmd:"" help:"Manage users, who may use this daemon." group:"host"`
	Usage users.UsageCmd `cmd:"" help:"Show what your sessions use, and your limits." group:"host"`
	Key   users.KeyCmd   `cmd:"" help:"Make, list and revoke the API keys of users." group:"host"`

	Version    versionCmd    `cmd:"" help:"Print the version." group:"other"`
	Completion completionCmd `cmd:"" help:"Print completions for a shell." group:"other"`
	Man        man.Cmd       `cmd:"" help:"Write manual pages." group:"other"`
	Complete   completeCmd   `cmd:"" name:"__complete" hidden:"" group:"other"`
}

func main() {
	ctx, stop := untilSignal()
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Version: thisBuild().Version}
	code := run(ctx, a, os.Args[1:])
	stop()
	os.Exit(code)
}

// run is the whole program: it returns the process's exit code.
func run(ctx context.Context, a *cli.App, args []string) int {
	var flags commands
	parser, err := kong.New(&flags,
		kong.Name("sandkasten"),
		kong.Description("Linux sandboxes for agents: persistent shells and files over HTTP.\n"+cli.Explanation),
		kong.ExplicitGroups([]kong.Group{{Key: "session", Title: "Sessions:"}, {Key: "host", Title: "This host:"}, {Key: "other", Title: "Other:"}}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Writers(a.Out, a.Err),
		kong.KindMapper(reflect.String, kong.MapperFunc(decodeText)),
	)
	if err != nil {
		panic(err) // the struct above is wrong: every start shows it
	}
	if i := slices.Index(args, "--version"); i >= 0 && follow(parser.Model.Node, args[:i]) == parser.Model.Node {
		args[i] = "version"
	}
	k, err := parser.Parse(joinNegative(parser.Model.Node, args))
	if err != nil {
		return usage(a, err)
	}
	a.Flags = flags.Flags
	a.HasFlag = func(name string) bool {
		return slices.ContainsFunc(k.Flags(), func(f *kong.Flag) bool { return f.Name == name })
	}
	k.BindTo(ctx, (*context.Context)(nil))
	k.Bind(parser)
	if err := k.BindSingletonProvider(a.Client); err != nil {
		panic(err) // as above
	}
	return a.Exit(k.Run(a))
}

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
			cancel(cli.SignalError(number))
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

func usage(a *cli.App, err error) int {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return a.Exit(err)
	}
	a.Say("sandkasten: %s", parse.Error())
	name := "sandkasten"
	if node := parse.Context.Selected(); node != nil {
		name = node.FullPath()
	}
	a.Say("Try `%s --help`.", name)
	return cli.ExitUsage
}
