package blob_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/blob/blobtest"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func openDir(t *testing.T, path string) *blob.Dir {
	t.Helper()
	d, err := blob.NewDir(path, path+".place")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDir(t *testing.T) {
	blobtest.TestStore(t, func(t *testing.T) blob.Store { return openDir(t, filepath.Join(t.TempDir(), "blobs")) })
}

func TestDirIsForOurEyesOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "blobs")
	d := openDir(t, path)
	blobtest.Put(t, d, "a/b", []byte("secret"))
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDirLeavesNoFileOfAFailedPut(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path)
	if _, err := d.Put(t.Context(), "a", &failing{}); err == nil {
		t.Error("Put of a broken source succeeded")
	}
	wantNames(t, path)
}

type failing struct{ read bool }

func (f *failing) Read(p []byte) (int, error) {
	if f.read {
		return 0, fs.ErrInvalid
	}
	f.read = true
	return len(p), nil
}

func TestDirSweepRemovesWhatACrashLeft(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path)
	blobtest.Put(t, d, "a/b", blobtest.Bytes(10))
	if err := os.WriteFile(filepath.Join(path, ".put-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := blobtest.Keys(t, d, ""); !slices.Equal(got, []string{"a/b"}) {
		t.Errorf("before Sweep the store has %q", got)
	}
	if err := d.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	wantNames(t, path, "a_b")
}

// TestDirDoesNotWaitForAPipe: nobody may ever write into what has an archive's name.
func TestDirDoesNotWaitForAPipe(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path)
	if err := unix.Mkfifo(filepath.Join(path, "a_b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), "a/b", 0); !errdefs.Is(err, errdefs.NotFound) || !strings.Contains(err.Error(), "no file") {
		t.Errorf("open: %v", err)
	}
}

// TestDirKnowsItsDirectory looks for a blob while something else is where the store was,
// as where its file system is not mounted, also over a restart.
func TestDirKnowsItsDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blobs")
	d := openDir(t, path)
	blobtest.Put(t, d, "a/b", []byte("kept"))
	if err := errors.Join(os.Rename(path, path+"-away"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*blob.Dir{"running": d, "started": openDir(t, path)} {
		_, opened := d.Open(t.Context(), "a/b", 0)
		_, seen := d.Stat(t.Context(), "a/b")
		for what, err := range map[string]error{"open": opened, "stat": seen, "delete": d.Delete(t.Context(), "a/b")} {
			if !errdefs.Is(err, errdefs.Unavailable) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	if _, err := d.Put(t.Context(), "a/c", strings.NewReader("")); !errdefs.Is(err, errdefs.Unavailable) {
		t.Errorf("put: %v", err)
	}
	for _, err := range d.List(t.Context(), "") {
		if !errdefs.Is(err, errdefs.Unavailable) {
			t.Errorf("list: %v", err)
		}
	}
	// Another store at its place is none of it, whether its marker has a name or not.
	for _, name := range []string{"", "another"} {
		if err := os.WriteFile(filepath.Join(path, ".store"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		for state, d := range map[string]*blob.Dir{"running": d, "started": openDir(t, path)} {
			if _, err := d.Open(t.Context(), "a/b", 0); !errdefs.Is(err, errdefs.Unavailable) {
				t.Errorf("%s, with the marker %q: %v", state, name, err)
			}
			if _, err := d.Put(t.Context(), "a/c", strings.NewReader("")); !errdefs.Is(err, errdefs.Unavailable) || !strings.Contains(err.Error(), "another store") {
				t.Errorf("%s, put with the marker %q: %v", state, name, err)
			}
		}
	}
	if err := errors.Join(os.RemoveAll(path), os.Rename(path+"-away", path)); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Stat(t.Context(), "a/b"); err != nil || got.Size != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := d.Open(t.Context(), "a/c", 0); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("what never was: %v", err)
	}
}

func wantNames(t *testing.T, path string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range entries {
		if e.Name() != ".store" {
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Errorf("%s has %q, want %q", path, got, want)
	}
}
