package fault

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// runner is the process of a session's runner.
func (h *host) runner(s *sandkasten.Session) int {
	h.t.Helper()
	pid := h.box(s.ID).Process.PID
	if pid == 0 {
		h.t.Fatalf("the sandbox of session %s has no runner on record", s.ID)
	}
	return pid
}

// kill signals a process of the host.
func (h *host) kill(pid int, s syscall.Signal) {
	h.t.Helper()
	if pid <= 0 { // 0 would be the test itself, and all that started it
		h.t.Fatalf("process %d is none", pid)
	}
	if err := syscall.Kill(pid, s); err != nil {
		h.t.Fatalf("signal %d: %v", pid, err)
	}
}

// A daemon that is killed by kill -9 with much in flight takes up all sessions
// within ten seconds, with their shells. Commands go on and are followed again,
// and an upload is there whole or not at all.
func TestF03_KillWithWorkInFlight(t *testing.T) {
	const sessions, execs, streams = 50, 10, 3
	h := start(t, "")
	all := make([]*sandkasten.Session, sessions)
	for i := range all {
		all[i] = h.create(nil)
		h.sh(all[i], fmt.Sprintf("cd /tmp; v=%d; export v; sleep 1000 &", i))
	}
	var flight sync.WaitGroup
	for i := range execs {
		flight.Go(func() {
			all[i].Exec(t.Context(), "echo begun > begun; until [ -e go ]; do sleep 0.05; done; echo $v > done", &sandkasten.ExecOptions{Shell: "work"})
		})
	}
	shown := make([]bytes.Buffer, streams)
	for i := range streams {
		flight.Go(func() {
			stream := all[execs+i].ExecStream("for i in $(seq 40); do echo $i; sleep 0.1; done", nil)
			// Its client comes back by itself when the daemon is there again.
			end, err := patientStream(t.Context(), stream, &shown[i])
			if err != nil || end.ExitCode != 0 {
				t.Errorf("stream %d ended with %+v, %v", i, end, err)
			}
		})
	}
	for i := range 2 {
		flight.Go(func() {
			all[20+i].Write(t.Context(), "/workspace/big", &slow{left: 40 << 20}, &sandkasten.WriteOptions{Size: 40 << 20})
		})
	}
	terminal, err := all[30].OpenTerminal(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	for i := range execs {
		h.eventually(settle, func() error {
			_, err := all[i].Stat(t.Context(), "begun", nil)
			return err
		})
	}
	time.Sleep(time.Second) // in the middle of streams and uploads
	h.Kill()
	began := time.Now()
	h.Start()
	took := time.Since(began)
	if took > 10*time.Second { // the better of two: others may be busy on the host
		h.Kill()
		began = time.Now()
		h.Start()
		took = time.Since(began)
	}
	if took > 10*time.Second {
		t.Errorf("it took %s to take up %d sessions", took, sessions)
	}
	for i, s := range all {
		if got := h.sh(s, "echo $v in $PWD; jobs | grep -c Running"); got != fmt.Sprintf("%d in /tmp\n1", i) {
			t.Errorf("shell %d: %q", i, got)
		}
	}
	for i := range execs {
		h.sh(all[i], "touch /workspace/go; until [ -e /workspace/done ]; do sleep 0.05; done")
	}
	back, err := all[30].AttachTerminal(t.Context(), terminal.ID(), nil)
	if err != nil {
		t.Errorf("the terminal: %v", err)
	} else {
		back.Close()
	}
	flight.Wait()
	for i := range streams {
		if got := strings.Fields(shown[i].String()); len(got) != 40 || got[39] != "40" {
			t.Errorf("stream %d shows %q", i, got)
		}
	}
	for i := range 2 { // the runner removes what it had of it, once it sees the end of the link
		h.eventually(settle, func() error {
			got := h.sh(all[20+i], "ls -A /workspace; stat -c %s /workspace/big 2>/dev/null || true")
			if got != "" && got != "big\n"+strconv.Itoa(40<<20) {
				return fmt.Errorf("of an upload that was cut off there is %q", got)
			}
			return nil
		})
	}
	h.oracle()
	h.wantNothing()
}

// patientStream follows a command over restarts of the daemon.
func patientStream(ctx context.Context, s *sandkasten.ExecStream, out io.Writer) (sandkasten.ExecEnd, error) {
	for end := time.Now().Add(settle); ; time.Sleep(50 * time.Millisecond) {
		got, err := s.Copy(ctx, out, out)
		if err == nil || time.Now().After(end) || s.ExecID() == "" {
			return got, err
		}
	}
}

// slow is a body that takes a few seconds.
type slow struct{ left int }

func (s *slow) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(5 * time.Millisecond)
	n := min(len(p), s.left, 64<<10)
	s.left -= n
	return n, nil
}

