package runtimetest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

// Options says how a driver is to be tested.
type Options struct {
	// Image is the digest of an image with bash and coreutils that the driver
	// has.
	Image string

	// Driver is whose sandboxes are tested where there are several: runtime.Native
	// if it is empty.
	Driver string

	// Kill kills the runner of a sandbox from outside. If it is nil, the tests
	// of a runner's death are left out.
	Kill func(t *testing.T, id runtime.ID)

	// Unlimited leaves out the tests of Limits, for a driver that enforces none.
	Unlimited bool

	// NoWorkspaces leaves out the tests of workspaces, for a driver that is no
	// runtime.WorkspaceKeeper.
	NoWorkspaces bool

	// NoForks leaves out the tests of forks, for a driver that is no
	// runtime.Forker.
	NoForks bool

	// NoRoots leaves out the tests of snapshots of the root, for a driver whose
	// sandboxes have none of their own.
	NoRoots bool

	// Only names the tests to run. Without it all run.
	Only []string

	// NoClaims leaves out the tests of claims, for a driver that is no
	// runtime.Claimer.
	NoClaims bool

	// NoNetworks leaves out the tests of network namespaces, for a driver whose
	// sandboxes are not runtime.Networked.
	NoNetworks bool

	// FixedClaims says that a ready sandbox keeps its memory, its host name and
	// the workspace of its own: claims with others are Unimplemented.
	FixedClaims bool
}

// TestDriver holds a driver to the contract of package runtime. open returns
// a new driver value each time, on one state: as the daemon's restart would.
// The tests run beside each other.
func TestDriver(t *testing.T, open func(t *testing.T) runtime.Driver, o Options) {
	s := &suite{open: open, opts: o}
	tests := []struct {
		name string
		run  func(*testing.T)
	}{
		{"Check", s.check},
		{"Lifecycle", s.lifecycle},
		{"CreateTaken", s.createTaken},
		{"CreateUnknownImage", s.createUnknownImage},
		{"CreateCanceled", s.createCanceled},
		{"CreateAtOnce", s.createAtOnce},
		{"OpenAbsent", s.openAbsent},
		{"DestroyAbsent", s.destroyAbsent},
		{"DestroyBusy", s.destroyBusy},
		{"DestroyOverCreate", s.destroyOverCreate},
		{"Restart", s.restart},
		{"Exec", s.exec},
		{"Env", s.env},
		{"Timeout", s.timeout},
		{"Process", s.process},
		{"ProcessUser", s.processUser},
		{"ProcessTimeout", s.processTimeout},
		{"Terminal", s.terminal},
		{"Files", s.files},
		{"Trees", s.trees},
		{"Watch", s.watched},
		{"Apart", s.apart},
		{"Stats", s.stats},
		{"Snapshot", s.snapshot},
		{"Pause", s.pause},
		{"PauseWait", s.pauseWait},
		{"Stop", s.stop},
		{"StopAgain", s.stopAgain},
		{"StopPaused", s.stopPaused},
		{"StartFails", s.startFails},
		{"StartQuiet", s.startQuiet},
	}
	run := func(name string, test func(*testing.T)) {
		if len(o.Only) > 0 && !slices.Contains(o.Only, name) {
			return
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
	for _, c := range tests {
		run(c.name, c.run)
	}
	optional := map[string]func(*testing.T){}
	if !o.NoWorkspaces {
		maps.Copy(optional, s.workspaceTests())
	}
	if !o.NoClaims {
		maps.Copy(optional, s.claimTests())
	}
	if !o.NoForks {
		maps.Copy(optional, s.forkTests())
	}
	if !o.NoNetworks {
		maps.Copy(optional, s.networkTests())
	}
	if !o.NoRoots {
		optional["SnapshotRoot"], optional["MachineID"] = s.snapshotRoot, s.machineID
	}
	if o.Kill != nil {
		optional["RunnerDies"] = s.runnerDies
	}
	for name, test := range optional {
		run(name, test)
	}
}

type suite struct {
	open func(t *testing.T) runtime.Driver
	opts Options
}

// spec is small, so that many fit on a test machine.
func (s *suite) spec() runtime.Spec {
	return runtime.Spec{
		Image:    s.opts.Image,
		Limits:   runtime.Limits{CPU: 1, MemoryMB: 256, Pids: 64, DiskMB: 64},
		Network:  runtime.Network{Mode: runtime.NetworkNone},
		Seccomp:  runtime.SeccompStrict,
		Hostname: "suite",
	}
}

// newID makes an id of the form that sessions have.
func newID() runtime.ID { return runtime.ID(strings.ToLower(rand.Text())) }

// newID names a sandbox of the driver to be tested.
func (s *suite) newID() runtime.ID { return newID().In(cmp.Or(s.opts.Driver, runtime.Native)) }

// box is a sandbox in a test.
type box struct {
	runtime.Sandbox
	client *runnerclient.Client
}

func use(sandbox runtime.Sandbox) box {
	return box{sandbox, &runnerclient.Client{Dial: sandbox.DialRunner}}
}

// create makes a sandbox that is destroyed when the test ends.
func (s *suite) create(t *testing.T, d runtime.Driver, spec runtime.Spec) box {
	t.Helper()
	id := s.newID()
	destroyAfter(t, d, id)
	sandbox, err := d.Create(t.Context(), id, spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	if sandbox.ID() != id {
		t.Errorf("Create(%s) made %s", id, sandbox.ID())
	}
	return use(sandbox)
}

func destroyAfter(t *testing.T, d runtime.Driver, id runtime.ID) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := d.Destroy(ctx, id); err != nil {
			t.Errorf("Destroy at the end: %v", err)
		}
	})
}

