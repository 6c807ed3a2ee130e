package runner_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// start0 is a list as Start has it.
func start0(list []string) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(s + "\x00")
	}
	return b.String()
}

// ask sends a start and returns its id.
func (p *peer) ask(s protocol.Start, env []string, stdin string, argv ...string) string {
	p.t.Helper()
	if s.ID == "" {
		s.ID = fmt.Sprintf("p%d", p.h.ids.Add(1))
	}
	a, e := start0(argv), start0(env)
	s.ArgvBytes, s.EnvBytes = int64(len(a)), int64(len(e))
	must(p.t, p.c.SetDeadline(time.Now().Add(30*time.Second)))
	must(p.t, p.out.Send(protocol.TypeStart, s, []byte(a+e+stdin)))
	return s.ID
}

// program is a whole program in the foreground.
func (p *peer) program(s protocol.Start, argv ...string) reply {
	p.t.Helper()
	p.ask(s, nil, "", argv...)
	r, err := p.finish()
	if err != nil {
		p.t.Fatalf("%q: %v", argv, err)
	}
	return r
}

// background starts a program and returns its record.
func (p *peer) background(s protocol.Start, argv ...string) protocol.Record {
	p.t.Helper()
	s.Background = true
	p.ask(s, nil, "", argv...)
	var rec protocol.Record
	if err := p.reply(protocol.TypeStarted, &rec); err != nil {
		p.t.Fatalf("%q: %v", argv, err)
	}
	return rec
}

// poll asks for what is there.
func (p *peer) poll(a protocol.Attach) reply {
	p.t.Helper()
	a.Poll = true
	must(p.t, p.c.SetDeadline(time.Now().Add(30*time.Second)))
	must(p.t, p.out.Send(protocol.TypeAttach, a, nil))
	r, err := p.finish()
	if err != nil {
		p.t.Fatalf("%+v: %v", a, err)
	}
	return r
}

func (p *peer) type_(s protocol.Stdin, text string) (int64, error) {
	p.t.Helper()
	must(p.t, p.out.Send(protocol.TypeStdin, s, []byte(text)))
	var taken protocol.Taken
	err := p.reply(protocol.TypeTaken, &taken)
	return taken.Bytes, err
}

func (p *peer) request(t protocol.Type, body any) error {
	p.t.Helper()
	must(p.t, p.out.Send(t, body, nil))
	return p.reply(protocol.TypeOK, nil)
}

