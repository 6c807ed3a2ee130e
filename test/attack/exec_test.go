package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// Section E: what a command does to outlive its time. The daemon gives it a
// second between TERM and KILL.

// timesOut runs a command that has a second, and wants its answer in time and
// nothing of it left. gone is a pattern of ps's for what it started.
func (b *box) timesOut(command, gone string) {
	b.t.Helper()
	const given, grace, more = time.Second, time.Second, 3 * time.Second
	b.x(`true`) // the shell is there
	start := time.Now()
	r := b.exec(command, sandkasten.ExecOptions{Timeout: given})
	if took := time.Since(start); !r.TimedOut || r.Cause != "timeout" || took > given+grace+paced(more) {
		b.t.Errorf("%.80q ended as %q after %s", command, r.Cause, took.Round(time.Millisecond))
	}
	b.next()
	if out := b.x(`ps -eo args= | grep -E '` + gone + `' | grep -v grep`); out != "" {
		b.t.Errorf("of %.80q lives on:\n%s", command, out)
	}
}

// E01: what a command started is gone with it, in whatever session or group.
func TestE01_Detached(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.timesOut(`setsid sh -c 'sleep 999 & sleep 999' & (nohup sleep 999 >/dev/null 2>&1 &); set -m; sleep 999 & python3 -c '
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(999)
    os._exit(0)
time.sleep(999)'`, `999`)
}

// E02: ignoring every signal that can be ignored helps as long as the grace is.
func TestE02_IgnoredSignals(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.timesOut(`trap '' TERM INT HUP QUIT; while :; do :; done`, `nothing`)
	b.timesOut(`sh -c "trap '' TERM INT HUP QUIT; while :; do sleep 998; done"`, `998`)
}

// E03: a command that stands still is ended like one that runs, the shell
// itself too.
func TestE03_Stopped(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.timesOut(`sleep 997 & kill -STOP $!; sh -c 'kill -STOP $$'`, `997`)
	b.timesOut(`sleep 997 & kill -STOP $$`, `997`)
	b.timesOut(`python3 -c 'import os; os.kill(-1, 19)'; sleep 997`, `997`)
	b.timesOut(`setsid sh -c 'kill -STOP $$; sleep 997' & sleep 997`, `997`) // which the kernel does not let go on
}

// E04: the client has its answer in time though a process waits where signals
// do not reach it: for a child of vfork, which waits for a pipe's other end.
func TestE04_Uninterruptible(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.timesOut(`mkfifo p; python3 -c '
import os
os.posix_spawn("/bin/sleep", ["sleep", "996"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "p", os.O_RDONLY, 0)])'`, `996`)
}

// E05: forking faster than one can be killed does not help.
func TestE05_ForkAndDie(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.timesOut(`for i in 1 2 3 4; do sh -c 'while :; do (sleep 0.995 &) ; done' & done 2>/dev/null; sleep 995`, `995`)
	// Each is a process that is another one before it can be killed.
	b.timesOut(`for i in 1 2; do python3 -c '
import ctypes
c = ctypes.CDLL(None)
while True: c.fork() and c._exit(0)' hop995 & done; sleep 995`, `995`)
	b.timesOut(`for i in 1 2 3 4; do sh -c 'trap "" TERM; while :; do (sleep 0.995 &) ; done' & done 2>/dev/null; sleep 995`, `995`)
	b.inBackground(`for i in 1 2 3 4; do sh -c 'while :; do (sleep 0.995 &) ; done' & done 2>/dev/null; sleep 995`, sandkasten.ExecOptions{Shell: "race"})
	time.Sleep(300 * time.Millisecond)
	b.endsSoon("the end of the session", 5*time.Second)
}

