package linux

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/protocol"
)

const longTimeout = 30 * time.Second

// L03: a tool of the runner's is the sandbox's root and holds the daemon's
// connection. Its memory, descriptors and program are closed to others that are
// root too, without the filter also, which would refuse to trace anybody.
func TestL03_TakingOverATool(t *testing.T) {
	b := newBox(t, nil)
	watching, err := b.client.Watch(t.Context(), protocol.Watch{Path: "/workspace"})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Close()
	out := b.sh(`for pid in {2..100}; do
			case $(readlink /proc/$pid/exe) in /memfd:*|"") ;; *) continue ;; esac
			kill -0 $pid 2>/dev/null && echo alive $pid; cd /proc/$pid 2>/dev/null || continue
			for f in mem maps environ auxv fd/3 exe; do head -c 0 <$f && echo "opens $f of a tool"; done
			( : >>mem ) && echo opens mem of a tool for writing
			readlink fd/3; ls fd | sed 's/^/lists descriptor /'
		done 2>/dev/null`)
	tool := 0
	for line := range strings.Lines(out) {
		if pid, ok := strings.CutPrefix(line, "alive "); !ok {
			t.Errorf("%s", strings.TrimSpace(line))
		} else if tool, err = strconv.Atoi(strings.TrimSpace(pid)); err != nil {
			t.Fatal(err)
		}
	}
	if tool == 0 {
		t.Errorf("no tool was found: %q", out)
	}
	b.denied(
		call{"kcmp", unix.SYS_KCMP, []any{tool, tool, 0, 0, 0}},
		call{"ptrace", unix.SYS_PTRACE, []any{unix.PTRACE_SEIZE, tool, 0, 0}},
	)
	b.guard()
}

// L04: the program that the runner runs cannot be changed by any way there is, so
// neither can those of other sandboxes, which share it.
func TestL04_SealedProgram(t *testing.T) {
	b := newBox(t, nil)
	seals, err := unix.FcntlInt(uintptr(b.d.runner), unix.F_GET_SEALS, 0)
	if want := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE; err != nil || seals != want {
		t.Errorf("seals are %#x, %v; want %#x", seals, err, want)
	}
	exe := fmt.Sprintf("/proc/%d/exe", b.sandbox.state.Process.PID)
	if f, err := os.OpenFile(exe, os.O_WRONLY, 0); err == nil {
		f.Close()
		t.Error("the host's root can open the running program for writing")
	}
}

// L05: the workload is confined as one: what one shell starts, another can see and
// end, and so can the runner, whichever of its threads started the shell.
func TestL05_OneConfinement(t *testing.T) {
	b := newBox(t, nil)
	const shells = 12
	for i := range shells {
		ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
		_, err := b.client.Exec(ctx, protocol.Exec{ID: fmt.Sprint("shell", i), Shell: fmt.Sprint("s", i), TimeoutMS: 5000, OutputLimit: 1 << 10},
			`sleep 999 &`, nil, io.Discard)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	if out := b.sh(countOf(shells)); out != fmt.Sprintln(shells) {
		t.Errorf("of %d processes of other shells %q are visible", shells, out)
	}
	if out := b.sh(`pkill -x sleep; ` + countOf(0)); out != "0\n" {
		t.Errorf("%q of the processes of other shells live on", out)
	}
}

// countOf waits until so many programs called sleep run, and prints how many do.
func countOf(n int) string {
	return fmt.Sprintf(`for i in {1..200}; do [ "$(pgrep -c -x sleep)" = %d ] && break; sleep 0.1; done; pgrep -c -x sleep`, n)
}
