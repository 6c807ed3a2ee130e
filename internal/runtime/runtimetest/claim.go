package runtimetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

func (s *suite) claimTests() map[string]func(*testing.T) {
	tests := map[string]func(*testing.T){
		"Claim":         s.claim,
		"ClaimPlain":    s.claimPlain,
		"ClaimAtOnce":   s.claimAtOnce,
		"ClaimTaken":    s.claimTaken,
		"ClaimUsed":     s.claimUsed,
		"ClaimOther":    s.claimOther,
		"ClaimStop":     s.claimStop,
		"ClaimWaits":    s.claimWaits,
		"ClaimReadonly": s.claimReadonly,
		"ClaimParked":   s.claimParked,
	}
	switch {
	case s.opts.FixedClaims:
		tests["ClaimFixed"] = s.claimFixed
	case !s.opts.NoWorkspaces:
		tests["ClaimWorkspace"] = s.claimWorkspace
	}
	if s.opts.Kill != nil {
		tests["ClaimDead"] = s.claimDead
	}
	return tests
}

func claimer(t *testing.T, d runtime.Driver) runtime.Claimer {
	t.Helper()
	c, ok := d.(runtime.Claimer)
	if !ok {
		t.Fatalf("a %T has no claims; say so with NoClaims", d)
	}
	return c
}

// readySpec is what a sandbox is made of before it is known for whom.
func (s *suite) readySpec() runtime.Spec {
	spec := s.spec()
	spec.Hostname = ""
	return spec
}

// claimSpec is what a session may want of a ready sandbox.
func (s *suite) claimSpec() runtime.Spec {
	if s.opts.FixedClaims {
		return s.readySpec()
	}
	return s.spec()
}

// ready makes a sandbox to be claimed and returns the id to claim it as. Both
// ids are destroyed when the test ends.
func (s *suite) ready(t *testing.T, d runtime.Driver) (ready, id runtime.ID) {
	t.Helper()
	b := s.create(t, d, s.readySpec())
	id = s.newID()
	destroyAfter(t, d, id)
	return b.ID(), id
}

// wantClaimed claims a sandbox with another driver value than made it, as a
// daemon does that restarted in between.
func (s *suite) wantClaimed(t *testing.T, ready, id runtime.ID, spec runtime.Spec) box {
	t.Helper()
	claimed, err := claimer(t, s.open(t)).Claim(t.Context(), ready, id, spec)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	if claimed.ID() != id {
		t.Errorf("Claim(%s) claimed %s", id, claimed.ID())
	}
	return use(claimed)
}

// claimParked claims a sandbox whose runner has been spoken to, with the same
// driver value, and with the connection of that if it parks one.
func (s *suite) claimParked(t *testing.T) {
	d := s.open(t)
	ready, id := s.ready(t, d)
	sandbox, err := d.Open(t.Context(), ready)
	if err != nil {
		t.Fatal(err)
	}
	client := &runnerclient.Client{Dial: sandbox.DialRunner}
	if p, ok := sandbox.(runtime.Parker); ok {
		client.Park = p.Park
	}
	if err := errors.Join(client.Ping(t.Context()), client.Close()); err != nil {
		t.Fatal(err)
	}
	claimed, err := claimer(t, d).Claim(t.Context(), ready, id, s.readySpec())
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	use(claimed).wantOutput(t, "echo works", "works\n")
	use(claimed).wantOutput(t, "echo again", "again\n") // on a connection of its own
	_, err = sandbox.DialRunner(t.Context())
	wantCode(t, "DialRunner of what was claimed", err, errdefs.NotFound)
}

