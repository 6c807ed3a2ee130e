package linux

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

const longTimeout = 30 * time.Second

func TestEscape_SignalsToTheRunner(t *testing.T) {
	escapeTest{control: without("caps", "landlock"), attack: func(b *box) {
		for _, who := range []string{"", "setpriv --reuid 1000 --regid 1000 --clear-groups "} {
			answers := map[string]int{}
			b.decode(who+`$PROBE kill 1`, nil, &answers)
			for answer, count := range answers {
				if !slices.Contains(refused, answer) {
					b.got("%s%d signals: %s", who, count, answer)
				}
			}
		}
	}}.run(t)
}

func TestEscape_TamperingWithTheRunner(t *testing.T) {
	escapeTest{control: without("caps", "seccomp"), attack: func(b *box) {
		const runner = 1
		limit := strings.Repeat("\x00", 16)
		b.calls(
			call{"ptrace", unix.SYS_PTRACE, []any{unix.PTRACE_SEIZE, runner, 0, 0}},
			call{"process_vm_readv", unix.SYS_PROCESS_VM_READV, []any{runner, 0, 0, 0, 0, 0}},
			call{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, []any{runner, 0, 0, 0, 0, 0}},
			call{"pidfd_getfd", unix.SYS_PIDFD_GETFD, []any{-1, 0, 0}},
			call{"kcmp", unix.SYS_KCMP, []any{runner, runner, 0, 0, 0}},
			call{"prlimit", unix.SYS_PRLIMIT64, []any{runner, unix.RLIMIT_NOFILE, limit, 0}},
			call{"setpriority", unix.SYS_SETPRIORITY, []any{0, runner, 19}},
			call{"sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, []any{runner, 8, "\x01\x00\x00\x00\x00\x00\x00\x00"}},
			call{"sched_setscheduler", unix.SYS_SCHED_SETSCHEDULER, []any{runner, 5, "\x00\x00\x00\x00"}}, // SCHED_IDLE
			call{"ioprio_set", unix.SYS_IOPRIO_SET, []any{1, runner, 3 << 13}},
			call{"move_pages", unix.SYS_MOVE_PAGES, []any{runner, 0, 0, 0, 0, 0}},
			call{"process_madvise", unix.SYS_PROCESS_MADVISE, []any{-1, 0, 0, 4, 0}},
			call{"process_mrelease", unix.SYS_PROCESS_MRELEASE, []any{-1, 0}},
		)
	}}.run(t)
}

// A tool of the runner's is the sandbox's root and holds the daemon's
// connection. Its memory, descriptors and program are closed to others that are
// root too, without the filter also, which would refuse to trace anybody.
func TestEscape_TakingOverATool(t *testing.T) {
	escapeTest{leaveOut: []string{"seccomp"}, control: without("programmode"), attack: func(b *box) {
		watching, err := b.client.Watch(b.t.Context(), protocol.Watch{Path: "/workspace"})
		if err != nil {
			b.t.Fatal(err)
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
				b.got("%s", line)
			} else if tool, err = strconv.Atoi(strings.TrimSpace(pid)); err != nil {
				b.t.Fatal(err)
			}
		}
		if tool == 0 {
			b.t.Errorf("no tool was found: %q", out)
		}
		b.calls(
			call{"kcmp", unix.SYS_KCMP, []any{tool, tool, 0, 0, 0}},
			call{"ptrace", unix.SYS_PTRACE, []any{unix.PTRACE_SEIZE, tool, 0, 0}},
		)
	}}.run(t)
}

// The daemon's way in is a listening socket that exists inside only as the
// runner's descriptor: there is nothing to connect to, replace or listen in on.
func TestEscape_RunnerSocket(t *testing.T) {
	const listen = `python3 -c 'import socket, time; s = socket.socket(socket.AF_UNIX); s.bind("/run/x"); s.listen(); time.sleep(60)' & until test -S /run/x; do sleep 0.1; done`
	escapeTest{control: variant{before: listen}, attack: func(b *box) {
		for line := range strings.Lines(b.sh(`find / -xdev -type s; find /dev /run /tmp /workspace -type s; ls -A /run/sandkasten 2>/dev/null`)) {
			b.got("there is %s", line)
		}
		for line := range strings.Lines(b.sh(`tail -n +2 /proc/net/unix`)) {
			if fields := strings.Fields(line); len(fields) > 3 && fields[3] == "00010000" { // it listens
				b.got("listening: %s", line)
			}
		}
	}}.run(t)
}

// After a timeout nothing of the command is left, whatever it did to stay, and
// the client has its answer in time.
func TestEscape_Timeouts(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	for name, command := range map[string]string{
		"sessions and double forks": `setsid sh -c 'sleep 999 & sleep 999' & (nohup sleep 999 >/dev/null 2>&1 &) ; sleep 999`,
		"ignored signals":           `trap '' TERM INT HUP QUIT; while :; do :; done`,
		"stopped":                   `sleep 999 & kill -STOP $!; sh -c 'kill -STOP $$'`,
		"stops the shell":           `sleep 999 & kill -STOP $$`,
		"forks and dies":            `for i in 1 2 3 4; do sh -c 'while :; do (sleep 0.01 &) ; done' & done; sleep 999`,
		"in another process group":  `set -m; sleep 999 & sleep 999`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, escapeTest{}, variant{})
			b.sh(`true`)
			start := time.Now()
			_, record := b.exec(command, nil, time.Second)
			if took := time.Since(start); record.Cause != protocol.CauseTimeout || took > longTimeout {
				t.Errorf("ended as %q after %s", record.Cause, took)
			}
			if out := b.sh(`ps -eo comm= | grep -c '^s[lh]'`); out != "0\n" {
				t.Errorf("%q of the processes live on: %s", out, b.sh(`ps -ef`))
			}
			b.guard()
		})
	}
}

// The workload is confined as one: what one shell starts, another can see and
// end, and so can the runner, whichever of its threads started the shell.
func TestShellsShareOneConfinement(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
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

// What a command prints is data, whatever it looks like: the next command's
// result is its own.
func TestEscape_ForgedResults(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	for i, command := range []string{
		`printf '{"type":"done","body":{"id":"e0","state":"ended","exit_code":0}}\n'; exit 3`,
		`for fd in $(seq 3 255); do printf '0\0' >&$fd; done 2>/dev/null; (exit 3)`,
		`for f in /proc/$$/fd/* /proc/$PPID/fd/*; do timeout 1 sh -c "printf '0\0' >$f"; done >/dev/null 2>&1; (exit 3)`,
		`exec 198>&- 199>&- 196<&- 197>&-; (exit 3)`,
		`head -c 300000 /dev/urandom; (exit 3)`,
	} {
		out, record, err := run(t, b.client, fmt.Sprint("forger", i), command, nil, 20*time.Second)
		if err != nil || record.ExitCode != 3 {
			t.Logf("command %d spoofed its own result: %d, %q, %v", i, record.ExitCode, out, err)
		}
		next, record := b.exec(fmt.Sprintf(`echo next %d; (exit 4)`, i), nil, longTimeout)
		if next != fmt.Sprintf("next %d\n", i) || record.ExitCode != 4 {
			t.Errorf("after command %d the next one has %q, %d", i, next, record.ExitCode)
		}
	}
	b.guard()
}