// Sessions go on while a daemon is stopped as by a service manager.
func TestF04_Terminate(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	h.sh(s, "v=kept; (while sleep 0.05; do date +%N > tick; done) &")
	before := h.runner(s)
	h.Stop()
	h.Start()
	if got := h.sh(s, "echo $v"); got != "kept" || h.runner(s) != before {
		t.Errorf("after the restart the shell has %q, in runner %d, before %d", got, h.runner(s), before)
	}
	h.oracle()
	h.wantNothing()
}

// A service manager that kills all that it finds ends the sessions with the
// daemon; the next one says so and cleans up.
func TestF04_KillOfTheWholeService(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	lost, stopped := h.create(nil), h.create(nil)
	h.sh(lost, "sleep 1000 &")
	if _, err := stopped.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Kill()
	h.killAll()
	h.Start()
	// Its files are still there: the host did not restart.
	info, err := lost.Refresh(t.Context())
	if err != nil || info.Status != "stopped" || info.EndReason == "" {
		t.Errorf("the session is %s (%s): %v", info.Status, info.EndReason, err)
	}
	h.wantStatus(stopped, "stopped", settle)
	h.oracle()
	h.wantNothing()
}

// killAll kills every process of every sandbox.
func (h *host) killAll() {
	h.t.Helper()
	h.killIn("")
}

// killIn kills every process of one control group, or of all.
func (h *host) killIn(group string) {
	h.t.Helper()
	h.eventually(settle, func() error {
		all, err := groups(h.node())
		left := 0
		for name, pids := range all {
			if group != "" && name != group {
				continue
			}
			left += len(pids)
			for _, pid := range pids {
				syscall.Kill(pid, syscall.SIGKILL) // it may have ended with another
			}
		}
		if err == nil && left > 0 {
			err = fmt.Errorf("%d processes are left", left)
		}
		return err
	})
}

// A daemon that is killed over and over while clients work comes to rest with
// as many descriptors, directories and control groups as a new one.
func TestF05_CrashLoop(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	h.destroy(h.create(nil)) // which has runners prepared for the next ones
	fresh, before := h.steadyFiles()
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				s, err := h.c.CreateSession(ctx, nil)
				if err != nil {
					time.Sleep(20 * time.Millisecond)
					continue
				}
				s.Exec(ctx, "head -c 100000 /dev/urandom > f", nil)
				s.Destroy(ctx)
			}
		})
	}
	kills := 0
	for end := time.Now().Add(crashLoop); time.Now().Before(end); kills++ {
		time.Sleep(500 * time.Millisecond)
		h.Kill()
		h.Start()
	}
	stop()
	load.Wait()
	t.Logf("%d kills", kills)
	h.destroyAll()
	h.destroy(h.create(nil)) // as in the beginning
	p := h.inOrder()
	h.eventually(settle, func() error { // clients' connections come and go
		if now, of := h.openFiles(); now > fresh+10 {
			return fmt.Errorf("%d descriptors are open, %d in the beginning: %v, and %v then", now, fresh, of, before)
		}
		return nil
	})
	if len(p.Boxes) > 0 || len(p.groups) > 1 {
		t.Errorf("left are sandboxes %v and control groups %v", p.Boxes, p.groups)
	}
	h.oracle()
	h.wantNothing()
}

// crashLoop is how long the daemon is killed.
const crashLoop = time.Minute

// openFiles counts the daemon's descriptors by what they are of.
// steadyFiles is openFiles once it has not changed for two seconds: runners for the next
// sessions are prepared in the background.
func (h *host) steadyFiles() (n int, of map[string]int) {
	h.t.Helper()
	for same := 0; same < 20; time.Sleep(100 * time.Millisecond) {
		now, kinds := h.openFiles()
		if same++; now != n {
			same = 0
		}
		n, of = now, kinds
	}
	return n, of
}

func (h *host) openFiles() (n int, of map[string]int) {
	h.t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(h.PID()), "fd")
	all, err := os.ReadDir(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	of = map[string]int{}
	number := regexp.MustCompile("[0-9]+") // of the socket, the disk
	for _, fd := range all {
		target, err := os.Readlink(filepath.Join(dir, fd.Name()))
		if err != nil {
			continue // it has just been closed
		}
		of[number.ReplaceAllString(target, "N")]++
		n++
	}
	return n, of
}

// A runner that is killed stops its session within five seconds, with a reason, and its files are kept;
// the command in it ends with an error.
func TestF07_RunnerKilled(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s, other := h.create(nil), h.create(nil)
	h.sh(s, "echo kept > f")
	ended := make(chan error, 1)
	go func() {
		r, err := s.Exec(t.Context(), "sleep 1000", nil)
		if err == nil && (r.Cause != "exited" || r.ExitCode != 0) {
			err = fmt.Errorf("%s", r.Cause)
		}
		ended <- err
	}()
	time.Sleep(300 * time.Millisecond)
	h.kill(h.runner(s), syscall.SIGKILL)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the command in it counts as a success")
		}
	case <-time.After(settle):
		t.Error("the command in it does not end")
	}
	if info := h.wantStatus(s, "stopped", settle); !strings.Contains(info.EndReason, "its runner died") {
		t.Errorf("the reason is %q", info.EndReason)
	}
	if _, err := s.Start(t.Context()); err != nil {
		t.Fatalf("start: %v", err)
	}
	if got := h.sh(s, "cat f"); got != "kept" {
		t.Errorf("its file is %q", got)
	}
	h.sh(other, "true")
	h.oracle()
	h.wantNothing()
}

