// Package blackbox runs the real program as a daemon, for the suites that look
// at it from outside: they start it, speak to it as clients of its API or with
// its command line, kill it and start it again. What a suite asks of it is the
// suite's own. Everything ends with the test.
package blackbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// patience is how long a daemon may take to start or to end on a loaded machine.
const patience = time.Minute

// Options are what is particular about a daemon. The zero value is the program
// of this tree with the native driver and an image named base.
type Options struct {
	Program string   // to run instead of a build of this tree
	Tags    []string // of the build, as failpoint
	Config  string   // lines for the configuration, behind listen and data_dir
	Env     []string // of the daemon only, behind the test's own without SANDKASTEN_*
	DataDir string   // instead of a new one, which goes with the test
	Images  string   // the image store to use; empty is a link to Images
}

// Daemon is a program with a configuration and a data directory of its own. Its
// methods fail the test, and must be called by one goroutine at a time, but for
// Client, Command and Output.
type Daemon struct {
	Program string
	Data    string // data_dir
	Config  string // the configuration's path
	URL     string
	Key     string // of the owner admin, once the daemon has made it
	Env     []string

	t     testing.TB
	extra []string // of the daemon's environment
	cmd   *exec.Cmd
	done  chan struct{} // closed when cmd has ended
	ended error         // of cmd, once done
	log   log
}

// New returns a daemon that does not run yet. When the test ends its sessions are
// removed and it is stopped.
func New(t testing.TB, o Options) *Daemon {
	t.Helper()
	testenv.NeedsRoot(t)
	d := &Daemon{t: t, Program: o.Program, Data: o.DataDir, extra: o.Env}
	if d.Program == "" {
		d.Program = testenv.Program(t, o.Tags...)
	}
	if d.Data == "" {
		d.Data = testenv.DataDir(t)
	}
	if o.Images == "" {
		o.Images = Images(t)
	}
	if err := os.Symlink(o.Images, filepath.Join(d.Data, "images")); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	address := freeAddress(t)
	d.URL = "http://" + address
	d.Config = filepath.Join(t.TempDir(), "sandkasten.yaml")
	text := fmt.Sprintf("listen: %s\ndata_dir: %s\n%s\n", address, d.Data, o.Config)
	if !strings.Contains(o.Config, "log:") {
		text += "log: {level: warn, format: text}\n"
	}
	if err := os.WriteFile(d.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Env = slices.Clip(append(Environ(), "SANDKASTEN_CONFIG="+d.Config, "TERM=xterm")) // so that who adds to it has a copy
	t.Cleanup(d.end)
	return d
}

// Environ is the environment without what is ours, which a program would take
// for its configuration.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "SANDKASTEN_") })
}

// Start is New and Start.
func Start(t testing.TB, o Options) *Daemon {
	t.Helper()
	d := New(t, o)
	d.Start()
	return d
}

// Start runs the program and returns when it has taken up its sessions.
func (d *Daemon) Start() {
	d.t.Helper()
	if err := d.TryStart(); err != nil {
		d.t.Fatal(err)
	}
}

// TryStart is Start for a daemon that may refuse to: the error has what it
// printed, and nothing is left running.
func (d *Daemon) TryStart() error {
	if d.Running() {
		return errors.New("the daemon runs already")
	}
	d.cmd = exec.CommandContext(context.WithoutCancel(d.t.Context()), d.Program, "daemon")
	d.cmd.Env = append(d.Env, d.extra...)
	from := d.log.len()
	printed, err := newOutput(&d.log)
	if err != nil {
		return err
	}
	d.cmd.Stderr = printed.w
	err = d.cmd.Start()
	printed.started()
	if err != nil {
		return errors.Join(err, printed.await(patience))
	}
	cmd, done := d.cmd, make(chan struct{})
	d.done = done
	go func() {
		defer close(done)
		d.ended = cmd.Wait()
		if err := printed.await(patience); err != nil {
			d.t.Error(err)
		}
	}()
	if err := AwaitReady(context.WithoutCancel(d.t.Context()), d.URL, done); err != nil {
		d.Kill()
		return fmt.Errorf("%w\n%s", err, d.log.text()[from:])
	}
	key, err := os.ReadFile(filepath.Join(d.Data, "api_key"))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // the configuration may have one
		return err
	}
	d.Key = strings.TrimSpace(string(key))
	return nil
}

// SetEnv is the daemon's environment from the next start on, beside the test's.
func (d *Daemon) SetEnv(variables ...string) { d.extra = variables }

