// Package attack is the black-box battery: one test per case of the list in
// coverage, each a hostile client or hostile code in a session of a real
// daemon, reached by its API. After each one the guard asks whether anybody
// else was hurt. How the sandbox holds by its parts is the driver's to test;
// what only root of the host can break is no case.
package attack

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/attack/coverage"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// Environment variables that say what is attacked.
const (
	// programVar is a program to run as the daemon instead of this tree's: one
	// that lacks a protection, to see which cases notice.
	programVar = "SANDKASTEN_ATTACK_BIN"
	// configVar is further lines of the daemon's configuration.
	configVar = "SANDKASTEN_ATTACK_CONFIG"
	// driverVar is docker where the sandboxes are to be containers, on an engine of
	// the battery's own. Else they are native.
	driverVar = "SANDKASTEN_ATTACK_DRIVER"
	// casesVar is all where all cases of containers are to be tried; else they are
	// those of every run. With -run it has no say.
	casesVar = "SANDKASTEN_ATTACK_CASES"
	// weakenVar is handed on to the program: what it lacks.
	weakenVar = "SANDKASTEN_TEST_WEAKEN"
)

// configuration is what the daemon has beside its address: limits that a case
// reaches soon, and room for none but the cases.
const configuration = `
defaults: {cpu_limit: 1, mem_limit_mb: 256, pids_limit: 128, disk_limit_mb: 256, exec_timeout_ms: 30000}
exec: {kill_grace_seconds: 1}
`

// battery is what the cases share: one daemon, a session of its second owner
// that must not notice anything, and what the host has to lose.
type battery struct {
	life      *lifetime
	daemon    *blackbox.Daemon
	engine    *testenv.Engine // of the sandboxes; nil where they are native
	keyA      string          // of the owner of the cases
	keyB      string          // of the owner of the neighbour
	a, b      *sandkasten.Client
	neighbour *sandkasten.Session
	canaries  *canaries

	guarding sync.Mutex // held by the guard: the daemon, the neighbour and what follows change under it alone
	before   host       // as it was with nothing but the neighbour there; guarded by guarding
	running  int        // cases that have begun and not ended; guarded by guarding
	nodes    []string   // of the control groups of all daemons; guarded by guarding
	suspects []string   // the cases since the host was looked at with none running; guarded by guarding
}

// neighbourText is in the neighbour's /workspace/canary.
const neighbourText = "the neighbour's own"

var (
	starting sync.Mutex
	shared   *battery // guarded by starting; nil before the first case
)

// theBattery returns the one that all cases share, started with the first.
func theBattery(t *testing.T) *battery {
	t.Helper()
	testenv.NeedsRoot(t)
	starting.Lock()
	defer starting.Unlock()
	if shared != nil {
		return shared
	}
	life := newLifetime(t)
	w, err := start(life)
	if err != nil {
		t.Fatal(errors.Join(err, life.end()))
	}
	shared = w
	return w
}

// start makes a battery that lives as long as life.
func start(life *lifetime) (w *battery, err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case fatal:
			err = cause
		default:
			panic(cause)
		}
	}()
	w = &battery{life: life, canaries: plantCanaries(life), keyA: "sk_a" + rand.Text(), keyB: "sk_b" + rand.Text()}
	if os.Getenv(driverVar) == "docker" {
		w.engine = testenv.StartEngine(life)
	}
	w.daemon = blackbox.Start(life, blackbox.Options{
		Program: os.Getenv(programVar), Config: w.config(),
		Env:    []string{weakenVar + "=" + os.Getenv(weakenVar)},
		Images: blackbox.ImportedImages(life), // no other test has these files, whatever the attacks achieve
	})
	w.nodes = []string{testenv.NodeName(w.daemon.Data)}
	w.a, w.b = w.daemon.Client(w.keyA), w.daemon.Client(w.keyB)
	life.Cleanup(func() {
		if w.daemon.Running() && w.neighbour != nil {
			destroy(life, w.neighbour)
		}
	})
	return w, w.settle(life.Context())
}

// contained reports whether the sandboxes are containers. What a case does
// otherwise there is said in coverage.OnDocker.
func (w *battery) contained() bool { return w.engine != nil }

// config is what every daemon of the battery is told.
func (w *battery) config() string {
	text := fmt.Sprintf("%s%s\napi_keys: [{owner: a, key: %s}, {owner: b, key: %s}]\n", configuration, os.Getenv(configVar), w.keyA, w.keyB)
	if w.engine != nil {
		text += fmt.Sprintf("driver: docker\ndocker: {host: %q}\n", w.engine.Host)
	}
	return text
}

