// Package blobtest is the suite that every blob store passes. What one store
// does differently (parts, servers, keys) is tested beside it.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// TestStore runs the suite. Each call of open gives a store with nothing in it.
func TestStore(t *testing.T, open func(t *testing.T) blob.Store) {
	tests := map[string]func(t *testing.T, s blob.Store){
		"Roundtrip":           roundtrip,
		"Offsets":             offsets,
		"PutReplaces":         putReplaces,
		"PutsAtOnce":          putsAtOnce,
		"FailedPut":           failedPut,
		"FailedPutKeepsOld":   failedPutKeepsOld,
		"CanceledPut":         canceledPut,
		"List":                list,
		"Delete":              deletes,
		"Absent":              absent,
		"ForeignKeys":         foreignKeys,
		"SweepKeepsWhatThere": sweepKeeps,
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) { tests[name](t, open(t)) })
	}
}

// Bytes returns size bytes, the same for the same size.
func Bytes(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size), byte(size >> 8)}).Read(data) // never fails
	return data
}

// Put keeps data under key.
func Put(t *testing.T, s blob.Store, key string, data []byte) {
	t.Helper()
	size, err := s.Put(t.Context(), key, bytes.NewReader(data))
	if err != nil || size != int64(len(data)) {
		t.Fatalf("Put(%s) = %d, %v, want %d", key, size, err, len(data))
	}
}

// Read returns key from offset to its end.
func Read(ctx context.Context, s blob.Store, key string, offset int64) (data []byte, err error) {
	r, err := s.Open(ctx, key, offset)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return io.ReadAll(r)
}

// Keys returns what List yields, sorted.
func Keys(t *testing.T, s blob.Store, prefix string) []string {
	t.Helper()
	keys := []string{}
	for info, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("List(%q): %v", prefix, err)
		}
		keys = append(keys, info.Key)
	}
	slices.Sort(keys)
	return keys
}

func want(t *testing.T, s blob.Store, key string, offset int64, data []byte) {
	t.Helper()
	got, err := Read(t.Context(), s, key, offset)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %s from %d: %d bytes, %v; want the %d that were put", key, offset, len(got), err, len(data))
	}
}

func wantKeys(t *testing.T, s blob.Store, keys ...string) {
	t.Helper()
	if got := Keys(t, s, ""); !slices.Equal(got, keys) {
		t.Errorf("the store has %q, want %q", got, keys)
	}
}

