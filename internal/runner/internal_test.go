package runner

import (
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/runner/dialect"
	"github.com/sandkasten/sandkasten/internal/runner/output"
	"github.com/sandkasten/sandkasten/internal/runner/pipe"
	"github.com/sandkasten/sandkasten/protocol"
)

// write writes text to o, reading with nobody.
func write(t *testing.T, o *output.Output, text []byte) {
	t.Helper()
	for len(text) > 0 {
		buf := o.Reserve()
		if buf == nil {
			t.Fatal("the writer must wait though nobody reads")
		}
		n := copy(buf, text)
		o.Commit(n, protocol.StreamOutput)
		text = text[n:]
	}
}

// Under the common budget the outputs of ended execs go first, then each has
// to do with what it must have.
func TestBudgetEvictsEndedExecs(t *testing.T) {
	r := newRecords()
	r.budget.Max = 1 << 20
	var execs []*exec
	for i := range 8 {
		e := newExec(protocol.Exec{ID: fmt.Sprint(i), OutputLimit: 512 << 10}, nil, &r.budget)
		if err := r.add(e); err != nil {
			t.Fatal(err)
		}
		e.start(false)
		write(t, e.out, make([]byte, 400<<10))
		if r.budget.Used() > 1<<20 {
			t.Fatalf("%d bytes used", r.budget.Used())
		}
		e.end(ending{cause: protocol.CauseExited})
		execs = append(execs, e)
	}
	if execs[0].out.Memory() != 0 || execs[7].out.Memory() < 400<<10 {
		t.Error("not the oldest output was dropped")
	}
	if rec := execs[0].record(); rec.OutputBytes != 400<<10 || rec.DroppedBytes != 400<<10 {
		t.Errorf("%+v", rec)
	}
}

// Output that somebody looks at gathers for no longer than a moment since the last.
func TestOutputGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, other := gathering{live: true}, gathering{}
		if live.wait() > 0 || other.wait() != gatherTime {
			t.Errorf("first bytes wait %v, and %v if nobody looks", live.wait(), other.wait())
		}
		live.sent = time.Now()
		time.Sleep(gatherTime / 4)
		if live.wait() != gatherTime*3/4 {
			t.Errorf("the next wait %v", live.wait())
		}
		time.Sleep(gatherTime)
		if live.wait() > 0 {
			t.Errorf("after a quiet time they wait %v", live.wait())
		}
	})
}

func TestRecordsExpire(t *testing.T) {
	r := newRecords()
	e := newExec(protocol.Exec{ID: "a"}, nil, &r.budget)
	if err := r.add(e); err != nil {
		t.Fatal(err)
	}
	e.start(false)
	r.forget(time.Now().Add(2 * recordLife))
	if _, err := r.get("a"); err != nil {
		t.Error("a running exec was forgotten")
	}
	e.end(ending{})
	r.forget(time.Now().Add(recordLife / 2))
	if _, err := r.get("a"); err != nil {
		t.Error("it was forgotten too early")
	}
	r.forget(time.Now().Add(recordLife + time.Second))
	if _, err := r.get("a"); err == nil {
		t.Error("it was not forgotten")
	}
}

// Images without bash: docs/shells.md, with the shells that such images have.
func TestPosixShell(t *testing.T) {
	for _, name := range []string{"dash", "busybox"} {
		path, err := osexec.LookPath(name)
		if err != nil {
			t.Logf("no %s here", name)
			continue
		}
		t.Run(name, func(t *testing.T) { testPosixShell(t, dialect.Posix(path)) })
	}
}

