// Package e2e drives the real program, as users do: scripts in testdata/plain
// need nothing, those in testdata/root make real sandboxes. Each script has a
// data directory, a port and a configuration of its own.
package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

var update = flag.Bool("update", false, "write what the programs print into the scripts")

func TestMain(m *testing.M) { testenv.Main(m) }

// program builds sandkasten with the runner of this tree in it, as
// `go tool task build` does, and returns its path.
func program(t *testing.T) string {
	t.Helper()
	if err := buildRunner(); err != nil {
		t.Fatal(err)
	}
	return testenv.Build(t, "./cmd/sandkasten")
}

var buildRunner = sync.OnceValue(func() error {
	root, err := testenv.ModuleRoot()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "internal/runnerbin/bin/runner", "./cmd/runner")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the runner: %w\n%s", err, text)
	}
	return nil
})

// TestScripts needs no privileges.
func TestScripts(t *testing.T) {
	bin := program(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/plain",
		UpdateScripts: *update,
		Setup:         func(env *testscript.Env) error { return setup(env, bin, env.WorkDir) },
	})
}

// TestRootScripts makes sandboxes with the native driver.
func TestRootScripts(t *testing.T) {
	testenv.NeedsRoot(t)
	bin := program(t)
	images := imageStore(t, bin)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/root",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			data := testenv.DataDir(t)
			// All scripts share one store: several processes may use it.
			if err := os.Symlink(images, filepath.Join(data, "images")); err != nil {
				return err
			}
			env.Defer(func() { removeSessions(t, env) })
			return setup(env, bin, data)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready":   ready,
			"capture": capture,
		},
	})
}

// imageStore returns a store that has the image base.
func imageStore(t *testing.T, bin string) string {
	t.Helper()
	data := testenv.DataDir(t)
	pack := exec.CommandContext(t.Context(), "tar", "-C", testenv.BaseRootfs(t), "-c", ".")
	load := exec.CommandContext(t.Context(), bin, "image", "import", "--name", "base", "--tar", "-")
	load.Env = append(os.Environ(), "SANDKASTEN_DATA_DIR="+data)
	var err error
	if load.Stdin, err = pack.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := pack.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := load.CombinedOutput()
	if err := errors.Join(err, pack.Wait()); err != nil {
		t.Fatalf("import an image: %v\n%s", err, text)
	}
	return filepath.Join(data, "images")
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
	ts.Check(waitReady(ts.Getenv("URL")))
}

func waitReady(url string) error {
	const patience = 20 * time.Second // a loaded machine; it takes 0.1 s
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		err := probe(ctx, url+"/readyz")
		cancel()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func probe(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// capture NAME sets a variable to what the last command printed.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// removeSessions ends what a script that failed left: it would stay for ever.
func removeSessions(t *testing.T, env *testscript.Env) {
	left, err := os.ReadDir(filepath.Join(env.Getenv("DATA"), "sandboxes"))
	if len(left) == 0 || errors.Is(err, os.ErrNotExist) {
		return
	}
	t.Errorf("a script left %d sandboxes", len(left))
	bin := filepath.Join(strings.Split(env.Getenv("PATH"), string(os.PathListSeparator))[0], "sandkasten")
	vars := append(env.Vars, "SANDKASTEN_POOL__ENABLED=false") // what is ready goes too
	s := &system{t: t, bin: bin, env: vars, url: env.Getenv("URL")}
	// The script's own daemon may still be running.
	if err := probe(context.Background(), s.url+"/readyz"); err != nil {
		s.start()
		defer s.stop()
	}
	s.output("rm", "--all")
}

// system is a daemon and its command line, for tests in Go.
type system struct {
	t      *testing.T
	bin    string
	data   string
	env    []string
	url    string
	daemon *exec.Cmd
	log    bytes.Buffer // of the daemon, to be read when it has ended
}

// startDaemon runs a daemon with a store of images until the test ends.
func startDaemon(t *testing.T, images string) *system {
	t.Helper()
	bin := program(t)
	data := testenv.DataDir(t)
	if err := os.Symlink(images, filepath.Join(data, "images")); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	s := &system{t: t, bin: bin, data: data, url: "http://" + listen}
	s.env = append(os.Environ(), "SANDKASTEN_LISTEN="+listen, "SANDKASTEN_DATA_DIR="+data, "SANDKASTEN_LOG__LEVEL=warn", "TERM=xterm")
	s.start()
	t.Cleanup(s.stop)
	return s
}

// command is one of the program's own.
func (s *system) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	cmd.Env = s.env
	return cmd
}

func (s *system) start() {
	s.t.Helper()
	s.daemon = s.command("daemon")
	s.daemon.Stderr = &s.log
	if err := s.daemon.Start(); err != nil {
		s.t.Fatal(err)
	}
	if err := waitReady(s.url); err != nil {
		s.stop()
		s.t.Fatal(err)
	}
}

func (s *system) stop() {
	if err := errors.Join(s.daemon.Process.Signal(os.Interrupt), s.daemon.Wait()); err != nil {
		s.t.Errorf("stop the daemon: %v\n%s", err, s.log.String())
	}
}

// output is what a command that works prints, without the last newline.
func (s *system) output(args ...string) string {
	s.t.Helper()
	var errOut bytes.Buffer
	cmd := s.command(args...)
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("sandkasten %q: %v\n%s%s", args, err, out, errOut.String())
	}
	return strings.TrimSpace(string(out))
}