// find returns what List says of one sandbox.
func find(t *testing.T, d runtime.Driver, id runtime.ID) (status runtime.Status, found bool) {
	t.Helper()
	for s, err := range d.List(t.Context()) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		if s.ID != id {
			continue
		}
		if found {
			t.Errorf("List yields %s twice", id)
		}
		status, found = s, true
	}
	return status, found
}

func wantCode(t *testing.T, what string, err error, code errdefs.Code) {
	t.Helper()
	if err == nil || errdefs.CodeOf(err) != code {
		t.Errorf("%s: error %v, want code %s", what, err, code)
	}
}

// run executes a command and returns its output.
func (b box) run(t *testing.T, command string) (string, protocol.Record) {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := protocol.Exec{ID: string(newID()), OutputLimit: 1 << 20, GraceMS: 100, TimeoutMS: 30_000}
	record, err := b.client.Exec(ctx, e, command, nil, &out)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return out.String(), record
}

// wantOutput runs a command that must succeed.
func (b box) wantOutput(t *testing.T, command, want string) {
	t.Helper()
	got, record := b.run(t, command)
	if record.ExitCode != 0 || got != want {
		t.Errorf("%s: exit code %d, output %q, want %q", command, record.ExitCode, got, want)
	}
}

func (s *suite) check(t *testing.T) {
	if err := s.open(t).Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func (s *suite) lifecycle(t *testing.T) {
	d := s.open(t)
	before := time.Now().Add(-time.Minute)
	b := s.create(t, d, s.spec())
	status, found := find(t, d, b.ID())
	if !found || !status.Alive || status.CreatedAt.Before(before) || status.CreatedAt.After(time.Now().Add(time.Minute)) {
		t.Errorf("List after Create: %+v, found %v", status, found)
	}
	b.wantOutput(t, "echo hello", "hello\n")
	for i := range 3 {
		if err := d.Destroy(t.Context(), b.ID()); err != nil {
			t.Fatalf("Destroy %d: %v", i, err)
		}
		if status, found := find(t, d, b.ID()); found {
			t.Errorf("List after Destroy %d: %+v", i, status)
		}
	}
	_, err := d.Open(t.Context(), b.ID())
	wantCode(t, "Open after Destroy", err, errdefs.NotFound)
	conn, err := b.DialRunner(t.Context())
	if err == nil {
		err = errors.Join(errors.New("dialled"), conn.Close())
	}
	wantCode(t, "DialRunner after Destroy", err, errdefs.NotFound)
}

// createTaken also makes sure that the loser leaves the winner alone.
func (s *suite) createTaken(t *testing.T) {
	d := s.open(t)
	b := s.create(t, d, s.spec())
	for range 3 {
		_, err := d.Create(t.Context(), b.ID(), s.spec())
		wantCode(t, "Create of a taken id", err, errdefs.AlreadyExists)
	}
	b.wantOutput(t, "echo still here", "still here\n")
}

func (s *suite) createUnknownImage(t *testing.T) {
	d := s.open(t)
	id := s.newID()
	destroyAfter(t, d, id)
	spec := s.spec()
	spec.Image = "sha256:" + strings.Repeat("0", 64)
	_, err := d.Create(t.Context(), id, spec)
	wantCode(t, "Create from an unknown image", err, errdefs.NotFound)
	if _, found := find(t, d, id); found {
		t.Error("a sandbox is left of a Create that failed")
	}
}

// createCanceled cuts Create off at many moments: it has made a sandbox, or
// nothing is left of it.
func (s *suite) createCanceled(t *testing.T) {
	d := s.open(t)
	for _, after := range []time.Duration{0, 200 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 6 * time.Millisecond, 10 * time.Millisecond} {
		id := s.newID()
		destroyAfter(t, d, id)
		ctx, cancel := context.WithTimeout(t.Context(), after)
		sandbox, err := d.Create(ctx, id, s.spec())
		cancel()
		if err == nil {
			use(sandbox).wantOutput(t, "echo made", "made\n")
			continue
		}
		if status, found := find(t, d, id); found {
			t.Errorf("cut off after %v: %v, and left %+v", after, err, status)
		}
		// The id is free again, which shows that nothing of it is left.
		sandbox, err = d.Create(t.Context(), id, s.spec())
		if err != nil {
			t.Errorf("Create after one that was cut off: %v", err)
			continue
		}
		use(sandbox).wantOutput(t, "echo made", "made\n")
	}
}

func (s *suite) createAtOnce(t *testing.T) {
	d := s.open(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			id := s.newID()
			destroyAfter(t, d, id)
			sandbox, err := d.Create(t.Context(), id, s.spec())
			if err != nil {
				t.Errorf("Create: %v", err)
				return
			}
			var out bytes.Buffer
			b := use(sandbox)
			e := protocol.Exec{ID: string(newID()), OutputLimit: 1 << 20}
			if _, err := b.client.Exec(t.Context(), e, fmt.Sprint("echo ", i), nil, &out); err != nil || out.String() != fmt.Sprintln(i) {
				t.Errorf("exec in sandbox %d: %q, %v", i, out.String(), err)
			}
			if err := d.Destroy(t.Context(), id); err != nil {
				t.Errorf("Destroy: %v", err)
			}
		})
	}
	all.Wait()
}