func TestProgram(t *testing.T) {
	h := newHost(t)
	must(t, os.Mkdir(filepath.Join(h.workspace, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(h.workspace, "sub/tool"), []byte("#!/bin/sh\necho tool $1\n"), 0o755))
	for _, tc := range []struct {
		name           string
		start          protocol.Start
		argv, env      []string
		stdin          string
		stdout, stderr string
		code           int
		cause          protocol.Cause
	}{
		{name: "streams", argv: []string{"sh", "-c", "echo out; echo err >&2"}, stdout: "out\n", stderr: "err\n"},
		{name: "arguments", argv: []string{"printf", "[%s]", "a b", "", "*", "'"}, stdout: "[a b][][*][']"},
		{name: "code", argv: []string{"sh", "-c", "exit 7"}, code: 7},
		{name: "signal", argv: []string{"sh", "-c", "kill -9 $$"}, code: 137, cause: protocol.CauseSignaled},
		{name: "fault", argv: []string{"sh", "-c", "kill -SEGV $$"}, code: 139, cause: protocol.CauseSignaled},
		{name: "no stdin", argv: []string{"cat"}},
		{name: "stdin", argv: []string{"cat"}, stdin: "a\x00b", stdout: "a\x00b"},
		{name: "long stdin", argv: []string{"wc", "-c"}, stdin: strings.Repeat("x", 1<<20), stdout: "1048576\n"},
		{name: "unread stdin", argv: []string{"true"}, stdin: strings.Repeat("x", 1<<20)},
		{name: "cwd", start: protocol.Start{Cwd: "sub"}, argv: []string{"sh", "-c", "pwd"}, stdout: h.workspace + "/sub\n"},
		{name: "absolute cwd", start: protocol.Start{Cwd: "/"}, argv: []string{"pwd"}, stdout: "/\n"},
		{name: "relative to cwd", start: protocol.Start{Cwd: "sub"}, argv: []string{"./tool", "x"}, stdout: "tool x\n"},
		{name: "relative path element", start: protocol.Start{Cwd: "sub"}, argv: []string{"tool", "y"}, env: []string{"PATH=/bin:"}, stdout: "tool y\n"},
		{name: "environment", argv: []string{"sh", "-c", `echo "$HOME|$A|$B"`}, env: []string{"A=1=2\n3", "B=", "HOME=/h"}, stdout: "/h|1=2\n3|\n"},
		{name: "session", argv: []string{"sh", "-c", `[ "$(ps -o sid= -p $$ | tr -d ' ')" = $$ ] && echo leader`}, stdout: "leader\n"},
		{name: "defaults", argv: []string{"grep", "SigIgn", "/proc/self/status"}, stdout: "SigIgn:\t0000000000000000\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := h.dial()
			p.ask(tc.start, tc.env, tc.stdin, tc.argv...)
			r, err := p.finish()
			if err != nil {
				t.Fatal(err)
			}
			if tc.cause == "" {
				tc.cause = protocol.CauseExited
			}
			if string(r.stdout) != tc.stdout || string(r.stderr) != tc.stderr || r.ExitCode != tc.code || r.Cause != tc.cause {
				t.Errorf("%q and %q, code %d, %s", clip(string(r.stdout)), clip(string(r.stderr)), r.ExitCode, r.Cause)
			}
			if r.Kind != protocol.KindProcess || r.PID < 1 || r.Usage == nil || r.Signal != max(0, tc.code-128) {
				t.Errorf("%+v, %+v", r.Record, r.Usage)
			}
		})
	}
}

func TestProgramRefuses(t *testing.T) {
	h := newHost(t)
	file := func(name, text string, mode os.FileMode) {
		must(t, os.WriteFile(filepath.Join(h.workspace, name), []byte(text), mode))
	}
	file("plain", "echo hi\n", 0o755)
	file("orphan", "#!/no/such/interpreter\n", 0o755)
	file("locked", "#!/bin/sh\n", 0o644)
	must(t, os.Mkdir(filepath.Join(h.workspace, "dir"), 0o755))
	for _, tc := range []struct {
		start protocol.Start
		argv  []string
		code  string
		says  string
	}{
		{argv: []string{"no-such-program"}, code: "unprocessable", says: "PATH (/usr/local/bin"},
		{argv: []string{""}, code: "unprocessable", says: "empty"},
		{argv: []string{"./missing"}, code: "unprocessable", says: `no program "./missing"`},
		{argv: []string{"./plain"}, code: "unprocessable", says: "#! line"},
		{argv: []string{"./orphan"}, code: "unprocessable", says: "interpreter"},
		{argv: []string{"./locked"}, code: "unprocessable", says: "chmod +x"},
		{argv: []string{"./dir"}, code: "unprocessable", says: "not executable"},
		{argv: []string{"true", strings.Repeat("x", 200<<10)}, code: "unprocessable", says: "128 KiB"},
		{start: protocol.Start{Cwd: "nowhere"}, argv: []string{"true"}, code: "unprocessable", says: "nowhere"},
		{start: protocol.Start{Cwd: "plain"}, argv: []string{"true"}, code: "unprocessable", says: "cannot be entered"},
		{start: protocol.Start{Cwd: strings.Repeat("x", 5000)}, argv: []string{"true"}, code: "invalid_argument", says: "cwd"},
		{start: protocol.Start{User: "no-such-user"}, argv: []string{"true"}, code: "unprocessable", says: "no-such-user"},
		{start: protocol.Start{User: ":"}, argv: []string{"true"}, code: "invalid_argument", says: "user"},
		{start: protocol.Start{ID: "a/b"}, argv: []string{"true"}, code: "invalid_argument", says: "id"},
		{start: protocol.Start{TimeoutMS: -1}, argv: []string{"true"}, code: "invalid_argument", says: "timeout_ms"},
		{start: protocol.Start{HangupMS: -1}, argv: []string{"true"}, code: "invalid_argument", says: "hangup_ms"},
		{start: protocol.Start{OutputFile: "/etc/x"}, argv: []string{"true"}, code: "permission_denied", says: "/etc/x"},
		{start: protocol.Start{OutputFile: "dir"}, argv: []string{"true"}, code: "invalid_argument", says: "dir"},
	} {
		p := h.dial()
		p.ask(tc.start, nil, "", tc.argv...)
		if _, err := p.finish(); codeOf(err) != tc.code || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v %.50q: %v; want %s with %q", tc.start, tc.argv, err, tc.code, tc.says)
		}
		p.program(protocol.Start{}, "true") // the connection is in order
	}
	for _, rec := range h.dial().records() {
		if rec.Command != "true" {
			t.Errorf("a program that was not started has a record: %+v", rec)
		}
	}
}

