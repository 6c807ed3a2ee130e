// Package e2e drives the real program, as users do: scripts in testdata/plain
// need nothing, those in testdata/root make real sandboxes. Each script has a
// data directory, a port and a configuration of its own.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

var update = flag.Bool("update", false, "write what the programs print into the scripts")

func TestMain(m *testing.M) { testenv.Main(m) }

// TestScripts needs no privileges.
func TestScripts(t *testing.T) {
	t.Parallel()
	bin := testenv.Program(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/plain",
		UpdateScripts: *update,
		Setup:         func(env *testscript.Env) error { return setup(env, bin, env.WorkDir) },
	})
}

// TestRootScripts makes sandboxes with the native driver.
func TestRootScripts(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	bin := testenv.Program(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/root",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			data := testenv.DataDir(t)
			if err := os.Symlink(blackbox.Images(t), filepath.Join(data, "images")); err != nil {
				return err
			}
			env.Defer(func() { removeSessions(t, env) })
			return setup(env, bin, data)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready":   ready,
			"capture": capture,
			"until":   until,
		},
	})
}

// setup gives a script its configuration.
func setup(env *testscript.Env, bin, data string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	file := filepath.Join(env.WorkDir, "sandkasten.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:%d\ndata_dir: %s\nreaper_interval_seconds: 1\nlog: {level: warn}\n", port, data)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	env.Setenv("PATH", filepath.Dir(bin)+string(os.PathListSeparator)+env.Getenv("PATH"))
	env.Setenv("SANDKASTEN_CONFIG", file)
	env.Setenv("DATA", data)
	env.Setenv("URL", fmt.Sprintf("http://127.0.0.1:%d", port))
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// ready waits until the script's daemon has taken up its sessions.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: ready")
	}
	ts.Check(blackbox.AwaitReady(context.Background(), ts.Getenv("URL"), nil))
}

// capture NAME sets a variable to what the last command printed.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// until SCRIPT runs a script of the shell until it succeeds.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: until SCRIPT")
	}
	// A program is started each time, so not every millisecond as testenv.Eventually does.
	for deadline := time.Now().Add(time.Minute); ts.Exec("sh", "-c", args[0]) != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("after a minute this fails: %s", args[0])
		}
	}
}

// removeSessions ends what a script that failed left: it would stay for ever.
func removeSessions(t *testing.T, env *testscript.Env) {
	left, err := os.ReadDir(filepath.Join(env.Getenv("DATA"), "sandboxes"))
	if len(left) == 0 || errors.Is(err, os.ErrNotExist) {
		return
	}
	t.Errorf("a script left %d sandboxes", len(left))
	bin := filepath.Join(strings.Split(env.Getenv("PATH"), string(os.PathListSeparator))[0], "sandkasten")
	data := env.Getenv("DATA")
	blackbox.New(t, blackbox.Options{Program: bin, DataDir: data, Images: filepath.Join(data, "images")}) // removes them at its end
}