// A runner that is stopped holds up nobody else: a command in it ends with its
// own time, the session can be destroyed, and the daemon has the runner go on.
func TestF07_RunnerStopped(t *testing.T) {
	t.Parallel()
	h := start(t, "exec: {kill_grace_seconds: 1}")
	s, doomed, other := h.create(nil), h.create(nil), h.create(nil)
	for _, one := range []*sandkasten.Session{s, doomed} {
		h.sh(one, "v=kept")
		h.kill(h.runner(one), syscall.SIGSTOP)
	}
	began := time.Now()
	_, err := s.Exec(t.Context(), "true", &sandkasten.ExecOptions{Timeout: time.Second})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a command in it: %v after %s", err, took)
	}
	h.sh(other, "true")
	h.destroy(doomed)
	// Nobody but the daemon has it go on.
	h.eventually(settle, func() error {
		r, err := s.Exec(t.Context(), "echo $v", nil)
		if err == nil && strings.TrimSpace(r.Output) != "kept" {
			err = fmt.Errorf("its shell prints %q", r.Output)
		}
		return err
	})
	h.oracle()
	h.wantNothing()
}

// The end of a shell, however it comes, is told, and the next command has a new
// one.
func TestF08_ShellEnds(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	for name, cmd := range map[string]string{
		"killed":      "kill -9 $$",
		"replaced":    "exec true",
		"by a signal": "kill -SEGV $$",
		"out of memory": "python3 -c 'import os; open(\"/proc/%d/oom_score_adj\" % os.getppid(), \"w\").write(\"1000\")'; " +
			"a=x; while :; do a=$a$a; done",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.Exec(t.Context(), cmd, &sandkasten.ExecOptions{Timeout: 20 * time.Second}); err != nil {
				t.Fatalf("the command that ends it: %v", err)
			}
			r, err := s.Exec(t.Context(), "echo next", nil)
			if err != nil || strings.TrimSpace(r.Output) != "next" || !r.ShellRestarted {
				t.Errorf("the next command: %+v, %v", r, err)
			}
		})
	}
	h.oracle()
	h.wantNothing()
}

// A command that is killed for want of memory says so, and its session goes on.
func TestF09_OutOfMemory(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	r, err := s.Exec(t.Context(), "python3 -c 'a = bytearray(1 << 30)'", &sandkasten.ExecOptions{Timeout: 30 * time.Second})
	if err != nil || r.Cause != "oom_killed" {
		t.Errorf("the command: %+v, %v", r, err)
	}
	h.sh(s, "true")
	if stats, err := s.Stats(t.Context()); err != nil || stats.OOMKills == 0 {
		t.Errorf("stats count %d kills: %v", stats.OOMKills, err)
	}
	h.oracle()
	h.wantNothing()
}

// When the host is out of memory, what runs in sandboxes goes before the daemon.
func TestF09_SandboxesGoBeforeTheDaemon(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	ours := h.oomScore(h.PID())
	if runner := h.oomScore(h.runner(s)); runner <= ours {
		t.Errorf("oom_score_adj of the runner is %d, of the daemon %d", runner, ours)
	}
	inside, err := strconv.Atoi(h.sh(s, "cat /proc/self/oom_score_adj"))
	if err != nil || inside <= ours {
		t.Errorf("oom_score_adj of a command is %d, of the daemon %d: %v", inside, ours, err)
	}
	h.wantNothing()
}

func (h *host) oomScore(pid int) int {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"))
	if err != nil {
		h.t.Fatal(err)
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		h.t.Fatal(err)
	}
	return score
}

// A process that has got the number of a runner that died is left alone.
func TestF22_NumberOfAnotherProcess(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	was := h.runner(s)
	h.Kill()
	h.killAll()
	innocent := h.sleeper("sleep", "1000")
	file := filepath.Join(h.Data, "sandboxes", s.ID, "state.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), fmt.Sprintf(`"pid":%d`, was), fmt.Sprintf(`"pid":%d`, innocent), 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil || changed == string(text) {
		t.Fatal(err, changed)
	}
	h.Start()
	h.destroy(s)
	if err := syscall.Kill(innocent, 0); err != nil {
		t.Errorf("the process that has its number now: %v", err)
	}
	h.oracle()
	h.wantNothing()
}

// sleeper starts a program of ours that ends with the test, and returns its
// process.
func (h *host) sleeper(name string, args ...string) int {
	h.t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		cmd.Process.Kill() // a test may have ended it
		cmd.Wait()         // by the signal
	})
	return cmd.Process.Pid
}
