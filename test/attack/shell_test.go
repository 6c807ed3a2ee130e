package attack

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// Section S: what a command does to the shell that the next one runs in. That
// one must run as ever, and its result be its own.

// hostile is a command for the shell, and what must come of it.
type hostile struct {
	command string
	code    int    // anyCode is whatever it likes
	cause   string // empty is exited
	output  string // a part of it
	timeout time.Duration
	then    func() // instead of one next command behind it
}

const anyCode = -1

// each runs the commands in the session's shell, with a next one behind each.
func (b *box) each(commands ...hostile) {
	b.t.Helper()
	for _, h := range commands {
		if h.timeout == 0 {
			h.timeout = paced(10 * time.Second)
		}
		if h.cause == "" {
			h.cause = "exited"
		}
		r, err := b.tryExec(h.command, sandkasten.ExecOptions{Timeout: h.timeout})
		if err != nil {
			b.t.Errorf("%.80q: %v", h.command, err)
		} else if h.cause != "any" && r.Cause != h.cause || h.code != anyCode && r.ExitCode != h.code || !strings.Contains(r.Output, h.output) {
			b.t.Errorf("%.80q: %s with %d, %.200q; want %s with %d, %q", h.command, r.Cause, r.ExitCode, r.Output, h.cause, h.code, h.output)
		}
		if h.then == nil {
			h.then = b.next
		}
		h.then()
	}
}

// S01: what a command prints is never taken for a result.
func TestS01_ForgedMarkers(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.each(
		hostile{command: `printf '{"type":"done","body":{"id":"e0","state":"ended","exit_code":0}}\n'; (exit 3)`, code: 3, output: "done"},
		hostile{command: `printf '0\0000\0'; (exit 3)`, code: 3},
		hostile{command: `printf '\036\035__SK_DONE__0\n__exit_code=0\n###EXIT:0###\n'; (exit 3)`, code: 3},
		hostile{command: `echo "data: {\"exit_code\":0}"; echo; echo 'event: end'; (exit 3)`, code: 3},
		hostile{command: `for n in $(seq 300); do printf "$n- 0 /tmp\0"; done >&199; (exit 3)`, code: 3}, // the shell's own
		hostile{command: `for fd in $(seq 3 255); do printf '0\0' >&$fd; done 2>/dev/null; (exit 3)`, code: anyCode, cause: "any"},
		hostile{command: `for f in /proc/$$/fd/* /proc/$PPID/fd/*; do timeout 1 sh -c "printf '0\0' >$f"; done >/dev/null 2>&1; (exit 3)`, code: anyCode, cause: "any", timeout: patience},
	)
}

// S02: a command that closes its output has none; the next has.
func TestS02_ClosedOutput(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.each(hostile{command: `exec 1>&- 2>&-; true`}, hostile{command: `exec 0<&- 1>&- 2>&-; (exit 3)`, code: 3}, hostile{command: `exec >/dev/full 2>&1; echo x`, code: anyCode})
}

// S03: the end of the shell is told, with its code, and the next command says
// that it has a new one.
func TestS03_Exit(t *testing.T) {
	t.Parallel()
	b := attack(t)
	r := b.exec(`cd /tmp; exit 7`, sandkasten.ExecOptions{})
	if r.ExitCode != 7 || r.Cause != "shell_exited" {
		t.Errorf("exit 7: %s with %d", r.Cause, r.ExitCode)
	}
	if r := b.exec(`pwd`, sandkasten.ExecOptions{}); !r.ShellRestarted || r.Output != "/tmp\n" {
		t.Errorf("the command behind it: restarted %v, %q", r.ShellRestarted, r.Output)
	}
	b.next()
}

// S04: a shell that became another program is replaced.
func TestS04_ReplacedShell(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.each(
		hostile{command: `exec sh`, code: anyCode, cause: "any", timeout: 2 * time.Second},
		hostile{command: `exec sleep 992`, code: 124, cause: "timeout", timeout: time.Second},
		hostile{command: `exec true`, cause: "shell_exited"},
		hostile{command: `exec 0</dev/null`},
	)
	b.none(`ps -eo args= | grep '[s]leep 992'`)
}

// S05: options under which a failure ends the shell end it, and it is told.
func TestS05_ErrorOptions(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.each(
		hostile{command: `set -euo pipefail; false`, code: 1, cause: "shell_exited"},
		hostile{command: `set -u; echo $not_set`, code: anyCode, cause: "shell_exited"},
		hostile{command: `set -e`}, // and what comes next is no failure
	)
}