// E06: ending a session in the middle of what it is doing ends that with a
// definite answer, and leaves nothing.
func TestE06_DestroyMeanwhile(t *testing.T) {
	t.Parallel()
	b := attack(t)
	s := b.session
	busy := map[string]func() error{
		"upload": func() error {
			slow, w := io.Pipe()
			time.AfterFunc(2*time.Second, func() { w.Close() })
			return gone(s.Write(t.Context(), "slow", slow, &sandkasten.WriteOptions{Size: 1 << 20}))
		},
		"snapshot": func() error {
			for {
				if _, err := s.Snapshot(t.Context(), nil); err != nil {
					return gone(err)
				}
			}
		},
		"watch": func() error {
			for _, err := range s.Watch(t.Context(), "/workspace", nil) {
				if err != nil {
					return gone(err)
				}
			}
			return nil
		},
	}
	const shells = 8
	for i := range shells {
		busy[fmt.Sprint("exec ", i)] = func() error {
			r, err := s.Exec(t.Context(), fmt.Sprintf("touch begun%d; sleep 994", i), &sandkasten.ExecOptions{Shell: fmt.Sprint("shell", i)})
			if err == nil && r.Cause != "sandbox_gone" {
				return fmt.Errorf("it ended as %q", r.Cause)
			}
			if errors.Is(err, sandkasten.ErrConflict) { // says that the session is ending
				return nil
			}
			return err
		}
	}
	var working sync.WaitGroup
	for name, work := range busy {
		working.Go(func() {
			if err := work(); err != nil {
				t.Errorf("%s while the session ends: %v", name, err)
			}
		})
	}
	for i := range shells {
		b.soon("the beginning of a command", 10*time.Second, func(ctx context.Context) error {
			for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
				if _, err := s.Stat(ctx, fmt.Sprint("begun", i), nil); err == nil {
					return nil
				}
			}
			return ctx.Err()
		})
	}
	time.Sleep(500 * time.Millisecond)
	var ending sync.WaitGroup
	for range 3 {
		ending.Go(func() { destroy(t, s) })
	}
	ending.Wait()
	working.Wait()
	if _, err := s.Exec(t.Context(), "true", nil); gone(err) != nil || err == nil {
		t.Errorf("a command after the end: %v", err)
	}
}

// gone is nil for an error by which the daemon says that a session has ended,
// and for none.
func gone(err error) error {
	var broken *sandkasten.ConnectionError
	switch {
	case err == nil, errors.Is(err, sandkasten.ErrNotFound), errors.Is(err, sandkasten.ErrConflict), errors.Is(err, sandkasten.ErrUnavailable):
		return nil
	case errors.As(err, &broken) && broken.Sent: // an upload that is no longer read
		return nil
	}
	return err
}

// E07: how a command ended is told as shells tell it.
func TestE07_ExitCodes(t *testing.T) {
	t.Parallel()
	b := attack(t)
	for command, want := range map[string]int{
		`sh -c 'exit 300'`:             44,
		`sh -c 'kill -9 $$'`:           137,
		`sh -c 'kill -SEGV $$'`:        139,
		`/etc/passwd`:                  126,
		`no-such-program`:              127,
		`(exit 3)`:                     3,
		`exit 7`:                       7,
		`python3 -c 'exit(-1)'`:        255,
		`sh -c 'kill -STOP $$' & true`: 0,
	} {
		if r := b.exec(command, sandkasten.ExecOptions{}); r.ExitCode != want {
			t.Errorf("%s: %d (%s), want %d", command, r.ExitCode, r.Cause, want)
		}
		b.next()
	}
	for command, want := range map[string]int{`exec kill -9 $$`: 9, `kill -SEGV $$`: 11} {
		r, err := b.session.RunProcess(t.Context(), []string{"sh", "-c", command}, nil)
		if err != nil || r.Signal != want || r.ExitCode != 128+want {
			t.Errorf("%s: %d, signal %d, %v", command, r.ExitCode, r.Signal, err)
		}
	}
}

// E08: of many commands at once each has its own output, also when half of
// them are canceled.
func TestE08_ManyAtOnce(t *testing.T) {
	t.Parallel()
	b := attack(t)
	const many = 40
	var running sync.WaitGroup
	for i := range many {
		running.Go(func() {
			text := fmt.Sprintf("output-%d-", i)
			p, err := b.session.StartProcess(t.Context(), []string{"sh", "-c", `i=0; while [ $i -lt 200 ]; do echo ` + text + `$i; i=$((i+1)); done; [ ` + fmt.Sprint(i%2) + ` = 0 ] || sleep 993`}, nil)
			if err != nil {
				t.Errorf("start %d: %v", i, err)
				return
			}
			if i%2 == 1 {
				defer p.Wait(t.Context())
				defer p.Kill(t.Context())
				return
			}
			detail, err := p.Wait(t.Context())
			if err != nil || strings.Count(detail.Output, "\n") != 200 || strings.Count(detail.Output, text) != 200 {
				t.Errorf("process %d: %d lines, %v", i, strings.Count(detail.Output, "\n"), err)
			}
		})
	}
	running.Wait()
	b.next()
}
