package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/protocol"
)

// withWorkspaces gives a manager workspaces.
func withWorkspaces(o *session.Options) { o.Workspaces.Store = o.Store.(workspaces.WorkspaceStore) }

func (d *daemon) workspace(t testing.TB, owner, id string) workspaces.WorkspaceUse {
	t.Helper()
	w, err := d.Workspaces.Get(t.Context(), as(owner), id)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (d *daemon) destroy(t testing.TB, id session.ID) {
	t.Helper()
	if err := d.Sessions.Destroy(t.Context(), everyone, id); err != nil {
		t.Fatal(err)
	}
}

// wantVolumes checks how many workspaces the driver has.
func (h host) wantVolumes(t testing.TB, want int) {
	t.Helper()
	n := 0
	for _, err := range h.driver.Workspaces(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != want {
		t.Errorf("the driver has %d workspaces, want %d", n, want)
	}
}

func TestWorkspaceOutlivesItsSessions(t *testing.T) {
	h := newHost(t)
	d := h.start(t, withWorkspaces)
	first := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: "project.v2"})
	d.output(t, first.ID, "echo kept > f")
	second := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: "project.v2"})
	if out := d.output(t, second.ID, "cat f"); out != "kept\n" {
		t.Errorf("a session beside it reads %q", out)
	}
	if w := d.workspace(t, "alice", "project.v2"); w.Sessions != 2 || w.Active != 2 || w.Bytes != 5 || w.SizeMB != 1024 {
		t.Errorf("in use: %+v", w)
	}
	d.destroy(t, first.ID)
	d.destroy(t, second.ID)
	if w := d.workspace(t, "alice", "project.v2"); w.Sessions != 2 || w.Active != 0 || w.Bytes != 5 || !w.LastUsed.After(second.CreatedAt) {
		t.Errorf("out of use: %+v", w)
	}
	d.stop()

	d = h.start(t, withWorkspaces)
	third := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: "project.v2"})
	if out := d.output(t, third.ID, "cat f"); out != "kept\n" {
		t.Errorf("after a restart a session reads %q", out)
	}
	d.stop()
	d = h.start(t, withWorkspaces)
	if w := d.workspace(t, "alice", "project.v2"); w.Active != 1 {
		t.Errorf("with an adopted session: %+v", w)
	}
	wantCode(t, d.Workspaces.Delete(t.Context(), as("alice"), "project.v2"), errdefs.Conflict)
	if err := d.Workspaces.ForceDelete(t.Context(), as("alice"), "project.v2"); err != nil {
		t.Fatal(err)
	}
	d.want(t, third.ID, session.Destroyed)
	h.wantVolumes(t, 0)
	h.driver.WantSandboxes(t)
}

// The same name with two owners is two workspaces.
func TestWorkspacesOfOwners(t *testing.T) {
	d := newHost(t).start(t, withWorkspaces)
	for _, owner := range []string{"alice", "bob"} {
		s := d.createAs(t, as(owner), session.CreateRequest{WorkspaceID: "w"})
		d.output(t, s.ID, "cat owner 2>/dev/null; echo "+owner+" >> owner")
		if out := d.output(t, s.ID, "cat owner"); out != owner+"\n" {
			t.Errorf("%s reads %q", owner, out)
		}
	}
	if all, err := d.Workspaces.List(t.Context(), as("bob")); err != nil || len(all) != 1 || all[0].Owner != "bob" || all[0].Active != 1 {
		t.Errorf("bob's: %+v, %v", all, err)
	}
	_, err := d.Workspaces.Get(t.Context(), as("carol"), "w")
	wantCode(t, err, errdefs.NotFound)
	wantCode(t, d.Workspaces.ForceDelete(t.Context(), as("carol"), "w"), errdefs.NotFound)
	_, err = d.Sessions.OfWorkspace(t.Context(), as("carol"), "w")
	wantCode(t, err, errdefs.NotFound)
	if err := d.Workspaces.ForceDelete(t.Context(), as("alice"), "w"); err != nil {
		t.Fatal(err)
	}
	if w := d.workspace(t, "bob", "w"); w.Active != 1 {
		t.Errorf("bob's after alice's is gone: %+v", w)
	}
}

