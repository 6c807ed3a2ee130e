package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/cli"
)

// openTerminal returns both ends of a new terminal: the user's and the programs'.
func openTerminal(t *testing.T) (master, file *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	var ioctlErr error
	if err := raw.Control(func(fd uintptr) {
		if ioctlErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioctlErr == nil {
			n, ioctlErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || ioctlErr != nil {
		t.Fatal(err, ioctlErr)
	}
	file, err = os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return master, file
}

// screen is a terminal. What is written to file is what got returns.
func screen(t *testing.T) (file *os.File, got func(end string) string) {
	t.Helper()
	master, file := openTerminal(t)
	return file, func(end string) string {
		var text []byte
		buf := make([]byte, 4<<10)
		for deadline := time.Now().Add(10 * time.Second); !bytes.HasSuffix(text, []byte(end)); {
			if err := master.SetReadDeadline(deadline); err != nil {
				t.Fatal(err)
			}
			n, err := master.Read(buf)
			if err != nil {
				t.Fatalf("%v after %q", err, text)
			}
			text = append(text, buf[:n]...)
		}
		return strings.ReplaceAll(string(text), "\r\n", "\n")
	}
}

// What a program prints a terminal shows, unless it is to obey it.
func TestExecShowsControlCharactersToATerminal(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	out, got := screen(t)
	look := func(want string, args ...string) {
		t.Helper()
		a := &cli.App{In: os.Stdin, Out: out, Err: out}
		if code := run(t.Context(), a, append([]string{"--url", tm.url, "--api-key", tm.key}, args...)); code != 0 {
			t.Errorf("%q: exit code %d", args, code)
		}
		if text := got(".\r\n"); text != want+".\n" {
			t.Errorf("%q shows %q, want %q", args, text, want+".\n")
		}
	}
	const evil = `printf 'ä\033]52;c;aGk=\007\377.\n'`
	const shown, obeyed = `ä\x1b]52;c;aGk=\a\xff`, "ä\x1b]52;c;aGk=\a\xff"
	look(shown, "exec", id, evil)
	look(obeyed, "exec", "--raw", id, evil)
	look(shown, "exec", "--argv", id, "--", "sh", "-c", evil+" >&2")
	look(obeyed, "exec", "--argv", "--raw", id, "--", "sh", "-c", evil+" >&2")
	tm.want("exec", id, evil+" > f")
	look(shown, "fs", "cat", id, "f")
	look(obeyed, "fs", "cat", "--raw", id, "f")
	look(shown, "cp", id+":f", "-")
	look(shown, "run", "base", evil)
	look(obeyed, "run", "--raw", "base", evil)
}
