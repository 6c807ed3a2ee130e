package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// A host that gives no namespace refuses a create and keeps nothing of it.
func TestF17_NoNamespaces(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		testenv.Unsupported(t, "no strace, which has system calls fail")
	}
	h := start(t, "")
	s := h.create(nil)
	tracer := h.sleeper("strace", "-f", "-qq", "-o", "/dev/null", "-p", strconv.Itoa(h.PID()), "-e", "trace=clone3", "-e", "inject=clone3:error=ENOSPC")
	h.eventually(settle, func() error {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.PID()))
		if err == nil && !strings.Contains(string(status), fmt.Sprintf("TracerPid:\t%d\n", tracer)) {
			err = errors.New("strace is not there yet")
		}
		return err
	})
	refused := 0
	for range 12 { // some runners are ready
		if _, err := h.c.CreateSession(t.Context(), nil); err != nil {
			refused++
			if c := code(err); c != "unavailable" && c != "insufficient_space" {
				t.Errorf("create: %v (%s); want unavailable", err, c)
			}
		}
	}
	if refused == 0 {
		t.Error("sessions are made without namespaces")
	}
	h.sh(s, "true")
	h.end(tracer)
	h.sh(h.create(nil), "true")
	h.oracle()
	h.wantNothing()
}

// A daemon without descriptors refuses clients, does not end, and works when it
// has some again.
func TestF18_NoDescriptors(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	few := unix.Rlimit{Cur: 256, Max: 256}
	if err := unix.Prlimit(h.PID(), unix.RLIMIT_NOFILE, &few, nil); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(h.URL, "http://")
	var open []net.Conn
	for range 400 {
		if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			open = append(open, c)
		}
	}
	for what, call := range map[string]func(context.Context) error{
		"list":     func(ctx context.Context) error { _, err := h.c.ListSessions(ctx, nil); return err },
		"stats":    func(ctx context.Context) error { _, err := s.Stats(ctx); return err },
		"state":    func(ctx context.Context) error { _, err := s.Refresh(ctx); return err },
		"pause":    func(ctx context.Context) error { _, err := s.Pause(ctx, nil); return err },
		"resume":   func(ctx context.Context) error { _, err := s.Resume(ctx); return err },
		"snapshot": func(ctx context.Context) error { _, err := s.Snapshot(ctx, nil); return err },
		"write":    func(ctx context.Context) error { return s.Write(ctx, "f", strings.NewReader("x"), nil) },
	} {
		ctx, cancel := contextFor(t, 3*time.Second)
		if err := call(ctx); code(err) == "internal" {
			t.Errorf("%s without descriptors: %v", what, err)
		}
		cancel()
	}
	for range 5 {
		ctx, cancel := contextFor(t, 3*time.Second)
		made, err := h.c.CreateSession(ctx, nil)
		cancel()
		if err == nil {
			made.Destroy(t.Context())
		}
	}
	if !h.Running() {
		t.Fatalf("the daemon has ended\n%s", h.Log())
	}
	for _, c := range open {
		c.Close()
	}
	h.eventually(settle, func() error {
		_, err := s.Exec(t.Context(), "true", nil)
		return err
	})
	h.destroyAll()
	h.sh(h.create(nil), "true")
	h.oracle()
	h.wantNothing()
}

// A daemon that may have 256 MB serves twenty sessions with much output.
func TestF18_LittleMemory(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	group := "/sys/fs/cgroup/memory/" + testenv.Mark() + "fault"
	limit := "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		group, limit = strings.Replace(group, "/memory/", "/", 1), "memory.max"
	}
	if err := os.Mkdir(group, 0o700); err != nil {
		t.Fatal(err)
	}
	h := start(t, "")
	t.Cleanup(func() {
		h.Stop()
		if err := patiently(settle, func() error { return os.Remove(group) }); err != nil {
			t.Error(err)
		}
	})
	h.write(filepath.Join(group, limit), strconv.Itoa(256<<20))
	h.Stop()
	h.Program = wrapped(t, "echo $$ >"+filepath.Join(group, "cgroup.procs"))
	h.Start()
	before := h.PID()
	var load sync.WaitGroup
	for range 20 {
		load.Go(func() {
			s, err := h.c.CreateSession(t.Context(), nil)
			if err != nil {
				t.Errorf("create: %v", err)
				return
			}
			for range 3 {
				if _, err := s.Exec(t.Context(), "head -c 4000000 /dev/zero | tr '\\0' x", nil); err != nil {
					t.Errorf("exec: %v", err)
				}
			}
		})
	}
	load.Wait()
	if !h.Running() || h.PID() != before {
		t.Errorf("the daemon has ended\n%s", h.Log())
	}
	h.destroyAll()
	h.oracle()
	h.wantNothing()
}

