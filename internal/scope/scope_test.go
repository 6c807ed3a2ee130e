package scope_test

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/scope"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
)

// sessions is a core that lists by owner and destroys what is not stuck.
type sessions struct {
	mu    sync.Mutex
	all   []session.Session
	stuck bool
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
	return scope.New(scope.Options{Store: rows, Sessions: core, Grace: 100 * time.Millisecond})
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
	s := newService(t, filepath.Join(t.TempDir(), "db"), core)
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
	core, path := &sessions{}, filepath.Join(t.TempDir(), "db")
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
}

func TestWhatCannotEndNowEndsLater(t *testing.T) {
	t.Parallel()
	core := &sessions{stuck: true}
	core.add("a", "alice", "user:u")
	s := newService(t, filepath.Join(t.TempDir(), "db"), core)
	if _, left, err := s.Complete(t.Context(), alice, "user:u", 0); err != nil || left != 1 {
		t.Fatal(left, err)
	}
	core.stuck = false
	if err := s.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSessions(t, core)
}

// A session has its time of creation before its row, so a list may lack it.
func TestWhatWasOnItsWayEndsInTheGrace(t *testing.T) {
	t.Parallel()
	core := &sessions{}
	core.add("late", "alice", "user:u")
	late := slices.Clone(core.all)
	core.all = nil
	s := newService(t, filepath.Join(t.TempDir(), "db"), core)
	if _, _, err := s.Complete(t.Context(), alice, "user:u", 0); err != nil {
		t.Fatal(err)
	}
	core.all = slices.Clone(late)
	if err := s.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSessions(t, core)
	time.Sleep(110 * time.Millisecond)
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
	s := newService(t, filepath.Join(t.TempDir(), "db"), &sessions{})
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
