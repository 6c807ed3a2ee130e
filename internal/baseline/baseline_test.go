package baseline_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandkasten/sandkasten/internal/baseline"
)

func entries() []baseline.Entry {
	return []baseline.Entry{
		{Path: "a", Mode: 0o40755},
		{Path: "a/b", Mode: 0o100644, UID: 7, GID: 65534, Size: 1 << 40, MTime: -1},
		{Path: "a/bc", Mode: 0o120777, Size: 3},
		{Path: "a-b", Mode: 0o100600, MTime: 1 << 33},
		{Path: "\xff\n", Mode: 0o100000},
	}
}

func write(t *testing.T, all []baseline.Entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := baseline.NewWriter(&out)
	for _, e := range all {
		if err := w.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(list []byte) ([]baseline.Entry, error) {
	r, err := baseline.NewReader(bytes.NewReader(list))
	if err != nil {
		return nil, err
	}
	var all []baseline.Entry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, want := range [][]baseline.Entry{nil, entries()[:1], entries()} {
		if got, err := read(write(t, want)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
}

func TestOrder(t *testing.T) {
	w := baseline.NewWriter(io.Discard)
	for _, c := range []struct {
		path string
		ok   bool
	}{{"", false}, {"b", true}, {"b", false}, {"a", false}, {"b/a", true}, {"b-", true}, {"b/b", false}} {
		if err := w.Add(baseline.Entry{Path: c.path}); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.path, err)
		}
	}
	// That of a walk.
	dir := t.TempDir()
	for _, d := range []string{"a", "a-", "a/b", "a/b-c", "a0", "b"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, d), 0o755), os.WriteFile(filepath.Join(dir, d, "-"), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	last := ""
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "." && !baseline.Before(last, path) {
			t.Errorf("%q does not come before %q", last, path)
		}
		if path != "." {
			last = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A list that is cut off is not taken for a shorter one, unless it is one.
func TestDamage(t *testing.T) {
	list := write(t, entries())
	whole := map[int]bool{}
	for n := range len(entries()) + 1 {
		whole[len(write(t, entries()[:n]))] = true
	}
	for n := range list {
		if got, err := read(list[:n]); (err == nil) != whole[n] {
			t.Errorf("%d bytes: %+v, %v", n, got, err)
		}
	}
	for _, text := range []string{"", "nonsense that is long enough", "sandkasten baseline 1\n\x05\x01a"} {
		if _, err := read([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
