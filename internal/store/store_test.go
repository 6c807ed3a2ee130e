package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/selection"
	"github.com/sandkasten/sandkasten/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t *testing.T, s *store.Store, sessions ...session.Session) {
	t.Helper()
	for _, x := range sessions {
		if err := s.Put(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
}

func get(t *testing.T, s *store.Store, id session.ID) session.Session {
	t.Helper()
	x, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

// full is a session with a value in every field that is stored.
func full(id session.ID) session.Session {
	return session.Session{
		ID: id, Sandbox: runtime.ID("box-" + id), Image: "python", ImageDigest: "sha256:1", State: session.Stopping,
		End: session.Expired, EndReason: "it was idle", WorkspaceID: "w", Cwd: "/workspace/ä", Hostname: "h",
		Limits:  runtime.Limits{CPU: 1.5, MemoryMB: 2, Pids: 3, DiskMB: 4},
		Network: runtime.Network{Mode: runtime.NetworkNone}, ReadonlyRoot: true, FileScope: session.FileScopeSandbox, Labels: map[string]string{"a": `"b"`},
		Owner: "alice", Helper: true, ForkedFrom: "source", IdempotencyKey: "key-" + string(id), RequestHash: "hash",
		CreatedAt: epoch, LastActivity: epoch.Add(time.Second), TTL: time.Minute, MaxLifetime: time.Hour, EndedAt: epoch.Add(time.Minute),
		BootID: "boot", IdleTimeout: time.Second, OnIdle: session.OnIdlePause, OnExpiry: session.OnExpiryStop, ByHand: true, AutoResume: true,
	}
}

func running(id session.ID) session.Session {
	return session.Session{ID: id, State: session.Running, CreatedAt: epoch, LastActivity: epoch, TTL: time.Minute}
}

func TestPutKeepsEveryField(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	want := full("s1")
	first := open(t, path)
	put(t, first, running("s1"), want) // the second replaces the first, but for what never changes
	put(t, first, full("s2"))
	second := open(t, path)
	if diff := cmp.Diff(full("s2"), get(t, second, "s2")); diff != "" {
		t.Error(diff)
	}
	if got := get(t, second, "s1"); got.State != session.Stopping || got.End != session.Expired || got.Sandbox != "box-s1" {
		t.Errorf("replaced row: %+v", got)
	}
}

func TestEnvIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "db"))
	x := running("s1")
	x.Env = map[string]string{"TOKEN": "hunter2-hunter2"}
	put(t, s, x)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "hunter2") {
			t.Errorf("%s holds the value of an environment variable", f)
		}
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "db"), nil, 0o644); err != nil { // made by somebody careless
		t.Fatal(err)
	}
	put(t, open(t, filepath.Join(dir, "db")), running("s1"))
	for _, name := range []string{"db", "db-wal", "db-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
	}
}

func TestGetUnknown(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	if _, err := s.Get(t.Context(), "nope"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := s.FindKey(t.Context(), "", ""); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("an empty key finds %v", err)
	}
}

func TestList(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	old, young, other, ended := running("old"), running("young"), running("other"), full("ended")
	young.CreatedAt = epoch.Add(time.Hour)
	old.Owner, young.Owner, other.Owner = "alice", "alice", "bob"
	put(t, s, young, old, other, ended)
	for _, c := range []struct {
		filter session.ListFilter
		want   string
	}{
		{session.ListFilter{}, "old other young"},
		{session.ListFilter{Owner: new("alice")}, "old young"},
		{session.ListFilter{Owner: new("alice"), IncludeEnded: true}, "old young"},
		{session.ListFilter{Owner: new("alice"), IncludeEnded: true, Helpers: true}, "ended old young"},
		{session.ListFilter{Owner: new("carol")}, ""},
	} {
		found, err := s.List(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, x := range found {
			ids = append(ids, string(x.ID))
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.filter, got, c.want)
		}
	}
}

// A name is of the session that had it last, once it has ended, and of its owner's.
func TestLastNamed(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	named := func(id session.ID, owner, name string, ended time.Duration) session.Session {
		x := running(id)
		x.Owner, x.Name = owner, name
		if ended > 0 {
			x.State, x.EndedAt = session.Expired, epoch.Add(ended)
		}
		return x
	}
	put(t, s, named("new", "alice", "build", 3), named("newest", "alice", "build", 5*time.Hour), named("old", "alice", "build", 2),
		named("living", "alice", "build", 0), named("bobs", "bob", "build", 9*time.Hour), named("nameless", "alice", "", 9*time.Hour))
	if got, err := s.LastNamed(t.Context(), "alice", "build"); err != nil || got.ID != "newest" {
		t.Errorf("%s, %v", got.ID, err)
	}
	for _, c := range [][2]string{{"carol", "build"}, {"alice", "other"}, {"alice", ""}} {
		if _, err := s.LastNamed(t.Context(), c[0], c[1]); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("%s of %s: %v", c[1], c[0], err)
		}
	}
}