func testPosixShell(t *testing.T, d dialect.Dialect) {
	const any = "\x00" // output that is not compared
	dir := t.TempDir()
	s := startTestShell(t, d, dir)
	for _, tc := range []struct {
		command, output string
		code            int
		cause           protocol.Cause
		restart         bool // the shell is a new one
	}{
		{"echo hi; x=1; f() { echo in f; }; alias a='echo alias'", "hi\n", 0, protocol.CauseExited, false},
		{"echo $x; f; (exit 3)", "1\nin f\n", 3, protocol.CauseExited, false},
		{"echo $?", "3\n", 0, protocol.CauseExited, false},
		{"a", "alias\n", 0, protocol.CauseExited, false},
		{"cat; read x; echo $?", "1\n", 0, protocol.CauseExited, false},
		{": '" + strings.Repeat("x", 100_000) + "'; echo long", "long\n", 0, protocol.CauseExited, false},
		{"echo short", "short\n", 0, protocol.CauseExited, false},
		{"cat <<EOF\nno end", any, 0, protocol.CauseExited, false},
		{"printf '\\377\\000'", "\xff\x00", 0, protocol.CauseExited, false},
		{"exec >/dev/null 2>&1; echo lost", "", 0, protocol.CauseExited, false},
		{"sleep 1000 & echo $!", any, 0, protocol.CauseExited, false},
		{"PATH=/nowhere; IFS=0123456789; unset PWD; PS1=x", "", 0, protocol.CauseExited, false},
		{"PATH=/usr/bin:/bin; mkdir sub; cd sub; export E=\"it's\n mine\"", "", 0, protocol.CauseExited, false},
		{"exit 4", "", 4, protocol.CauseShellExited, false},
		{"pwd; echo \"$E\"", dir + "/sub\nit's\n mine\n", 0, protocol.CauseExited, true},
		{"echo 'unbalanced", any, 2, protocol.CauseExited, false},
		{"echo on", "on\n", 0, protocol.CauseExited, false},
		{"set -eu; false", "", 1, protocol.CauseShellExited, false},
		{"kill -9 $$", "", 137, protocol.CauseShellExited, true},
		{"exec echo replaced", "replaced\n", 0, protocol.CauseShellExited, true},
		{"echo a; sleep 1000; touch never", "a\n", codeTimeout, protocol.CauseTimeout, true},
		{"while :; do :; done", "", codeTimeout, protocol.CauseTimeout, true},
		{"kill -STOP $$", "", codeTimeout, protocol.CauseTimeout, true},
		{"ls", "", 0, protocol.CauseExited, true},
		{"echo $((6*7)); pwd", "42\n" + dir + "/sub\n", 0, protocol.CauseExited, false},
	} {
		rec, out := s.exec(t, tc.command)
		if job, err := strconv.Atoi(strings.TrimSpace(out)); err == nil && strings.HasSuffix(tc.command, "echo $!") {
			t.Cleanup(func() { // no container ends it here
				if err := syscall.Kill(job, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			})
		}
		if tc.output != any && out != tc.output || rec.ExitCode != tc.code || rec.Cause != tc.cause || rec.ShellRestarted != tc.restart {
			t.Errorf("%.40q: %q, %+v; want %q, %d, %s, restarted %v", tc.command, out, rec, tc.output, tc.code, tc.cause, tc.restart)
		}
	}
}

func TestPosixShellOpenStdin(t *testing.T) {
	for _, name := range []string{"dash", "busybox"} {
		path, err := osexec.LookPath(name)
		if err != nil {
			t.Logf("no %s here", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := startTestShell(t, dialect.Posix(path), t.TempDir())
			for _, id := range []string{"once", "again"} {
				const command = "wc -c"
				e := newExec(protocol.Exec{ID: id, CommandBytes: int64(len(command)), OpenStdin: true, TimeoutMS: 10_000}, []byte(command+"head"), &s.r.records.budget)
				if err := s.r.records.add(e); err != nil {
					t.Fatal(err)
				}
				if err := s.submit(e); err != nil {
					t.Fatal(err)
				}
				taken, err := e.takeStdin(protocol.Stdin{ID: id, Close: true, WaitMS: 5000}, strings.NewReader(strings.Repeat("x", 2_000_000)), func() bool { return true })
				if err != nil || taken.Bytes != 2_000_000 || !taken.Closed {
					t.Errorf("took %+v, %v", taken, err)
				}
				<-e.done
				rd := e.out.Attach(0)
				buf := make([]byte, 100)
				c, _ := rd.Read(buf)
				rd.Detach()
				if got := strings.TrimSpace(string(buf[:c.Bytes])); got != "2000004" {
					t.Errorf("it read %s bytes", got)
				}
			}
		})
	}
}

type testShell struct {
	*shell
	n int
}

// startTestShell runs a shell of dialect d without connections.
func startTestShell(t *testing.T, d dialect.Dialect, dir string) *testShell {
	t.Helper()
	r, err := New(Options{Listener: -1, Workspace: dir, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	r.dialect = d
	stop := r.reaper.Watch()
	s := newShell(r, "")
	r.wg.Go(s.loop, func(err error) { t.Error(err) })
	t.Cleanup(func() {
		close(r.closing)
		s.shut()
		r.wg.Wait()
		stop()
		r.records.close()
	})
	return &testShell{shell: s}
}

// limitOf is a command's time in milliseconds: short for those that are to reach it.
func limitOf(command string) int64 {
	if strings.Contains(command, "touch never") || strings.HasPrefix(command, "while :") || strings.HasPrefix(command, "kill -STOP") {
		return 1000
	}
	return 20_000
}

func (s *testShell) exec(t *testing.T, command string) (protocol.Record, string) {
	t.Helper()
	s.n++
	e := newExec(protocol.Exec{ID: fmt.Sprint(s.n), CommandBytes: int64(len(command)), TimeoutMS: limitOf(command), GraceMS: 50}, []byte(command), &s.r.records.budget)
	if err := s.r.records.add(e); err != nil {
		t.Fatal(err)
	}
	if err := s.submit(e); err != nil {
		t.Fatal(err)
	}
	<-e.done
	if err := e.failure(); err != nil {
		t.Fatal(err)
	}
	rd := e.out.Attach(0)
	defer rd.Detach()
	buf := make([]byte, 64<<10)
	c, _ := rd.Read(buf)
	return e.record(), string(buf[:c.Bytes])
}

// A defect must cost an exec and not the sandbox.
func TestPanicIsContained(t *testing.T) {
	s := startTestShell(t, dialect.Find(), t.TempDir())
	calls := 0
	s.r.opts.OOMKills = func() int64 {
		if calls++; calls == 1 {
			panic("defect")
		}
		return 0
	}
	e := newExec(protocol.Exec{ID: "x", CommandBytes: 4}, []byte("true"), &s.r.records.budget)
	if err := s.r.records.add(e); err != nil {
		t.Fatal(err)
	}
	if err := s.submit(e); err != nil {
		t.Fatal(err)
	}
	<-e.done
	if e.failure() == nil {
		t.Error("the exec did not fail")
	}
	if rec, out := s.exec(t, "echo on"); out != "on\n" || rec.ExitCode != 0 {
		t.Errorf("%q, %+v", out, rec)
	}
}

// A defect where output is read ends the exec, which tells it, and nothing else.
func TestPanicOfPumpIsContained(t *testing.T) {
	s := startTestShell(t, dialect.Find(), t.TempDir())
	e := newExec(protocol.Exec{ID: "x"}, nil, &s.r.records.budget)
	out, err := pipe.NewOutput(new(sync.Mutex))
	if err != nil {
		t.Fatal(err)
	}
	out.Direct(&output.Output{}) // without a budget
	if _, err := out.Watch(); err != nil {
		t.Fatal(err)
	}
	s.r.pump(out, e)
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", out.FD()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	<-e.stop
	if err := e.failure(); err == nil || !strings.Contains(err.Error(), "the runner has a defect") {
		t.Errorf("the exec says %v", err)
	}
	if _, out := s.exec(t, "echo on"); out != "on\n" {
		t.Errorf("%q", out)
	}
}
