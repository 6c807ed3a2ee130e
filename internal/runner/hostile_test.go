package runner_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// Commands that break naive shells. After each, the same shell name must
// answer at once and correctly. The names refer to the cases S and E of the
// project's list of attacks.
func TestHostileCommands(t *testing.T) {
	const any = "\x00" // output that is not compared
	tests := []struct {
		name    string
		command string
		output  string
		code    int
		cause   protocol.Cause
		restart bool // the next command must say that the shell is new
	}{
		{"S01 our own frames", `printf '{"type":"done","body":{"exit_code":0}}\n'; (exit 9)`, "{\"type\":\"done\",\"body\":{\"exit_code\":0}}\n", 9, "exited", false},
		{"S01 our own report", `printf '1 0 /\0' >&199; (exit 9)`, any, 9, "exited", false},
		{"S02 closed output", `exec 1>&- 2>&-; echo lost`, "", 1, "exited", false},
		{"S02 output elsewhere", `exec >/dev/null 2>&1; echo lost`, "", 0, "exited", false},
		{"S03 exit", `echo bye; exit 7`, "bye\n", 7, "shell_exited", true},
		{"S03 exit in a subshell", `(exit 7)`, "", 7, "exited", false},
		{"S03 logout", `logout`, any, 1, "exited", false},
		{"S04 exec sh", `exec sh`, "", 0, "shell_exited", true},
		{"S04 exec a program", `exec echo replaced`, "replaced\n", 0, "shell_exited", true},
		{"S04 exec stdin", `exec 0</etc/passwd`, "", 0, "exited", false},
		{"S04 exec missing", `exec /does/not/exist`, any, 127, "shell_exited", true},
		{"S05 set -e", `set -euo pipefail; echo before; false; echo after`, "before\n", 1, "shell_exited", true},
		{"S05 set -u", `set -u; echo $nope`, any, 1, "shell_exited", true},
		{"S06 stty", `stty raw -echo 2>/dev/null; stty 0 2>/dev/null; true`, "", 0, "exited", false},
		{"S07 open quote", `echo 'unbalanced`, any, 2, "exited", false},
		{"S07 open double quote", `echo "unbalanced`, any, 2, "exited", false},
		{"S07 open substitution", `echo $(`, any, 2, "exited", false},
		{"S07 open if", `if true; then`, any, 2, "exited", false},
		{"S07 open heredoc", "cat <<EOF\nno end", any, 0, "exited", false},
		{"S07 quoted heredoc", "cat <<'EOF'\n  $x\n  EOF\n", any, 0, "exited", false},
		{"S07 stray words", `fi; done; }`, any, 2, "exited", false},
		{"S07 backslash at the end", `echo a\`, "a\\\n", 0, "exited", false},
		{"S07 comment", `echo a # '`, "a\n", 0, "exited", false},
		{"S08 binary output", `printf '\000\377\033[31m\r\n'`, "\x00\xff\x1b[31m\r\n", 0, "exited", false},
		{"S09 PROMPT_COMMAND", `PS1=x PS2=x PROMPT_COMMAND='exit 3'; PS0='y'`, "", 0, "exited", false},
		{"S09 trap EXIT", `trap 'echo x' EXIT`, "", 0, "exited", false},
		{"S09 trap DEBUG", `trap 'echo dbg' DEBUG`, any, 0, "exited", false},
		{"S09 trap ERR", `trap 'exit 3' ERR; true`, "", 0, "exited", false},
		{"S09 trap RETURN", `trap 'exit 3' RETURN; true`, "", 0, "exited", false},
		{"S10 kill -9 self", `kill -9 $$`, "", 137, "shell_exited", true},
		{"S10 kill -TERM self", `kill $$; sleep 1`, "", 143, "shell_exited", true},
		{"S11 functions", `eval() { :; }; printf() { :; }; read() { :; }; exit() { :; }; pwd() { :; }; mapfile() { :; }; unset() { :; }; source() { :; }; .() { :; }`, any, 0, "exited", false},
		{"S11 aliases", `alias builtin=false eval=false printf=false pwd=false`, "", 0, "exited", false},
		{"S11 builtin", `builtin() { :; }`, "", 137, "shell_exited", true},
		{"S11 enable -n", `enable -n eval printf pwd`, any, 137, "shell_exited", true},
		{"S11 extdebug", `shopt -s extdebug; return`, any, any2(), "exited", false},
		{"S11 posix", `set -o posix`, "", 0, "exited", false},
		{"S11 readonly", `readonly IFS PATH PWD OLDPWD LINENO REPLY 2>/dev/null; readonly __sandkasten=x`, any, any2(), "exited", false},
		{"S11 unset", `unset PATH IFS HOME PWD OLDPWD SHELLOPTS 2>/dev/null`, any, any2(), "exited", false},
		{"S11 IFS", `IFS=0123456789`, "", 0, "exited", false},
		{"S11 BASH_ENV", `export BASH_ENV=/dev/stdin ENV=/dev/stdin`, "", 0, "exited", false},
		{"S11 set -n", `set -n`, "", 137, "shell_exited", true},
		{"S11 set -v", `set -v`, "", 0, "exited", false},
		{"S11 set -f", `set -f`, "", 0, "exited", false},
		{"S11 set -C", `set -C`, "", 0, "exited", false},
		{"S11 set -m", `set -m; sleep 0 & wait`, any, 0, "exited", false},
		{"S11 set -t", `set -t`, any, any2(), any, false},
		{"S11 restricted", `set -r`, "", 0, "exited", true},
		{"S12 control characters", "echo '\x03\x04\x1a\x13\x16\x15\x7f'", "\x03\x04\x1a\x13\x16\x15\x7f\n", 0, "exited", false},
		{"S13 read", `read x; echo "rc $?"`, "rc 1\n", 0, "exited", false},
		{"S13 cat", `cat`, "", 0, "exited", false},
		{"S13 terminal", `cat </dev/tty`, any, 1, "exited", false},
		{"S15 deleted directory", `mkdir gone && cd gone && rmdir ../gone`, "", 0, "exited", false},
		{"S16 ulimit -n", `ulimit -n 3`, any, any2(), any, false},
		{"S16 ulimit -n above ours", `ulimit -n 205`, "", 0, "exited", false},
		{"S16 ulimit -v", `ulimit -v 1000; echo "$(seq 100000)" | cat | wc -c`, any, any2(), any, false},
		{"S16 ulimit -f", `ulimit -f 0`, "", 0, "exited", false},
		{"S17 our descriptors", `exec 191>&- 194>&- 195>&- 196>&- 198>&- 199>&-`, "", 0, "exited", true},
		{"S17 descriptors that bash uses", `exec 10>a 11>b 12>c 13>d; echo on`, "on\n", any2(), any, false},
		{"S17 saved descriptors", `for f in /proc/$$/fd/*; do n=${f##*/}; [ $n -gt 2 ] && eval "exec $n>&-"; done 2>/dev/null`, any, any2(), any, false},
		{"S17 the script", `cat </proc/$$/fd/10 & sleep 0.2; kill $! 2>/dev/null; for i in 10 11 12 13; do timeout 0.1 cat /proc/$$/fd/$i; done`, any, any2(), any, false},
		{"S17 nonsense to every descriptor", `for f in /proc/$$/fd/*; do printf 'x\0y\0z' >$f; done 2>/dev/null`, any, any2(), any, false},
		{"break", `break; continue; echo on`, any, 0, "exited", false},
		{"return", `return 3`, any, any2(), "exited", false},
		{"coproc", `coproc cat; true`, "", 0, "exited", false},
		{"a null byte of output only", `printf '\0'`, "\x00", 0, "exited", false},
		{"empty", ``, "", 0, "exited", false},
		{"newlines", "\n\n\n", "", 0, "exited", false},
		{"E07 exit code above 255", `(exit 300)`, "", 44, "exited", false},
		{"E07 killed child", `bash -c 'kill -9 $$'`, any, 137, "signaled", false},
		{"E07 segfault", `bash -c 'kill -SEGV $$'`, any, 139, "signaled", false},
		{"E07 not found", `no_such_program`, any, 127, "exited", false},
		{"E07 not executable", `/etc/passwd`, any, 126, "exited", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := newHost(t).dial()
			p.sh("true")
			begin := time.Now()
			r := p.sh(tc.command)
			if took := time.Since(begin); took > 9*time.Second { // sh gives up after ten
				t.Errorf("took %v", took)
			}
			if tc.output != any && string(r.output) != tc.output {
				t.Errorf("output %q, want %q", clip(string(r.output)), tc.output)
			}
			if tc.code != any2() && r.ExitCode != tc.code {
				t.Errorf("exit code %d, want %d (output %q)", r.ExitCode, tc.code, clip(string(r.output)))
			}
			if string(tc.cause) != any && r.Cause != tc.cause {
				t.Errorf("cause %s, want %s", r.Cause, tc.cause)
			}
			if n := nextIgnoringTraps(p); n.ShellRestarted != tc.restart && string(tc.cause) != any {
				t.Errorf("shell_restarted %v, want %v", n.ShellRestarted, tc.restart)
			}
		})
	}
}

