package scope_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/scope"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
)

// sessions is a core that lists by owner and destroys what is not stuck.
type sessions struct {
	mu    sync.Mutex
	all   []session.Session
	stuck bool
	lost  string // the owner whose sessions cannot be listed
}

func (s *sessions) add(id, owner, in string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := session.Session{ID: session.ID(id), CreatedAt: time.Now(), Labels: map[string]string{scope.Label: in}}
	one.Owner = owner
	s.all = append(s.all, one)
}

func (s *sessions) List(_ context.Context, p auth.Principal, _ session.ListRequest) ([]session.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != "" && p.Owner == s.lost {
		return nil, errdefs.New(errdefs.Unavailable, "lost")
	}
	var found []session.Session
	for _, one := range s.all {
		if p.Has(auth.ScopeEveryOwner) || one.Owner == p.Owner {
			found = append(found, one)
		}
	}
	return found, nil
}

func (s *sessions) Destroy(_ context.Context, _ auth.Principal, id session.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck {
		return errdefs.New(errdefs.Unavailable, "stuck")
	}
	s.all = slices.DeleteFunc(s.all, func(one session.Session) bool { return one.ID == id })
	return nil
}

func (s *sessions) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, one := range s.all {
		ids = append(ids, string(one.ID))
	}
	return ids
}

func newService(t *testing.T, path string, core *sessions) *scope.Service {
	t.Helper()
	rows, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	})
	return scope.New(scope.Options{Store: rows, Sessions: core, Grace: 3 * time.Second})
}

var alice, bob = auth.Principal{Owner: "alice"}, auth.Principal{Owner: "bob"}

func wantSessions(t *testing.T, core *sessions, want ...string) {
	t.Helper()
	if got := core.ids(); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func TestScopesAreTheirOwners(t *testing.T) {
	t.Parallel()
	core := &sessions{}
	core.add("a", "alice", "workflow:1")
	core.add("b", "bob", "workflow:1")
	core.add("c", "alice", "workflow:2")
	s := newService(t, storetest.NewDB(t), core)
	found, err := s.List(t.Context(), alice.With(auth.ScopeEveryOwner), "workflow:1", false)
	if err != nil || len(found) != 1 || found[0].ID != "a" {
		t.Fatalf("%+v, %v", found, err)
	}
	if _, left, err := s.Complete(t.Context(), bob.With(auth.ScopeEveryOwner), "workflow:1", 0); err != nil || left != 0 {
		t.Fatal(left, err)
	}
	wantSessions(t, core, "a", "c")
}

func TestCompletionOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, path := &sessions{}, storetest.NewDB(t)
		core.add("a", "alice", "workflow:1")
		if _, left, err := newService(t, path, core).Complete(t.Context(), alice, "workflow:1", 3*time.Second); err != nil || left != 1 {
			t.Fatal(left, err)
		}
		later := newService(t, path, core)
		if err := later.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantSessions(t, core, "a")
		time.Sleep(3100 * time.Millisecond)
		core.add("new", "alice", "workflow:1")
		if err := later.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantSessions(t, core, "new")
	})
}

