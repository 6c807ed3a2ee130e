package runner

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

func TestParseStat(t *testing.T) {
	fields := func(state string, threads int) string {
		return " " + state + " 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 " + strconv.Itoa(threads) + " 0 123456 1 2 3\n"
	}
	for _, tc := range []struct {
		line string
		want process
		ok   bool
	}{
		{"42 (bash)" + fields("S", 1), process{pid: 42, ppid: 7, alive: true, start: 123456}, true},
		{"42 (a) R 1 1 (b\n) c)" + fields("T", 1), process{pid: 42, ppid: 7, alive: true, stopped: true, start: 123456}, true},
		{"42 ()" + fields("Z", 1), process{pid: 42, ppid: 7, start: 123456}, true},
		{"42 (threads)" + fields("Z", 2), process{pid: 42, ppid: 7, alive: true, start: 123456}, true},
		{"42 (bash) S 1 2", process{}, false},
		{"42 bash S", process{}, false},
		{"", process{}, false},
		{"x (bash)" + fields("S", 1), process{}, false},
	} {
		got, ok := parseStat([]byte(tc.line))
		if ok != tc.ok || ok && got != tc.want {
			t.Errorf("%q: %+v, %v; want %+v, %v", tc.line, got, ok, tc.want, tc.ok)
		}
	}
}

func TestProcfsOrdersProcesses(t *testing.T) {
	p := newProcfs("/proc")
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	for range 20 {
		first := osexec.CommandContext(t.Context(), "sleep", "100")
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		between := p.now()
		second := osexec.CommandContext(t.Context(), "sleep", "100")
		if err := second.Start(); err != nil {
			t.Fatal(err)
		}
		a, ok1 := p.read(strconv.Itoa(first.Process.Pid))
		b, ok2 := p.read(strconv.Itoa(second.Process.Pid))
		if !ok1 || !ok2 || a.after(between) || !b.after(between) || a.ppid != os.Getpid() {
			t.Errorf("%+v is not before, or %+v not after %+v", a, b, between)
		}
		for _, c := range []*osexec.Cmd{first, second} {
			if err := c.Process.Kill(); err != nil {
				t.Error(err)
			}
			if c.Wait() == nil {
				t.Error("it ended well")
			}
		}
	}
}

