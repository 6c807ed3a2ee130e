package runner_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/protocol"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestExec(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	p.sh("echo hello; echo to stderr >&2").want(t, "hello\nto stderr\n", 0, protocol.CauseExited)
	p.sh("f() { return 3; }; f").want(t, "", 3, protocol.CauseExited)
	p.sh("echo $?").want(t, "3\n", 0, protocol.CauseExited)
	p.sh("a=1; declare -A m; m[x]=y; export E=2; alias hi='echo hi there'; set -- one two").want(t, "", 0, protocol.CauseExited)
	p.sh("echo $a ${m[x]} $(printenv E) $2; hi").want(t, "1 y 2 two\nhi there\n", 0, protocol.CauseExited)
	if r := p.sh("nosuch"); !regexp.MustCompile(`^bash: line \d+: nosuch: command not found\n$`).Match(r.output) || r.ExitCode != 127 {
		t.Errorf("%q, code %d", r.output, r.ExitCode)
	}
	p.sh("ls /proc/self/fd").want(t, "0\n1\n2\n3\n", 0, protocol.CauseExited)
	p.sh("exec 7>seven").want(t, "", 0, protocol.CauseExited)
	p.sh("echo x >&7; cat seven").want(t, "x\n", 0, protocol.CauseExited)
	r := p.sh("mkdir -p 'a b\n'\"'\" && cd 'a b\n'\"'\"")
	if want := h.workspace + "/a b\n'"; r.Cwd != want {
		t.Errorf("cwd %q, want %q", r.Cwd, want)
	}
	p.sh("PWD=/lie; true")
	if r = p.sh("true"); r.Cwd != h.workspace+"/a b\n'" {
		t.Errorf("cwd %q after PWD was assigned", r.Cwd)
	}
}

func TestExecStdin(t *testing.T) {
	p := newHost(t).dial()
	p.run(protocol.Exec{}, "cat", []byte("from\x00stdin")...).want(t, "from\x00stdin", 0, protocol.CauseExited)
	p.sh("cat").want(t, "", 0, protocol.CauseExited)
	big := bytes.Repeat([]byte("0123456789abcdef"), protocol.MaxCommand/16)
	p.run(protocol.Exec{}, "sha256sum", big...).want(t, fmt.Sprintf("%x  -\n", sha256.Sum256(big)), 0, protocol.CauseExited)
}

func TestExecSizes(t *testing.T) {
	p := newHost(t).dial()
	for _, n := range []int{1, 100, 127, 128, 129, 200, 4000, 4095, 4096, 4097, 70_000, protocol.MaxCommand - 20} {
		word := repeat("x'", n/2)
		command := `: "` + word + `"; echo ` + strconv.Itoa(n)
		p.sh(command).want(t, fmt.Sprintln(n), 0, protocol.CauseExited)
	}
	p.start(protocol.Exec{}, repeat("x", protocol.MaxCommand+1))
	if _, err := p.finish(); codeOf(err) != "too_large" {
		t.Errorf("a command over the limit: %v", err)
	}
	p.next()
}

func TestExecRefuses(t *testing.T) {
	p := newHost(t).dial()
	for _, tc := range []struct {
		exec    protocol.Exec
		command string
		code    string
	}{
		{protocol.Exec{ID: "a b"}, "true", "invalid_argument"},
		{protocol.Exec{ID: repeat("x", 65)}, "true", "invalid_argument"},
		{protocol.Exec{ID: "a", Shell: "../x"}, "true", "invalid_argument"},
		{protocol.Exec{ID: "a"}, "a\x00b", "invalid_argument"},
		{protocol.Exec{ID: "a", TimeoutMS: -1}, "true", "invalid_argument"},
	} {
		p.start(tc.exec, tc.command)
		if _, err := p.finish(); codeOf(err) != tc.code {
			t.Errorf("%+v: %v, want %s", tc.exec, err, tc.code)
		}
	}
	p.run(protocol.Exec{ID: "once"}, "true")
	p.start(protocol.Exec{ID: "once"}, "true")
	if _, err := p.finish(); codeOf(err) != "already_exists" {
		t.Errorf("an id for the second time: %v", err)
	}
	p.next()
}

// S14: what a background job prints belongs to no later command.
func TestBackgroundOutput(t *testing.T) {
	p := newHost(t).dial()
	p.sh(`(while :; do echo noise; sleep 0.01; done) & echo started $!`)
	p.sh(`(while :; do echo more; sleep 0.01; done) & echo started`)
	for range 5 {
		p.sh("sleep 0.05; echo mine").want(t, "mine\n", 0, protocol.CauseExited)
	}
	p.sh("kill %1 %2 $(jobs -p) 2>/dev/null; wait 2>/dev/null; echo $(jobs | wc -l)")
	p.next()
}

