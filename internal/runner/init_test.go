package runner_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/internal/runner/fileops"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// initEnv makes the test binary a PID 1 that serves the directory it names.
const initEnv = "SANDKASTEN_TEST_INIT"

func TestMain(m *testing.M) {
	if os.Args[0] == fileops.ToolName {
		os.Exit(fileops.RunTool(os.Args))
	}
	if dir := os.Getenv(initEnv); dir != "" {
		if err := serveAsInit(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if pid := os.Getenv(traceEnv); pid != "" {
		trace(atoi(pid))
	}
	if dir := os.Getenv(serveEnv); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if left := goroutines(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines are left:\n%s", left)
		code = 1
	}
	os.Exit(code)
}

// goroutines returns the stacks of the runner's goroutines, after giving them
// time to end.
func goroutines() string {
	buf := make([]byte, 1<<20)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var left bytes.Buffer
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "internal/runner.") {
				left.WriteString(g + "\n\n")
			}
		}
		if left.Len() == 0 || time.Now().After(end) {
			return left.String()
		}
	}
}

func serveAsInit(dir string) error {
	if os.Getpid() != 1 {
		return errors.New("not PID 1")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	r, err := runner.New(runner.Options{
		Listener: 3, Init: true, Workspace: dir,
		Env:      []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "LANG=C.UTF-8"},
		OOMKills: func() int64 { n, _ := os.ReadFile(dir + "/ooms"); return int64(len(n)) },
	})
	if err != nil {
		return err
	}
	return r.Serve()
}

// newInitHost is newHost with the runner as PID 1 of a PID namespace.
func newInitHost(t *testing.T) *host {
	t.Helper()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	h := &host{t: t, workspace: filepath.Join(dir, "workspace"), socket: filepath.Join(dir, "s")}
	must(t, os.Mkdir(h.workspace, 0o755))
	listener := os.NewFile(uintptr(h.listen()), "listener")
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), initEnv+"="+h.workspace)
	cmd.ExtraFiles = []*os.File{listener}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	must(t, cmd.Start())
	must(t, listener.Close())
	t.Cleanup(func() {
		must(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("PID 1 ended by itself: %v", err)
		}
	})
	return h
}

// N01, R-4.1.3: no signal from inside ends PID 1.
func TestInitSurvivesSignals(t *testing.T) {
	p := newInitHost(t).dial()
	// Without 34: with -race this program has threads that are not Go's, and the
	// runtime lets them die of it. TestN01_SignalsToTheRunner sends it too.
	p.sh("for s in $(seq 1 64 | grep -vx 34); do kill -$s 1; done").want(t, "", 0, protocol.CauseExited)
	p.next()
	p.sh("for s in SEGV BUS FPE ILL TRAP ABRT SYS; do for i in 1 2 3; do kill -$s 1; done; done").want(t, "", 0, protocol.CauseExited)
	p.next()
	// Every program starts with all signals at their defaults.
	p.sh("grep SigIgn /proc/self/status").want(t, "SigIgn:\t0000000000000000\n", 0, protocol.CauseExited)
}

// K20: everything that can be killed is.
func TestInitSurvivesKillingAll(t *testing.T) {
	p := newInitHost(t).dial()
	if r := p.sh("kill -9 -1"); r.Cause != protocol.CauseShellExited && r.Cause != protocol.CauseExited {
		t.Errorf("%+v", r.Record)
	}
	p.next()
}

// R09: orphans are reaped, whoever they were handed to.
func TestInitReapsOrphans(t *testing.T) {
	h := newInitHost(t)
	p := h.dial()
	p.sh(`for i in $(seq 200); do (setsid sh -c 'exit 0' &); done; for i in $(seq 200); do (sleep 0.01 &); done`)
	p.sh(`for i in $(seq 50); do (setsid sleep 0.3 &); done; kill -9 $$`) // these go to PID 1
	waitFor(t, func() bool {
		r := p.sh("cat /proc/[0-9]*/stat | grep -c ' [ZX] '")
		return strings.TrimSpace(string(r.output)) == "0"
	})
}

// E05: a tree that forks and dies faster than the process table can be read.
func TestInitStopsForkAndDie(t *testing.T) {
	h := newInitHost(t)
	p := h.dial()
	p.sh("sleep 1000 & sleep 1000 & kill -STOP $!")
	time.Sleep(30 * time.Millisecond)
	// Each process of a chain lives for some microseconds.
	r := p.run(protocol.Exec{TimeoutMS: 300, GraceMS: 50}, `for i in 1 2 3; do perl -e 'while (1) { fork and exit }' & done; f() { f & }; f; sleep 1000`)
	if r.Cause != protocol.CauseTimeout || r.DurationUS > 15_000_000 {
		t.Errorf("%+v", r.Record)
	}
	n := p.sh("cat /proc/[0-9]*/stat 2>/dev/null | grep -c ' [RSDT] '; cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') T '")
	if got := strings.Fields(string(n.output)); len(got) != 2 || atoi(got[0]) > 10 || got[1] != "1" {
		t.Errorf("processes left, and stopped: %q; want a handful and 1", n.output)
	}
	p.next()
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// A command that ends its shell and leaves processes behind has not got away.
func TestInitStopsOrphansOfReplacedShell(t *testing.T) {
	h := newInitHost(t)
	p := h.dial()
	other := h.dial()
	other.run(protocol.Exec{Shell: "other"}, "sleep 777 >/dev/null 2>&1 & true")
	time.Sleep(30 * time.Millisecond)
	r := p.run(protocol.Exec{TimeoutMS: 300, GraceMS: 50}, `(setsid sleep 778 &) ; setsid sh -c 'trap "" TERM; sleep 778; sleep 778' & exec sleep 778`)
	if r.Cause != protocol.CauseTimeout {
		t.Errorf("%+v", r.Record)
	}
	p.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 77[0-9]'").want(t, "sleep 777\n", 0, protocol.CauseExited)
}

func TestOOMKilled(t *testing.T) {
	p := newInitHost(t).dial()
	p.sh("printf x >>ooms; bash -c 'kill -9 $$'")
	if r := p.sh("printf x >>ooms; bash -c 'kill -9 $$'"); r.Cause != protocol.CauseOOMKilled || r.ExitCode != 137 || r.Signal != 9 {
		t.Errorf("%+v", r.Record)
	}
	if r := p.sh("printf x >>ooms; kill -9 $$"); r.Cause != protocol.CauseOOMKilled {
		t.Errorf("the shell: %+v", r.Record)
	}
	if r := p.sh("bash -c 'kill -9 $$'"); r.Cause != protocol.CauseSignaled {
		t.Errorf("without a new OOM kill: %+v", r.Record)
	}
}