func TestCreateWorkspace(t *testing.T) {
	h := newHost(t)
	d := h.start(t, withWorkspaces, func(o *session.Options) {
		o.Workspaces.DefaultSizeMB, o.Workspaces.MaxSizeMB, o.Workspaces.MaxCount = 100, 200, 2
	})
	made, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{Labels: map[string]string{"a": "b"}})
	if err != nil || len(made.ID) != 26 || made.SizeMB != 100 || made.Labels["a"] != "b" {
		t.Fatalf("%+v, %v", made, err)
	}
	for _, c := range []struct {
		name  string
		req   workspaces.WorkspaceRequest
		code  errdefs.Code
		field string
	}{
		{"taken", workspaces.WorkspaceRequest{ID: made.ID}, errdefs.AlreadyExists, ""},
		{"a path", workspaces.WorkspaceRequest{ID: "../x"}, errdefs.InvalidArgument, "id"},
		{"parent", workspaces.WorkspaceRequest{ID: ".."}, errdefs.InvalidArgument, "id"},
		{"long", workspaces.WorkspaceRequest{ID: strings.Repeat("x", 65)}, errdefs.InvalidArgument, "id"},
		{"a newline", workspaces.WorkspaceRequest{ID: "a\n"}, errdefs.InvalidArgument, "id"},
		{"too small", workspaces.WorkspaceRequest{SizeMB: 1}, errdefs.InvalidArgument, "size_mb"},
		{"negative", workspaces.WorkspaceRequest{SizeMB: -100}, errdefs.InvalidArgument, "size_mb"},
		{"too large", workspaces.WorkspaceRequest{SizeMB: 201}, errdefs.InvalidArgument, "size_mb"},
		{"label", workspaces.WorkspaceRequest{Labels: map[string]string{"": "x"}}, errdefs.InvalidArgument, "labels"},
	} {
		_, err := d.Workspaces.Create(t.Context(), as("alice"), c.req)
		wantCode(t, err, c.code)
		if e, ok := errors.AsType[*errdefs.Error](err); !ok || e.Field != c.field {
			t.Errorf("%s: %v does not name %q", c.name, err, c.field)
		}
	}
	if w, err := d.Workspaces.Create(t.Context(), as("bob"), workspaces.WorkspaceRequest{ID: "x", SizeMB: 200}); err != nil || w.SizeMB != 200 {
		t.Fatalf("%+v, %v", w, err)
	}
	_, err = d.Workspaces.Create(t.Context(), as("bob"), workspaces.WorkspaceRequest{ID: "y"})
	wantCode(t, err, errdefs.ResourceExhausted)
	_, err = d.Sessions.Create(t.Context(), as("bob"), session.CreateRequest{WorkspaceID: "y"})
	wantCode(t, err, errdefs.ResourceExhausted)
	h.wantVolumes(t, 2)
	h.driver.WantSandboxes(t)
}

// Workspaces count in their owner's quotas, with the sessions, and over a restart.
func TestWorkspacesCountInQuotas(t *testing.T) {
	h := newHost(t)
	quotas := &changingQuotas{auth.Quota{DiskMB: 1000}}
	options := func(o *session.Options) {
		o.Quotas = quotas
		o.Defaults.Limits.DiskMB, o.Workspaces.DefaultSizeMB = 300, 400
	}
	d := h.start(t, withWorkspaces, options)
	d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: "w"}) // 700
	for range 2 {
		_, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{ID: "x"})
		wantQuota(t, err, "disk_mb", errdefs.InsufficientSpace)
		_, err = d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{WorkspaceID: "x"})
		wantQuota(t, err, "disk_mb", errdefs.InsufficientSpace)
		_, err = d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{Limits: runtime.Limits{DiskMB: 301}})
		wantQuota(t, err, "disk_mb", errdefs.InsufficientSpace)
		d.stop()
		d = h.start(t, withWorkspaces, options)
	}
	second := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: "w"}) // 1000; the workspace counts once
	d.createAs(t, as("bob"), session.CreateRequest{WorkspaceID: "x"})
	d.destroy(t, second.ID)
	_, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{ID: "x", SizeMB: 300})
	if err != nil {
		t.Fatal(err)
	}

	quotas.quota = auth.Quota{Workspaces: 3}
	if _, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{ID: "y"}); err != nil {
		t.Fatal(err)
	}
	_, err = d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{WorkspaceID: "z"})
	wantQuota(t, err, "max_workspaces", errdefs.ResourceExhausted)
	_, err = d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{ID: "y"})
	wantCode(t, err, errdefs.AlreadyExists) // which says more
	if err := d.Workspaces.Delete(t.Context(), as("alice"), "y"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{ID: "z"}); err != nil {
		t.Fatal(err)
	}
}