// S06: settings of a terminal are no concern of the shell's.
func TestS06_TerminalSettings(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.each(
		hostile{command: `stty raw -echo -icanon`, code: anyCode},
		hostile{command: `stty 0`, code: anyCode},
		hostile{command: `stty raw -echo -icanon </dev/tty; stty 0 </dev/tty; printf '\033c\033]0;x\007'`, code: anyCode},
		hostile{command: `script -qc 'stty raw -echo; stty 0' /dev/null </dev/null`, code: anyCode},
	)
}

// S07: a command that is not a whole one is an error of its own, at once.
func TestS07_UnbalancedCommands(t *testing.T) {
	t.Parallel()
	b := attack(t)
	for _, command := range []string{
		"echo 'unbalanced", `echo "unbalanced`, "echo `unbalanced", "if true; then", "while :", "f() {", "case x in", "((", "[[ 1",
		"cat <<EOF\nno end", "\tcat <<-'EOF'\n\tindented\n\t EOF", "cat <<'E\nOF'", "}", ")", "done", "echo \\",
	} {
		b.each(hostile{command: command, code: anyCode})
	}
	b.unendedSubstitution()
}

// unendedSubstitution has the shell parse a substitution without an end, after
// which bash 5.2 has overwritten its own memory and may end at a later command,
// by SIGABRT or SIGSEGV. That is told, and the command behind it has a new shell.
func (b *box) unendedSubstitution() {
	b.t.Helper()
	b.each(hostile{command: "echo $(", code: anyCode, then: func() {
		fine := 0
		for range 5 {
			r := b.exec("echo NEXT", sandkasten.ExecOptions{})
			switch {
			case r.Cause == "exited" && r.ExitCode == 0 && r.Output == "NEXT\n":
				fine++
			case r.Cause == "shell_exited" && (r.ExitCode == 134 || r.ExitCode == 139):
			default:
				b.t.Errorf("after a substitution without an end: %s with %d, %q", r.Cause, r.ExitCode, r.Output)
			}
		}
		if fine == 0 {
			b.t.Error("no command after a substitution without an end was run")
		}
	}})
}

// S08: output of any bytes comes back as it was.
func TestS08_BinaryOutput(t *testing.T) {
	t.Parallel()
	b := attack(t)
	r := b.exec(`printf 'a\0b\377\033[31m\r\n\x80'`, sandkasten.ExecOptions{RawOutput: true})
	if got, err := r.Bytes(); string(got) != "a\x00b\xff\x1b[31m\r\n\x80" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	b.each(
		hostile{command: `head -c 300000 /dev/urandom; (exit 3)`, code: 3},
		hostile{command: `head -c 1000000 /dev/zero | tr '\0' x`, output: "xxxx"},
	)
}

// S09: prompts and traps of the command's are not run for ours.
func TestS09_PromptsAndTraps(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.each(
		hostile{command: `PS1='x'; PS0='y'; PS4='z'; PROMPT_COMMAND='exit 3'`},
		hostile{command: `trap 'true' DEBUG; trap 'true' ERR RETURN`},
		hostile{command: `trap 'echo bye' EXIT`, cause: "any", code: anyCode},
		hostile{command: `trap 'exit 3' USR1 USR2 CHLD; sleep 0.1`, cause: "any", code: anyCode},
	)
}

// S10: a shell that is killed or stopped, or whose parent is meant, is no loss.
func TestS10_KilledShell(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.each(
		hostile{command: `kill -9 $$`, code: 137, cause: "any"},
		hostile{command: `kill -9 $PPID; echo went on`, output: "went on"},
		hostile{command: `kill -STOP $$`, code: 124, cause: "timeout", timeout: time.Second},
		hostile{command: `kill -STOP $PPID; echo went on`, output: "went on"},
		hostile{command: `for s in TERM INT HUP QUIT PIPE ALRM USR1; do kill -$s $$; done`, code: anyCode, cause: "any"},
		hostile{command: `kill -SEGV $$`, code: 139, cause: "any"},
	)
}

