// Package runtimetest holds what drivers are tested with: TestDriver, the
// suite that every driver passes, and Local, a driver without isolation on
// which everything above a driver can be tested without privileges. Tests of
// what one driver alone promises do not belong here.
package runtimetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// LocalImage is the one image that Local knows.
const LocalImage = "sha256:10ca1"

// Local is a driver whose sandboxes are real runners in directories of the
// host, unisolated. Everything it knows is in Dir: another Local on the same
// directory, also in another process, finds the same sandboxes.
type Local struct {
	Dir    string // short, for socket paths have at most 107 bytes
	Runner string // the program localrunner

	InMemory bool // sandboxes say that a stop would lose their files
}

var (
	_ runtime.Driver       = (*Local)(nil)
	_ runtime.QuietStarter = (*Local)(nil)
	_ runtime.Stopper      = (*Local)(nil)
	_ runtime.Pauser       = (*localSandbox)(nil)
	_ runtime.Volatile     = (*localSandbox)(nil)
)

// NewLocal returns a Local in a directory of its own. When the test ends, its
// sandboxes are destroyed.
func NewLocal(t testing.TB) *Local {
	t.Helper()
	dir, err := os.MkdirTemp("", "sk")
	if err != nil {
		t.Fatal(err)
	}
	l := &Local{Dir: dir, Runner: testenv.Build(t, "./internal/runtime/runtimetest/localrunner")}
	t.Cleanup(func() {
		if err := l.destroyAll(); err != nil {
			t.Errorf("clean up the local driver: %v", err)
		}
	})
	return l
}

func (l *Local) destroyAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for s, err := range l.List(ctx) {
		if err != nil {
			return err
		}
		if err := l.Destroy(ctx, s.ID); err != nil {
			return err
		}
	}
	return os.RemoveAll(l.Dir)
}

// Check implements runtime.Driver.
func (l *Local) Check(context.Context) error { return nil }

// record is what a sandbox's directory says of it once it has been made.
type record struct {
	PID     int          `json:"pid"`
	Start   uint64       `json:"start"` // of the process, to know it from a later one of that number
	Spec    runtime.Spec `json:"spec"`
	Stopped bool         `json:"stopped"`
}

// Create implements runtime.Driver.
func (l *Local) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (_ runtime.Sandbox, err error) {
	if spec.Image != LocalImage {
		return nil, errdefs.New(errdefs.NotFound, "no image %s", spec.Image)
	}
	s := l.sandbox(id)
	switch err := os.Mkdir(s.dir, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return nil, errdefs.New(errdefs.AlreadyExists, "sandbox %s exists", id)
	case err != nil:
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Destroy(context.WithoutCancel(ctx), id))
		}
	}()
	if err := l.giveWorkspace(s, spec.Workspace); err != nil {
		return nil, err
	}
	if err := s.boot(l.Runner, spec); err != nil {
		return nil, err
	}
	return s, ctx.Err()
}

// Open implements runtime.Driver.
func (l *Local) Open(_ context.Context, id runtime.ID) (runtime.Sandbox, error) {
	s := l.sandbox(id)
	if !s.alive() {
		return nil, errdefs.New(errdefs.NotFound, "no sandbox %s", id)
	}
	return s, nil
}

// List implements runtime.Driver.
func (l *Local) List(context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) {
		entries, err := os.ReadDir(l.Dir)
		if err != nil {
			yield(runtime.Status{}, err)
			return
		}
		for _, e := range entries {
			if e.Name() == workspacesDir {
				continue
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // destroyed since
			}
			if err != nil {
				yield(runtime.Status{}, err)
				return
			}
			s := l.sandbox(runtime.ID(e.Name()))
			status := runtime.Status{ID: s.id, Alive: s.alive(), CreatedAt: info.ModTime()}
			if r, err := s.load(); err == nil {
				status.Startable = r.Stopped || !status.Alive
			}
			if !yield(status, nil) {
				return
			}
		}
	}
}

// Destroy implements runtime.Driver.
func (l *Local) Destroy(ctx context.Context, id runtime.ID) error {
	s := l.sandbox(id)
	if err := s.killAll(ctx); err != nil {
		return err
	}
	return os.RemoveAll(s.dir)
}

// Stop implements runtime.Stopper.
func (l *Local) Stop(ctx context.Context, id runtime.ID) error {
	s := l.sandbox(id)
	r, err := s.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errdefs.New(errdefs.NotFound, "no sandbox %s", id)
	case err != nil:
		return err
	case r.Stopped:
		return nil
	}
	if err := s.killAll(ctx); err != nil {
		return err
	}
	for _, path := range []string{s.socket(), s.pausedFile()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.save(record{Spec: r.Spec, Stopped: true})
}

// Start implements runtime.Stopper.
func (l *Local) Start(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	return l.restart(ctx, id)
}

// StartQuiet implements runtime.QuietStarter.
func (l *Local) StartQuiet(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	return l.restart(ctx, id, "quiet")
}

// restart boots a stopped sandbox; the runner gets the arguments.
func (l *Local) restart(ctx context.Context, id runtime.ID, args ...string) (runtime.Sandbox, error) {
	s := l.sandbox(id)
	r, err := s.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errdefs.New(errdefs.NotFound, "no sandbox %s", id)
	case err != nil:
		return nil, err
	case !r.Stopped:
		return nil, errdefs.New(errdefs.Conflict, "sandbox %s is not stopped", id)
	}
	if err = s.boot(l.Runner, r.Spec, args...); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(err, l.Stop(context.WithoutCancel(ctx), id))
	}
	return s, nil
}