func wantQuota(t *testing.T, err error, name string, code errdefs.Code) {
	t.Helper()
	if e, ok := errors.AsType[*errdefs.Error](err); !ok || e.Code != code || e.Quota == nil || e.Quota.Name != name {
		t.Errorf("%v; want %s of %s", err, code, name)
	}
}

// One owner takes not all that the daemon may have, over a restart either.
func TestOwnersShareTheWorkspacesOfADaemon(t *testing.T) {
	h := newHost(t)
	options := func(o *session.Options) { o.Workspaces.MaxCount = 6 }
	d := h.start(t, withWorkspaces, options)
	fill := func(owner string) (n int) {
		for {
			_, err := d.Workspaces.Create(t.Context(), as(owner), workspaces.WorkspaceRequest{})
			if err != nil {
				wantCode(t, err, errdefs.ResourceExhausted)
				return n
			}
			n++
		}
	}
	if n := fill("alice"); n != 3 {
		t.Errorf("alice has %d of 6", n)
	}
	d.stop()
	d = h.start(t, withWorkspaces, options)
	if n := fill("alice"); n != 0 {
		t.Errorf("after a restart alice has %d more", n)
	}
	if n := fill("bob"); n != 2 {
		t.Errorf("bob has %d of 6", n)
	}
	if n := fill("carol"); n != 1 {
		t.Errorf("carol has %d of 6", n)
	}
}

// Of sessions and workspaces at once no more are made than the quota has room for.
func TestQuotaHoldsForSessionsAndWorkspacesAtOnce(t *testing.T) {
	quotas := &changingQuotas{auth.Quota{DiskMB: 500}}
	d := newHost(t).start(t, withWorkspaces, func(o *session.Options) {
		o.Quotas = quotas
		o.Defaults.Limits.DiskMB, o.Workspaces.DefaultSizeMB = 100, 100
	})
	var next atomic.Int32
	made := atOnce(40, func() error {
		if next.Add(1)%2 == 0 {
			_, err := d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{})
			return err
		}
		_, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{})
		return err
	})
	if made != 5 {
		t.Errorf("%d of 40 were made", made)
	}
}

// All workspaces of an owner go, with the sessions that have them and whatever state they
// are in, and give their room back.
func TestWorkspacesOfAnOwnerAreRemoved(t *testing.T) {
	h := newHost(t)
	driver := &stubborn{Local: h.driver}
	d := h.start(t, withWorkspaces, func(o *session.Options) {
		o.Driver = driver
		o.Quotas = &changingQuotas{auth.Quota{Workspaces: 20}}
	})
	fill := func() {
		t.Helper()
		for i := range 20 {
			if _, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{ID: fmt.Sprint("w", i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	s := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: "w0"})
	d.createAs(t, as("bob"), session.CreateRequest{WorkspaceID: "w0"})
	driver.refuse = true
	wantCode(t, d.Workspaces.ForceDelete(t.Context(), as("alice"), "w1"), errdefs.Unavailable)
	wantCode(t, d.Workspaces.RemoveAll(t.Context(), as("alice")), errdefs.Unavailable)
	driver.refuse = false
	if err := d.Workspaces.RemoveAll(t.Context(), as("alice")); err != nil {
		t.Fatal(err)
	}
	d.want(t, s.ID, session.Destroyed)
	h.wantVolumes(t, 1)
	if w := d.workspace(t, "bob", "w0"); w.Active != 1 {
		t.Errorf("bob's %+v", w)
	}
	fill()
}

// withoutWorkspaces hides that a driver has them.
type withoutWorkspaces struct{ runtime.Driver }

func TestDriverWithoutWorkspaces(t *testing.T) {
	h := newHost(t)
	d := h.start(t, withWorkspaces, func(o *session.Options) {
		o.Driver = withoutWorkspaces{h.driver}
		o.Workspaces.PersistByDefault = true
	})
	_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{WorkspaceID: "w"})
	wantCode(t, err, errdefs.Unimplemented)
	_, err = d.Workspaces.Create(t.Context(), everyone, workspaces.WorkspaceRequest{})
	wantCode(t, err, errdefs.Unimplemented)
	_, err = d.Workspaces.List(t.Context(), everyone)
	wantCode(t, err, errdefs.Unimplemented)
	_, err = d.Workspaces.Get(t.Context(), as(""), "w")
	wantCode(t, err, errdefs.Unimplemented)
	_, err = d.Sessions.OfWorkspace(t.Context(), as(""), "w")
	wantCode(t, err, errdefs.Unimplemented)
	wantCode(t, d.Workspaces.ForceDelete(t.Context(), as(""), "w"), errdefs.Unimplemented)
	if s := d.create(t, session.CreateRequest{}); s.WorkspaceID != "" {
		t.Errorf("a session has workspace %q", s.WorkspaceID)
	}
}

func TestPersistByDefault(t *testing.T) {
	h := newHost(t)
	d := h.start(t, withWorkspaces, func(o *session.Options) { o.Workspaces.PersistByDefault = true })
	a, b := d.createAs(t, as("alice"), session.CreateRequest{}), d.createAs(t, as("alice"), session.CreateRequest{})
	if a.WorkspaceID == "" || a.WorkspaceID == b.WorkspaceID {
		t.Fatalf("workspaces %q and %q", a.WorkspaceID, b.WorkspaceID)
	}
	d.output(t, a.ID, "echo kept > f")
	d.destroy(t, a.ID)
	again := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: a.WorkspaceID})
	if out := d.output(t, again.ID, "cat f"); out != "kept\n" {
		t.Errorf("got %q", out)
	}
}