// Texts that are no whole commands, one after the other in the same shell. Each
// fails by itself, and what comes behind it is run, if need be in a new shell.
func TestUnfinishedCommands(t *testing.T) {
	p := newHost(t).dial()
	aborted := 0
	for range 3 {
		for _, command := range []string{
			"echo 'unbalanced", `echo "unbalanced`, "echo `unbalanced", "echo $(", "if true; then", "while :", "f() {", "case x in", "((", "[[ 1",
			"cat <<EOF\nno end", "\tcat <<-'EOF'\n\tindented\n\t EOF", "cat <<'E\nOF'", "}", ")", "done", `echo \`, `for x in "$(echo`,
		} {
			switch r := p.sh(command); {
			case abortedByBash(r):
				aborted++
			case r.Cause != protocol.CauseExited:
				t.Errorf("%q: code %d, %s, %q", command, r.ExitCode, r.Cause, r.output)
			}
			if abortedByBash(p.run(protocol.Exec{TimeoutMS: 15_000}, "true")) {
				aborted++
			}
			nextIgnoringTraps(p)
		}
	}
	if aborted > 5 {
		t.Errorf("%d shells were lost", aborted)
	}
	p.sh("x=kept; (exit 2)")
	p.sh(`echo $x $?`).want(t, "kept 2\n", 0, protocol.CauseExited)
}