// S11: words that the shell's own script may use can be taken away by no
// definition or option.
func TestS11_RedefinedWords(t *testing.T) {
	t.Parallel()
	b := attack(t)
	for _, command := range []string{
		`eval() { echo mine; }; builtin() { echo mine; }; printf() { echo mine; }; read() { echo mine; }; exit() { echo mine; }; cd() { :; }; test() { false; }`,
		`alias eval='echo mine' builtin='echo mine' printf='echo mine' [='echo mine'; shopt -s expand_aliases`,
		`enable -n eval builtin printf read exit cd test [ export declare trap`,
		`shopt -s extdebug; return 2>/dev/null; true`,
		`unset PATH IFS; IFS=x; export BASH_ENV=/workspace/nothing ENV=/workspace/nothing`,
		`set -n`, `set -v`, `set -x`, `set -f`, `set -k`, `set -t`, `set -C`, `set -o posix`, `set -r`,
		`readonly PATH IFS HOME PWD BASH_ENV; readonly -f eval 2>/dev/null; true`,
		`LD_PRELOAD=/nothing; export LD_PRELOAD; LC_ALL=xx; LANG=yy; export LC_ALL LANG`,
	} {
		s := b.create()
		other := &box{watched: b.watched, t: t, session: s}
		if _, err := other.tryExec(command, sandkasten.ExecOptions{Timeout: 2 * time.Second}); err != nil {
			t.Errorf("%.60q: %v", command, err)
		}
		r, err := other.tryExec("/bin/echo NEXT", sandkasten.ExecOptions{Timeout: paced(10 * time.Second)})
		if err != nil || !strings.Contains(r.Output, "NEXT") || r.ExitCode != 0 {
			t.Errorf("after %.60q: %d, %q, %v", command, r.ExitCode, r.Output, err)
		}
		destroy(t, s)
	}
}

// S12: long commands are run whole, with any character in them; too long ones
// are refused.
func TestS12_LongCommands(t *testing.T) {
	t.Parallel()
	b := attack(t)
	for _, length := range []int{4000, 4095, 4096, 4097, 100_000, 1_000_000} {
		text := strings.Repeat("x", length)
		if r := b.exec("printf %s "+text+" | wc -c", sandkasten.ExecOptions{}); strings.TrimSpace(r.Output) != fmt.Sprint(length) {
			t.Errorf("a command of %d bytes: %.200q", length, r.Output)
		}
		b.next()
	}
	controls := "\x01\x03\x04\x07\x08\x0b\x11\x12\x13\x15\x16\x17\x1a\x1b\x1c\x7f"
	if r := b.exec("printf %s '"+controls+"'", sandkasten.ExecOptions{RawOutput: true}); r.ExitCode != 0 {
		t.Errorf("control characters: %d, %q", r.ExitCode, r.Output)
	} else if got, err := r.Bytes(); err != nil || string(got) != controls {
		t.Errorf("control characters came back as %q, %v", got, err)
	}
	b.next()
	for name, command := range map[string]string{"5 MB": strings.Repeat("x", 5<<20), "a NUL": "echo \x00x"} {
		if r, err := b.tryExec(command, sandkasten.ExecOptions{}); err == nil {
			t.Errorf("a command with %s: %d, %.100q", name, r.ExitCode, r.Output)
		}
		b.next()
	}
}

// S13: a command that wants input finds its end, or is out of time if it asks
// for a terminal.
func TestS13_WaitingForInput(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.each(hostile{command: `read x`, code: 1}, hostile{command: `cat`}, hostile{command: `sh`}, hostile{command: `head -c 1 /dev/stdin`})
	for _, command := range []string{
		`python3 -i`, `bash -i`, `more /etc/passwd`, `read x </dev/tty`, `passwd`, `su -`,
	} {
		b.each(hostile{command: command, code: anyCode, cause: "any", timeout: 2 * time.Second})
	}
}

// S14: what a job of one command prints later is not the next one's output.
func TestS14_OutputOfJobs(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.x(`(while :; do echo FROM-THE-JOB; sleep 0.02; done) &`)
	for range 10 {
		time.Sleep(30 * time.Millisecond)
		if r := b.exec(`echo one; sleep 0.05; echo two`, sandkasten.ExecOptions{}); r.Output != "one\ntwo\n" {
			t.Errorf("beside a job: %q", r.Output)
		}
	}
	b.x(`kill $(jobs -p)`)
	b.next()
}