func TestProgramRefusesPayload(t *testing.T) {
	h := newHost(t)
	for _, tc := range []struct {
		argv, env int64
		payload   string
	}{
		{3, 0, "a\x00"}, {-1, 0, "a\x00"}, {0, -1, "a\x00"}, {1 << 62, 1 << 62, "a\x00"}, {1, 0, "a"}, {2, 2, "a\x00b\x00"}, {2, 3, "a\x00=b\x00"},
	} {
		p := h.dial()
		must(t, p.out.Send(protocol.TypeStart, protocol.Start{ID: "x", ArgvBytes: tc.argv, EnvBytes: tc.env}, []byte(tc.payload)))
		if _, err := p.finish(); codeOf(err) != "invalid_argument" {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

func TestProgramStdin(t *testing.T) {
	p := newHost(t).dial()
	rec := p.background(protocol.Start{OpenStdin: true}, "cat")
	if rec.State != protocol.StateRunning || rec.PID == 0 || rec.Command != "cat" {
		t.Errorf("%+v", rec)
	}
	for _, text := range []string{"one\n", "", "two\n"} {
		if n, err := p.type_(protocol.Stdin{ID: rec.ID, WaitMS: 10_000}, text); n != int64(len(text)) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	waitFor(t, func() bool { return p.poll(protocol.Attach{ID: rec.ID}).OutputBytes == 8 })
	if _, err := p.type_(protocol.Stdin{ID: rec.ID, Close: true}, "three"); err != nil {
		t.Error(err)
	}
	r := p.attach(rec.ID, 0)
	r.want(t, "one\ntwo\nthree", 0, protocol.CauseExited)
	if _, err := p.type_(protocol.Stdin{ID: rec.ID}, "x"); codeOf(err) != "conflict" {
		t.Errorf("after the end: %v", err)
	}
	if _, err := p.type_(protocol.Stdin{ID: "nobody"}, "x"); codeOf(err) != "not_found" {
		t.Errorf("of nobody: %v", err)
	}
	rec = p.background(protocol.Start{}, "sleep", "1000")
	if _, err := p.type_(protocol.Stdin{ID: rec.ID}, "x"); codeOf(err) != "conflict" {
		t.Errorf("not open: %v", err)
	}
	p.cancel(rec.ID)
}

// A program that does not read takes what a pipe holds, and the rest is told.
func TestProgramStdinUnread(t *testing.T) {
	p := newHost(t).dial()
	rec := p.background(protocol.Start{OpenStdin: true}, "sleep", "1000")
	n, err := p.type_(protocol.Stdin{ID: rec.ID, WaitMS: 50}, repeat("x", 1<<20))
	if err != nil || n < 4096 || n >= 1<<20 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := p.type_(protocol.Stdin{ID: rec.ID, WaitMS: 1, Close: true}, "x"); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	p.cancel(rec.ID)
	p.attach(rec.ID, 0).want(t, "", 130, protocol.CauseCanceled)
}

// What a program leaves in the background lives on and holds nothing up, also
// when it goes on to write.
func TestProgramLeavesDaemon(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	mark := filepath.Join(h.workspace, "wrote")
	r := p.program(protocol.Start{}, "sh", "-c", "setsid sh -c 'sleep 0.2; seq 20000 && touch wrote; exec sleep 4001."+pid+"' & echo up")
	r.want(t, "up\n", 0, protocol.CauseExited)
	if r.DurationUS > 5_000_000 {
		t.Errorf("%+v", r.Record)
	}
	waitFor(t, func() bool { return unix.Access(mark, 0) == nil })
	// It has no command line for a moment while it turns into sleep.
	waitFor(t, func() bool { return len(alive(t, "4001."+pid)) == 1 })
	killAll(alive(t, "4001."+pid))
}

// What was written before the end is there, however much, and a daemon that
// never stops writing does not add to it for ever.
func TestProgramOutputIsWhole(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	r := p.program(protocol.Start{}, "sh", "-c", "yes 4002."+pid+" | head -c 1000000; yes 4002."+pid+" & :")
	if len(r.stdout) < 1_000_000 || r.Cause != protocol.CauseExited || r.gaps > 0 {
		t.Errorf("%d bytes, %+v", len(r.stdout), r.Record)
	}
	killAll(alive(t, "4002."+pid))
}

// However the streams alternate, what is kept stays within the limit and each
// byte has its stream.
func TestProgramAlternates(t *testing.T) {
	p := newHost(t).dial()
	r := p.program(protocol.Start{}, "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo -$i >&2; done")
	if string(r.stdout) != "1\n2\n3\n4\n5\n6\n7\n8\n9\n" || string(r.stderr) != "-1\n-2\n-3\n-4\n-5\n-6\n-7\n-8\n-9\n" {
		t.Errorf("%q, %q", r.stdout, r.stderr)
	}
}

func TestProgramTimeout(t *testing.T) {
	for name, script := range map[string]string{
		"plain":        "echo before; sleep MARK",
		"ignores TERM": "trap '' TERM HUP INT; echo before; while :; do sleep MARK; done",
		"setsid":       "echo before; setsid sleep MARK & sleep MARK",
		"daemon":       "echo before; (setsid setsid sh -c 'trap \"\" TERM; sleep MARK; sleep MARK' &) ; sleep MARK",
		"stopped":      "echo before; kill -STOP $$; sleep MARK",
		"last words":   "trap 'echo after; exit 0' TERM; echo before; sleep MARK & wait",
		"root first":   "echo before; (trap '' TERM; setsid sleep MARK; sleep MARK) & (trap '' TERM; sleep MARK; sleep MARK) & sleep MARK",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			p := h.dial()
			other := p.background(protocol.Start{}, "sleep", "4013."+pid)
			r := p.program(protocol.Start{TimeoutMS: 1500, GraceMS: 200}, "sh", "-c", replaceMark(script, "4003."+pid))
			if r.Cause != protocol.CauseTimeout || r.ExitCode != 124 || !strings.HasPrefix(string(r.stdout), "before\n") || r.DurationUS > 15_000_000 {
				t.Errorf("%q, %+v", r.stdout, r.Record)
			}
			if left := alive(t, "4003."+pid); len(left) > 0 {
				t.Errorf("left: %v", left)
				killAll(left)
			}
			if got := p.recordOf(other.ID); got.State != protocol.StateRunning {
				t.Errorf("the other program: %+v", got)
			}
			p.cancel(other.ID)
			p.attach(other.ID, 0)
		})
	}
}

func TestProgramCancel(t *testing.T) {
	p := newHost(t).dial()
	rec := p.background(protocol.Start{GraceMS: 50}, "sh", "-c", "trap '' TERM; yes")
	p.cancel(rec.ID)
	if r := p.attach(rec.ID, 0); r.Cause != protocol.CauseCanceled || r.ExitCode != 130 {
		t.Errorf("%+v", r.Record)
	}
	p.cancel(rec.ID) // again is no error
}

func TestProgramSignal(t *testing.T) {
	p := newHost(t).dial()
	rec := p.background(protocol.Start{}, "sh", "-c", "trap 'echo caught; exit 3' USR1; echo up; while :; do sleep 0.05; done")
	waitFor(t, func() bool { return p.poll(protocol.Attach{ID: rec.ID, WaitMS: 1000}).OutputBytes > 0 })
	must(t, p.request(protocol.TypeSignal, protocol.Signal{ID: rec.ID, Signal: int(unix.SIGUSR1)}))
	if r := p.attach(rec.ID, 3); string(r.stdout) != "caught\n" || r.ExitCode != 3 || r.Cause != protocol.CauseExited {
		t.Errorf("%q, %+v", r.stdout, r.Record)
	}
	if err := p.request(protocol.TypeSignal, protocol.Signal{ID: rec.ID, Signal: 9}); codeOf(err) != "conflict" {
		t.Errorf("after the end: %v", err)
	}
	if err := p.request(protocol.TypeSignal, protocol.Signal{ID: rec.ID, Signal: 65}); codeOf(err) != "invalid_argument" {
		t.Errorf("no such signal: %v", err)
	}
	id := p.h.dial().start(protocol.Exec{}, "sleep 4004."+pid+"; echo $?")
	waitFor(t, func() bool { return len(alive(t, "4004."+pid)) == 1 })
	must(t, p.request(protocol.TypeSignal, protocol.Signal{ID: id, Signal: int(unix.SIGINT)}))
	p.attach(id, 0).want(t, "130\n", 0, protocol.CauseExited)
}

func TestProgramUsage(t *testing.T) {
	p := newHost(t).dial()
	rec := p.background(protocol.Start{}, "sh", "-c", "(while :; do :; done) & setsid sleep 1000 & wait")
	waitFor(t, func() bool {
		u := p.recordOf(rec.ID).Usage
		return u != nil && u.Processes == 3 && u.CPUUS >= 50_000 && u.MemoryBytes > 100_000
	})
	p.cancel(rec.ID)
	if u := p.attach(rec.ID, 0).Usage; u == nil || u.Processes != 0 || u.MemoryBytes == 0 {
		t.Errorf("%+v", u)
	}
}

func TestPoll(t *testing.T) {
	p := newHost(t).dial()
	rec := p.background(protocol.Start{OpenStdin: true}, "sh", "-c", "cat; echo end")
	begin := time.Now()
	if r := p.poll(protocol.Attach{ID: rec.ID, WaitMS: 30}); len(r.output) > 0 || r.State != protocol.StateRunning || time.Since(begin) < 30*time.Millisecond {
		t.Errorf("%+v after %v", r, time.Since(begin))
	}
	q, typed := p.h.dial(), make(chan error, 1)
	go func() {
		_, err := q.type_(protocol.Stdin{ID: rec.ID, WaitMS: 10_000, Close: true}, "0123456789")
		typed <- err
	}()
	var got []byte
	for offset := int64(0); offset < 14; {
		r := p.poll(protocol.Attach{ID: rec.ID, Offset: offset, MaxBytes: 3, WaitMS: 20_000})
		if len(r.output) < 1 || len(r.output) > 3 {
			t.Fatalf("%q at %d", r.output, offset)
		}
		got, offset = append(got, r.output...), offset+int64(len(r.output))
	}
	if err := <-typed; err != nil || string(got) != "0123456789end\n" {
		t.Errorf("%q, %v", got, err)
	}
	if r := p.poll(protocol.Attach{ID: rec.ID, Offset: 14, WaitMS: 20_000}); r.State != protocol.StateEnded || len(r.output) > 0 {
		t.Errorf("%+v", r)
	}
	if r := p.poll(protocol.Attach{ID: rec.ID, Offset: 99}); r.State != protocol.StateEnded || len(r.output) > 0 {
		t.Errorf("beyond the end: %+v", r)
	}
}

// A program whose reader is slow waits for it, and loses nothing.
func TestProgramWaitsForReader(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	id := p.ask(protocol.Start{OutputLimit: 64 << 10}, nil, "", "sh", "-c", "yes | head -c 3000000")
	waitFor(t, func() bool {
		before := h.dial().recordOf(id).OutputBytes
		return before > 64<<10/2 && h.dial().recordOf(id).OutputBytes == before
	})
	if rec := h.dial().recordOf(id); rec.State != protocol.StateRunning || rec.DroppedBytes > rec.OutputBytes {
		t.Errorf("%+v", rec)
	}
	r, err := p.finish()
	if err != nil || len(r.stdout) != 3_000_000 || r.gaps > 0 {
		t.Errorf("%d bytes, %d missing, %v", len(r.stdout), r.gaps, err)
	}
}

func TestOutputFile(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	long := bytes.Repeat([]byte("0123456789abcde\n"), 500_000)
	must(t, os.WriteFile(filepath.Join(h.workspace, "long"), long, 0o644))
	check := func(r reply, file string, want []byte) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(h.workspace, file))
		if err != nil || !bytes.Equal(got, want) || r.OutputFileError != "" || r.OutputFile != file {
			t.Errorf("%d bytes in %s, %v, %+v", len(got), file, err, r.Record)
		}
	}
	r := p.program(protocol.Start{OutputFile: "a/out", OutputLimit: 64 << 10}, "sh", "-c", "cat long; echo err >&2")
	if check(r, "a/out", r.output); !bytes.Equal(r.stdout, long) || string(r.stderr) != "err\n" {
		t.Errorf("%d and %d bytes", len(r.stdout), len(r.stderr))
	}
	rec := p.background(protocol.Start{OutputFile: "b", OutputLimit: 64 << 10}, "cat", "long")
	waitFor(t, func() bool { return p.recordOf(rec.ID).State == protocol.StateEnded })
	ended := p.recordOf(rec.ID)
	check(reply{Record: ended}, "b", long) // nobody was attached, and it is whole
	if ended.DroppedBytes == 0 {
		t.Errorf("%+v", ended)
	}
	check(p.run(protocol.Exec{OutputFile: "c"}, "echo shell; pwd"), "c", []byte("shell\n"+h.workspace+"\n"))
	check(p.run(protocol.Exec{OutputFile: "c"}, "true"), "c", nil) // replaced
	h.wantNoTemp()
	p.start(protocol.Exec{OutputFile: "/etc/no"}, "touch ran")
	if _, err := p.finish(); codeOf(err) != "permission_denied" {
		t.Error(err)
	}
	if unix.Access(filepath.Join(h.workspace, "ran"), 0) == nil {
		t.Error("it ran without its output file")
	}
}

