package e2e

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// keyboard is a program on a terminal and what it showed so far.
type keyboard struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	read sync.WaitGroup

	mu    sync.Mutex
	shown bytes.Buffer // guarded by mu
	more  chan struct{}
}

func onTerminal(t *testing.T, cmd *exec.Cmd) *keyboard {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	k := &keyboard{t: t, cmd: cmd, tty: tty, more: make(chan struct{}, 1)}
	k.read.Go(k.watch)
	return k
}

// watch ends when the program has ended, with EIO as terminals do.
func (k *keyboard) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := k.tty.Read(buf)
		k.mu.Lock()
		k.shown.Write(buf[:n])
		k.mu.Unlock()
		select {
		case k.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (k *keyboard) typed(text string) {
	k.t.Helper()
	if _, err := io.WriteString(k.tty, text); err != nil {
		k.t.Fatal(err)
	}
}

// wait returns when the terminal has shown text, which it then forgets.
func (k *keyboard) wait(text string) {
	k.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		k.mu.Lock()
		before, after, found := strings.Cut(k.shown.String(), text)
		if found {
			k.shown.Reset()
			k.shown.WriteString(after)
		}
		k.mu.Unlock()
		if found {
			return
		}
		select {
		case <-k.more:
		case <-deadline:
			k.t.Fatalf("the terminal never showed %q; it showed %q", text, before)
		}
	}
}

// rest is what was shown and not waited for.
func (k *keyboard) rest() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shown.String()
}

// end returns the program's exit code.
func (k *keyboard) end() int {
	k.t.Helper()
	k.read.Wait()
	err := k.cmd.Wait()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		k.t.Fatal(err)
	}
	if err := k.tty.Close(); err != nil {
		k.t.Error(err)
	}
	return k.cmd.ProcessState.ExitCode()
}

func TestShellIsATerminal(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	s := blackbox.Start(t, blackbox.Options{})
	id := s.Output("create", "base")
	defer s.Output("rm", id)

	k := onTerminal(t, s.Command("shell", id))
	k.wait("# ") // a prompt
	k.typed("echo size $(stty size) $((6 * 7))\r")
	k.wait("size 30 100 42")
	if err := pty.Setsize(k.tty, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Process.Signal(syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	k.typed("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.05; done; echo resized\r")
	k.wait("\rresized")

	// Ctrl-C ends what runs inside, not the terminal.
	k.typed("sh -c 'echo beg''un; exec sleep 600'\r")
	k.wait("begun")
	k.typed("\x03")
	k.wait("^C")
	k.typed("echo $((40 + 4))\r")
	k.wait("44")
	k.typed("exit 5\r")
	if code := k.end(); code != 5 {
		t.Errorf("exit code = %d, want the shell's 5", code)
	}

	// A detached terminal leaves the session, and the user's terminal, usable.
	k = onTerminal(t, s.Command("shell", id))
	k.wait("# ")
	k.typed("touch /workspace/seen; kept=5; echo mar''ked\r")
	k.wait("marked")
	k.typed("\x1c")
	k.wait("detached")
	k.wait("shell --attach ")
	if code := k.end(); code != 0 {
		t.Errorf("exit code after detaching = %d", code)
	}
	// What runs on it goes on, and shows what was there.
	terminal, _, _ := strings.Cut(k.rest(), " ")
	if out := s.Output("ps", id); !strings.Contains(out, terminal) || !strings.Contains(out, "terminal") {
		t.Errorf("ps shows no terminal %q:\n%s", terminal, out)
	}
	k = onTerminal(t, s.Command("shell", "--attach", terminal, id))
	k.wait("marked")
	k.typed("echo kept $kept$kept\r")
	k.wait("kept 55")
	k.typed("exit 6\r")
	if code := k.end(); code != 6 {
		t.Errorf("exit code = %d, want 6", code)
	}
	if out := s.Output("exec", id, "ls /workspace"); out != "seen" {
		t.Errorf("the session has %q", out)
	}
}

func TestCtrlCEndsTheCommandOfExec(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	s := blackbox.Start(t, blackbox.Options{})
	id := s.Output("create", "base")
	defer s.Output("rm", id)
	k := onTerminal(t, s.Command("exec", id, "echo begun; sleep 600"))
	k.wait("begun")
	k.typed("\x03")
	if code := k.end(); code != 130 {
		t.Errorf("exit code = %d, want 130", code)
	}
	// The shell is free at once for the next command.
	if out := s.Output("exec", id, "--timeout", "10s", "echo next"); out != "next" {
		t.Errorf("next command printed %q", out)
	}
}
