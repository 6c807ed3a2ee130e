// Command runner is PID 1 of a sandbox. The daemon starts it in fresh
// namespaces from a copy of its own, or an engine in a container (as "contained"),
// where others of it relay the daemon's connections ("relay") and copy volumes
// ("copy"); it is not meant to be run by hand.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/internal/runner/archive"
	"github.com/sandkasten/sandkasten/internal/runner/fileops"
	"github.com/sandkasten/sandkasten/internal/runner/pause"
	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/internal/sandbox/relay"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

func main() {
	if os.Args[0] == fileops.ToolName {
		os.Exit(fileops.RunTool(os.Args))
	}
	if slices.Equal(os.Args[1:], []string{relay.Command}) {
		tell(beside())
		return
	}
	if len(os.Args) > 2 && os.Args[1] == stage.CopyCommand {
		tell(archive.Copy(os.Args[2], os.Args[3:]))
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "runner: started by the daemon as PID 1 of a sandbox; see `sandkasten create`")
		os.Exit(2)
	}
	if slices.Equal(os.Args[1:], []string{stage.ContainerCommand}) {
		tell(contained())
		return
	}
	if err := run(); err != nil {
		// The daemon reads the reason from the socket; nobody reads our stderr.
		if err := stage.Fail(err); err != nil {
			os.Exit(3)
		}
		os.Exit(1)
	}
}

// tell ends the process with err, which an engine shows its caller.
func tell(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

func run() error {
	// A runner is made before there is a sandbox for it: now nobody waits.
	if err := errors.Join(stage.Warm(), runner.Warm()); err != nil {
		return err
	}
	in, err := stage.Enter()
	if err != nil {
		return err
	}
	return serve(runner.Options{
		Listener:  in.Listener,
		Workspace: in.Workspace,
		Env:       in.Env,
		Quiet:     in.Quiet,
		Clone:     in.Clone,
		Changes:   in.Changes,
		OOMKills:  in.OOMKills,
		Rename:    stage.Rename,
		Group: func() (runner.Group, error) {
			part, err := in.Parts.Part()
			if err != nil {
				return nil, err // not a nil *Part, which would be a Group
			}
			return part, nil
		},
	}, stage.Ready)
}

// Threads that a container's processes keep in reserve: as many as its file
// operations may block at a time, and as a relay's copying beside it.
const (
	runnerThreads = 24
	relayThreads  = 8
)

func contained() error {
	stage.SpareThreads(runnerThreads)
	in, err := stage.EnterContainer()
	if err != nil {
		return err
	}
	return serve(runner.Options{
		Listener:  in.Listener,
		Admit:     in.Admit,
		Workspace: in.Workspace,
		Env:       in.Env,
		Clone:     in.Clone,
		Baseline:  in.Baseline,
		User:      (*runner.User)(in.User),
		OOMKills:  in.OOMKills,
	}, func() error {
		// What the engine gives the runner itself ends with who has started it.
		// Later connections come over a relay beside it.
		tell := func(err error) { fmt.Fprintln(os.Stderr, "runner:", err) }
		guard.Go(func() {
			if err := carry(); err != nil {
				tell(err)
			}
		}, tell)
		return nil
	})
}

// serve is the runner's life as the sandbox's first process. It says when it
// is ready.
func serve(o runner.Options, ready func() error) error {
	// The daemon's copy of this program, which nothing in the sandbox can change.
	self, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open /proc/self/exe", err)
	}
	o.Init, o.Tool = true, self
	r, err := runner.New(o)
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	return r.Serve()
}

// beside is the life of a relay that is a process of its own.
func beside() error {
	stage.SpareThreads(relayThreads)
	if err := errors.Join(stage.HideProcess(), stage.KeepForItself()); err != nil {
		return err
	}
	return carry()
}

// carry relays what comes by standard input and output, to its end.
func carry() error {
	conn, err := stage.Stdio()
	if err != nil {
		return err
	}
	return relay.Serve(conn, relay.Socket, pause.Programs{Table: proc.Open("/proc"), Runner: relay.Runner})
}
