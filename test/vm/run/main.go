// Command run runs one command in a test machine, for debugging:
//
//	go run ./test/vm/run -rootfs DIR [-file GUEST=HOST]... -- /bin/bash
//
// Standard input and output are the command's, and its exit code is ours.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/sandkasten/sandkasten/test/vm"
	"github.com/sandkasten/sandkasten/test/vm/guest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		code = 125
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (int, error) {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	rootfs := flags.String("rootfs", "", "`directory` of a distribution's root filesystem (required)")
	memory := flags.Int("memory", 2048, "the machine's memory in `MiB`")
	cpus := flags.Int("cpus", 2, "the machine's processors")
	files := map[string]string{}
	flags.Func("file", "copy `GUEST=HOST`, a file or a directory, into the machine", func(arg string) error {
		name, hostPath, ok := strings.Cut(arg, "=")
		if !ok {
			return errors.New("want GUEST=HOST")
		}
		files[name] = hostPath
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	if *rootfs == "" || flags.NArg() == 0 {
		return 0, errors.New("want -rootfs DIR and a command")
	}

	dir, err := os.MkdirTemp("", "sandkasten-vm-run-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	machine, err := vm.Prepare(ctx, *rootfs, dir)
	if err != nil {
		return 0, err
	}
	machine.Files = files
	machine.MemoryMB = *memory
	machine.CPUs = *cpus
	machine.Stdin = os.Stdin
	machine.Jobs = []guest.Job{{Args: flags.Args(), Dir: "/", Env: []string{"TERM=" + filepath.Base(os.Getenv("TERM"))}}}
	code := 0
	err = machine.Run(ctx, func(ev guest.Event) {
		os.Stdout.Write(ev.Output)
		if ev.End != nil {
			code = ev.End.Code
		}
	})
	return code, err
}
