package inspections_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts/inspections"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// memory counts writes, and may fail.
type memory struct {
	rows map[inspections.Kind]inspections.Inspection
	puts int
	fail error
}

func (m *memory) PutInspection(_ context.Context, i inspections.Inspection) error {
	if m.fail != nil {
		return m.fail
	}
	m.puts++
	m.rows[i.Kind] = i
	return nil
}

func (m *memory) InspectionsOf(context.Context, string, int) ([]inspections.Inspection, error) {
	return nil, nil
}

func (m *memory) ForgetInspections(context.Context, string) error { return nil }

// The same within a minute is written once, and what cannot be written is refused.
func TestWhatCannotBeToldIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{rows: map[inspections.Kind]inspections.Inspection{}}
		n := inspections.New(m)
		look := inspections.Kind{Owner: "alice", By: "root", What: "a session", Session: "s"}
		for _, wait := range []time.Duration{0, 30 * time.Second, 40 * time.Second, 24 * time.Hour} {
			time.Sleep(wait)
			if err := n.Note(t.Context(), look); err != nil {
				t.Fatal(err)
			}
		}
		if m.puts != 3 || len(m.rows) != 2 {
			t.Errorf("%d writes of %d inspections on two days", m.puts, len(m.rows))
		}
		m.fail = errors.New("the disk is full")
		look.Session = "another"
		if err := n.Note(t.Context(), look); !errdefs.Is(err, errdefs.Unavailable) || !errors.Is(err, m.fail) {
			t.Errorf("of what cannot be told: %v", err)
		}
	})
}

// What the inspections need of the real store.
func TestStore(t *testing.T) {
	path := storetest.NewDB(t)
	rows, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	put := func(owner, session string, at time.Time) {
		t.Helper()
		k := inspections.Kind{Owner: owner, By: "root", What: "a session", Session: session, Day: at.Format(time.DateOnly)}
		if err := rows.PutInspection(t.Context(), inspections.Inspection{Kind: k, First: at, Last: at}); err != nil {
			t.Fatal(err)
		}
	}
	put("alice", "old", now.Add(-inspections.Kept-time.Hour))
	put("alice", "a", now)
	put("alice", "a", now.Add(time.Microsecond))
	put("bob", "b", now)
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	if rows, err = store.Open(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := inspections.New(rows)
	all, err := n.Of(t.Context(), "alice")
	if err != nil || len(all) != 1 || all[0].Session != "a" || !all[0].First.Equal(now) || !all[0].Last.Equal(now.Add(time.Microsecond)) {
		t.Errorf("alice is told %+v, %v", all, err)
	}
	if err := n.Forget(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	for owner, want := range map[string]int{"alice": 0, "bob": 1} {
		if all, err := n.Of(t.Context(), owner); err != nil || len(all) != want {
			t.Errorf("%s is told %+v, %v", owner, all, err)
		}
	}
}
