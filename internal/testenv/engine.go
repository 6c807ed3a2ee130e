package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Engine is a Docker engine of a test's own, with its own state and without a
// network.
type Engine struct {
	Host string // as clients take it: unix:///...

	dir    string
	flags  []string
	cmd    *exec.Cmd // nil while it is not running
	output *bytes.Buffer
}

// engineTime is how long an engine may take to answer or to end.
const engineTime = time.Minute

// StartEngine starts dockerd with flags. It ends, with its containers, when
// the test does. The test must have called NeedsRoot.
func StartEngine(t testing.TB, flags ...string) *Engine {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); err != nil {
		Unsupported(t, "no dockerd; install docker.io")
	}
	dir := DataDir(t)
	e := &Engine{Host: "unix://" + filepath.Join(dir, "s"), dir: dir, flags: flags}
	t.Cleanup(func() {
		if e.cmd != nil {
			e.Stop(t, syscall.SIGTERM)
		}
		if err := e.clear(); err != nil {
			t.Errorf("clear away the engine: %v", err)
		}
	})
	e.Start(t)
	return e
}

// Start starts an engine that was stopped, on its old state, and returns when
// it answers.
func (e *Engine) Start(t testing.TB) {
	t.Helper()
	args := append([]string{
		"--host=" + e.Host, "--data-root=" + filepath.Join(e.dir, "data"), "--exec-root=" + filepath.Join(e.dir, "exec"),
		"--pidfile=" + filepath.Join(e.dir, "pid"), "--cgroup-parent=" + e.cgroup(),
		"--bridge=none", "--iptables=false", "--ip6tables=false",
	}, e.flags...)
	e.output = new(bytes.Buffer)
	e.cmd = exec.Command("dockerd", args...) //nolint:noctx // it lives as long as the test
	e.cmd.Stdout, e.cmd.Stderr = e.output, e.output
	// Or a test that is killed would leave it behind.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := e.cmd.Start(); err != nil {
		e.cmd = nil
		t.Fatalf("start dockerd: %v", err)
	}
	if err := e.await(); err != nil {
		e.Stop(t, syscall.SIGKILL)
		t.Fatalf("dockerd does not answer: %v\n%s", err, e.output)
	}
}

// Stop ends the engine with a signal: TERM ends its containers, too, unless it
// was started with --live-restore; KILL ends nothing else.
func (e *Engine) Stop(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := e.cmd.Process.Signal(sig); err != nil {
		t.Errorf("stop dockerd: %v", err)
	}
	late := time.AfterFunc(engineTime, func() { e.cmd.Process.Kill() })
	defer late.Stop()
	err := e.cmd.Wait()
	e.cmd = nil
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Errorf("wait for dockerd: %v", err)
	}
}

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

// clear ends what a killed engine leaves: its containerd, whose end takes the
// containers along, and mounts and control groups.
func (e *Engine) clear() error {
	errs := []error{e.endChildren()}
	mounts, err := os.ReadFile("/proc/self/mounts")
	errs = append(errs, err)
	lines := strings.Split(string(mounts), "\n")
	for i := len(lines) - 1; i >= 0; i-- { // the last first: they lie on each other
		fields := strings.Fields(lines[i])
		if len(fields) > 1 && strings.HasPrefix(fields[1], e.dir+"/") {
			errs = append(errs, syscall.Unmount(fields[1], syscall.MNT_DETACH))
		}
	}
	dirs, err := filepath.Glob("/sys/fs/cgroup/*" + e.cgroup())
	errs = append(errs, err)
	for _, dir := range append(dirs, "/sys/fs/cgroup"+e.cgroup()) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// endChildren kills what was started for this engine and not ended by it: what
// has its directory on its command line.
func (e *Engine) endChildren() error {
	for end := time.Now().Add(engineTime); ; time.Sleep(10 * time.Millisecond) {
		left, err := e.children()
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

func (e *Engine) children() ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte(e.dir+"/exec")) {
			continue // it has ended, or is another's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		found = append(found, pid)
	}
	return found, nil
}
