package testenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Engine is a Docker engine of a test's own, with its own state and without a
// network.
type Engine struct {
	Host  string   // as clients take it: unix:///...
	Flags []string // of dockerd, beside those that keep it apart; read by Start

	dir   string
	cmd   *exec.Cmd     // nil while it is not running
	ended chan struct{} // closed when cmd has
}

// engineTime is how long an engine may take to answer or to end.
const engineTime = time.Minute

// StartEngine starts dockerd with flags. It ends, with its containers, when
// the test does. The test must have called NeedsRoot.
func StartEngine(t testing.TB, flags ...string) *Engine {
	t.Helper()
	return startEngine(t, func(*Engine) error { return nil }, flags)
}

func startEngine(t testing.TB, prepare func(*Engine) error, flags []string) *Engine {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); err != nil {
		Unsupported(t, "no dockerd; install docker.io")
	}
	dir := DataDir(t)
	e := &Engine{Host: "unix://" + filepath.Join(dir, "s"), Flags: flags, dir: dir}
	t.Cleanup(func() {
		if e.cmd != nil {
			e.Stop(t, syscall.SIGTERM)
		}
		if err := e.clear(); err != nil {
			t.Errorf("clear away the engine: %v", err)
		}
	})
	if err := prepare(e); err != nil {
		t.Fatal(err)
	}
	e.Start(t)
	return e
}

// StartEngineOnBtrfs is StartEngine for an engine that can limit what a container
// writes, since it keeps its state on a Btrfs of its own.
func StartEngineOnBtrfs(t testing.TB, flags ...string) *Engine {
	t.Helper()
	if _, err := exec.LookPath("mkfs.btrfs"); err != nil {
		Unsupported(t, "no mkfs.btrfs; install btrfs-progs")
	}
	return startEngine(t, func(e *Engine) error {
		image, data := filepath.Join(e.dir, "btrfs"), filepath.Join(e.dir, "data")
		err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 4<<30), os.Mkdir(data, 0o700))
		for _, args := range [][]string{{"mkfs.btrfs", "-q", image}, {"mount", "-o", "loop", image, data}} {
			if err == nil {
				var text []byte
				if text, err = exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
					err = fmt.Errorf("%s: %w: %s", args[0], err, text)
				}
			}
		}
		return err
	}, append(flags, "--storage-driver=btrfs"))
}

// Start starts an engine that was stopped, on its old state, and returns when
// it answers.
func (e *Engine) Start(t testing.TB) {
	t.Helper()
	args := append([]string{
		"--host=" + e.Host, "--data-root=" + filepath.Join(e.dir, "data"), "--exec-root=" + filepath.Join(e.dir, "exec"),
		"--pidfile=" + filepath.Join(e.dir, "pid"), "--cgroup-parent=" + e.cgroup(),
		"--bridge=none", "--iptables=false", "--ip6tables=false",
	}, e.Flags...)
	log, err := os.OpenFile(e.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), "dockerd", args...) // until Stop
	e.cmd.Stdout, e.cmd.Stderr = log, log
	// Or a test that is killed would leave it behind.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	e.ended = make(chan struct{})
	if err := startOnThread(e.cmd, e.ended); err != nil {
		e.cmd = nil
		t.Fatalf("start dockerd: %v", err)
	}
	if err := e.await(); err != nil {
		e.Stop(t, syscall.SIGKILL)
		text, readErr := os.ReadFile(e.log())
		t.Fatalf("dockerd does not answer: %v\n%s%v", err, text[max(0, len(text)-4<<10):], readErr)
	}
}

// startOnThread starts a program on a thread that lives until ended is closed. The
// kernel sends the signal of a parent's death when that thread ends, and tests end
// threads that have been in another namespace.
func startOnThread(cmd *exec.Cmd, ended <-chan struct{}) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-ended
		}
	}()
	return <-started
}

// Stop ends the engine with a signal: TERM ends its containers, too, unless it
// was started with --live-restore; KILL ends nothing else.
func (e *Engine) Stop(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if e.cmd == nil {
		t.Fatal("the engine is not running")
	}
	if err := e.cmd.Process.Signal(sig); err != nil {
		t.Errorf("stop dockerd: %v", err)
	}
	late := time.AfterFunc(engineTime, func() {
		if err := e.cmd.Process.Kill(); err != nil {
			t.Errorf("kill dockerd: %v", err)
		}
	})
	defer late.Stop()
	err := e.cmd.Wait()
	close(e.ended)
	e.cmd = nil
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Errorf("wait for dockerd: %v", err)
	}
	if sig == syscall.SIGKILL {
		// Its containerd dies with it. Where nobody reaps that, as in a container,
		// the next dockerd would take it for alive.
		if err := os.Remove(filepath.Join(e.dir, "exec", "containerd", "containerd.pid")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

func (e *Engine) log() string { return filepath.Join(e.dir, "log") }

// await waits until the engine answers.
func (e *Engine) await() error {
	socket := strings.TrimPrefix(e.Host, "unix://")
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	for end := time.Now().Add(engineTime); ; time.Sleep(10 * time.Millisecond) {
		got, err := c.Get("http://engine/_ping") //nolint:noctx // bounded by the loop
		if err == nil {
			return got.Body.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// cgroup is the parent of the containers' control groups.
func (e *Engine) cgroup() string { return "/" + filepath.Base(e.dir) }

// clear ends what a killed engine leaves: processes, mounts, control groups.
func (e *Engine) clear() error {
	errs := []error{e.endAll()}
	mounts, err := os.ReadFile("/proc/self/mounts")
	errs = append(errs, err)
	lines := strings.Split(string(mounts), "\n")
	for i := len(lines) - 1; i >= 0; i-- { // the last first: they lie on each other
		fields := strings.Fields(lines[i])
		if len(fields) > 1 && strings.HasPrefix(fields[1], e.dir+"/") {
			errs = append(errs, syscall.Unmount(fields[1], syscall.MNT_DETACH))
		}
	}
	dirs := e.cgroups()
	slices.Reverse(dirs) // what is below first
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// cgroups are the directories of the control groups, of v1 and v2.
func (e *Engine) cgroups() []string { return groupTree(e.cgroup()) }

// endAll kills what was started by or in this engine and not ended by it.
func (e *Engine) endAll() error {
	for end := time.Now().Add(engineTime); ; time.Sleep(10 * time.Millisecond) {
		left, err := e.processes()
		if err != nil || len(left) == 0 {
			return err
		}
		for _, pid := range left {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes %v do not end", left)
		}
	}
}

// processes are those with the engine's directory on their command line, and
// those in its control groups.
func (e *Engine) processes() ([]int, error) {
	ours := CommandHas(e.dir + "/exec")
	pids, err := Offspring(ours)
	if err != nil {
		return nil, err
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return !ours(pid) })
	return append(pids, processesIn(e.cgroups())...), nil
}
