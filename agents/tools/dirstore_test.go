package tools_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandkasten/sandkasten/agents/tools"
)

func TestDirStore(t *testing.T) {
	dir := t.TempDir()
	store, err := tools.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	for _, want := range []string{"a.txt", "a-2.txt", "a-3.txt"} {
		key, size, err := store.Put(t.Context(), "", "a.txt", strings.NewReader("text"))
		if err != nil || key != want || size != 4 {
			t.Errorf("%q, %d, %v; want %q", key, size, err, want)
		}
	}
	if _, _, err := store.Put(t.Context(), "runs/1/b", "b", strings.NewReader("b")); err != nil {
		t.Error(err)
	}
	file, size, err := store.Open(t.Context(), "runs/1/b")
	if err != nil || size != 1 {
		t.Fatal(size, err)
	}
	defer file.Close()
	if data, err := io.ReadAll(file); err != nil || string(data) != "b" {
		t.Errorf("%q, %v", data, err)
	}
	if _, _, err := store.Open(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if _, _, err := store.Open(t.Context(), "runs"); err == nil {
		t.Error("a directory is a file")
	}
}

// What broke off leaves nothing, and what was there before it stays.
func TestBrokenPutLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	store, err := tools.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if _, _, err := store.Put(t.Context(), "runs/b", "b", strings.NewReader("whole")); err != nil {
		t.Fatal(err)
	}
	for key, name := range map[string]string{"runs/b": "b", "": "a.txt"} {
		broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("it broke off")))
		if stored, size, err := store.Put(t.Context(), key, name, broken); err == nil || stored != "" || size != 0 {
			t.Errorf("%q: %q, %d, %v", key, stored, size, err)
		}
	}
	var left []string
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			left = append(left, name)
		}
		return err
	})
	if kept, readErr := os.ReadFile(filepath.Join(dir, "runs", "b")); err != nil || readErr != nil || len(left) != 1 || string(kept) != "whole" {
		t.Errorf("left %q, kept %q; %v, %v", left, kept, err, readErr)
	}
}

func TestNoKeyLeadsOutOfADirStore(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	store, err := tools.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	// A model that was told to wait would try for ever.
	var input *tools.InputError
	for _, key := range []string{"../x", "/etc/passwd", "link/passwd", "a/../../x", "file/x", "directory"} {
		if _, _, err := store.Open(t.Context(), key); !errors.As(err, &input) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opened %s: %v", key, err)
		}
		if _, _, err := store.Put(t.Context(), key, "x", strings.NewReader("x")); !errors.As(err, &input) {
			t.Errorf("stored %s: %v", key, err)
		}
	}
}
