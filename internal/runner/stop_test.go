package runner_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// Commands that do not want to end. MARK stands for a number of seconds that
// no other process on the machine sleeps.
func TestTimeout(t *testing.T) {
	tests := []struct {
		name    string
		command string
		restart bool
	}{
		{"E01 plain", `echo begun; sleep MARK; echo never`, false},
		{"E01 setsid", `echo begun; setsid sleep MARK & setsid -w sleep MARK`, false},
		{"E01 double fork", `echo begun; (setsid sh -c 'sleep MARK & sleep MARK & exec sleep MARK' &) ; sleep MARK`, false},
		{"E01 nohup", `echo begun; nohup sleep MARK >/dev/null 2>&1 & disown; sleep MARK`, false},
		{"E01 pipeline", `echo begun; sleep MARK | sleep MARK | cat`, false},
		{"E01 substitution", `echo begun; x=$(sleep MARK)`, false},
		{"E02 ignored signals", `echo begun; bash -c 'trap "" TERM INT HUP QUIT; while :; do sleep MARK; done'`, false},
		{"E02 loop in the shell", `echo begun; trap '' TERM INT; while :; do :; done`, false},
		{"E02 loop of children", `echo begun; while :; do sleep 0.01; done; echo never`, false},
		{"E02 loop with output", `echo begun; while true; do date; sleep 0.01; done >/dev/null`, false},
		{"E02 nested loops", `echo begun; until false; do for ((;;)); do while :; do sleep 0.01; done; echo never; done; echo never; done`, false},
		{"E02 loop in functions", `echo begun; f() { while :; do sleep 0.01; done; echo never; }; g() { f; echo never; }; while :; do g; echo never; done`, false},
		{"E02 loop of compounds", `echo begun; while :; do { ! : || if [ 1 ]; then case x in *) ((i++));; esac; fi; }; done`, false},
		{"E02 loop in eval", `echo begun; eval 'while [[ 1 ]]; do sleep 0.01; done'; echo never`, false},
		{"E02 loop over words", `echo begun; for i in {1..1000}; do sleep MARK; done; echo never`, false},
		{"E02 loop over words begins", `echo begun; sleep MARK; for i in {1..1000}; do echo never; done; for i in 1; do ((i++)); done`, false},
		{"E02 loop of subshells", `echo begun; for i in {1..1000}; do (sleep MARK); done; echo never`, false},
		{"E02 loop of counts", `echo begun; for ((i = 0; i < 1000000; i++)); do sleep 0.01; done; echo never`, false},
		{"E02 loop without a condition", `echo begun; for ((;;)); do sleep MARK; done; echo never; for ((;;)); do echo never; done`, false},
		{"E02 loops over words and counts", `echo begun; for i in 1 2; do for ((;;)); do for x in 1 2; do sleep MARK; done; done; done; echo never`, false},
		{"E02 loops of counts alone", `echo begun; for ((;;)); do while ((1)); do ((i++)); done; done; echo never`, false},
		{"E03 stopped shell", `echo begun; kill -STOP $$`, false},
		{"E03 stopped child", `echo begun; bash -c 'kill -STOP $$; sleep MARK'`, false},
		{"E04 FIFO", `echo begun; mkfifo MARK; cat MARK`, false},
		{"E04 FIFO in the shell", `echo begun; mkfifo MARK; read x <MARK`, true},
		{"E05 fork and die", `echo begun; bash -c 'while :; do (sleep 0.001 &); done'`, false},
		{"replaced shell", `echo begun; exec sleep MARK`, true},
		{"list", `echo begun; sleep MARK; echo never; sleep MARK || echo never; (echo never); echo $(echo never >&2)`, false},
		{"functions", `echo begun; f() { sleep MARK; echo never; }; g() { f; echo never; }; g; echo never`, false},
		{"loop", `echo begun; for i in 1 2 3; do sleep MARK; echo never; done; echo never`, false},
		{"wait", `echo begun; sleep MARK & wait`, false},
	}
	for i, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mark := fmt.Sprintf("31%02d.%d", i, time.Now().UnixNano()%1e6)
			p := newHost(t).dial()
			p.sh("cd /tmp; export KEPT=yes; plain=1; sleep " + mark + "7 >/dev/null 2>&1 &")
			time.Sleep(60 * time.Millisecond)
			t.Cleanup(func() { killAll(alive(t, mark)) })
			var r reply
			var took time.Duration
			for limit := int64(300); len(r.output) == 0 && limit < 10_000; limit *= 4 { // again if nothing began in that time
				begin := time.Now()
				r = p.run(protocol.Exec{TimeoutMS: limit, GraceMS: 200}, replaceMark(tc.command, mark))
				took = time.Since(begin)
			}
			if r.ExitCode != 124 || r.Cause != protocol.CauseTimeout {
				t.Errorf("code %d, %s", r.ExitCode, r.Cause)
			}
			if string(r.output) != "begun\n" {
				t.Errorf("output %q", clip(string(r.output)))
			}
			// 300 ms and a grace of 200, on a machine that may be slow.
			if took < 300*time.Millisecond || took > 15*time.Second {
				t.Errorf("took %v", took)
			}
			if left := alive(t, mark); len(left) != 1 {
				t.Errorf("%d processes are left, want the one of the exec before", len(left))
			}
			n := p.run(protocol.Exec{}, `echo $KEPT; pwd; trap -p DEBUG`)
			n.want(t, "yes\n/tmp\n", 0, protocol.CauseExited)
			if n.ShellRestarted != tc.restart {
				t.Errorf("shell_restarted %v, want %v", n.ShellRestarted, tc.restart)
			}
		})
	}
}

// traceEnv makes the test binary the tracer of the process that it names.
const traceEnv = "SANDKASTEN_TEST_TRACE"

// trace does what keeps a killed process from going away: it does not wait.
func trace(pid int) {
	runtime.LockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("traced")
	for unix.Pause() != nil { // until it is killed
	}
}

// A shell that does not die, whatever is done, is given up.
func TestShellThatDoesNotDie(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	pid := strings.TrimSpace(string(p.sh("echo $$").output))
	tracer := exec.CommandContext(t.Context(), "/proc/self/exe")
	tracer.Env = append(os.Environ(), traceEnv+"="+pid)
	out, err := tracer.StdoutPipe()
	must(t, err)
	must(t, tracer.Start())
	t.Cleanup(func() {
		must(t, tracer.Process.Kill())
		if err := tracer.Wait(); err == nil {
			t.Error("the tracer ended by itself")
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "traced\n" {
		testenv.Unsupported(t, "this host lets nobody trace a shell: %q, %v", line, err)
	}
	if r := p.run(protocol.Exec{TimeoutMS: 300, GraceMS: 100}, "while :; do :; done"); r.Cause != protocol.CauseTimeout || r.DurationUS > 15_000_000 {
		t.Errorf("%+v", r.Record)
	}
	if _, err := os.Stat("/proc/" + pid); err != nil {
		t.Errorf("the shell has died: %v", err)
	}
	if !p.next().ShellRestarted {
		t.Error("it is still the same shell")
	}
}

func replaceMark(command, mark string) string { return strings.ReplaceAll(command, "MARK", mark) }