// A session that cannot be made leaves no workspace that was made for it, and
// takes none along that was there.
func TestFailedCreateAndItsWorkspace(t *testing.T) {
	h := newHost(t)
	broken := false
	d := h.start(t, withWorkspaces, func(o *session.Options) {
		o.Creator = creatorFunc(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
			if broken {
				return nil, errdefs.New(errdefs.Unavailable, "broken for the test")
			}
			return h.driver.Create(ctx, id, spec)
		})
	})
	s := d.create(t, session.CreateRequest{WorkspaceID: "there"})
	d.destroy(t, s.ID)
	broken = true
	for _, id := range []string{"there", "new"} {
		_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{WorkspaceID: id})
		wantCode(t, err, errdefs.Unavailable)
	}
	_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{WorkspaceID: "newer", Image: "missing"})
	wantCode(t, err, errdefs.NotFound)
	if all, err := d.Workspaces.List(t.Context(), everyone); err != nil || len(all) != 1 || all[0].ID != "there" {
		t.Errorf("workspaces %+v, %v", all, err)
	}
	h.wantVolumes(t, 1)
}

type creatorFunc func(context.Context, runtime.ID, runtime.Spec) (runtime.Sandbox, error)

func (f creatorFunc) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	return f(ctx, id, spec)
}

// Files are served by one session, which nobody sees and which does not keep
// the workspace from being deleted.
func TestWorkspaceFiles(t *testing.T) {
	h := newHost(t)
	d := h.start(t, withWorkspaces)
	_, err := d.Sessions.OfWorkspace(t.Context(), as("alice"), "w")
	wantCode(t, err, errdefs.NotFound)
	_, err = d.Sessions.OfWorkspace(t.Context(), as("alice"), "../w")
	wantCode(t, err, errdefs.NotFound)
	if _, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{ID: "w"}); err != nil {
		t.Fatal(err)
	}
	ids := make([]session.ID, 4)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			var err error
			if ids[i], err = d.Sessions.OfWorkspace(t.Context(), as("alice"), "w"); err != nil {
				t.Error(err)
				return
			}
			text := fmt.Sprint("text ", i)
			if _, err := d.Files.Write(t.Context(), everyone, string(ids[i]), protocol.Write{Path: fmt.Sprint("f", i)}, int64(len(text)), strings.NewReader(text)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("several helpers: %v", ids)
		}
	}
	_, err = d.Sessions.Get(t.Context(), everyone, ids[0])
	wantCode(t, err, errdefs.NotFound)
	if shown, err := d.Sessions.List(t.Context(), everyone, session.ListRequest{IncludeEnded: true}); err != nil || len(shown) != 0 {
		t.Errorf("listed: %+v, %v", shown, err)
	}
	if w := d.workspace(t, "alice", "w"); w.Sessions != 0 || w.Active != 0 {
		t.Errorf("counted: %+v", w)
	}
	s := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: "w"})
	if out := d.output(t, s.ID, "cat f0 f1 f2 f3"); out != "text 0text 1text 2text 3" {
		t.Errorf("a session reads %q", out)
	}
	d.destroy(t, s.ID)
	d.stop()

	d = h.start(t, withWorkspaces)
	again, err := d.Sessions.OfWorkspace(t.Context(), as("alice"), "w")
	if err != nil || again != ids[0] {
		t.Errorf("after a restart %s instead of %s, %v", again, ids[0], err)
	}
	if shown, err := d.Sessions.List(t.Context(), part, session.ListRequest{Helpers: true}); err != nil || len(shown) != 1 || shown[0].TTL > time.Minute {
		t.Errorf("for the reaper: %+v, %v", shown, err)
	}
	if err := d.Workspaces.Delete(t.Context(), as("alice"), "w"); err != nil {
		t.Fatal(err)
	}
	h.wantVolumes(t, 0)
	h.driver.WantSandboxes(t)
}

