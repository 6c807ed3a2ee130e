package runtimetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

// forkTests hold a driver to what runtime.Forker says.
func (s *suite) forkTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"Fork": s.fork, "ForkAsItStands": s.forkAsItStands, "ForkOfFork": s.forkOfFork,
		"ForkFails": s.forkFails, "ForkBusy": s.forkBusy,
	}
}

// forks makes n of them, which are destroyed when the test ends.
func (s *suite) forks(t *testing.T, from runtime.ID, n int, spec runtime.Spec) []box {
	t.Helper()
	d := s.open(t)
	branches := make([]runtime.Branch, n)
	for i := range branches {
		branches[i] = runtime.Branch{ID: s.newID(), Hostname: spec.Hostname}
		destroyAfter(t, d, branches[i].ID)
	}
	made, err := d.(runtime.Forker).Fork(t.Context(), from, branches, spec)
	if err != nil {
		t.Fatalf("Fork: %v", err)
	}
	boxes := make([]box, n)
	for i, sandbox := range made.Sandboxes {
		if sandbox.ID() != branches[i].ID {
			t.Errorf("Fork made %s in place of %s", sandbox.ID(), branches[i].ID)
		}
		if status, found := find(t, d, branches[i].ID); !found || !status.Alive {
			t.Errorf("List of a fork: %+v, found %v", status, found)
		}
		boxes[i] = use(sandbox)
	}
	return boxes
}

// fork has the files and nothing else, and all go their own ways.
func (s *suite) fork(t *testing.T) {
	spec := s.spec()
	spec.Env = map[string]string{"SOURCE": "1"}
	b := s.create(t, s.open(t), spec)
	owner := "stat -c '%n %u %g %a' file dir dir/link"
	before, _ := b.run(t, "umask 027; echo first > file; mkdir dir; ln -s ../file dir/link; chown 7:8 file 2>/dev/null; x=1; "+owner)
	b.wantOutput(t, "sleep 600 >/dev/null 2>&1 & true", "")

	spec.Env = map[string]string{"FORK": "1"}
	all := s.forks(t, b.ID(), 3, spec)
	for i, f := range all {
		f.wantOutput(t, owner, before)
		f.wantOutput(t, `cat dir/link; echo "$x$SOURCE$FORK"; jobs`, "first\n1\n")
		f.wantOutput(t, "echo "+strings.Repeat("x", i)+" > file; rm dir/link", "")
	}
	b.wantOutput(t, `cat dir/link; echo "$x"; echo later > later`, "first\n1\n")
	spec.Env = nil
	s.forks(t, b.ID(), 1, spec)[0].wantOutput(t, `echo "$SOURCE"`, "1\n")
	for i, f := range all {
		f.wantOutput(t, "cat file; ls dir; test ! -e later", strings.Repeat("x", i)+"\n")
	}
	if err := s.open(t).Destroy(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	all[0].wantOutput(t, "echo goes on >> file; cat file", "\ngoes on\n")
}

// forkAsItStands is of a source that is paused or stopped, and stays so.
func (s *suite) forkAsItStands(t *testing.T) {
	d := s.open(t)
	b := s.create(t, d, s.spec())
	b.wantOutput(t, "echo 1 > file; sleep 600 >/dev/null 2>&1 & true", "")
	if err := pauser(t, b).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.forks(t, b.ID(), 1, s.spec())[0].wantOutput(t, "cat file", "1\n")
	if paused, err := pauser(t, b).Paused(); err != nil || !paused {
		t.Errorf("paused %v, %v after the fork", paused, err)
	}
	if err := stopper(t, d).Stop(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	s.forks(t, b.ID(), 2, s.spec())[1].wantOutput(t, "cat file; echo 2 > file", "1\n")
	if status, _ := find(t, d, b.ID()); status.Alive || !status.Startable {
		t.Errorf("after the fork of a stopped one: %+v", status)
	}
	s.restartBox(t, b.ID()).wantOutput(t, "cat file", "1\n")
}

// forkOfFork goes on from where a fork is, and a fork can be stopped.
func (s *suite) forkOfFork(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	for _, file := range []string{"a", "b", "c"} {
		b.wantOutput(t, "echo x > "+file, "")
		b = s.forks(t, b.ID(), 1, s.spec())[0]
	}
	b.wantOutput(t, "ls", "a\nb\nc\n")
	s.restartBox(t, b.ID()).wantOutput(t, "ls; echo still > a; cat a", "a\nb\nc\nstill\n")
}

// forkFails makes none if it cannot make all.
func (s *suite) forkFails(t *testing.T) {
	d := s.open(t)
	f := d.(runtime.Forker)
	b := s.create(t, d, s.spec())
	_, err := f.Fork(t.Context(), s.newID(), []runtime.Branch{{ID: s.newID()}}, s.spec())
	wantCode(t, "Fork of what never was", err, errdefs.NotFound)

	free := s.newID()
	_, err = f.Fork(t.Context(), b.ID(), []runtime.Branch{{ID: free}, {ID: b.ID()}}, s.spec())
	wantCode(t, "Fork to a taken id", err, errdefs.AlreadyExists)
	other := s.spec()
	other.Image = "sha256:" + strings.Repeat("0", 64)
	if _, err = f.Fork(t.Context(), b.ID(), []runtime.Branch{{ID: free}}, other); err == nil {
		t.Error("forked with another image")
	}
	if _, found := find(t, d, free); found {
		t.Error("a fork is left of those that failed")
	}
	b.wantOutput(t, "echo still here", "still here\n")
}

// forkBusy forks while a program writes: what it had written is there, without
// gaps, and it goes on.
func (s *suite) forkBusy(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	// It goes on for as long as a fork may take, and writes little enough to be read whole.
	b.run(t, `(n=0; while :; do n=$((n+1)); echo $n >>ticks; [ $((n % 1000)) != 0 ] || sleep 0.5; done) >/dev/null 2>&1 &`)
	size := func(b box) int64 {
		t.Helper()
		stat, content, err := b.client.Read(t.Context(), protocol.Read{Path: "ticks"})
		if err != nil {
			return 0 // it has not begun
		}
		if err := content.Close(); err != nil {
			t.Error(err)
		}
		return stat.Size
	}
	eventually(t, "the program begins", func() bool { return size(b) > 0 })
	known := size(b)
	fork := s.forks(t, b.ID(), 1, s.spec())[0]
	out, _ := fork.run(t, "cat ticks")
	lines := strings.Fields(out)
	if int64(len(out)) < known || !slices.IsSortedFunc(lines, func(a, b string) int { return len(a) - len(b) }) {
		t.Errorf("%d bytes, of %d that were there", len(out), known)
	}
	fork.wantOutput(t, "wc -l < ticks; tail -n 1 ticks | wc -w", strings.TrimSpace(lines[len(lines)-1])+"\n1\n")
	now := size(b)
	eventually(t, "the program goes on", func() bool { return size(b) > now })
}
