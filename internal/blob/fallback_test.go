package blob_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// downStore fails to read.
type downStore struct{ blob.Store }

func (downStore) Open(context.Context, string, int64) (io.ReadCloser, error) {
	return nil, errdefs.New(errdefs.Unavailable, "down")
}

func (downStore) Stat(context.Context, string) (blob.Info, error) {
	return blob.Info{}, errdefs.New(errdefs.Unavailable, "down")
}

func TestFallback(t *testing.T) {
	t.Parallel()
	first, behind := newDir(t), newDir(t)
	put(t, behind, "old", "old")
	put(t, behind, "both", "stale")
	put(t, first, "both", "fresh")
	f := blob.NewFallback(first, behind)
	for key, want := range map[string]string{"old": "old", "both": "fresh"} {
		if got := readAll(t, f, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
		if info, err := f.Stat(t.Context(), key); err != nil || info.Size != int64(len(want)) {
			t.Errorf("%s: %+v %v", key, info, err)
		}
	}
	var keys []string
	for info, err := range f.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if slices.Sort(keys); !slices.Equal(keys, []string{"both", "old"}) {
		t.Errorf("there are %q", keys)
	}
	if _, err := f.Open(t.Context(), "none", 0); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("a key that neither has: %v", err)
	}
	down := blob.NewFallback(downStore{first}, behind)
	if got := readAll(t, down, "old"); got != "old" {
		t.Errorf("with a first store that is down: %q", got)
	}
	for name, f := range map[string]*blob.Fallback{"first": down, "behind": blob.NewFallback(first, downStore{behind})} {
		_, opened := f.Open(t.Context(), "none", 0)
		_, seen := f.Stat(t.Context(), "none")
		for op, err := range map[string]error{"open": opened, "stat": seen} {
			if !errdefs.Is(err, errdefs.Unavailable) {
				t.Errorf("%s of a key that the other one lacks, while the store %s is down: %v", op, name, err)
			}
		}
	}
	if err := f.Delete(t.Context(), "both"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Stat(t.Context(), "both"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("what was deleted: %v", err)
	}
}

func newDir(t *testing.T) *blob.Dir {
	t.Helper()
	d, err := blob.NewDir(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func put(t *testing.T, s blob.Store, key, content string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, s blob.Store, key string) string {
	t.Helper()
	r, err := s.Open(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