// The helper counts like any session.
func TestWorkspaceFilesAreLimited(t *testing.T) {
	d := newHost(t).start(t, withWorkspaces, func(o *session.Options) { o.Maxima.Sessions = 1 })
	s := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: "w"})
	_, err := d.Sessions.OfWorkspace(t.Context(), as("alice"), "w")
	wantCode(t, err, errdefs.ResourceExhausted)
	d.destroy(t, s.ID)
	if _, err := d.Sessions.OfWorkspace(t.Context(), as("alice"), "w"); err != nil {
		t.Error(err)
	}
}

// stubborn is a driver that does not remove workspaces while it is told so.
type stubborn struct {
	*runtimetest.Local
	refuse bool
}

func (s *stubborn) DestroyWorkspace(ctx context.Context, id runtime.WorkspaceID) error {
	if s.refuse {
		return errors.New("broken for the test")
	}
	return s.Local.DestroyWorkspace(ctx, id)
}

// A removal that fails is gone on with, and until then nobody gets what is
// left.
func TestRemovalOfAWorkspaceThatFails(t *testing.T) {
	h := newHost(t)
	driver := &stubborn{Local: h.driver, refuse: true}
	d := h.start(t, withWorkspaces, func(o *session.Options) { o.Driver = driver })
	s := d.create(t, session.CreateRequest{WorkspaceID: "w"})
	wantCode(t, d.Workspaces.ForceDelete(t.Context(), as(""), "w"), errdefs.Unavailable)
	d.want(t, s.ID, session.Destroyed)
	_, err := d.Workspaces.Get(t.Context(), as(""), "w")
	wantCode(t, err, errdefs.NotFound)
	_, err = d.Sessions.Create(t.Context(), everyone, session.CreateRequest{WorkspaceID: "w"})
	wantCode(t, err, errdefs.Unavailable) // and not a conflict: it is possible later
	_, err = d.Workspaces.Create(t.Context(), everyone, workspaces.WorkspaceRequest{ID: "w"})
	wantCode(t, err, errdefs.Unavailable)
	if n, err := d.Upkeep.PruneWorkspaces(t.Context(), part); n != 0 || err == nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	driver.refuse = false
	if n, err := d.Upkeep.PruneWorkspaces(t.Context(), part); n != 1 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	h.wantVolumes(t, 0)
	if _, err := d.Workspaces.Create(t.Context(), everyone, workspaces.WorkspaceRequest{ID: "w"}); err != nil {
		t.Error(err)
	}
}

// A database without the workspaces' rows is no reason to delete files.
func TestWorkspacesThatNoRowNames(t *testing.T) {
	h := newHost(t)
	d := h.start(t, withWorkspaces)
	d.create(t, session.CreateRequest{WorkspaceID: "w"})
	d.stop()
	h.db += "-new"
	d = h.start(t, withWorkspaces)
	if n, err := d.Upkeep.PruneWorkspaces(t.Context(), part); n != 0 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	h.wantVolumes(t, 1)
	h.driver.WantSandboxes(t) // orphans
}

// Sessions come and go while somebody deletes the workspace under them.
func TestDeleteWorkspaceAmongCreates(t *testing.T) {
	h := newHost(t)
	d := h.start(t, withWorkspaces)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for range 3 {
				if i%3 == 0 {
					err := d.Workspaces.ForceDelete(t.Context(), as(""), "w")
					if err != nil && !errdefs.Is(err, errdefs.NotFound) {
						t.Errorf("delete: %v", err)
					}
					continue
				}
				s, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{WorkspaceID: "w"})
				// The workspace is being removed, or its removal ends the session.
				if err != nil && !errdefs.Is(err, errdefs.Unavailable) && !errdefs.Is(err, errdefs.Conflict) {
					t.Errorf("create: %v", err)
				}
				if err == nil {
					if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
						t.Errorf("destroy: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	if err := d.Workspaces.ForceDelete(t.Context(), as(""), "w"); err != nil && !errdefs.Is(err, errdefs.NotFound) {
		t.Error(err)
	}
	h.wantVolumes(t, 0)
	h.driver.WantSandboxes(t)
}