// S15: a directory that is gone is no place to stay in, and no obstacle.
func TestS15_DeletedDirectory(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.each(
		hostile{command: `mkdir -p d/e; cd d/e; rm -rf ../../d`},
		hostile{command: `cd /workspace; mkdir x; cd x; rmdir "$PWD"; exit 2`, code: 2, cause: "shell_exited"},
		hostile{command: `cd /workspace && pwd`, output: "/workspace"},
		hostile{command: `rm -rf /workspace/* /tmp/* 2>/dev/null; cd /tmp; chmod 000 /tmp; (exit 3)`, code: 3},
	)
}

// S16: limits that a command sets for its shell do not outlive the shell.
func TestS16_OwnLimits(t *testing.T) {
	t.Parallel()
	b := attack(t)
	for _, limit := range []string{`ulimit -f 0`, `ulimit -n 3`, `ulimit -v 1000`, `ulimit -u 1`, `ulimit -s 8`, `ulimit -t 1`} {
		s := b.create()
		other := &box{watched: b.watched, t: t, session: s}
		if _, err := other.tryExec(limit, sandkasten.ExecOptions{Timeout: 5 * time.Second}); err != nil {
			t.Errorf("%s: %v", limit, err)
		}
		r, err := other.tryExec(`echo NEXT`, sandkasten.ExecOptions{Timeout: paced(10 * time.Second)})
		if err != nil || r.Output != "NEXT\n" {
			t.Errorf("after %s: %d, %q, %v", limit, r.ExitCode, r.Output, err)
		}
		if r, err := other.session.RunProcess(t.Context(), []string{"/bin/echo", "works"}, nil); err != nil || r.Stdout != "works\n" {
			t.Errorf("a program after %s: %q, %v", limit, r.Stdout, err)
		}
		if err := s.CloseShell(t.Context(), "default"); err != nil {
			t.Logf("close the shell: %v", err)
		}
		destroy(t, s)
	}
}

// S17: by the shell's own descriptors a command can spoof its own result at
// most; the next one's is its own.
func TestS17_DescriptorsOfTheShell(t *testing.T) {
	t.Parallel()
	b := attack(t)
	for i, command := range []string{
		`exec 191>&- 192>&- 193>&- 194>&- 195>&- 196>&- 197>&- 198>&- 199>&-; (exit 3)`,
		`for fd in $(seq 3 255); do printf '0\0' >&$fd; done 2>/dev/null; (exit 3)`,
		`for f in /proc/$$/fd/* /proc/$PPID/fd/*; do timeout 0.2 sh -c "printf '0\0' >$f"; done >/dev/null 2>&1; (exit 3)`,
		`for f in /proc/$$/fd/*; do timeout 0.1 cat $f; done >/dev/null 2>&1; (exit 3)`,
	} {
		r := b.exec(command, sandkasten.ExecOptions{Timeout: 15 * time.Second})
		if r.ExitCode != 3 {
			t.Logf("command %d spoofed its own result: %d, %s", i, r.ExitCode, r.Cause)
		}
		if r := b.exec(fmt.Sprintf(`echo next %d; (exit 4)`, i), sandkasten.ExecOptions{}); r.ExitCode != 4 || r.Output != fmt.Sprintf("next %d\n", i) {
			t.Errorf("after command %d the next one has %d, %q", i, r.ExitCode, r.Output)
		}
		b.next()
	}
}

// S18: terminals and commands are apart, however many are attached, whatever
// size they say they have and however much is pasted.
func TestS18_Terminals(t *testing.T) {
	t.Parallel()
	b := attack(t)
	running := b.inBackground(`sleep 0.5; echo untouched`, sandkasten.ExecOptions{})
	first, err := b.session.OpenTerminal(t.Context(), &sandkasten.TerminalOptions{Command: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := b.session.AttachTerminal(t.Context(), first.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	go io.Copy(io.Discard, first)
	go io.Copy(io.Discard, second)
	for _, size := range [][2]uint16{{1, 1}, {65535, 65535}, {0, 0}, {50, 200}} {
		if err := first.Resize(size[0], size[1]); err != nil {
			t.Logf("resize to %v: %v", size, err)
		}
	}
	pasted := make(chan struct{})
	go func() {
		defer close(pasted)
		for range 100 {
			if _, err := second.Write([]byte(strings.Repeat("pasted text\n", 100<<10/12))); err != nil {
				return
			}
		}
	}()
	b.soon("the neighbour beside a paste", 2*time.Second, b.neighbourAnswers)
	if r := <-running; r.Output != "untouched\n" {
		t.Errorf("the command beside: %q", r.Output)
	}
	b.next()
	second.Close()
	first.Close()
	<-pasted
}