// Programs that live, and could not say so while the daemon was away, keep their
// sessions when it comes back.
func TestTimesCanBePutOffAfterTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, path := &sessions{}, storetest.NewDB(t)
		core.add("alive", "alice", "workflow:1")
		core.add("killed", "alice", "workflow:2")
		for _, scope := range []string{"workflow:1", "workflow:2"} {
			if _, _, err := newService(t, path, core).Complete(t.Context(), alice, scope, 5*time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		s := newService(t, path, core)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(50 * time.Second)
		wantSessions(t, core, "alive", "killed")
		if _, _, err := s.Complete(t.Context(), alice, "workflow:1", 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		wantSessions(t, core, "alive")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWhatCannotEndNowEndsLater(t *testing.T) {
	t.Parallel()
	core := &sessions{stuck: true}
	core.add("a", "alice", "user:u")
	s := newService(t, storetest.NewDB(t), core)
	if _, left, err := s.Complete(t.Context(), alice, "user:u", 0); err != nil || left != 1 {
		t.Fatal(left, err)
	}
	core.stuck = false
	if err := s.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSessions(t, core)
}

// A scope that cannot be ended holds up none behind it.
func TestARoundGoesOnBehindAFailure(t *testing.T) {
	t.Parallel()
	core := &sessions{stuck: true}
	core.add("a", "alice", "user:u")
	core.add("b", "bob", "user:u")
	s := newService(t, storetest.NewDB(t), core)
	for _, p := range []auth.Principal{alice, bob} { // alice's is due first
		if _, left, err := s.Complete(t.Context(), p, "user:u", 0); err != nil || left != 1 {
			t.Fatal(left, err)
		}
	}
	core.stuck, core.lost = false, "alice"
	if err := s.Round(t.Context()); !errdefs.Is(err, errdefs.Unavailable) || !strings.Contains(err.Error(), "user:u of alice") {
		t.Errorf("a round reports %v", err)
	}
	wantSessions(t, core, "a")
}

// What a deleted user has completed ends nothing of the next user of that name.
func TestCompletionsAreForgottenWithTheirOwner(t *testing.T) {
	t.Parallel()
	core := &sessions{}
	s := newService(t, storetest.NewDB(t), core)
	for _, p := range []auth.Principal{alice, bob} {
		if _, _, err := s.Complete(t.Context(), p, "user:u", time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Forget(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	core.add("a", "alice", "user:u")
	core.add("b", "bob", "user:u")
	for i := range core.all { // before they were due
		core.all[i].CreatedAt = time.Now().Add(-time.Hour)
	}
	time.Sleep(2 * time.Millisecond)
	if err := s.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSessions(t, core, "a")
}

func TestMostPending(t *testing.T) {
	t.Parallel()
	s := newService(t, storetest.NewDB(t), &sessions{})
	complete := func(p auth.Principal, id int) error {
		_, _, err := s.Complete(t.Context(), p, fmt.Sprintf("workflow:%d", id), time.Hour)
		return err
	}
	for i := range scope.MaxPending {
		if err := complete(alice, i); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := complete(alice, scope.MaxPending); !errdefs.Is(err, errdefs.ResourceExhausted) {
		t.Errorf("one more: %v", err)
	}
	if err := complete(alice, 1); err != nil {
		t.Errorf("one of them again: %v", err)
	}
	if err := complete(bob, 1); err != nil {
		t.Errorf("another owner's: %v", err)
	}
}

// A session has its time of creation before its row, so a list may lack it.
func TestWhatWasOnItsWayEndsInTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core := &sessions{}
		core.add("late", "alice", "user:u")
		late := slices.Clone(core.all)
		core.all = nil
		s := newService(t, storetest.NewDB(t), core)
		if _, _, err := s.Complete(t.Context(), alice, "user:u", 0); err != nil {
			t.Fatal(err)
		}
		core.all = slices.Clone(late)
		if err := s.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantSessions(t, core)
		time.Sleep(3100 * time.Millisecond)
		core.all = slices.Clone(late)
		for range 2 { // the first one forgets the scope
			if err := s.Round(t.Context()); err != nil {
				t.Fatal(err)
			}
			core.all = slices.Clone(late)
		}
		if err := s.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantSessions(t, core, "late")
	})
}

// Completion is measured where sessions end, so that a slow end shows.
func TestMetrics(t *testing.T) {
	t.Parallel()
	core := &sessions{stuck: true}
	core.add("a", "alice", "workflow:1")
	core.add("b", "alice", "agent:2")
	core.add("c", "bob", "workflow:3")
	core.add("d", "bob", "")
	s := newService(t, storetest.NewDB(t), core)
	if _, _, err := s.Complete(t.Context(), alice, "workflow:1", 0); err != nil {
		t.Fatal(err)
	}
	want := func(name, text string) {
		t.Helper()
		if err := testutil.CollectAndCompare(s, strings.NewReader(text), name); err != nil {
			t.Error(err)
		}
	}
	want("sandkasten_scope_sessions", `# HELP sandkasten_scope_sessions Sessions that belong to a scope and have not ended, by namespace.
# TYPE sandkasten_scope_sessions gauge
sandkasten_scope_sessions{namespace="agent"} 1
sandkasten_scope_sessions{namespace="user"} 0
sandkasten_scope_sessions{namespace="workflow"} 2
`)
	ended := func() uint64 {
		t.Helper()
		families := prometheus.NewRegistry()
		families.MustRegister(s)
		all, err := families.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range all {
			for _, m := range family.GetMetric() {
				if family.GetName() == "sandkasten_scope_cleaned_seconds" && m.GetLabel()[0].GetValue() == "workflow" {
					return m.GetHistogram().GetSampleCount()
				}
			}
		}
		return 0
	}
	if n := ended(); n != 0 {
		t.Errorf("%d have ended while they are stuck", n)
	}
	core.stuck = false
	if err := s.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := ended(); n != 1 {
		t.Errorf("%d have ended", n)
	}
}

func TestToolsSetTheLabel(t *testing.T) {
	t.Parallel()
	if tools.LabelScope != scope.Label {
		t.Errorf("tools set %s, and scopes are %s", tools.LabelScope, scope.Label)
	}
	for _, namespace := range tools.Namespaces {
		if err := scope.Check("scope", namespace+":run-1_a.b@c:d"); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusedCompletions(t *testing.T) {
	t.Parallel()
	s := newService(t, storetest.NewDB(t), &sessions{})
	for _, name := range []string{"", "workflow", "team:1", "workflow:", "workflow:a/b", "workflow:a\n"} {
		if _, _, err := s.Complete(t.Context(), alice, name, 0); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%q: %v", name, err)
		}
	}
	reader := alice
	reader.ReadOnly = true
	if _, _, err := s.Complete(t.Context(), reader, "workflow:1", 0); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("a key that reads: %v", err)
	}
}