// TestListPagesEnded pages through sessions that have ended, in each order, and meets each
// once. A page looks at few rows, however many there are.
func TestListPagesEnded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	for i := range 250 {
		x := full(session.ID(fmt.Sprintf("s%03d", i*7%250)))
		x.Owner, x.Helper, x.Name, x.IdempotencyKey = "alice", false, fmt.Sprint("n", i%9), ""
		x.CreatedAt, x.LastActivity = epoch.Add(time.Duration(i/4)*time.Microsecond), epoch.Add(time.Duration(i*i%50)*time.Microsecond)
		put(t, s, x)
	}
	put(t, s, running("lives"))
	for _, order := range []selection.Order{"created", "-created", "activity", "-activity", "name", "-name"} {
		filter := selection.Filter{Owner: "alice"}
		everything, err := s.List(t.Context(), session.ListFilter{IncludeEnded: true})
		if err != nil {
			t.Fatal(err)
		}
		want, err := selection.Page{Order: order}.Of(everything, filter)
		if err != nil || len(want) != 250 {
			t.Fatal(len(want), err)
		}
		page := selection.Page{Order: order, Limit: 30}
		for len(want) > 0 {
			ended, err := page.Ended(filter)
			if err != nil {
				t.Fatal(err)
			}
			looked := 0
			ended.Takes = func(x session.Session) bool { looked++; return filter.Takes(x) }
			got, err := s.List(t.Context(), session.ListFilter{IncludeEnded: true, Ended: ended})
			if err != nil {
				t.Fatal(err)
			}
			n := min(page.Limit, len(want))
			if len(got) != n || looked > n || got[0].ID != want[0].ID || got[n-1].ID != want[n-1].ID {
				t.Fatalf("by %s: %d sessions of %d, after a look at %d", order, len(got), n, looked)
			}
			page.After = page.Cursor(got[n-1])
			want = want[n:]
		}
	}
	// What is taken may stand far behind what is not.
	page := selection.Page{Limit: 2}
	ended, err := page.Ended(selection.Filter{Text: "s243"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.List(t.Context(), session.ListFilter{IncludeEnded: true, Ended: ended}); err != nil || len(got) != 1 || got[0].ID != "s243" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestIdempotencyKey(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	a := running("a")
	a.Owner, a.IdempotencyKey = "alice", "k"
	put(t, s, a)
	b := a
	b.ID = "b"
	if err := s.Put(t.Context(), b); !errdefs.Is(err, errdefs.AlreadyExists) {
		t.Errorf("second use: %v", err)
	}
	if got, err := s.FindKey(t.Context(), "alice", "k"); err != nil || got.ID != "a" {
		t.Errorf("found %q, %v", got.ID, err)
	}
	b.Owner = "bob"
	put(t, s, b) // another owner's key is another key

	a.State = session.Failed
	put(t, s, a)
	if _, err := s.FindKey(t.Context(), "alice", "k"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("the key of a failed session: %v", err)
	}
	c := a
	c.ID, c.State = "c", session.Creating
	put(t, s, c)
}

func TestTouch(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	put(t, s, running("a"), running("b"))
	later := epoch.Add(time.Hour)
	err := s.Touch(t.Context(), []session.Activity{
		{ID: "a", At: later, Cwd: "/a"}, {ID: "b", At: epoch.Add(-time.Hour), Cwd: "/b"}, {ID: "gone", At: later},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "a"); !got.LastActivity.Equal(later) || got.Cwd != "/a" {
		t.Errorf("a: %v %q", got.LastActivity, got.Cwd)
	}
	if got := get(t, s, "b"); !got.LastActivity.Equal(epoch) {
		t.Errorf("activity went back to %v", got.LastActivity)
	}
	if _, err := s.Get(t.Context(), "gone"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("Touch made a session: %v", err)
	}
}

func TestPrune(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	old, recent := full("old"), full("recent")
	recent.EndedAt = epoch.Add(48 * time.Hour)
	put(t, s, old, recent, running("alive"))
	n, err := s.Prune(t.Context(), epoch.Add(24*time.Hour), 10)
	if err != nil || n != 1 {
		t.Fatalf("pruned %d, %v", n, err)
	}
	get(t, s, "recent")
	get(t, s, "alive")
}

// One owner's ended sessions take no more room than that, and nobody else's go for them.
func TestPruneKeepsSoManyOfAnOwner(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	for i := range 5 {
		x := full(session.ID(fmt.Sprint("ended", i)))
		x.EndedAt = epoch.Add(time.Duration(i) * time.Second)
		put(t, s, x)
	}
	other := full("other")
	other.Owner, other.EndedAt = "bob", epoch
	put(t, s, other, running("alive"))
	if n, err := s.Prune(t.Context(), epoch, 2); err != nil || n != 3 {
		t.Fatalf("pruned %d, %v", n, err)
	}
	for _, id := range []session.ID{"ended3", "ended4", "other", "alive"} {
		get(t, s, id)
	}
}

func TestManyWritersAndReaders(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 25 {
				x := running(session.ID(fmt.Sprintf("s-%d-%d", i, j)))
				if err := s.Put(t.Context(), x); err != nil {
					t.Error(err)
				}
				if _, err := s.Get(t.Context(), x.ID); err != nil {
					t.Errorf("read back: %v", err)
				}
			}
		})
	}
	all.Wait()
	found, err := s.List(t.Context(), session.ListFilter{})
	if err != nil || len(found) != 200 {
		t.Errorf("%d sessions, %v", len(found), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  string
	}{
		{"what is no database", func(t *testing.T, path string) {
			write(t, path, strings.Repeat("not a database ", 1000))
		}, "cannot be used"},
		{"a damaged page", func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(make([]byte, info.Size()-4096), 4096); err != nil {
				t.Fatal(err)
			}
		}, "restore a backup"},
		{"a schema from the future", func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)"); err != nil {
				t.Fatal(err)
			}
		}, "newer version"},
		{"a directory", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "is a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			s, err := store.Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, full("s1"), full("s2"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, path)
			again, err := store.Open(t.Context(), path)
			if err == nil {
				t.Fatal("opened", again.Close())
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("message %q does not say %q and the path", err, c.want)
			}
		})
	}
}