// Output does not wait for the end of its command, whenever it comes.
func TestOutputBeforeTheEnd(t *testing.T) {
	h := newHost(t)
	gate := filepath.Join(h.workspace, "gate")
	must(t, unix.Mkfifo(gate, 0o600))
	p := h.dial()
	for _, before := range []string{"", "sleep 0.01; ", "sleep 0.1; "} {
		p.start(protocol.Exec{TimeoutMS: 10_000}, before+"echo early; cat gate")
		header, err := p.in.Next()
		must(t, err)
		got, err := io.ReadAll(p.in)
		must(t, err)
		if header.Type != protocol.TypeOutput || string(got) != "early\n" {
			t.Fatalf("%q: %s of %q", before, header.Type, got)
		}
		must(t, os.WriteFile(gate, []byte("late\n"), 0))
		r, err := p.finish()
		must(t, err)
		r.want(t, "late\n", 0, protocol.CauseExited)
	}
}

// The first bytes of a quiet stream wait for nothing: 0.1 ms here, with what printing
// the time takes; a gathering timer or two would add a millisecond each.
func TestFirstBytesGoAtOnce(t *testing.T) {
	p := newHost(t).dial()
	if string(p.sh("echo ${EPOCHREALTIME:+it}").output) != "it\n" {
		testenv.Unsupported(t, "no bash that tells microseconds")
	}
	const soon = 800 * time.Microsecond
	best := time.Hour
	for tries := 0; best > soon && tries < 500; tries++ { // beside other load few are undisturbed
		p.start(protocol.Exec{Accept: true, TimeoutMS: 10_000}, `echo ${EPOCHREALTIME/./}; sleep 0.01`)
		if h, err := p.in.Next(); err != nil || h.Type != protocol.TypeAccepted {
			t.Fatal(h.Type, err)
		}
		if h, err := p.in.Next(); err != nil || h.Type != protocol.TypeOutput {
			t.Fatal(h.Type, err)
		}
		text, err := io.ReadAll(p.in)
		arrived := time.Now()
		must(t, err)
		printed, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		must(t, err)
		best = min(best, arrived.Sub(time.UnixMicro(printed)))
		_, err = p.finish()
		must(t, err)
	}
	if best > soon {
		t.Errorf("the first bytes took %v at best", best)
	}
}

func TestLargeOutput(t *testing.T) {
	p := newHost(t).dial()
	const n = 20 << 20
	p.start(protocol.Exec{}, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' z; echo; echo end", n))
	r, err := p.finish()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.output) != n+5 || r.gaps != 0 || r.OutputBytes != n+5 {
		t.Errorf("%d bytes, %d skipped, %d counted; want all %d", len(r.output), r.gaps, r.OutputBytes, n+5)
	}
	if r.DroppedBytes < n-(5<<20) {
		t.Errorf("only %d bytes dropped from the replay", r.DroppedBytes)
	}
	p.next()
}

// A daemon that does not read holds the command up; the command's own time
// limit still ends it.
func TestStalledReader(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	id := p.start(protocol.Exec{TimeoutMS: 2000, OutputLimit: 1 << 20}, "yes")
	other := h.dial()
	waitFor(t, func() bool { return other.recordOf(id).State == protocol.StateEnded })
	// What it wrote before the reader was there counts: some milliseconds. Without a reader it writes 3 GB.
	if r := other.recordOf(id); r.Cause != protocol.CauseTimeout || r.OutputBytes > 256<<20 {
		t.Errorf("%+v: want a timeout after few bytes", r)
	}
	if _, err := p.finish(); err != nil {
		t.Fatal(err)
	}
	p.next()
}

func TestDisconnectDoesNotCancel(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	id := p.start(protocol.Exec{OutputLimit: 64 << 10}, "echo first; sleep 0.3; yes | head -c 3000000; echo last")
	p.c.Close()
	q := h.dial()
	waitFor(t, func() bool { return q.recordOf(id).State == protocol.StateEnded })
	r := q.attach(id, 0)
	if !bytes.HasPrefix(r.output, []byte("first\ny\n")) || !bytes.HasSuffix(r.output, []byte("y\nlast\n")) {
		t.Errorf("replay is %q", clip(string(r.output)))
	}
	if r.gaps == 0 || r.gaps != r.DroppedBytes || int64(len(r.output))+r.gaps != r.OutputBytes || r.OutputBytes != 3000011 {
		t.Errorf("%d bytes, %d skipped, %d dropped of %d", len(r.output), r.gaps, r.DroppedBytes, r.OutputBytes)
	}
	q.next()
}

