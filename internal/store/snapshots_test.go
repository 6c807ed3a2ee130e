package store_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/snapshot"
	"github.com/sandkasten/sandkasten/internal/store"
)

func snap(owner, id, key string) snapshots.Snapshot {
	return snapshots.Snapshot{
		ID: id, Owner: owner, Name: "n", Label: `a "label"`, State: snapshots.Creating, Size: 5, CreatedAt: epoch, IdempotencyKey: key, RequestHash: "h",
		Manifest: snapshot.Manifest{Format: 1, ID: id, Include: []string{"/a\xff"[:2]}, CreatedAt: epoch, Parts: []snapshot.Part{{Name: snapshot.Root, Size: 3}}},
	}
}

func code(t *testing.T, what string, err error, want errdefs.Code) {
	t.Helper()
	if errdefs.CodeOf(err) != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

func ids(t *testing.T, s *store.Store, owner string) (list []string) {
	t.Helper()
	all, err := s.SnapshotsOf(t.Context(), owner)
	if owner == "" {
		all, err = s.AllSnapshots(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		list = append(list, one.ID+" "+string(one.State))
	}
	return list
}

func TestSnapshots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	first := snap("alice", "1", "key")
	if err := s.AddSnapshot(t.Context(), first, 2); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, path).GetSnapshot(t.Context(), "alice", "1")
	if diff := cmp.Diff(first, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	_, err = s.GetSnapshot(t.Context(), "bob", "1")
	code(t, "another's", err, errdefs.NotFound)
	code(t, "the same key", s.AddSnapshot(t.Context(), snap("alice", "2", "key"), 0), errdefs.AlreadyExists)
	second := snap("alice", "2", "")
	second.CreatedAt = epoch.Add(time.Second)
	for _, one := range []snapshots.Snapshot{second, snap("bob", "3", "key")} {
		if err := s.AddSnapshot(t.Context(), one, 2); err != nil {
			t.Error(err)
		}
	}
	code(t, "one too many", s.AddSnapshot(t.Context(), snap("alice", "4", ""), 2), errdefs.ResourceExhausted)
	code(t, "a known key at the maximum", s.AddSnapshot(t.Context(), snap("alice", "4", "key"), 2), errdefs.AlreadyExists)
	if found, err := s.FindSnapshot(t.Context(), "alice", "key"); err != nil || found.ID != "1" {
		t.Errorf("%+v, %v", found, err)
	}
	_, err = s.FindSnapshot(t.Context(), "alice", "")
	code(t, "no key", err, errdefs.NotFound)

	first.State, first.Size, first.Manifest.Cwd = snapshots.Ready, 7, "/x"
	if err := s.PutSnapshot(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := s.AbandonSnapshots(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.GetSnapshot(t.Context(), "alice", "1"); err != nil || !cmp.Equal(got, first) {
		t.Errorf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"1 ready", "2 deleting"}, ids(t, s, "alice")); diff != "" {
		t.Error(diff)
	}
	if n := len(ids(t, s, "")); n != 3 {
		t.Errorf("%d of all owners", n)
	}
	// The key of one that goes is free again.
	_, err = s.FindSnapshot(t.Context(), "bob", "key")
	code(t, "an abandoned one's key", err, errdefs.NotFound)
	if err := s.AddSnapshot(t.Context(), snap("bob", "5", "key"), 0); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := s.DeleteSnapshot(t.Context(), "1"); err != nil {
			t.Error(err)
		}
	}
	_, err = s.GetSnapshot(t.Context(), "alice", "1")
	code(t, "deleted", err, errdefs.NotFound)
}

// The sizes of an owner's snapshots are bounded together, whatever their state.
func TestCountSnapshot(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	for _, one := range []snapshots.Snapshot{snap("alice", "1", ""), snap("alice", "2", ""), snap("bob", "3", "")} {
		if err := s.AddSnapshot(t.Context(), one, 0); err != nil { // each of 5 bytes
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		owner, id  string
		size, most int64
		refused    bool
	}{
		{"alice", "2", 5, 10, false},
		{"alice", "2", 6, 10, true},
		{"alice", "2", 6, 11, false},
		{"alice", "1", 4, 10, false},
		{"alice", "1", 1000, 0, false},
		{"bob", "3", 10, 10, false},
	} {
		one := snap(c.owner, c.id, "")
		before, err := s.GetSnapshot(t.Context(), c.owner, c.id)
		if err != nil {
			t.Fatal(err)
		}
		one.Size = c.size
		err = s.CountSnapshot(t.Context(), one, c.most)
		want := c.size
		if c.refused {
			want = before.Size
			code(t, "over the maximum", err, errdefs.InsufficientSpace)
			if e, ok := errors.AsType[*errdefs.Error](err); !ok || e.Reason != errdefs.QuotaExceeded || e.Quota.Name != "snapshot_mb" {
				t.Errorf("%+v: it does not say which quota: %v", c, err)
			}
		} else if err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if got, err := s.GetSnapshot(t.Context(), c.owner, c.id); err != nil || got.Size != want {
			t.Errorf("%+v: it has %d bytes, %v", c, got.Size, err)
		}
	}
}

// One session's snapshots are found without reading those of the owner's others.
func TestSnapshotsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	for i, name := range []string{"x", "y", "x"} {
		one := snap("alice", string(rune('1'+i)), "")
		one.Name, one.CreatedAt = name, epoch.Add(time.Duration(i)*time.Second)
		if err := s.AddSnapshot(t.Context(), one, 0); err != nil {
			t.Fatal(err)
		}
	}
	other := snap("bob", "4", "")
	other.Name = "x"
	if err := s.AddSnapshot(t.Context(), other, 0); err != nil {
		t.Fatal(err)
	}
	all, err := s.SnapshotsNamed(t.Context(), "alice", "x")
	if err != nil || len(all) != 2 || all[0].ID != "1" || all[1].ID != "3" {
		t.Errorf("%+v, %v", all, err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	var id, parent, unused int
	var plan string
	err = db.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN SELECT * FROM snapshots WHERE owner = 'a' AND name = 'x' ORDER BY created_at, id").Scan(&id, &parent, &unused, &plan)
	if err = errors.Join(err, db.Close()); err != nil || !strings.Contains(plan, "USING INDEX snapshots_name (owner=? AND name=?)") {
		t.Errorf("%s, %v", plan, err)
	}
}