func (l *Local) sandbox(id runtime.ID) *localSandbox {
	return &localSandbox{id: id, dir: filepath.Join(l.Dir, filepath.Base(string(id))), inMemory: l.InMemory}
}

// KillRunner kills a sandbox's runner from outside, as a defect would, and
// returns when it is dead.
func (l *Local) KillRunner(t testing.TB, id runtime.ID) {
	t.Helper()
	r, err := l.sandbox(id).load()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(r.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if err == nil {
		// The kernel's clock, for the test may be in a bubble with its own.
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		}
	}
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		t.Fatal(err)
	}
}

// localSandbox is a handle; its state is in dir.
type localSandbox struct {
	id       runtime.ID
	dir      string
	inMemory bool
}

// Volatile implements runtime.Volatile.
func (s *localSandbox) Volatile() bool { return s.inMemory }

func (s *localSandbox) ID() runtime.ID     { return s.id }
func (s *localSandbox) workspace() string  { return filepath.Join(s.dir, "workspace") }
func (s *localSandbox) pausedFile() string { return filepath.Join(s.dir, "paused") }
func (s *localSandbox) socket() string     { return filepath.Join(s.dir, "s") }
func (s *localSandbox) recordFile() string {
	return filepath.Join(s.dir, "record.json")
}

// mark is in the environment of all that a sandbox runs, and of nothing else.
func (s *localSandbox) mark() string { return "SANDKASTEN_LOCAL=" + s.dir }

// boot starts the runner and writes the record.
func (s *localSandbox) boot(program string, spec runtime.Spec, args ...string) error {
	listener, err := listen(s.socket())
	if err != nil {
		return err
	}
	pid, err := s.start(program, listener, spec, args...)
	if err := errors.Join(err, listener.Close()); err != nil {
		return err
	}
	start, err := startTime(pid)
	if err != nil {
		return err
	}
	return s.save(record{PID: pid, Start: start, Spec: spec})
}

// listen returns a listening socket that blocks, as the runner wants it.
func listen(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), path)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, errors.Join(os.NewSyscallError("bind", err), f.Close())
	}
	if err := unix.Listen(fd, 128); err != nil {
		return nil, errors.Join(os.NewSyscallError("listen", err), f.Close())
	}
	return f, nil
}

// start starts the runner as a process that outlives this one.
func (s *localSandbox) start(program string, listener *os.File, spec runtime.Spec, args ...string) (pid int, err error) {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	env := []string{s.mark(), "PATH=" + os.Getenv("PATH"), "HOME=" + s.workspace(), "LANG=C.UTF-8"}
	for k, v := range spec.Env {
		env = append(env, k+"="+v)
	}
	p, err := os.StartProcess(program, append([]string{"localrunner"}, args...), &os.ProcAttr{
		Dir:   s.workspace(),
		Env:   env,
		Files: []*os.File{nil, log, log, listener},
		Sys:   &unix.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	// Whoever looks at it after its death reaps it; see startTime.
	pid = p.Pid // Release forgets it
	return pid, p.Release()
}

// save writes the record at once: a directory without one is half made.
func (s *localSandbox) save(r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.recordFile()+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.recordFile()+".new", s.recordFile())
}

func (s *localSandbox) load() (record, error) {
	var r record
	text, err := os.ReadFile(s.recordFile())
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

func (s *localSandbox) alive() bool {
	r, err := s.load()
	if err != nil || r.Stopped {
		return false
	}
	start, err := startTime(r.PID)
	return err == nil && start == r.Start
}

// DialRunner implements runtime.Sandbox.
func (s *localSandbox) DialRunner(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", s.socket())
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil, errdefs.Wrap(err, errdefs.NotFound, "the runner of sandbox %s is gone", s.id)
	}
	if err != nil {
		return nil, fmt.Errorf("dial the runner: %w", err)
	}
	return conn, nil
}

// Stats implements runtime.Sandbox. The limits are those asked for; nothing
// here enforces them.
func (s *localSandbox) Stats(context.Context) (runtime.Stats, error) {
	r, err := s.load()
	if err != nil {
		return runtime.Stats{}, err
	}
	stats := runtime.Stats{
		MemoryLimit: r.Spec.Limits.MemoryMB << 20,
		CPULimit:    r.Spec.Limits.CPU,
		PidsLimit:   r.Spec.Limits.Pids,
		DiskLimit:   r.Spec.Limits.DiskMB << 20,
	}
	return stats, s.measure(&stats, r.PID)
}

// WantSandboxes checks that the driver has these sandboxes and no others.
func (l *Local) WantSandboxes(t testing.TB, want ...runtime.ID) {
	t.Helper()
	left := make(map[runtime.ID]bool)
	for s, err := range l.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		left[s.ID] = true
	}
	for _, id := range want {
		if !left[id] {
			t.Errorf("sandbox %s is missing", id)
		}
		delete(left, id)
	}
	for id := range left {
		t.Errorf("sandbox %s is left over", id)
	}
}