func TestAttach(t *testing.T) {
	h := newHost(t)
	p, q := h.dial(), h.dial()
	id := p.start(protocol.Exec{}, "echo one; sleep 0.2; echo two; exit 4")
	waitFor(t, func() bool { return q.recordOf(id).ID == id })
	live := q.attach(id, 2)
	live.want(t, "e\ntwo\n", 4, protocol.CauseShellExited)
	if r, err := p.finish(); err != nil || string(r.output) != "one\ntwo\n" {
		t.Errorf("the first reader got %q, %v", r.output, err)
	}
	for offset, want := range map[int64]string{0: "one\ntwo\n", 4: "two\n", 8: "", 1000: ""} {
		q.attach(id, offset).want(t, want, 4, protocol.CauseShellExited)
	}
	if err := q.out.Send(protocol.TypeAttach, protocol.Attach{ID: "none"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := q.finish(); codeOf(err) != "not_found" {
		t.Errorf("attach to nothing: %v", err)
	}
}

func TestShellsRunSideBySide(t *testing.T) {
	h := newHost(t)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range 8 {
		wg.Go(func() {
			p := h.dial()
			name := fmt.Sprintf("shell%d", i)
			p.run(protocol.Exec{Shell: name}, fmt.Sprintf("x=%d; sleep 3", i))
			p.run(protocol.Exec{Shell: name}, "echo $x").want(t, fmt.Sprintln(i), 0, protocol.CauseExited)
		})
	}
	wg.Wait()
	if took := time.Since(begin); took > 15*time.Second { // one after the other they take 24
		t.Errorf("8 shells took %v", took)
	}
}

func TestExecsOfOneShellQueue(t *testing.T) {
	h := newHost(t)
	first := h.dial()
	first.start(protocol.Exec{}, "sleep 0.2; n=1")
	waitFor(t, func() bool { return len(h.dial().records()) == 1 })
	peers := make([]*peer, 10)
	for i := range peers {
		peers[i] = h.dial()
		peers[i].start(protocol.Exec{}, "echo $n; n=$((n+1))")
		waitFor(t, func() bool { return len(first.h.dial().records()) == i+2 })
	}
	for i, p := range peers {
		if r, err := p.finish(); err != nil || string(r.output) != fmt.Sprintln(i+1) {
			t.Errorf("exec %d: %q, %v", i, r.output, err)
		}
	}
}

func TestCancel(t *testing.T) {
	h := newHost(t)
	p, q, ctl := h.dial(), h.dial(), h.dial()
	running := p.start(protocol.Exec{}, "echo begun; sleep 100")
	waitFor(t, func() bool { return ctl.recordOf(running).OutputBytes > 0 })
	queued := q.start(protocol.Exec{}, "echo never")
	waitFor(t, func() bool { return ctl.recordOf(queued).State == protocol.StateQueued })
	ctl.cancel(queued)
	ctl.cancel(running)
	if r, err := p.finish(); err != nil || r.Cause != protocol.CauseCanceled || r.ExitCode != 130 || !bytes.HasPrefix(r.output, []byte("begun\n")) {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := q.finish(); err != nil || r.Cause != protocol.CauseCanceled || len(r.output) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if p.next().ShellRestarted {
		t.Error("the shell was restarted")
	}
}

// What a shell leaves to the next: its directory and exported variables, as
// they were when the last command ended that reported, or when exit or set -e
// ended the shell in the middle of one.
func TestRestartKeepsDirectoryAndExports(t *testing.T) {
	value := "a b'c\"d\ne$f`g\\h"
	const set = `mkdir -p sub; cd sub; plain=1; export KEPT=$'a b\'c"d\ne$f` + "`" + `g\\h'`
	for _, commands := range [][]string{
		{set, "exit 5"},
		{set, "kill -9 $$"},
		{set, "true", "true", "exec sh"},
		{set + "; exit 5"},
		{"set -e", set + "; false"},
		{set, "ulimit -v 1; exit"}, // cannot fork, nor write much
		{set, "trap 'echo bye' EXIT", "exit"},
		{set, "kill -9 $$", "exit 1", "exit 2"}, // from shell to shell
		{"export KEPT=old; mkdir -p elsewhere", set, "cd ../elsewhere; cd ../sub", "exit"},
	} {
		h := newHost(t)
		p := h.dial()
		for _, c := range commands {
			p.sh(c)
		}
		r := p.sh(`printf '%s|%s|' "$KEPT" "$plain"; pwd`)
		r.want(t, value+"||"+h.workspace+"/sub\n", 0, protocol.CauseExited)
		if !r.ShellRestarted || r.Cwd != h.workspace+"/sub" {
			t.Errorf("%q: %+v", commands, r.Record)
		}
	}
}

// A command that claims not to have run is run once more, in a fresh shell,
// and then refused: it can do no more than it could do by itself.
func TestForgedRefusalRunsTwiceAtMost(t *testing.T) {
	p := newHost(t).dial()
	p.start(protocol.Exec{}, `echo x >>ran; for f in /proc/$$/fd/*; do printf '0 1 \0' >$f; done 2>/dev/null; kill -9 $$`)
	if r, err := p.finish(); err == nil && r.Cause != protocol.CauseShellExited {
		t.Errorf("%+v", r.Record)
	}
	if r := p.sh("wc -l <ran"); string(r.output) != "1\n" && string(r.output) != "2\n" {
		t.Errorf("it ran %q times", r.output)
	}
}

// A script's own descriptors, also with the numbers that bash takes for its
// copies, and ours do not get into programs.
func TestDescriptors(t *testing.T) {
	p := newHost(t).dial()
	p.sh("exec 7>seven {auto}>auto").want(t, "", 0, protocol.CauseExited)
	p.sh("echo x >&7; echo y >&$auto; cat seven auto").want(t, "x\ny\n", 0, protocol.CauseExited)
	p.sh("exec 7>&- {auto}>&-; ls /proc/self/fd").want(t, "0\n1\n2\n3\n", 0, protocol.CauseExited)
	p.sh("(ls /proc/self/fd) | cat; echo $(ls /proc/self/fd)").want(t, "0\n1\n2\n3\n0 1 2 3\n", 0, protocol.CauseExited)
	p.sh("{ echo x >&199; } 2>/dev/null").want(t, "", 1, protocol.CauseExited)
}

func TestRecordsAreBounded(t *testing.T) {
	p := newHost(t).dial()
	for range 150 {
		p.sh("true")
	}
	if n := len(p.records()); n < 60 || n > 66 {
		t.Errorf("%d records are kept", n)
	}
}

func TestNothingLeaks(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	p.sh("true")
	p.sh("kill -9 $$")
	p.sh("true")
	before := descriptors(t)
	for i := range 1000 {
		if i%100 == 0 {
			p.sh("exit 1")
		}
		p.sh("true")
		if i%50 == 0 {
			q := h.dial()
			q.sh("echo x")
			q.c.Close()
		}
	}
	waitFor(t, func() bool { return descriptors(t) <= before })
}

func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// BenchmarkExecTrue is a round trip: request, a line in the shell, answer.
func BenchmarkExecTrue(b *testing.B) {
	p := newHost(b).dial()
	p.sh("true")
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		p.sh("true")
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

// waitFor polls what has no event to wait for.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	testenv.Eventually(t, "the condition of the caller", ok)
}

func (p *peer) attach(id string, offset int64) reply {
	p.t.Helper()
	if err := p.out.Send(protocol.TypeAttach, protocol.Attach{ID: id, Offset: offset}, nil); err != nil {
		p.t.Fatal(err)
	}
	r, err := p.finish()
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *peer) cancel(id string) {
	p.t.Helper()
	if err := p.out.Send(protocol.TypeCancel, protocol.Cancel{ID: id}, nil); err != nil {
		p.t.Fatal(err)
	}
	if h, err := p.in.Next(); err != nil || h.Type != protocol.TypeOK {
		p.t.Fatalf("cancel: %v, %v", h.Type, err)
	}
}

func (p *peer) records() []protocol.Record {
	p.t.Helper()
	if err := p.out.Send(protocol.TypeExecs, nil, nil); err != nil {
		p.t.Fatal(err)
	}
	var list protocol.Records
	h, err := p.in.Next()
	if err == nil {
		err = h.Decode(&list)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return list.Execs
}

func (p *peer) recordOf(id string) protocol.Record {
	p.t.Helper()
	for _, r := range p.records() {
		if r.ID == id {
			return r
		}
	}
	return protocol.Record{}
}

// alive returns the processes whose command line contains mark.
func alive(t testing.TB, mark string) []int {
	t.Helper()
	marked := testenv.CommandHas(mark)
	pids, err := testenv.Offspring(marked)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(pids, func(pid int) bool { return !marked(pid) })
}

func killAll(pids []int) {
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			continue
		}
	}
}