func TestParseStatus(t *testing.T) {
	for _, tc := range []struct {
		report string
		want   status
		ok     bool
	}{
		{"12- 0 /work space", status{seq: 12, ran: true, cwd: "/work space"}, true},
		{"12= 0 /work space\n", status{seq: 12, ran: true, cwd: "/work space"}, true},
		{"12- 0 /a\n", status{seq: 12, ran: true, cwd: "/a\n"}, true},
		{"12- 255 /a\nb", status{seq: 12, ran: true, code: 255, cwd: "/a\nb"}, true},
		{"12 1 /", status{seq: 12, code: 1, cwd: "/"}, true},
		{"12- 0 ", status{seq: 12, ran: true}, true},
		{"12- 256 /", status{}, false},
		{"12- -1 /", status{}, false},
		{"-12- 0 /", status{}, false},
		{"99999999999999999999- 0 /", status{}, false},
		{"x- 0 /", status{}, false},
		{"12- 0", status{}, false},
		{"", status{}, false},
	} {
		got, ok := parseStatus([]byte(tc.report))
		if ok != tc.ok || got != tc.want {
			t.Errorf("%q: %+v, %v; want %+v, %v", tc.report, got, ok, tc.want, tc.ok)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, text := range []string{"", "plain", "it's", "''", "$x `y` \\ \" \n\t!*", "\xff\x01"} {
		out, err := osexec.CommandContext(t.Context(), "sh", "-c", "printf %s "+string(quote(nil, []byte(text)))).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q came back as %q, %v", text, out, err)
		}
	}
}

// fill writes text to o, reading with nobody.
func (o *output) fill(t *testing.T, text []byte) {
	t.Helper()
	for len(text) > 0 {
		buf := o.reserve()
		if buf == nil {
			t.Fatal("the writer must wait though nobody reads")
		}
		n := copy(buf, text)
		o.commit(n)
		text = text[n:]
	}
}

func testBudget(max int64) *budget {
	return &budget{max: max, evict: func() bool { return false }}
}

// What is kept is the beginning and the end, within the limit, and each byte
// is where its offset says.
func TestOutputKeepsBeginningAndEnd(t *testing.T) {
	for range 200 {
		b := testBudget(1 << 40)
		limit := outputFloor + rand.Int64N(1<<20)
		o := newOutput(b, limit)
		text := make([]byte, rand.Int64N(3<<20))
		for i := range text {
			text[i] = byte(i*7 + i>>8)
		}
		for at := 0; at < len(text); {
			n := min(len(text)-at, 1+rand.IntN(90_000))
			o.fill(t, text[at:at+n])
			at += n
		}
		o.end()
		total, dropped := o.counts()
		if total != int64(len(text)) || o.memory() > limit || b.used != o.memory() {
			t.Fatalf("%d of %d bytes, %d of memory, %d taken, limit %d", total, len(text), o.memory(), b.used, limit)
		}
		if total <= limit/2 && dropped > 0 {
			t.Fatalf("%d of %d bytes dropped with a limit of %d", dropped, total, limit)
		}
		from := rand.Int64N(total + 10)
		kept := readAll(t, o, from, text)
		if from == 0 && kept != total-dropped {
			t.Fatalf("read %d bytes, want %d", kept, total-dropped)
		}
		if dropped > 0 && (dropped > total-limit/2 || !startsAt(o, limit/8) || !endsAt(o, total, limit/8)) {
			t.Fatalf("%d of %d dropped with a limit of %d: not from the middle", dropped, total, limit)
		}
		o.discard()
		if b.used != 0 {
			t.Fatalf("%d bytes of memory are not given back", b.used)
		}
	}
}

func startsAt(o *output, n int64) bool {
	_, got, _ := o.attach(0).read(make([]byte, 1))
	first := o.pieces[0]
	return got == 1 && first.offset == 0 && n > 0
}

func endsAt(o *output, total, n int64) bool {
	last := o.pieces[len(o.pieces)-1]
	return last.offset+int64(len(last.data)) == total && n > 0
}

// readAll reads from offset to the end and compares with text.
func readAll(t *testing.T, o *output, from int64, text []byte) (n int64) {
	t.Helper()
	r := o.attach(from)
	defer r.detach()
	buf := make([]byte, 1+rand.IntN(50_000))
	last := from
	for {
		at, k, ended := r.read(buf)
		if k == 0 {
			if !ended {
				t.Fatal("no more, but not ended")
			}
			return n
		}
		if at < last || !bytes.Equal(buf[:k], text[at:at+int64(k)]) {
			t.Fatalf("wrong bytes at %d after %d", at, last)
		}
		last = at + int64(k)
		n += int64(k)
	}
}

// While a reader is attached nothing is lost to it; detached, or after flood,
// the writer goes on.
func TestOutputWaitsForReader(t *testing.T) {
	o := newOutput(testBudget(1<<40), outputFloor)
	r := o.attach(0)
	wrote := int64(0)
	for {
		buf := o.reserve()
		if buf == nil {
			break
		}
		o.commit(len(buf))
		wrote += int64(len(buf))
		if wrote > outputFloor {
			t.Fatalf("%d bytes were taken beyond the limit", wrote)
		}
	}
	if _, dropped := o.counts(); dropped > 0 {
		t.Errorf("%d bytes dropped", dropped)
	}
	drainRoom(o)
	var read int64
	buf := make([]byte, 5000)
	for range 10 {
		_, n, _ := r.read(buf)
		read += int64(n)
	}
	select {
	case <-o.room:
	default:
		t.Error("the writer is not told that there is room")
	}
	for read < wrote {
		at, n, _ := r.read(buf)
		if at != read {
			t.Fatalf("offset %d, want %d", at, read)
		}
		read += int64(n)
	}
	if o.reserve() == nil {
		t.Fatal("no room though all was read")
	}
	o.commit(1)
	for o.reserve() != nil {
		o.commit(len(o.reserve()))
	}
	o.flood()
	if o.reserve() == nil {
		t.Error("flood does not let the writer go on")
	}
	r.detach()
}

func drainRoom(o *output) {
	select {
	case <-o.room:
	default:
	}
}

// Under the common budget the outputs of ended execs go first, then each has
// to do with what it must have.
func TestBudgetEvictsEndedExecs(t *testing.T) {
	r := newRecords()
	r.budget.max = 1 << 20
	var execs []*exec
	for i := range 8 {
		e := newExec(protocol.Exec{ID: fmt.Sprint(i), OutputLimit: 512 << 10}, nil, &r.budget)
		if err := r.add(e); err != nil {
			t.Fatal(err)
		}
		e.start(false)
		e.out.fill(t, make([]byte, 400<<10))
		if r.budget.used > 1<<20 {
			t.Fatalf("%d bytes used", r.budget.used)
		}
		e.end(ending{cause: protocol.CauseExited})
		execs = append(execs, e)
	}
	if execs[0].out.memory() != 0 || execs[7].out.memory() < 400<<10 {
		t.Error("not the oldest output was dropped")
	}
	if rec := execs[0].record(); rec.OutputBytes != 400<<10 || rec.DroppedBytes != 400<<10 {
		t.Errorf("%+v", rec)
	}
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

// Images without bash: the essentials with whatever /bin/sh is here.
func TestPosixShell(t *testing.T) {
	d := t.TempDir()
	s := startTestShell(t, posix{}, d)
	for _, tc := range []struct {
		command, output string
		code            int
		cause           protocol.Cause
	}{
		{"echo hi; x=1", "hi\n", 0, protocol.CauseExited},
		{"echo $x; (exit 3)", "1\n", 3, protocol.CauseExited},
		{"echo $?", "3\n", 0, protocol.CauseExited},
		{"cat", "", 0, protocol.CauseExited},
		{": '" + strings.Repeat("x", 100_000) + "'; echo long", "long\n", 0, protocol.CauseExited},
		{"mkdir sub; cd sub", "", 0, protocol.CauseExited},
		{"exit 4", "", 4, protocol.CauseShellExited},
		{"pwd", d + "/sub\n", 0, protocol.CauseExited},
		{"kill -9 $$", "", 137, protocol.CauseShellExited},
		{"sleep 1000", "", codeTimeout, protocol.CauseTimeout},
		{"while :; do :; done", "", codeTimeout, protocol.CauseTimeout},
		{"echo $((6*7))", "42\n", 0, protocol.CauseExited},
	} {
		rec, out := s.exec(t, tc.command)
		if !strings.HasPrefix(out, tc.output) || rec.ExitCode != tc.code || rec.Cause != tc.cause {
			t.Errorf("%.40q: %q, code %d, %s; want %q, %d, %s", tc.command, out, rec.ExitCode, rec.Cause, tc.output, tc.code, tc.cause)
		}
	}
}

type testShell struct {
	*shell
	n int
}

// startTestShell runs a shell of dialect d without connections.
func startTestShell(t *testing.T, d dialect, dir string) *testShell {
	t.Helper()
	r, err := New(Options{Listener: -1, Workspace: dir, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	r.dialect = d
	stop := r.reaper.watch()
	s := newShell(r, "")
	r.wg.Go(s.loop)
	t.Cleanup(func() {
		close(r.closing)
		r.wg.Wait()
		stop()
		r.records.close()
	})
	return &testShell{shell: s}
}

func (s *testShell) exec(t *testing.T, command string) (protocol.Record, string) {
	t.Helper()
	s.n++
	e := newExec(protocol.Exec{ID: fmt.Sprint(s.n), CommandBytes: int64(len(command)), TimeoutMS: 1000, GraceMS: 50}, []byte(command), &s.r.records.budget)
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
	rd := e.out.attach(0)
	defer rd.detach()
	buf := make([]byte, 64<<10)
	_, n, _ := rd.read(buf)
	return e.record(), string(buf[:n])
}

// A defect must cost an exec and not the sandbox.
func TestPanicIsContained(t *testing.T) {
	s := startTestShell(t, findDialect(), t.TempDir())
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
