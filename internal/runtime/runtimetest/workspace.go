package runtimetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

// workspaceMB is the size of the suite's workspaces.
const workspaceMB = 64

func (s *suite) workspaceTests() map[string]func(*testing.T) {
	tests := map[string]func(*testing.T){
		"WorkspaceShared":   s.workspaceShared,
		"WorkspaceLasts":    s.workspaceLasts,
		"WorkspaceRefusals": s.workspaceRefusals,
		"WorkspaceAtOnce":   s.workspaceAtOnce,
	}
	if !s.opts.Unlimited {
		tests["WorkspaceFull"] = s.workspaceFull
	}
	return tests
}

func keeper(t *testing.T, d runtime.Driver) runtime.WorkspaceKeeper {
	t.Helper()
	k, ok := d.(runtime.WorkspaceKeeper)
	if !ok {
		t.Fatalf("a %T has no workspaces; say so with NoWorkspaces", d)
	}
	return k
}

// workspace makes one that is removed when the test ends, and returns the spec
// of sandboxes with it.
func (s *suite) workspace(t *testing.T, d runtime.Driver) runtime.Spec {
	t.Helper()
	id := runtime.WorkspaceID(newID())
	k := keeper(t, d)
	if err := k.CreateWorkspace(t.Context(), id, workspaceMB); err != nil {
		t.Fatalf("CreateWorkspace: %v", err)
	}
	t.Cleanup(func() { // after the sandboxes' clean-ups
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := k.DestroyWorkspace(ctx, id); err != nil {
			t.Errorf("DestroyWorkspace at the end: %v", err)
		}
	})
	spec := s.spec()
	spec.Workspace = id
	return spec
}

// listed reports whether the driver lists a workspace.
func listed(t *testing.T, k runtime.WorkspaceKeeper, id runtime.WorkspaceID) (found bool) {
	t.Helper()
	for other, err := range k.Workspaces(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || other == id
	}
	return found
}

// workspaceShared: sandboxes of two drivers, as before and after a restart,
// see each other's files under the owners that they gave them.
func (s *suite) workspaceShared(t *testing.T) {
	d := s.open(t)
	spec := s.workspace(t, d)
	a := s.create(t, d, spec)
	b := s.create(t, s.open(t), spec)
	other := s.create(t, d, s.spec())
	a.wantOutput(t, "echo from a > f; chmod 600 f; mkdir dir; ln -s f link", "")
	b.wantOutput(t, `cat link; [ "$(stat -c %u:%g f)" = "$(id -u):$(id -g)" ] && echo mine`, "from a\nmine\n")
	b.wantOutput(t, "echo from b >> f; mv f dir/", "")
	a.wantOutput(t, "cat dir/f", "from a\nfrom b\n")
	if !s.opts.Unlimited {
		a.wantOutput(t, "chown 1000:2000 dir/f", "")
		b.wantOutput(t, "stat -c %u:%g dir/f; chown 0:0 dir/f", "1000:2000\n")
		a.wantOutput(t, "stat -c %u:%g dir/f", "0:0\n")
	}
	other.wantOutput(t, "ls", "")

	// Its file locks hold across sandboxes, too.
	a.wantOutput(t, "exec 9>lock; flock -n 9 && echo got", "got\n")
	b.wantOutput(t, "exec 9>lock; flock -n 9 || echo taken", "taken\n")

	if err := d.Destroy(t.Context(), a.ID()); err != nil {
		t.Fatal(err)
	}
	b.wantOutput(t, "flock -n 9 && cat dir/f", "from a\nfrom b\n")
}