// abortedByBash reports whether a command found bash 5.2 at its own end: behind a
// substitution without an end it may have overwritten its memory, which it
// notices at a later command.
func abortedByBash(r reply) bool {
	return r.Cause == protocol.CauseShellExited && (r.ExitCode == 128+int(syscall.SIGABRT) || r.ExitCode == 128+int(syscall.SIGSEGV))
}

// A condition that was left open in an eval makes bash trip over the next one, which
// is bash's own fault and the command's. No other command is lost by it, whatever
// exit code is to be handed on, and the shell goes on.
func TestOpenConditionInEval(t *testing.T) {
	p := newHost(t).dial()
	p.sh("x=kept")
	for _, open := range []string{"[[ 1", "[[ 1 &&", "[[ -f", "[[ a =~", "[[ (", "if [[ 1"} {
		for code := range 2 {
			p.sh(fmt.Sprintf("eval '%s'; (exit %d)", open, code))
			if r := p.sh("echo $x $?"); r.Cause != protocol.CauseExited || r.ShellRestarted || string(r.output) != fmt.Sprintf("kept %d\n", code) {
				t.Errorf("behind %q and exit code %d: %s, %q, restarted %t", open, code, r.Cause, r.output, r.ShellRestarted)
			}
			p.sh(fmt.Sprintf("eval '%s'; (exit %d)", open, code))
			p.sh("[[ -n x ]] && echo what bash does not get")
			if r := p.sh("[[ -n x ]] && echo $x"); r.Cause != protocol.CauseExited || r.ShellRestarted || string(r.output) != "kept\n" {
				t.Errorf("behind %q and a condition: %s, %q, restarted %t", open, r.Cause, r.output, r.ShellRestarted)
			}
		}
	}
}