// What cannot be written because of its file system is nothing that a client
// has done, nor a fault in the program.
func TestReadOnlyDatabaseIsUnavailable(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	if err := store.Freeze(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), running("s1")); !errdefs.Is(err, errdefs.Unavailable) {
		t.Errorf("Put: %v, want Unavailable", err)
	}
}

func TestLockedDatabaseIsUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s, err := store.OpenWaiting(t.Context(), path, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other, err := sql.Open("sqlite", path+"?_txlock=exclusive")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), running("s1")); !errdefs.Is(err, errdefs.Unavailable) {
		t.Errorf("under another's lock: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	put(t, s, running("s1"))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Look reads what Open would, and writes nothing.
func TestLook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if _, err := store.Look(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of none: %v", err)
	}
	put(t, open(t, path), running("s1"))
	s, err := store.Look(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if x := get(t, s, "s1"); x.State != session.Running {
		t.Errorf("%+v", x)
	}
	if all, err := s.List(t.Context(), session.ListFilter{}); len(all) != 1 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Of another version's schema Look says which one is in the way.
func TestLookAtAnotherSchema(t *testing.T) {
	for change, want := range map[string]string{
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)": "a newer version",
		"DELETE FROM goose_db_version WHERE version_id > 1":                     "start this version's daemon first",
	} {
		path := filepath.Join(t.TempDir(), "db")
		put(t, open(t, path), running("s1"))
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.ExecContext(t.Context(), change)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Look(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// A copy is whole while others write, and is private.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "db"), filepath.Join(dir, "copy")
	if err := store.Copy(t.Context(), path, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of none: %v", err)
	}
	s := open(t, path)
	put(t, s, running("s0"))
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 1; i < 200 && err == nil; i++ {
			err = s.Put(t.Context(), running(session.ID(fmt.Sprint("s", i))))
		}
		written <- err
	}()
	err := store.Copy(t.Context(), path, to)
	if err := errors.Join(err, <-written); err != nil {
		t.Fatal(err)
	}
	if err := store.Copy(t.Context(), path, to); err == nil {
		t.Error("a file that is there is written over")
	}
	if x := get(t, open(t, to), "s0"); x.State != session.Running {
		t.Errorf("%+v", x)
	}
}