// workspaceLasts: what a sandbox wrote is there after its end.
func (s *suite) workspaceLasts(t *testing.T) {
	d := s.open(t)
	spec := s.workspace(t, d)
	k := keeper(t, d)
	before, err := k.WorkspaceBytes(t.Context(), spec.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1", "12", "123"} {
		b := s.create(t, s.open(t), spec)
		b.wantOutput(t, `n=$(cat n 2>/dev/null); printf %s "$n$((${#n}+1))" > n; cat n`, want)
		if err := d.Destroy(t.Context(), b.ID()); err != nil {
			t.Fatal(err)
		}
	}
	b := s.create(t, d, spec)
	b.wantOutput(t, "head -c 4000000 /dev/zero > big; sync", "")
	if used, err := k.WorkspaceBytes(t.Context(), spec.Workspace); err != nil || used-before < 4_000_000 || used > workspaceMB<<20 {
		t.Errorf("%d bytes used in use, %d before, %v", used, before, err)
	}
	if err := d.Destroy(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	if used, err := k.WorkspaceBytes(t.Context(), spec.Workspace); err != nil || used-before < 4_000_000 {
		t.Errorf("%d bytes used at rest, %d before, %v", used, before, err)
	}
	if !listed(t, keeper(t, s.open(t)), spec.Workspace) {
		t.Error("it is not listed")
	}
}

func (s *suite) workspaceRefusals(t *testing.T) {
	d := s.open(t)
	k := keeper(t, d)
	spec := s.workspace(t, d)
	wantCode(t, "CreateWorkspace of a taken id", k.CreateWorkspace(t.Context(), spec.Workspace, workspaceMB), errdefs.AlreadyExists)

	b := s.create(t, d, spec)
	b.wantOutput(t, "echo kept > f", "")
	wantCode(t, "DestroyWorkspace of one in use", destroyWorkspaceSoon(t, keeper(t, s.open(t)), spec.Workspace), errdefs.Conflict)
	b.wantOutput(t, "cat f", "kept\n")
	if err := d.Destroy(t.Context(), b.ID()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time changes nothing
		if err := k.DestroyWorkspace(t.Context(), spec.Workspace); err != nil {
			t.Fatalf("DestroyWorkspace: %v", err)
		}
	}
	if listed(t, k, spec.Workspace) {
		t.Error("it is listed after its end")
	}
	_, err := k.WorkspaceBytes(t.Context(), spec.Workspace)
	wantCode(t, "WorkspaceBytes of none", err, errdefs.NotFound)
	id := s.newID()
	destroyAfter(t, d, id)
	_, err = d.Create(t.Context(), id, spec)
	wantCode(t, "Create with no such workspace", err, errdefs.NotFound)
	if _, found := find(t, d, id); found {
		t.Error("a sandbox is left of a Create that failed")
	}
}

// destroyWorkspaceSoon does not wait until one in use is in use no more.
func destroyWorkspaceSoon(t *testing.T, k runtime.WorkspaceKeeper, id runtime.WorkspaceID) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	return k.DestroyWorkspace(ctx, id)
}

// workspaceAtOnce starts and ends sandboxes of one workspace in disorder, the
// first and the last of them among others, and nothing is lost.
func (s *suite) workspaceAtOnce(t *testing.T) {
	d := s.open(t)
	spec := s.workspace(t, d)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				id := s.newID()
				destroyAfter(t, d, id)
				sandbox, err := d.Create(t.Context(), id, spec)
				if err != nil {
					t.Errorf("Create: %v", err)
					return
				}
				b := use(sandbox)
				err = errors.Join(b.client.Write(t.Context(), protocol.Write{Path: string(id)}, 1, strings.NewReader("x")), b.client.Close(), d.Destroy(t.Context(), id))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s.create(t, d, spec).wantOutput(t, "cat * | wc -c", "12\n")
}

// workspaceFull: its size holds, is the same for all who have it, and leaves
// the sandboxes' own disks alone.
func (s *suite) workspaceFull(t *testing.T) {
	d := s.open(t)
	spec := s.workspace(t, d)
	a, b := s.create(t, d, spec), s.create(t, d, spec)
	out, _ := a.run(t, "head -c 200000000 /dev/zero > big")
	if !strings.Contains(out, "No space left on device") {
		t.Errorf("filling it: %q", out)
	}
	out, _ = b.run(t, "head -c 8000000 /dev/zero > more")
	if !strings.Contains(out, "No space left on device") {
		t.Errorf("in a full one: %q", out)
	}
	b.wantOutput(t, "head -c 100000 /dev/zero > /tmp/more && echo ok", "ok\n")
	b.wantOutput(t, "rm big more; sync; head -c 100000 /dev/zero > more && echo ok", "ok\n")
	out, _ = b.run(t, "mkdir many && cd many && for i in $(seq 20000); do : > $i || break; done 2>&1 | head -1")
	if !strings.Contains(out, "No space left on device") {
		t.Errorf("no end of files: %q", out)
	}
}