// settle makes the neighbour's session and notes what the host is like then.
func (w *battery) settle(ctx context.Context) error {
	var err error
	w.neighbour, err = w.b.CreateSession(ctx, &sandkasten.CreateOptions{TTL: time.Hour})
	if err != nil {
		return fmt.Errorf("the neighbour: %w", err)
	}
	err = w.neighbour.Write(ctx, "canary", strings.NewReader(neighbourText), nil)
	if err != nil {
		return fmt.Errorf("the neighbour: %w", err)
	}
	// One session that comes and goes, so that all is there that stays.
	s, err := w.a.CreateSession(ctx, nil)
	if err != nil {
		return err
	}
	if err := s.Destroy(ctx); err != nil {
		return err
	}
	if w.running > 0 {
		return nil // what the host is like beside other cases says nothing
	}
	w.before, err = w.steadyHost()
	return err
}

// mend makes what a case has broken anew, so that the next one counts too. Its
// caller holds guarding.
func (w *battery) mend(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w.canaries.replant(t)
	if !w.daemon.Running() {
		if err := w.daemon.TryStart(); err != nil {
			t.Fatalf("the daemon cannot be started again: %v", err)
		}
	}
	if err := w.neighbour.Destroy(ctx); err != nil && !errors.Is(err, sandkasten.ErrNotFound) {
		t.Logf("remove the neighbour: %v", err)
	}
	if err := w.settle(ctx); err != nil {
		t.Errorf("the battery cannot be mended: %v", err)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	if run := flag.Lookup("test.run"); os.Getenv(driverVar) == "docker" && run.Value.String() == "" {
		if err := run.Value.Set(coverage.DockerPattern(os.Getenv(casesVar) == "all")); err != nil {
			panic(err)
		}
	}
	testenv.Main(endOfBattery{m})
}

// endOfBattery ends the battery behind the last test.
type endOfBattery struct{ tests *testing.M }

func (e endOfBattery) Run() int {
	code := e.tests.Run()
	starting.Lock()
	defer starting.Unlock()
	if shared == nil {
		return code
	}
	if err := shared.life.end(); err != nil {
		fmt.Fprintln(os.Stderr, "the end of the battery:", err)
		code = max(code, 1)
	}
	return code
}

// lifetime is the testing.TB of what outlives the test that starts it.
type lifetime struct {
	testing.TB // of the first test; only what is not below is called, and before its end
	context    context.Context
	cancel     context.CancelFunc

	mu       sync.Mutex
	cleanups []func() // guarded by mu
	failures []error  // guarded by mu
}

func newLifetime(t *testing.T) *lifetime {
	l := &lifetime{TB: t}
	l.context, l.cancel = context.WithCancel(context.Background())
	return l
}

// end does what was left to the end, the last first, and returns what failed.
func (l *lifetime) end() error {
	l.cancel()
	for {
		l.mu.Lock()
		if len(l.cleanups) == 0 {
			defer l.mu.Unlock()
			return errors.Join(l.failures...)
		}
		last := l.cleanups[len(l.cleanups)-1]
		l.cleanups = l.cleanups[:len(l.cleanups)-1]
		l.mu.Unlock()
		l.do(last)
	}
}

// do is one clean-up, behind whose failure the others are done all the same.
func (l *lifetime) do(cleanup func()) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case fatal:
			l.Error(cause)
		default:
			panic(cause)
		}
	}()
	cleanup()
}

func (l *lifetime) Context() context.Context { return l.context }

func (l *lifetime) Cleanup(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, f)
}

func (l *lifetime) Helper()                   {}
func (l *lifetime) Log(args ...any)           { fmt.Fprintln(os.Stderr, args...) }
func (l *lifetime) Logf(f string, a ...any)   { l.Log(fmt.Sprintf(f, a...)) }
func (l *lifetime) Errorf(f string, a ...any) { l.Error(fmt.Sprintf(f, a...)) }
func (l *lifetime) Fatalf(f string, a ...any) { l.Fatal(fmt.Sprintf(f, a...)) }

func (l *lifetime) Error(args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, errors.New(strings.TrimSpace(fmt.Sprintln(args...))))
}

// Fatal ends what is being done for the battery: its start or its end.
func (l *lifetime) Fatal(args ...any) { panic(fatal{errors.New(fmt.Sprint(args...))}) }

// fatal is what Fatal panics with.
type fatal struct{ error }

func (l *lifetime) TempDir() string {
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			l.Error(err)
		}
	})
	return dir
}
