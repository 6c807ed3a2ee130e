package netns_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestResolvConf(t *testing.T) {
	const want = "nameserver 192.0.2.53\nnameserver 2001:db8::53\noptions timeout:6 attempts:2 edns0\n"
	if got := netns.ResolvConf(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func fine() error { return nil }

// process starts one that waits for the end of its input, with flags of clone.
func process(t *testing.T, flags uintptr) *exec.Cmd {
	t.Helper()
	p := exec.CommandContext(t.Context(), "cat")
	p.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	input, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := input.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
		if err := p.Wait(); p.ProcessState == nil {
			t.Error(err)
		}
	})
	return p
}

func TestNamespaceOfAProcess(t *testing.T) {
	testenv.NeedsRoot(t)
	pid := process(t, syscall.CLONE_NEWNET).Process.Pid
	got, err := netns.Open(pid, fine)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	its, itsErr := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	opened, openedErr := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", got.Fd()))
	if err := errors.Join(itsErr, openedErr); err != nil || its != opened || !strings.HasPrefix(its, "net:[") {
		t.Errorf("opened %s, want %s; %v", opened, its, err)
	}
}

func TestNamespaceOfOurOwnIsRefused(t *testing.T) {
	if f, err := netns.Open(os.Getpid(), fine); err == nil {
		t.Errorf("opened it; %v", f.Close())
	}
}

// TestNumberOfAnother: what is not the process that was meant is not opened, however
// that is found out.
func TestNumberOfAnother(t *testing.T) {
	testenv.NeedsRoot(t)
	pid := process(t, syscall.CLONE_NEWNET).Process.Pid
	gone := errdefs.New(errdefs.NotFound, "gone for the test")
	if f, err := netns.Open(pid, func() error { return gone }); f != nil || !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("%v, %v", f, err)
	}
}

func TestProcessThatHasEnded(t *testing.T) {
	p := process(t, 0)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// A zombie first, which has a directory in /proc and no namespace.
	want := func(when string) bool {
		f, err := netns.Open(p.Process.Pid, fine)
		if err == nil {
			t.Fatalf("%s: opened it; %v", when, f.Close())
		}
		return errdefs.Is(err, errdefs.NotFound)
	}
	for end := time.Now().Add(time.Minute); !want("as it ends"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a zombie is taken for a sandbox")
		}
	}
	if err := p.Wait(); p.ProcessState == nil {
		t.Fatal(err)
	}
	if !want("when it is gone") {
		t.Error("a number that nobody has is not NotFound")
	}
}

// TestProcessOutOfReach tries it on a thread without capabilities, which may not look
// into the first process. Whether that is still the one is asked nevertheless.
func TestProcessOutOfReach(t *testing.T) {
	testenv.NeedsRoot(t)
	pid := process(t, syscall.CLONE_NEWNET).Process.Pid
	gone := errdefs.New(errdefs.NotFound, "gone for the test")
	errs := make(chan error, 2)
	go func() {
		goruntime.LockOSThread() // and never unlock: the thread ends with the goroutine
		var none [2]unix.CapUserData
		if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
			errs <- err
			errs <- err
			return
		}
		for _, check := range []func() error{fine, func() error { return gone }} {
			f, err := netns.Open(pid, check)
			if err == nil {
				err = errors.Join(errors.New("opened it"), f.Close())
			}
			errs <- err
		}
	}()
	if err := <-errs; !errors.Is(err, fs.ErrPermission) || errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("of one that lives: %v", err)
	}
	if err := <-errs; !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("of one that has ended: %v", err)
	}
}
