package attack

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// liars is a daemon whose runners lie where the session's environment says so.
type liars struct {
	t      *testing.T
	daemon *blackbox.Daemon
	client *sandkasten.Client
	honest *sandkasten.Session
	memory int // of the daemon before
}

func newLiars(t *testing.T) *liars {
	t.Helper()
	b := attack(t) // for the guard
	b.next()
	l := &liars{t: t, daemon: blackbox.Start(t, blackbox.Options{
		Program: liar(t), Env: []string{weakenVar + "=" + os.Getenv(weakenVar)}, Config: configuration,
		Images: filepath.Join(b.daemon.Data, "images"),
	})}
	b.own(l.daemon)
	l.client = l.daemon.Client("")
	l.honest = l.create("")
	l.wantHonest()
	l.memory = resident(t, l.daemon.PID())
	return l
}

// liar builds the daemon with the lying runner in it, and for a control that takes
// protections away as those are built.
func liar(t *testing.T) string {
	t.Helper()
	runner := testenv.Build(t, "./test/attack/testdata/liar")
	if os.Getenv(weakenVar) != "" {
		return testenv.ProgramWith(t, runner, "with-liar-weaken", "weaken")
	}
	return testenv.ProgramWith(t, runner, "with-liar")
}

func (l *liars) create(lie string) *sandkasten.Session {
	l.t.Helper()
	var o sandkasten.CreateOptions
	if lie != "" {
		o.Env = map[string]string{"LIE": lie}
	}
	s, err := l.client.CreateSession(l.t.Context(), &o)
	if err != nil {
		l.t.Fatalf("create a session with %q: %v", lie, err)
	}
	l.t.Cleanup(func() { destroy(l.t, s) })
	return s
}

// wantHonest wants nothing of what the liars do to be noticed elsewhere.
func (l *liars) wantHonest() {
	l.t.Helper()
	start := time.Now()
	r, err := l.honest.Exec(l.t.Context(), "echo ok", nil)
	if took := time.Since(start); err != nil || r.Output != "ok\n" || took > paced(2*time.Second) {
		l.t.Errorf("the honest session: %q, %v, after %s", r.Output, err, took)
	}
	if now := resident(l.t, l.daemon.PID()); l.memory > 0 && now > l.memory+64<<10 {
		l.t.Errorf("the daemon had %d KB and has %d", l.memory, now)
	}
}

// N03: a runner that breaks the protocol in any way fails its own session, in
// time, and costs the daemon neither memory nor its other sessions.
func TestN03_HostileRunner(t *testing.T) {
	l := newLiars(t)
	var lying sync.WaitGroup
	for _, lie := range []string{
		"long-line", "silence", "many-frames", "wrong-frames", "half-frames", "wrong-id", "negative-code", "huge-code", "no-number",
		"deep", "not-utf8", "claims", "huge-payload", "negative-bytes",
	} {
		s := l.create(lie)
		lying.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			start := time.Now()
			r, err := s.Exec(ctx, "echo unheard", &sandkasten.ExecOptions{Timeout: time.Second})
			if ctx.Err() != nil {
				t.Errorf("%s: no answer after %s", lie, time.Since(start))
			}
			if err == nil && (r.ExitCode < 0 || r.ExitCode > 255 || len(r.Output) > 4<<20 || r.ExecID == "another") {
				t.Errorf("%s: %+v", lie, r)
			}
			t.Logf("%s: after %s: %d, %.60q, %v", lie, time.Since(start).Round(10*time.Millisecond), r.ExitCode, r.Output, err)
		})
	}
	done := make(chan struct{})
	go func() { lying.Wait(); close(done) }()
	for waiting := true; waiting; {
		l.wantHonest()
		select {
		case <-done:
			waiting = false
		case <-time.After(200 * time.Millisecond):
		}
	}
	l.wantHonest()
}

// N07: what a runner says is in a file are bytes for the client, no more than
// it asked for, and name nothing on the host.
func TestN07_HostileFiles(t *testing.T) {
	l := newLiars(t)
	s := l.create("endless-file")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	content, err := s.Read(ctx, "f", &sandkasten.ReadOptions{MaxBytes: 1000})
	if err == nil {
		n, err := io.Copy(io.Discard, content)
		if n > 1000 {
			t.Errorf("of 1000 bytes %d came, %v", n, err)
		}
		content.Close()
	}
	for _, call := range []func() error{
		func() error { _, err := s.Stat(ctx, "f", nil); return err },
		func() error { return s.Write(ctx, "f", strings.NewReader("x"), nil) },
		func() error { _, err := s.Glob(ctx, "*", nil); return err },
	} {
		if call() == nil {
			t.Error("the lie was taken for an answer")
		}
	}
	l.wantHonest()
}