// AwaitReady returns when the daemon at url has taken up its sessions, or with
// an error after a minute or once gone is closed.
func AwaitReady(ctx context.Context, url string, gone <-chan struct{}) error {
	deadline := time.Now().Add(patience)
	for {
		err := Probe(ctx, url+"/readyz")
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-gone:
			return errors.New("the daemon has ended before it was ready")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Probe is an error unless a GET of url, without a key, answers 200.
func Probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
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
		text, readErr := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		err = errors.Join(fmt.Errorf("%s: %s: %s", url, resp.Status, text), readErr)
	}
	return errors.Join(err, resp.Body.Close())
}

// Running says whether the program has been started and has not ended.
func (d *Daemon) Running() bool {
	if d.done == nil {
		return false
	}
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// PID is the process of the program that runs, or ran last.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Kill ends the program as kill -9 does, and returns when it is gone.
func (d *Daemon) Kill() {
	d.t.Helper()
	d.signal(syscall.SIGKILL)
}

// Stop ends the program as a service manager does. Its sessions go on.
func (d *Daemon) Stop() {
	d.t.Helper()
	if !d.Running() {
		return
	}
	d.signal(syscall.SIGTERM)
	if d.ended != nil {
		d.t.Errorf("stop the daemon: %v\n%s", d.ended, d.log.text())
	}
}

// Restart is Stop and Start.
func (d *Daemon) Restart() {
	d.t.Helper()
	d.Stop()
	d.Start()
}

// Wait returns when the program has ended by itself, as at a failpoint, and
// fails the test if it does not.
func (d *Daemon) Wait() {
	d.t.Helper()
	select {
	case <-d.done:
	case <-time.After(patience):
		d.t.Fatalf("the daemon goes on")
	}
}

func (d *Daemon) signal(s syscall.Signal) {
	d.t.Helper()
	if !d.Running() {
		return
	}
	// It may end by itself just now.
	if err := d.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.t.Fatal(err)
	}
	select {
	case <-d.done:
	case <-time.After(3 * patience): // with that for what it printed
		d.t.Errorf("the daemon does not end at %v", s)
		d.cmd.Process.Kill()
		<-d.done
	}
}

// end removes what the test left, since sandboxes outlive their daemon, and
// stops the daemon. A daemon that was never ready has nothing.
func (d *Daemon) end() {
	for range 2 { // a pool has some again
		if !d.Running() {
			left, err := os.ReadDir(filepath.Join(d.Data, "sandboxes"))
			if len(left) == 0 || err != nil {
				return
			}
			d.extra = []string{"SANDKASTEN_POOL__ENABLED=false"} // what is ready goes, too
			if err := d.TryStart(); err != nil {
				d.t.Errorf("%d sandboxes are left: %v", len(left), err)
				return
			}
		}
		d.Output("rm", "--all")
		d.Stop()
	}
	// Those of other owners, whose keys are the test's.
	if left, err := os.ReadDir(filepath.Join(d.Data, "sandboxes")); err == nil && len(left) > 0 {
		d.Output("daemon", "--stop-sessions")
	}
}

// Client returns a client of the daemon with this key, or that of the owner admin
// if it is empty. It repeats nothing by itself.
func (d *Daemon) Client(key string) *sandkasten.Client {
	d.t.Helper()
	if key == "" {
		key = d.Key
	}
	c, err := sandkasten.New(sandkasten.Options{URL: d.URL, APIKey: key, MaxRetries: -1})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(c.Close)
	return c
}

// Command is one of the program's own, for this daemon.
func (d *Daemon) Command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(d.t.Context()), d.Program, args...)
	cmd.Env = d.Env
	cmd.WaitDelay = patience // for who has inherited its output
	return cmd
}

// Output is what a command that works prints, without the last newline.
func (d *Daemon) Output(args ...string) string {
	d.t.Helper()
	var errOut bytes.Buffer
	cmd := d.Command(args...)
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		d.t.Errorf("sandkasten %q: %v\n%s%s", args, err, out, errOut.String())
	}
	return strings.TrimSpace(string(out))
}

// Log is what the daemon has printed since the test began.
func (d *Daemon) Log() string { return d.log.text() }

// freeAddress is one of the loopback interface that nobody listens on now. Its port
// is below those that the kernel chooses for clients and for listeners without a port:
// a daemon that is killed has to get it again.
func freeAddress(t testing.TB) string {
	t.Helper()
	const first, ports, tries = 20000, 12000, 100
	var l net.Listener
	err := errors.New("no port was tried")
	for range tries {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(ports))
		if l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", address); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}
