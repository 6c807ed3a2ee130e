package runtimetest

import (
	"context"
	"errors"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

func stopper(t *testing.T, d runtime.Driver) runtime.Stopper {
	t.Helper()
	s, ok := d.(runtime.Stopper)
	if !ok {
		t.Fatalf("a %T cannot stop sandboxes", d)
	}
	return s
}

// restartBox stops a sandbox and starts it with another driver value each, as
// daemons would that restarted in between.
func (s *suite) restartBox(t *testing.T, id runtime.ID) box {
	t.Helper()
	for range 2 { // a second time changes nothing
		if err := stopper(t, s.open(t)).Stop(t.Context(), id); err != nil {
			t.Fatalf("Stop: %v", err)
		}
	}
	started, err := stopper(t, s.open(t)).Start(t.Context(), id)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	if started.ID() != id {
		t.Errorf("Start(%s) started %s", id, started.ID())
	}
	return use(started)
}

// stop keeps the files and what the session was made with, and no process.
func (s *suite) stop(t *testing.T) {
	d := s.open(t)
	spec := s.spec()
	spec.Env = map[string]string{"GREETING": "hi"}
	b := s.create(t, d, spec)
	const owner = "stat -c %u:%a file"
	before, _ := b.run(t, "hostname; umask 022; echo kept > file; mkfifo pipe; ln -s file link; "+owner)
	b.wantOutput(t, "x=1; cd /tmp; sleep 600 >/dev/null 2>&1 & true", "")

	if err := stopper(t, d).Stop(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	status, found := find(t, s.open(t), b.ID())
	if !found || status.Alive || !status.Startable {
		t.Errorf("List of a stopped one: %+v, found %v", status, found)
	}
	_, err := d.Open(t.Context(), b.ID())
	wantCode(t, "Open of a stopped one", err, errdefs.NotFound)
	conn, err := b.DialRunner(t.Context())
	if err == nil {
		err = errors.Join(errors.New("dialled"), conn.Close())
	}
	wantCode(t, "DialRunner of a stopped one", err, errdefs.NotFound)
	_, err = d.Create(t.Context(), b.ID(), spec)
	wantCode(t, "Create over a stopped one", err, errdefs.AlreadyExists)

	b = s.restartBox(t, b.ID())
	if after, _ := b.run(t, "hostname; "+owner); after != before {
		t.Errorf("before %q, now %q", before, after)
	}
	b.wantOutput(t, `cat link; test -p pipe && echo "$GREETING$x"; jobs; basename "$PWD"`, "kept\nhi\nworkspace\n")
	if st, err := b.Stats(t.Context()); err != nil || st.MemoryLimit != spec.Limits.MemoryMB<<20 || st.PidsLimit != spec.Limits.Pids {
		t.Errorf("limits %+v, %v", st, err)
	}
	if status, _ := find(t, d, b.ID()); !status.Alive || status.Startable {
		t.Errorf("List of a started one: %+v", status)
	}
	if err := stopper(t, d).Stop(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(t.Context(), b.ID()); err != nil {
		t.Errorf("Destroy of a stopped one: %v", err)
	}
	if _, found := find(t, d, b.ID()); found {
		t.Error("it is still there")
	}
}

// stopAgain changes files in three lives, the root's too where there is one.
func (s *suite) stopAgain(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	b.wantOutput(t, "echo 1 > lives; head -c 3000000 /dev/zero > big", "")
	for _, want := range []string{"1\n", "1\n2\n"} {
		b = s.restartBox(t, b.ID())
		b.wantOutput(t, "cat lives; echo 2 >> lives; wc -c < big", want+"3000000\n")
	}
}

// stopPaused stops what stands still; it runs when it is started.
func (s *suite) stopPaused(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	b.wantOutput(t, "sleep 600 >/dev/null 2>&1 & true", "")
	if err := pauser(t, b).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	b = s.restartBox(t, b.ID())
	b.wantOutput(t, "echo awake", "awake\n")
	if paused, err := pauser(t, b).Paused(); err != nil || paused {
		t.Errorf("paused %v, %v after a start", paused, err)
	}
}

// startFails leaves a stopped sandbox stopped.
func (s *suite) startFails(t *testing.T) {
	d := s.open(t)
	b := s.create(t, d, s.spec())
	b.wantOutput(t, "echo kept > file", "")
	wantCode(t, "Stop of what never was", stopper(t, d).Stop(t.Context(), s.newID()), errdefs.NotFound)
	_, err := stopper(t, d).Start(t.Context(), s.newID())
	wantCode(t, "Start of what never was", err, errdefs.NotFound)
	_, err = stopper(t, d).Start(t.Context(), b.ID())
	wantCode(t, "Start of what runs", err, errdefs.Conflict)
	b.wantOutput(t, "echo still here", "still here\n")

	if err := stopper(t, d).Stop(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stopper(t, d).Start(ctx, b.ID()); err == nil { // it was too fast to be cut off
		t.Log("started in spite of the canceled context")
	} else if status, found := find(t, d, b.ID()); !found || status.Alive || !status.Startable {
		t.Errorf("after a Start that failed: %+v, found %v", status, found)
	}
	s.restartBox(t, b.ID()).wantOutput(t, "cat file", "kept\n")
}

// startQuiet reads the files of a stopped sandbox in which nothing runs before
// somebody asks for it.
func (s *suite) startQuiet(t *testing.T) {
	d := s.open(t)
	quiet, ok := d.(runtime.QuietStarter)
	if !ok {
		return // a driver need not have it
	}
	spec := s.spec()
	spec.Env = map[string]string{"BASH_ENV": "hook"} // which every bash reads first
	b := s.create(t, d, spec)
	b.wantOutput(t, "echo 'echo ran >> ran' > hook", "")
	if err := stopper(t, d).Stop(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	read := func(b box, name string) error {
		_, err := b.client.Stat(t.Context(), protocol.Stat{Path: name})
		return err
	}
	for range 2 {
		started, err := quiet.StartQuiet(t.Context(), b.ID())
		if err != nil {
			t.Fatal(err)
		}
		b = use(started)
		if err := read(b, "hook"); err != nil {
			t.Errorf("its files: %v", err)
		}
		wantCode(t, "what its programs write", read(b, "ran"), errdefs.NotFound)
		_, err = quiet.StartQuiet(t.Context(), b.ID())
		wantCode(t, "StartQuiet of what runs", err, errdefs.Conflict)
		if err := stopper(t, d).Stop(t.Context(), b.ID()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := quiet.StartQuiet(t.Context(), s.newID())
	wantCode(t, "StartQuiet of what never was", err, errdefs.NotFound)

	started, err := quiet.StartQuiet(t.Context(), b.ID())
	if err != nil {
		t.Fatal(err)
	}
	use(started).wantOutput(t, "cat ran", "ran\n") // the shell starts with its first command
	s.restartBox(t, b.ID()).wantOutput(t, "cat ran", "ran\nran\n")
}