// A host without loop devices refuses a create: there is no session whose disk
// has no limit. With them it works again.
func TestF33_NoLoopDevices(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	h.Stop()
	real := h.Program
	h.Program = wrapped(t, `if [ -z "$INSIDE" ]; then INSIDE=1 exec unshare --mount --propagation private "$0" "$@"; fi
mount --bind /dev/null /dev/loop-control || exit 1`)
	if err := h.TryStart(); err == nil {
		h.sh(s, "true")
		made, err := h.c.CreateSession(t.Context(), nil)
		if err == nil {
			t.Errorf("session %s was made without a disk of its own", made.ID)
		}
		h.inOrder()
		h.Stop()
	} else if !strings.Contains(err.Error(), "loop") {
		t.Errorf("the daemon refuses to start and does not say why: %v", err)
	}
	h.Program = real
	h.Start()
	h.sh(s, "true")
	h.sh(h.create(nil), "true")
	h.oracle()
	h.wantNothing()
}

// A process that cannot be killed keeps its session in stopping, and neither
// the daemon's end nor other sessions; when it can die the session ends.
func TestF36_ProcessThatCannotDie(t *testing.T) {
	t.Parallel()
	const freezer = "/sys/fs/cgroup/freezer"
	h := start(t, "")
	s := h.create(nil)
	h.sh(s, "sleep 1000 &")
	if _, err := os.Stat(freezer); err != nil {
		t.Log("no freezer of cgroup v1 here: nothing keeps a process from dying")
		h.wantNothing()
		return
	}
	group := filepath.Join(freezer, testenv.Mark()+"fault")
	if err := os.Mkdir(group, 0o700); err != nil {
		t.Fatal(err)
	}
	thaw := func() { h.write(filepath.Join(group, "freezer.state"), "THAWED") }
	t.Cleanup(func() {
		thaw()
		if err := patiently(settle, func() error { return os.Remove(group) }); err != nil {
			t.Error(err)
		}
	})
	all, err := groups(h.node())
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all[h.box(s.ID).Group] {
		h.write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(pid))
	}
	h.write(filepath.Join(group, "freezer.state"), "FROZEN")
	if err := s.Destroy(t.Context()); code(err) != "unavailable" {
		t.Errorf("destroy: %v; want unavailable", err)
	}
	h.sh(h.create(nil), "true")
	began := time.Now()
	h.Stop()
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("the daemon took %s to end", took)
	}
	h.Start()
	thaw()
	h.wantStatus(s, "destroyed", 30*time.Second)
	h.oracle()
	h.wantNothing()
}

// A daemon that is stopped while a runner dies sees it when it goes on.
func TestF36_DaemonStopped(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	h.kill(h.PID(), syscall.SIGSTOP)
	h.kill(h.runner(s), syscall.SIGKILL)
	time.Sleep(200 * time.Millisecond)
	h.kill(h.PID(), syscall.SIGCONT)
	h.eventually(settle, func() error {
		info, err := s.Refresh(t.Context())
		if err == nil && info.Status == "running" {
			err = errors.New("it still counts as running")
		}
		return err
	})
	h.oracle()
	h.wantNothing()
}

// Many files do not hold up the end of a session, nor that of the daemon.
func TestF36_ManyFiles(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(&sandkasten.CreateOptions{DiskMB: 512})
	h.sh(s, `python3 -c '
import os
for d in range(20):
  os.mkdir(str(d))
  for f in range(1000): open("%d/%d" % (d, f), "w").close()'`)
	gone := make(chan error, 1)
	go func() { gone <- s.Destroy(t.Context()) }()
	began := time.Now()
	h.Stop()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the daemon took %s to end", took)
	}
	<-gone
	h.Start()
	h.destroy(s)
	h.oracle()
	h.wantNothing()
}
