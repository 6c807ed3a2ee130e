package inspect

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// A process that is killed has closed its descriptors before it is a zombie. The first
// of a PID namespace stays so until the others are gone: here until a process that
// came from outside has been waited for, by one that is stopped.
func TestADyingProcessIsNotRunning(t *testing.T) {
	testenv.NeedsRoot(t)
	first := childOf(t, "unshare", "--pid", "--fork", "sleep", "1000")

	childOf(t, "nsenter", "--pid", "--target", strconv.Itoa(first), "sleep", "1000")
	if _, state, err := Stat(first); err != nil || !state.Running() {
		t.Fatalf("before: %c, %v", state, err)
	}
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		_, state, err := Stat(first)
		if err == nil && state == 'X' {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("killed: %c, %v", state, err)
		}
	}
}

// childOf starts a program, waits for its child, which it returns, and stops the
// program, so that it waits for nobody. Both end with the test.
func childOf(t *testing.T, name string, args ...string) int {
	t.Helper()
	parent := exec.CommandContext(t.Context(), name, args...)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	task := strconv.Itoa(parent.Process.Pid)
	t.Cleanup(func() {
		parent.Process.Kill()
		parent.Wait() // of a killed process it says so
	})
	for range 1000 {
		list, err := os.ReadFile(filepath.Join("/proc", task, "task", task, "children"))
		if err != nil {
			t.Fatal(err)
		}
		if child, err := strconv.Atoi(strings.TrimSpace(string(list))); err == nil {
			t.Cleanup(func() { unix.Kill(child, unix.SIGKILL) })
			stop(t, parent.Process.Pid)
			return child
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s has no child", name)
	return 0
}

// stop stops a process and waits until it stands still: one that wakes up for the
// signal looks after its children first.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, state, err := Stat(pid); err != nil || state.Halted() {
			return
		}
	}
	t.Fatalf("process %d does not stop", pid)
}
