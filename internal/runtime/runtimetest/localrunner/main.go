// Command localrunner is the runner that runtimetest.Local starts: the real
// one, on the host as it is. It protects nothing and is for tests only.
package main

import (
	"fmt"
	"os"

	"github.com/sandkasten/sandkasten/internal/runner"
)

// listenerFD is where runtimetest.Local puts the listening socket.
const listenerFD = 3

func main() {
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
	r, err := runner.New(runner.Options{
		Listener:  listenerFD,
		Workspace: workspace,
		Env:       os.Environ(),
	})
	if err != nil {
		return err
	}
	return r.Serve()
}
