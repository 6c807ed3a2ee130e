// Command runner is PID 1 of a sandbox. The daemon starts it in fresh
// namespaces from a copy of its own; it is not meant to be run by hand.
package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/internal/runner/fileops"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/stage"
)

func main() {
	if os.Args[0] == fileops.ToolName {
		os.Exit(fileops.RunTool(os.Args))
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "runner: started by the daemon as PID 1 of a sandbox; see `sandkasten create`")
		os.Exit(2)
	}
	if err := run(); err != nil {
		// The daemon reads the reason from the socket; nobody reads our stderr.
		if err := stage.Fail(err); err != nil {
			os.Exit(3)
		}
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
	// The daemon's sealed copy, which nothing in the sandbox can change.
	self, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open /proc/self/exe", err)
	}
	r, err := runner.New(runner.Options{
		Listener:  in.Listener,
		Init:      true,
		Workspace: in.Workspace,
		Env:       in.Env,
		Clone:     in.Clone,
		Tool:      self,
		OOMKills:  in.OOMKills,
		Rename:    stage.Rename,
		Group: func() (runner.Group, error) {
			part, err := in.Parts.Part()
			if err != nil {
				return nil, err // not a nil *Part, which would be a Group
			}
			return part, nil
		},
	})
	if err != nil {
		return err
	}
	if err := stage.Ready(); err != nil {
		return err
	}
	return r.Serve()
}
