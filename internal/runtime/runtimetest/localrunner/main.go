// Command localrunner is the runner that runtimetest.Local starts: the real
// one, on the host as it is. It protects nothing and is for tests only.
package main

import (
	"fmt"
	"os"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/internal/runner/fileops"
)

// listenerFD is where runtimetest.Local puts the listening socket.
const listenerFD = 3

func main() {
	if os.Args[0] == fileops.ToolName {
		os.Exit(fileops.RunTool(os.Args))
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "localrunner:", err)
		os.Exit(1)
	}
}

func run() error {
	workspace, err := os.Getwd()
	if err != nil {
		return err
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	r, err := runner.New(runner.Options{
		Listener:  listenerFD,
		Workspace: workspace,
		Env:       os.Environ(),
		Quiet:     len(os.Args) > 1,
		Tool:      int(self.Fd()),
	})
	if err != nil {
		return err
	}
	return r.Serve()
}