func (s *suite) openAbsent(t *testing.T) {
	_, err := s.open(t).Open(t.Context(), s.newID())
	wantCode(t, "Open of what never was", err, errdefs.NotFound)
}

func (s *suite) destroyAbsent(t *testing.T) {
	if err := s.open(t).Destroy(t.Context(), s.newID()); err != nil {
		t.Errorf("Destroy of what never was: %v", err)
	}
}

// destroyBusy destroys a sandbox full of processes that do not want to die.
func (s *suite) destroyBusy(t *testing.T) {
	d := s.open(t)
	b := s.create(t, d, s.spec())
	b.wantOutput(t, `trap "" TERM HUP INT
		for i in 1 2 3 4 5; do (trap "" TERM; setsid sleep 600 >/dev/null 2>&1 &) ; done
		(while :; do :; done) >/dev/null 2>&1 &
		echo started`, "started\n")
	if err := d.Destroy(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	if _, found := find(t, d, b.ID()); found {
		t.Error("it is still there")
	}
}

// destroyOverCreate destroys what a Create that died has left, as far as a
// canceled one shows it. The caller serialises the two, so Create is through.
func (s *suite) destroyOverCreate(t *testing.T) {
	d := s.open(t)
	id := s.newID()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
	defer cancel()
	_, createErr := d.Create(ctx, id, s.spec())
	if err := d.Destroy(t.Context(), id); err != nil {
		t.Errorf("Destroy after Create ended with %v: %v", createErr, err)
	}
	if _, found := find(t, d, id); found {
		t.Error("it is still there")
	}
}

func (s *suite) restart(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	b.wantOutput(t, "cd /tmp; x=1; sleep 600 & true", "")

	again := s.open(t)
	if status, found := find(t, again, b.ID()); !found || !status.Alive {
		t.Errorf("List of another driver: %+v, found %v", status, found)
	}
	_, err := again.Create(t.Context(), b.ID(), s.spec())
	wantCode(t, "Create of a taken id", err, errdefs.AlreadyExists)
	sandbox, err := again.Open(t.Context(), b.ID())
	if err != nil {
		t.Fatal(err)
	}
	use(sandbox).wantOutput(t, `echo $x $PWD; jobs -r | wc -l`, "1 /tmp\n1\n")
	if err := again.Destroy(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	if _, found := find(t, s.open(t), b.ID()); found {
		t.Error("it is still there")
	}
}

// runnerDies kills the runner: the driver sees it, keeps the files if it can
// stop sandboxes, and cleans up after it.
func (s *suite) runnerDies(t *testing.T) {
	d := s.open(t)
	b := s.create(t, d, s.spec())
	written, _ := b.run(t, "head -c 9000000 /dev/urandom > file; md5sum file")
	b.wantOutput(t, "sleep 600 & true", "")
	s.opts.Kill(t, b.ID())
	deadline := time.Now().Add(time.Minute)
	for {
		status, found := find(t, d, b.ID())
		if !found {
			t.Fatal("List does not show a dead sandbox")
		}
		if !status.Alive {
			if _, stops := d.(runtime.Stopper); stops && !status.Startable {
				t.Error("List says that the files are lost")
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the runner is dead and List says that it is alive")
		}
		time.Sleep(5 * time.Millisecond)
	}
	_, err := d.Open(t.Context(), b.ID())
	wantCode(t, "Open of a dead sandbox", err, errdefs.NotFound)
	_, err = d.Create(t.Context(), b.ID(), s.spec())
	wantCode(t, "Create over a dead sandbox", err, errdefs.AlreadyExists)
	if _, stops := d.(runtime.Stopper); stops {
		s.restartBox(t, b.ID()).wantOutput(t, "md5sum file", written)
		s.opts.Kill(t, b.ID())
	}
	if err := d.Destroy(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	if _, found := find(t, d, b.ID()); found {
		t.Error("it is still there")
	}
}
