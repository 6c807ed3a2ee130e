package blob_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/blob/blobtest"
)

func openDir(t *testing.T, path string) *blob.Dir {
	t.Helper()
	d, err := blob.NewDir(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDir(t *testing.T) {
	blobtest.TestStore(t, func(t *testing.T) blob.Store { return openDir(t, t.TempDir()) })
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

func wantNames(t *testing.T, path string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Errorf("%s has %q, want %q", path, got, want)
	}
}
