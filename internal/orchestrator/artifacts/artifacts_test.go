package artifacts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
)

// fixture is a service over a real store, and what it can fail at.
type fixture struct {
	*artifacts.Service

	t     *testing.T
	rows  *store.Store
	blobs *brittle
	made  int
	mu    sync.Mutex
}

// brittle is a directory that fails when it is told to.
type brittle struct {
	*blob.Dir

	mu   sync.Mutex
	fail error // of every call that changes something
	puts int
}

func (b *brittle) told() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fail
}

func (b *brittle) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

func (b *brittle) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if err := b.told(); err != nil {
		return 0, err
	}
	b.mu.Lock()
	b.puts++
	b.mu.Unlock()
	return b.Dir.Put(ctx, key, r)
}

func (b *brittle) Delete(ctx context.Context, key string) error {
	return errors.Join(b.told(), b.Dir.Delete(ctx, key))
}

// credentials are those that open something.
type credentials map[string]auth.Hash

func (c credentials) HashOf(id string) (auth.Hash, bool) {
	hash, ok := c[id]
	return hash, ok
}

var alice = auth.Principal{Owner: "alice", ID: "key-of-alice"}

func newFixture(t *testing.T, change func(*artifacts.Options)) *fixture {
	t.Helper()
	rows, err := store.Open(context.WithoutCancel(t.Context()), storetest.NewDB(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	})
	dir, err := blob.NewDir(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, rows: rows, blobs: &brittle{Dir: dir}}
	o := artifacts.Options{Store: rows, Blobs: f.blobs, SpoolDir: t.TempDir(), Secret: []byte("s"), Credentials: credentials{alice.ID: {1}}}
	if change != nil {
		change(&o)
	}
	f.Service = artifacts.New(o)
	return f
}

func (f *fixture) id() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	return fmt.Sprintf("id-%d", f.made)
}

// export keeps content for the session of an owner.
func (f *fixture) export(owner, content string) (artifacts.Artifact, error) {
	return f.Export(f.t.Context(), artifacts.Artifact{Owner: owner, SessionID: owner + "-session", Filename: "f", StoragePath: "/workspace/f"},
		f.id(), int64(len(content)), strings.NewReader(content))
}

func (f *fixture) mustExport(owner, content string) artifacts.Artifact {
	f.t.Helper()
	a, err := f.export(owner, content)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fixture) read(a artifacts.Artifact) string {
	f.t.Helper()
	r, err := f.Open(f.t.Context(), a)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// want checks how many artifacts a session has, and how many contents there are.
func (f *fixture) want(owner string, listed, contents int) {
	f.t.Helper()
	list, err := f.List(f.t.Context(), owner+"-session")
	if err != nil {
		f.t.Fatal(err)
	}
	n := 0
	for _, err := range f.blobs.List(f.t.Context(), "") {
		if err != nil {
			f.t.Fatal(err)
		}
		n++
	}
	if len(list) != listed || n != contents {
		f.t.Errorf("%s has %d artifacts and there are %d contents; want %d and %d", owner, len(list), n, listed, contents)
	}
}

func TestContentIsKeptOnceForEachOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first, second := f.mustExport("alice", "same"), f.mustExport("alice", "same")
	f.mustExport("alice", "other")
	bobs := f.mustExport("bob", "same")
	f.want("alice", 3, 3)
	if first.ID == second.ID || f.blobs.puts != 3 {
		t.Errorf("%s and %s, %d puts", first.ID, second.ID, f.blobs.puts)
	}
	if err := f.RemoveOwner(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	f.want("alice", 0, 1)
	if got := f.read(bobs); got != "same" {
		t.Errorf("bob has %q", got)
	}
	if _, err := f.Get(t.Context(), auth.Principal{Owner: "alice"}, first.ID); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("what was removed: %v", err)
	}
}

func TestExportsOfOneContentAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var exports sync.WaitGroup
	for range 20 {
		exports.Go(func() {
			if _, err := f.export("alice", "same"); err != nil {
				t.Error(err)
			}
		})
		exports.Go(func() {
			if err := f.Round(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	exports.Wait()
	f.want("alice", 20, 1)
	if f.blobs.puts != 1 {
		t.Errorf("%d puts", f.blobs.puts)
	}
}

// A removal of one artifact and an export of the same content leave content where
// there is an artifact.
func TestExportDuringRemoval(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for range 50 {
		f.mustExport("alice", "same")
		var both sync.WaitGroup
		both.Go(func() {
			if err := f.RemoveSession(t.Context(), "alice-session"); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if _, err := f.export("alice", "same"); err != nil && !errdefs.Is(err, errdefs.NotFound) {
				t.Error(err)
			}
		})
		both.Wait()
		list, err := f.List(t.Context(), "alice-session")
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			if got := f.read(a); got != "same" {
				t.Fatalf("%q", got)
			}
		}
	}
}

func TestFailedExportLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *artifacts.Options) { o.MaxBytes = 10 })
	f.blobs.set(errdefs.New(errdefs.Unavailable, "down"))
	if _, err := f.export("alice", "a"); !errdefs.Is(err, errdefs.Unavailable) {
		t.Errorf("%v", err)
	}
	f.blobs.set(nil)
	if err := f.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.want("alice", 0, 0)
	if _, err := f.export("alice", strings.Repeat("a", 11)); !errdefs.Is(err, errdefs.TooLarge) {
		t.Errorf("%v", err)
	}
	// A file that grows while it is read.
	_, err := f.Export(t.Context(), artifacts.Artifact{Owner: "alice"}, "grown", 5, bytes.NewReader(make([]byte, 11)))
	if !errdefs.Is(err, errdefs.TooLarge) {
		t.Errorf("%v", err)
	}
	f.want("alice", 0, 0)
}