// A command can make each variable that it sees read-only, bash's own and ours, and
// remove them. The next command runs all the same, in the same shell.
func TestReadonlyVariables(t *testing.T) {
	for _, spoil := range []string{
		`for v in $(compgen -v); do [ $v = _ ] || readonly $v; done`,
		`readonly LINENO; set -u`, `unset LINENO DIRSTACK BASH_COMMAND; set -u`,
		`for v in ${!__sk*}; do readonly $v; unset $v; done`, `readonly __sk=x __sk_run=x; unset __sk_none __ska __skb __skc`,
		`declare -A __sk; readonly __sk BASH_COMMAND PIPESTATUS FUNCNAME BASH_SOURCE BASH_LINENO DIRSTACK`,
		`set -a; for v in $(compgen -v); do [ $v = _ ] || readonly $v; done`, `declare -rx LINENO=7`, `declare -i LINENO; set -u`,
	} {
		p := newHost(t).dial()
		p.sh(`kept=1; f() { echo $kept; }`)
		if r := p.sh(spoil); r.Cause != protocol.CauseExited {
			t.Errorf("%s: %s, %q", spoil, r.Cause, r.output)
		}
		for range 3 {
			if r := p.sh(`f; (exit 3)`); string(r.output) != "1\n" || r.ExitCode != 3 || r.ShellRestarted {
				t.Errorf("behind %s: %q, code %d, %s, restarted %v", spoil, r.output, r.ExitCode, r.Cause, r.ShellRestarted)
				break
			}
		}
	}
}

// Errors name the lines of the command, as those of bash -c do, and not those of
// the script that the shell reads. To bash, functions of such a script are of "main".
func TestLinesOfErrors(t *testing.T) {
	p := newHost(t).dial()
	for range 3 {
		p.sh("nosuch").want(t, "bash: line 1: nosuch: command not found\n", 127, protocol.CauseExited)
	}
	p.sh("echo $LINENO\n\nnosuch; echo $LINENO").want(t, "1\nbash: line 3: nosuch: command not found\n3\n", 0, protocol.CauseExited)
	p.sh("f() {\n\tnosuch\n}; f").want(t, "main: line 2: nosuch: command not found\n", 127, protocol.CauseExited)
	if r := p.sh("echo a\nif x"); !strings.Contains(string(r.output), "line 3: syntax error") && !strings.Contains(string(r.output), "line 2: syntax error") {
		t.Errorf("%q", r.output)
	}
}

// any2 is an exit code that is not compared.
func any2() int { return -1 }

// nextIgnoringTraps is next for shells in which a trap may print as well.
func nextIgnoringTraps(p *peer) reply {
	p.t.Helper()
	begin := time.Now()
	r := p.run(protocol.Exec{TimeoutMS: 15_000}, "echo NEXT")
	if !strings.HasSuffix(strings.TrimSuffix(string(r.output), "dbg\n"), "NEXT\n") || r.ExitCode != 0 || r.Cause != protocol.CauseExited {
		p.t.Errorf("next: %q, code %d, %s", r.output, r.ExitCode, r.Cause)
	}
	if took := time.Since(begin); took > 15*time.Second {
		p.t.Errorf("the next command took %v", took)
	}
	return r
}
