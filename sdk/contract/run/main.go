// Command run runs one command, the tests of an SDK for example, with a daemon
// of its own to talk to:
//
//	go run ./sdk/contract/run npm test
//
// or several scripts of the shell with one daemon, two at a time, each with the key of
// an admin of its own:
//
//	go run ./sdk/contract/run -each python='cd sdk/python && pytest' -each go='cd sdk/go && go test ./...'
//
// What a script prints comes when it has ended. The command finds the daemon in SANDKASTEN_URL and SANDKASTEN_API_KEY, and a way to it
// that loses answers and breaks streams in SANDKASTEN_FLAKY_URL. Its images are
// base and python. Everything is removed when the command has ended, whose exit
// code is ours; of several it is that of the first one that failed. When a command fails, the end of the daemon's log follows its output
// on standard error. It needs root, and bin/sandkasten.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// failure is our exit code where the command has none.
const failure = 125

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		code = failure
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (code int, err error) {
	root, err := testenv.ModuleRoot()
	if err != nil {
		return 0, err
	}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	program := flags.String("sandkasten", filepath.Join(root, "bin", "sandkasten"), "the `program` whose daemon is started")
	driver := flags.String("driver", "native", "what makes the daemon's sandboxes: native, or docker with the engine of DOCKER_HOST")
	var each scripts
	flags.Var(&each, "each", "a `NAME=SCRIPT` to run beside the others")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	if (flags.NArg() == 0) == (len(each) == 0) {
		return 0, errors.New("want a command to run, or scripts")
	}
	// Not the host's /tmp, which is often in memory: sandboxes have disks here.
	dir, err := testenv.MakeDataDir()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := newDaemon(*program, dir, *driver)
	if err != nil {
		return 0, err
	}
	// The names that the cases and the READMEs use.
	if err := blackbox.BorrowKernelImages(ctx, *program, filepath.Join(dir, "data", "images")); err != nil {
		return 0, err
	}
	// Last, so that the log has the daemon's end, too.
	defer func() {
		if code != 0 || err != nil {
			d.log.show(os.Stderr)
		}
	}()
	if err := d.start(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	proxy, err := startFlaky(d.url)
	if err != nil {
		return 0, err
	}
	defer proxy.close()
	env := append(d.env, "SANDKASTEN_FLAKY_URL="+proxy.url)
	if len(each) > 0 {
		return each.run(ctx, d, env)
	}
	return command(ctx, flags.Args(), env, os.Stdout, os.Stderr)
}

// command runs args to their end and returns the exit code. It is asked to end
// when ctx is.
func command(ctx context.Context, args, env []string, stdout, stderr io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	cmd.Env = env
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}