// What a daemon that was killed had not finished is gone after the next one's start.
func TestRecover(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	kept := f.mustExport("alice", "kept")
	cut := kept
	cut.ID, cut.SHA256, cut.State = "cut", strings.Repeat("0", 64), artifacts.Creating
	if err := f.rows.AddArtifact(t.Context(), cut, 0, 0); err != nil {
		t.Fatal(err)
	}
	folder, _, _ := strings.Cut(strings.TrimPrefix(contentKey(t, f), "artifacts/"), "/")
	if _, err := f.blobs.Put(t.Context(), "artifacts/"+folder+"/"+cut.SHA256, strings.NewReader("orphan")); err != nil {
		t.Fatal(err)
	}
	f.want("alice", 1, 2)
	if err := errors.Join(f.Recover(t.Context()), f.Round(t.Context())); err != nil {
		t.Fatal(err)
	}
	f.want("alice", 1, 1)
	if got := f.read(kept); got != "kept" {
		t.Errorf("%q", got)
	}
}

// contentKey is the key of the only content.
func contentKey(t *testing.T, f *fixture) string {
	t.Helper()
	for info, err := range f.blobs.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		return info.Key
	}
	t.Fatal("there is no content")
	return ""
}

func TestRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *artifacts.Options) { o.Retention = 50 * time.Millisecond })
	f.mustExport("alice", "old")
	time.Sleep(60 * time.Millisecond)
	fresh := f.mustExport("alice", "fresh")
	if err := f.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := f.List(t.Context(), "alice-session")
	if err != nil || len(list) > 1 || len(list) == 1 && list[0].ID != fresh.ID {
		t.Errorf("%v, %v", list, err)
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *artifacts.Options) { o.Quota, o.MaxCount = 10, 4 })
	f.mustExport("alice", "12345")
	f.mustExport("alice", "12345")
	f.mustExport("alice", "54321")
	if _, err := f.export("alice", "x"); !errdefs.Is(err, errdefs.InsufficientSpace) {
		t.Errorf("%v", err)
	}
	f.mustExport("alice", "12345")
	if _, err := f.export("alice", "12345"); !errdefs.Is(err, errdefs.ResourceExhausted) {
		t.Errorf("%v", err)
	}
	f.mustExport("bob", "1234567890")
}

func TestLinkEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *artifacts.Options) { o.LinkLife = -time.Second })
	a := f.mustExport("alice", "a")
	_, err := f.Check(t.Context(), a.ID, f.query(a))
	if !errdefs.Is(err, errdefs.PermissionDenied) || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("%v", err)
	}
}

// query has the parameters of the daemon's link to an artifact.
func (f *fixture) query(a artifacts.Artifact) url.Values {
	f.t.Helper()
	link, err := url.Parse(f.Link(f.t.Context(), alice, a, ""))
	if err != nil {
		f.t.Fatal(err)
	}
	return link.Query()
}

// A link opens its artifact while the credential is the one that it was made with.
func TestLinkEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	known := credentials{alice.ID: {1}, "key-of-bob": {2}}
	f := newFixture(t, func(o *artifacts.Options) { o.Credentials = known })
	a := f.mustExport("alice", "a")
	query := f.query(a)
	of := func(name, value string) url.Values {
		changed := maps.Clone(query)
		changed.Set(name, value)
		return changed
	}
	check := func(name string, query url.Values, opens bool) {
		t.Helper()
		got, err := f.Check(t.Context(), a.ID, query)
		if opens && (err != nil || got.ID != a.ID) || !opens && !errdefs.Is(err, errdefs.PermissionDenied) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	check("as it is", query, true)
	check("with another key", of("key", "key-of-bob"), false)
	check("with a key that nobody has", of("key", "nobody"), false)
	check("without a key", of("key", ""), false)
	delete(known, alice.ID)
	check("of a key that has ended", query, false)
	known[alice.ID] = auth.Hash{3}
	check("of a key that is another now", query, false)
	known[alice.ID] = auth.Hash{1}
	check("again", query, true)

	unknown, err := url.Parse(f.Link(t.Context(), auth.Principal{Owner: "alice", ID: "nobody"}, a, ""))
	if err != nil {
		t.Fatal(err)
	}
	check("made with a key that nobody has", unknown.Query(), false)
}

func TestBaseURLs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *artifacts.Options) { o.BaseURL = "https://all.example.net" })
	a := artifacts.Artifact{ID: "a", StoragePath: "/workspace/d/a.txt"}
	for base, want := range map[string]string{
		"":                           "https://all.example.net/workspace/d/a.txt",
		"https://one.example.net/x/": "https://one.example.net/x/workspace/d/a.txt",
	} {
		if got := f.Link(t.Context(), alice, a, base); got != want {
			t.Errorf("%q gives %s, want %s", base, got, want)
		}
	}
}

// The store's own link is given if it makes one.
func TestLinksOfTheStore(t *testing.T) {
	t.Parallel()
	broken := error(nil)
	f := newFixture(t, func(o *artifacts.Options) {
		o.Link = func(_ context.Context, key string, life time.Duration, _ artifacts.Artifact) (string, error) {
			return fmt.Sprintf("https://s3.example.net/%s?life=%s", key, life), broken
		}
	})
	a := f.mustExport("alice", "a")
	if got, want := f.Link(t.Context(), alice, a, ""), "https://s3.example.net/"+contentKey(t, f)+"?life=24h0m0s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	broken = errors.New("down")
	if got := f.Link(t.Context(), alice, a, ""); !strings.HasPrefix(got, "/api/sandbox/artifacts/"+a.ID+"/download?") {
		t.Errorf("%s", got)
	}
}