// WantCode fails the test unless err carries code.
func WantCode(t *testing.T, what string, err error, code errdefs.Code) {
	t.Helper()
	if !errdefs.Is(err, code) {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// sizes have the edges of the chunks of an encrypted blob (64 KiB) and of the
// parts of an upload.
var sizes = []int{0, 1, 1000, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128 << 10, 1<<20 + 5}

func roundtrip(t *testing.T, s blob.Store) {
	before := time.Now().Add(-time.Minute) // a server's clock, and its seconds
	for _, size := range sizes {
		key, data := fmt.Sprintf("snap/%d/data.tar.zst", size), Bytes(size)
		Put(t, s, key, data)
		want(t, s, key, 0, data)
		info, err := s.Stat(t.Context(), key)
		if err != nil || info.Key != key || info.Size != int64(size) || info.ModTime.Before(before) {
			t.Errorf("Stat(%s) = %+v, %v", key, info, err)
		}
	}
}

func offsets(t *testing.T, s blob.Store) {
	for _, size := range sizes {
		key, data := fmt.Sprintf("o%d", size), Bytes(size)
		Put(t, s, key, data)
		for _, offset := range []int{0, 1, size / 2, 64<<10 - 1, 64 << 10, 64<<10 + 1, size - 1, size} {
			if offset >= 0 && offset <= size {
				want(t, s, key, int64(offset), data[offset:])
			}
		}
		for _, offset := range []int64{-1, int64(size) + 1, int64(size) + 1<<30} {
			_, err := Read(t.Context(), s, key, offset)
			WantCode(t, fmt.Sprintf("%d bytes from %d", size, offset), err, errdefs.InvalidArgument)
		}
	}
}

func putReplaces(t *testing.T, s blob.Store) {
	Put(t, s, "a", Bytes(100_000))
	Put(t, s, "a", Bytes(7))
	want(t, s, "a", 0, Bytes(7))
	wantKeys(t, s, "a")
}

func putsAtOnce(t *testing.T, s blob.Store) {
	var wg sync.WaitGroup
	keys := []string{"p0", "p1", "p2", "p3"}
	for i, key := range keys {
		wg.Go(func() {
			if _, err := s.Put(t.Context(), key, bytes.NewReader(Bytes(200_000+i))); err != nil {
				t.Errorf("Put(%s): %v", key, err)
			}
		})
	}
	wg.Wait()
	for i, key := range keys {
		want(t, s, key, 0, Bytes(200_000+i))
	}
}

var errSource = errors.New("the source broke")

// A source may well break with the error of one that was cut, which io.ReadFull
// and its like take for the end.
func failedPut(t *testing.T, s blob.Store) {
	for _, broke := range []error{errSource, io.ErrUnexpectedEOF} {
		for _, size := range sizes {
			source := io.MultiReader(bytes.NewReader(Bytes(size)), iotest.ErrReader(broke))
			if _, err := s.Put(t.Context(), "a", source); !errors.Is(err, broke) {
				t.Errorf("Put of a source that breaks after %d bytes: %v, want %v", size, err, broke)
			}
			wantKeys(t, s)
		}
	}
}

func failedPutKeepsOld(t *testing.T, s blob.Store) {
	Put(t, s, "a", Bytes(10))
	source := io.MultiReader(bytes.NewReader(Bytes(100_000)), iotest.ErrReader(errSource))
	if _, err := s.Put(t.Context(), "a", source); !errors.Is(err, errSource) {
		t.Errorf("Put of a broken source: %v, want its error", err)
	}
	want(t, s, "a", 0, Bytes(10))
}

func canceledPut(t *testing.T, s blob.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	source := io.MultiReader(bytes.NewReader(Bytes(100_000)), readerFunc(func(p []byte) (int, error) {
		cancel()
		return copy(p, "x"), nil // for ever: only ctx ends it
	}))
	if _, err := s.Put(ctx, "a", source); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled Put: %v", err)
	}
	wantKeys(t, s)
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func list(t *testing.T, s blob.Store) {
	all := []string{"a-b", "a.b", "a/b", "a/c/d", "ab", "b"}
	for i, key := range all {
		Put(t, s, key, Bytes(i))
	}
	for prefix, keys := range map[string][]string{
		"": all, "a": all[:5], "a/": {"a/b", "a/c/d"}, "a/c": {"a/c/d"}, "b": {"b"}, "bb": {}, "a/b/": {},
	} {
		if got := Keys(t, s, prefix); !slices.Equal(got, keys) {
			t.Errorf("List(%q) = %q, want %q", prefix, got, keys)
		}
	}
	for info, err := range s.List(t.Context(), "") {
		if i := slices.Index(all, info.Key); err != nil || info.Size != int64(i) || info.ModTime.IsZero() {
			t.Errorf("listed %+v, %v, want size %d", info, err, i)
		}
		if info.Key == "a/b" {
			break // a caller may have enough
		}
	}
}

func deletes(t *testing.T, s blob.Store) {
	Put(t, s, "a/b", Bytes(10))
	Put(t, s, "a/c", Bytes(10))
	for range 2 {
		if err := s.Delete(t.Context(), "a/b"); err != nil {
			t.Errorf("Delete: %v", err)
		}
	}
	wantKeys(t, s, "a/c")
}

func absent(t *testing.T, s blob.Store) {
	for _, offset := range []int64{0, 5, 1 << 20} {
		_, err := Read(t.Context(), s, "a/b", offset)
		WantCode(t, "Open", err, errdefs.NotFound)
	}
	_, err := s.Stat(t.Context(), "a/b")
	WantCode(t, "Stat", err, errdefs.NotFound)
	wantKeys(t, s)
}

func foreignKeys(t *testing.T, s blob.Store) {
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", ".a", "a/.b", "A", "a_b", "a b", "a\x00", "ä",
		"a\n", `a\b`, "a%2fb", "a?b", "*", strings.Repeat("a", 201),
	} {
		_, err := s.Put(t.Context(), key, strings.NewReader("x"))
		wantRefused(t, "Put", key, err)
		_, err = s.Open(t.Context(), key, 0)
		wantRefused(t, "Open", key, err)
		_, err = s.Stat(t.Context(), key)
		wantRefused(t, "Stat", key, err)
		wantRefused(t, "Delete", key, s.Delete(t.Context(), key))
	}
	for _, prefix := range []string{"A", "a_", "*", "a\n", strings.Repeat("a", 201)} {
		for _, err := range s.List(t.Context(), prefix) {
			wantRefused(t, "List", prefix, err)
		}
	}
	wantKeys(t, s)
}

func wantRefused(t *testing.T, op, key string, err error) {
	t.Helper()
	if !errdefs.Is(err, errdefs.InvalidArgument) && !errdefs.Is(err, errdefs.TooLarge) {
		t.Errorf("%s(%q): %v, want it refused", op, key, err)
	}
}

func sweepKeeps(t *testing.T, s blob.Store) {
	Put(t, s, "a/b", Bytes(1000))
	if err := s.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	want(t, s, "a/b", 0, Bytes(1000))
}