// A full disk costs the file its end, not the command.
func TestOutputFileOnFullDisk(t *testing.T) {
	testenv.NeedsRoot(t)
	h := newHost(t)
	dir := filepath.Join(h.workspace, "small")
	must(t, os.Mkdir(dir, 0o755))
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	p := h.dial()
	r := p.program(protocol.Start{OutputFile: "small/out"}, "sh", "-c", "yes | head -c 2000000; exit 5")
	if len(r.stdout) != 2_000_000 || r.ExitCode != 5 || !strings.Contains(r.OutputFileError, "space") {
		t.Errorf("%d bytes, %+v", len(r.stdout), r.Record)
	}
	rec := p.program(protocol.Start{OutputFile: "small/out"}, "echo", "fits again")
	if rec.ExitCode != 0 {
		t.Errorf("%+v", rec)
	}
}

func TestShells(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	list := func() map[string]protocol.ShellInfo {
		must(t, p.out.Send(protocol.TypeShells, nil, nil))
		var l protocol.ShellList
		must(t, p.reply(protocol.TypeShellList, &l))
		m := map[string]protocol.ShellInfo{}
		for _, s := range l.Shells {
			m[s.Name] = s
		}
		return m
	}
	p.sh("cd /usr")
	p.run(protocol.Exec{Shell: "b"}, "exit 3")
	waitFor(t, func() bool { return list()["b"].PID != 0 })
	busy, queued := h.dial(), h.dial()
	first := busy.start(protocol.Exec{Shell: "b"}, "sleep 4005."+pid+" & setsid sleep 4005."+pid+" & sleep 4005."+pid)
	waitFor(t, func() bool { return len(alive(t, "4005."+pid)) == 3 })
	queued.start(protocol.Exec{Shell: "b"}, "echo never")
	waitFor(t, func() bool { return list()["b"].Queued == 1 })
	got := list()
	if a := got[""]; len(got) != 2 || a.Cwd != "/usr" || a.Exec != "" || a.PID == 0 || a.CreatedMS == 0 || a.Restarts != 0 {
		t.Errorf("%+v", got)
	}
	if b := got["b"]; b.Exec != first || b.Restarts != 1 || b.Cwd != h.workspace {
		t.Errorf("%+v", b)
	}
	must(t, p.request(protocol.TypeCloseShell, protocol.CloseShell{Name: "b"}))
	for _, q := range []*peer{busy, queued} {
		if r, err := q.finish(); err != nil || r.Cause != protocol.CauseCanceled {
			t.Errorf("%+v, %v", r.Record, err)
		}
	}
	if left := alive(t, "4005."+pid); len(left) > 0 {
		t.Errorf("left: %v", left)
		killAll(left)
	}
	if err := p.request(protocol.TypeCloseShell, protocol.CloseShell{Name: "b"}); codeOf(err) != "not_found" {
		t.Error(err)
	}
	p.run(protocol.Exec{Shell: "b"}, "pwd").want(t, h.workspace+"\n", 0, protocol.CauseExited)
	must(t, p.request(protocol.TypeCloseShell, protocol.CloseShell{}))
	if _, ok := list()[""]; ok {
		t.Error("the default shell is still listed")
	}
	p.sh("pwd").want(t, h.workspace+"\n", 0, protocol.CauseExited)
}