// claim gives a sandbox everything that is a session's own, and leaves nothing
// under the old name.
func (s *suite) claim(t *testing.T) {
	d := s.open(t)
	ready, id := s.ready(t, d)
	spec := s.claimSpec()
	spec.Env = map[string]string{"GREETING": "it's\n$HOME", "HOME": "/tmp", "no.name": "dots", "IFS": ":"}
	spec.Limits.CPU, spec.Limits.Pids = 0.5, 32
	if !s.opts.FixedClaims {
		spec.Limits.MemoryMB = 128
	}
	b := s.wantClaimed(t, ready, id, spec)
	spec.Hostname = cmp.Or(spec.Hostname, "sandbox")

	const look = `printf '%s|' "$GREETING" ~ "$(printenv no.name)" "$(hostname)" "$(basename "$PWD")"`
	want := "it's\n$HOME|/tmp|dots|" + spec.Hostname + "|workspace|"
	b.wantOutput(t, look, want)
	b.wantOutput(t, `echo "$HOSTNAME"; cat /etc/hostname`, spec.Hostname+"\n"+spec.Hostname+"\n")
	if !s.opts.FixedClaims {
		b.wantOutput(t, `grep -c "`+spec.Hostname+`$" /etc/hosts`, "1\n")
	}
	b.start(t, protocol.Start{ID: "program"}, "", "bash", "-c", look).want(t, want, 0, protocol.CauseExited)
	st, err := b.Stats(t.Context())
	if err != nil || st.CPULimit != 0.5 || st.MemoryLimit != spec.Limits.MemoryMB<<20 || st.PidsLimit != 32 || !s.opts.Unlimited && st.DiskLimit != spec.Limits.DiskMB<<20 {
		t.Errorf("Stats: %+v, %v", st, err)
	}
	b.wantOutput(t, "df --output=size -BM /dev/shm | tail -1 | tr -d ' '", fmt.Sprintf("%dM\n", spec.Limits.MemoryMB/2))
	shells, err := b.client.Shells(t.Context())
	if err != nil || len(shells) != 1 || shells[0].Restarts != 0 {
		t.Errorf("shells %+v, %v", shells, err)
	}

	if _, found := find(t, d, ready); found {
		t.Error("List still has the ready one")
	}
	if status, found := find(t, d, id); !found || !status.Alive {
		t.Errorf("List: %+v, found %v", status, found)
	}
	_, err = d.Open(t.Context(), ready)
	wantCode(t, "Open of the old name", err, errdefs.NotFound)
	if err := d.Destroy(t.Context(), ready); err != nil {
		t.Errorf("Destroy of the old name: %v", err)
	}
	again, err := s.open(t).Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	use(again).wantOutput(t, look, want)
}

// claimPlain is the common case: the session wants what every sandbox has.
func (s *suite) claimPlain(t *testing.T) {
	ready, id := s.ready(t, s.open(t))
	b := s.wantClaimed(t, ready, id, s.readySpec())
	b.wantOutput(t, `hostname; basename "$PWD"; echo "$HOSTNAME"; jobs`, "sandbox\nworkspace\nsandbox\n")
}