// A list of execs that does not fit into a header has the latest.
func TestRecordsFitIntoHeader(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	deep := strings.Repeat(repeat("d", 200)+"/", 18) + "end"
	must(t, os.MkdirAll(filepath.Join(h.workspace, deep), 0o755))
	for range 64 {
		p.program(protocol.Start{Cwd: deep}, "true", repeat("\x01", 300))
	}
	must(t, p.out.Send(protocol.TypeExecs, nil, nil))
	var l protocol.Records
	must(t, p.reply(protocol.TypeRecords, &l))
	if n := len(l.Execs); !l.Truncated || n < 30 || n > 60 || l.Execs[n-1].ID != "p64" || l.Execs[0].ID != fmt.Sprint("p", 65-n) {
		t.Errorf("%d execs, truncated: %v", n, l.Truncated)
	}
	if rec := p.recordOf("p64"); rec.Cause != protocol.CauseExited {
		t.Errorf("%+v", rec)
	}
}

// Stdin that comes while the program is being started waits for it.
func TestStdinBeforeTheProgramRuns(t *testing.T) {
	h := newHost(t)
	p, q := h.dial(), h.dial()
	for i := range 50 {
		id := fmt.Sprint("early", i)
		p.ask(protocol.Start{ID: id, OpenStdin: true}, nil, "", "cat")
		for {
			_, err := q.type_(protocol.Stdin{ID: id, WaitMS: 10_000, Close: true}, "hello")
			if err == nil {
				break
			}
			if code := codeOf(err); code != protocol.CodeNotFound { // the request was not read yet
				t.Fatalf("round %d: %v", i, err)
			}
		}
		if r, err := p.finish(); err != nil || string(r.output) != "hello" {
			t.Fatalf("round %d: %q, %v", i, r.output, err)
		}
	}
}