// claimAtOnce: of many who want one sandbox, one gets it.
func (s *suite) claimAtOnce(t *testing.T) {
	d := s.open(t)
	ready, _ := s.ready(t, d)
	var all sync.WaitGroup
	var won atomic.Int64
	for range 8 {
		id := s.newID()
		destroyAfter(t, d, id)
		all.Go(func() {
			_, err := claimer(t, d).Claim(context.WithoutCancel(t.Context()), ready, id, s.claimSpec())
			if err == nil {
				won.Add(1)
				return
			}
			wantCode(t, "Claim of a claimed one", err, errdefs.Conflict)
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d have claimed it", won.Load())
	}
}

// claimTaken leaves both alone when the name is taken.
func (s *suite) claimTaken(t *testing.T) {
	d := s.open(t)
	taken := s.create(t, d, s.spec())
	taken.wantOutput(t, "x=mine", "")
	ready, id := s.ready(t, d)
	_, err := claimer(t, d).Claim(t.Context(), ready, taken.ID(), s.claimSpec())
	wantCode(t, "Claim as one that exists", err, errdefs.AlreadyExists)
	taken.wantOutput(t, "echo $x", "mine\n")
	s.wantClaimed(t, ready, id, s.claimSpec()).wantOutput(t, "echo works", "works\n")
}

// claimUsed refuses what is somebody's already.
func (s *suite) claimUsed(t *testing.T) {
	d := s.open(t)
	b := s.create(t, d, s.readySpec())
	b.wantOutput(t, "echo used", "used\n")
	id := s.newID()
	destroyAfter(t, d, id)
	_, err := claimer(t, d).Claim(t.Context(), b.ID(), id, s.claimSpec())
	wantCode(t, "Claim of a used one", err, errdefs.Conflict)
}

// claimOther changes nothing when the session wants what cannot be changed.
func (s *suite) claimOther(t *testing.T) {
	d := s.open(t)
	ready, id := s.ready(t, d)
	if !s.opts.Unlimited { // else both have none
		other := s.claimSpec()
		other.Limits.DiskMB *= 2
		_, err := claimer(t, d).Claim(t.Context(), ready, id, other)
		wantCode(t, "Claim with another disk", err, errdefs.Unimplemented)
	}
	_, err := claimer(t, d).Claim(t.Context(), s.newID(), id, s.claimSpec())
	wantCode(t, "Claim of what never was", err, errdefs.Conflict)
	s.wantClaimed(t, ready, id, s.claimSpec()).wantOutput(t, "echo works", "works\n")
}

// claimStop: a claimed sandbox comes back as the session's, not as it was made.
func (s *suite) claimStop(t *testing.T) {
	ready, id := s.ready(t, s.open(t))
	spec := s.claimSpec()
	spec.Env = map[string]string{"GREETING": "hi"}
	b := s.wantClaimed(t, ready, id, spec)
	spec.Hostname = cmp.Or(spec.Hostname, "sandbox")
	const look = `echo "$GREETING"; hostname; cat /etc/hostname`
	want := "hi\n" + spec.Hostname + "\n" + spec.Hostname + "\n"
	b.wantOutput(t, look+"; echo kept > file", want)
	b = s.restartBox(t, b.ID())
	b.wantOutput(t, look+"; cat file", want+"kept\n")
}

// claimWaits: a sandbox can be paused and its programs ended after a claim.
func (s *suite) claimWaits(t *testing.T) {
	ready, id := s.ready(t, s.open(t))
	b := s.wantClaimed(t, ready, id, s.claimSpec())
	p := pauser(t, b)
	if err := p.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if paused, err := p.Paused(); err != nil || !paused {
		t.Errorf("paused %v, %v", paused, err)
	}
	if err := p.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantOutput(t, "echo awake", "awake\n")
}

// claimReadonly: what cannot be written cannot be renamed either.
func (s *suite) claimReadonly(t *testing.T) {
	d := s.open(t)
	spec := s.readySpec()
	spec.ReadonlyRoot = true
	ready := s.create(t, d, spec)
	id := s.newID()
	destroyAfter(t, d, id)
	named := spec
	named.Hostname = "other"
	_, err := claimer(t, d).Claim(t.Context(), ready.ID(), id, named)
	wantCode(t, "Claim with a name", err, errdefs.Unimplemented)
	if !s.opts.FixedClaims {
		spec.Limits.MemoryMB *= 2
	}
	spec.Env = map[string]string{"A": "b"}
	b := s.wantClaimed(t, ready.ID(), id, spec)
	b.wantOutput(t, "echo $A; df --output=size -BM /tmp | tail -1 | tr -d ' '", fmt.Sprintf("b\n%dM\n", spec.Limits.MemoryMB/2))
}

// claimDead tells the caller that there is nothing to claim.
func (s *suite) claimDead(t *testing.T) {
	d := s.open(t)
	ready, id := s.ready(t, d)
	s.opts.Kill(t, ready)
	eventually(t, "the death of "+string(ready), func() bool {
		status, _ := find(t, d, ready)
		return !status.Alive
	})
	_, err := claimer(t, d).Claim(t.Context(), ready, id, s.claimSpec())
	wantCode(t, "Claim of a dead one", err, errdefs.Conflict)
	if _, found := find(t, d, id); found {
		t.Error("List has the new name")
	}
}

// claimFixed changes nothing when the session wants what stays as it is.
func (s *suite) claimFixed(t *testing.T) {
	d := s.open(t)
	ready, id := s.ready(t, d)
	memory, named, lost := s.readySpec(), s.readySpec(), s.readySpec()
	memory.Limits.MemoryMB /= 2
	named.Hostname, lost.Workspace = "other", "no-such"
	kept := s.workspace(t, d)
	kept.Hostname = ""
	for _, c := range []struct {
		spec runtime.Spec
		want errdefs.Code
	}{{memory, errdefs.Unimplemented}, {named, errdefs.Unimplemented}, {kept, errdefs.Unimplemented}, {lost, errdefs.NotFound}} {
		_, err := claimer(t, d).Claim(t.Context(), ready, id, c.spec)
		wantCode(t, fmt.Sprintf("Claim as %+v", c.spec), err, c.want)
	}
	s.wantClaimed(t, ready, id, s.readySpec()).wantOutput(t, "echo works", "works\n")
}

// claimWorkspace attaches one to the living sandbox.
func (s *suite) claimWorkspace(t *testing.T) {
	d := s.open(t)
	spec := s.workspace(t, d)
	first := s.create(t, d, spec)
	first.wantOutput(t, "echo kept > file; chown 1000:1000 file; ln -s / top", "")

	ready, id := s.ready(t, d)
	lost := spec
	lost.Workspace = "no-such"
	_, err := claimer(t, d).Claim(t.Context(), ready, id, lost)
	wantCode(t, "Claim with an unknown workspace", err, errdefs.NotFound)

	b := s.wantClaimed(t, ready, id, spec)
	b.wantOutput(t, `basename "$PWD"; cat file; stat -c %u file; echo new > other; test ! -e workspace; ls -A | wc -l`, "workspace\nkept\n1000\n3\n")
	first.wantOutput(t, "cat other", "new\n")
	b.start(t, protocol.Start{ID: "program"}, "", "cat", "other").want(t, "new\n", 0, protocol.CauseExited)
	if info, err := b.client.Stat(t.Context(), protocol.Stat{Path: "other"}); err != nil || info.Size != 4 {
		t.Errorf("the file calls see %+v, %v", info, err)
	}
	b.wantOutput(t, `grep -c " /workspace " /proc/self/mountinfo`, "1\n")

	b = s.restartBox(t, id)
	b.wantOutput(t, "cat other", "new\n")
	for _, id := range []runtime.ID{id, first.ID()} {
		if err := d.Destroy(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	s.create(t, d, spec).wantOutput(t, "cat file other", "kept\nnew\n")
}
