package tree_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
)

func always() error { return nil }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func walk(t testing.TB, dir string, limit int) *tree.Walk {
	t.Helper()
	fd, err := tree.OpenDir(unix.AT_FDCWD, dir)
	must(t, err)
	w, err := tree.NewWalk(fd, limit, always)
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

// all goes over everything and returns the paths, directories with a slash
// when they are left.
func all(t testing.TB, w *tree.Walk) []string {
	t.Helper()
	var paths []string
	for {
		e, err := w.Next()
		if errors.Is(err, io.EOF) {
			return paths
		}
		must(t, err)
		switch {
		case e.Leave:
			paths = append(paths, w.Path()+"/")
		case e.Type() == unix.S_IFDIR:
			paths = append(paths, w.Path())
			must(t, w.Enter())
		default:
			paths = append(paths, w.Path())
		}
	}
}

func TestWalk(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"b/c/d", "b/e", "a.x", "a"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for _, f := range []string{"b/c/1", "b/c/2", "b/3", "z", "a/\xff", "a-"} {
		must(t, os.WriteFile(filepath.Join(dir, f), nil, 0o644))
	}
	must(t, os.Symlink("b", dir+"/link"))
	want := strings.Fields("a a/\xff a/ a- a.x a.x/ b b/3 b/c b/c/1 b/c/2 b/c/d b/c/d/ b/c/ b/e b/e/ b/ link z")
	for _, limit := range []int{1, 2, 3, 100} { // however often a directory is read again
		if got := all(t, walk(t, dir, limit)); !slices.Equal(got, want) {
			t.Errorf("%d at a time:\n%q\nwant\n%q", limit, got, want)
		}
	}
	// Continued anywhere, a walk finds the rest.
	for i, path := range want {
		if strings.HasSuffix(path, "/") {
			continue
		}
		w := walk(t, dir, 2)
		must(t, w.Seek(strings.Split(strings.ToValidUTF8(path, "\uFFFD"), "/"), func(int) bool { return true }))
		entries := func(paths []string) []string {
			return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return strings.HasSuffix(p, "/") })
		}
		if got, rest := entries(all(t, w)), entries(want[i+1:]); !slices.Equal(got, rest) {
			t.Errorf("behind %q: %q, want %q", path, got, rest)
		}
	}
}

// H07: a directory with very many entries is read with few of them in memory.
func TestWide(t *testing.T) {
	dir := t.TempDir()
	const files = 20_000
	for i := range files {
		fd, err := unix.Open(fmt.Sprintf("%s/%06d", dir, i*7919%files), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		must(t, err)
		must(t, unix.Close(fd))
	}
	got := all(t, walk(t, dir, 1000))
	if len(got) != files || !slices.IsSorted(got) {
		t.Errorf("%d files, sorted: %v", len(got), slices.IsSorted(got))
	}
}

// deep makes a tree of that many levels, which no path can name.
func deep(t testing.TB, dir string, levels int) {
	t.Helper()
	fd, err := tree.OpenDir(unix.AT_FDCWD, dir)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(fd, "d", 0o755))
		next, err := tree.OpenDir(fd, "d")
		must(t, err)
		must(t, unix.Close(fd))
		fd = next
	}
	must(t, unix.Close(fd))
}

// H07: 50,000 levels take a bounded number of descriptors.
func TestDeep(t *testing.T) {
	const levels = 50_000
	dir := t.TempDir()
	deep(t, dir, levels)
	w := walk(t, dir, 100)
	fds := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(names)
	}
	before, most, entered := fds(), 0, 0
	for {
		e, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if e.Leave {
			must(t, unix.Unlinkat(w.Dir(), e.Name, unix.AT_REMOVEDIR))
			continue
		}
		if entered++; entered%1000 == 0 {
			most = max(most, fds())
		}
		must(t, w.Enter())
	}
	if entered != levels || most > before+40 {
		t.Errorf("%d levels, %d descriptors", entered, most-before)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A directory that is moved while a walk is far below it does not lead the
// walk's way up elsewhere.
func TestMovedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	deep(t, dir, 100)
	must(t, os.MkdirAll(dir+"/elsewhere/d", 0o755))
	must(t, os.WriteFile(dir+"/elsewhere/secret", nil, 0o644))
	w := walk(t, dir+"/d", 100)
	for range 80 {
		_, err := w.Next()
		must(t, err)
		must(t, w.Enter())
	}
	must(t, os.Rename(dir+"/d/d/d/d/d", dir+"/elsewhere/d/d"))
	for {
		_, err := w.Next()
		if errors.Is(err, tree.ErrMoved) {
			return
		}
		must(t, err)
		if w.Path() == "secret" || strings.HasSuffix(w.Path(), "/secret") {
			t.Fatal("the walk came to another directory")
		}
		if e := w.Dir(); e >= 0 {
			if err := w.Enter(); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
				t.Fatal(err)
			}
		}
	}
}

func TestEntersOnlyDirectories(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("/etc", dir+"/link"))
	must(t, unix.Mkfifo(dir+"/fifo", 0o644))
	w := walk(t, dir, 10)
	for range 2 {
		e, err := w.Next()
		must(t, err)
		if err := w.Enter(); err == nil {
			t.Errorf("%s was entered", e.Name)
		}
		if fd, _, err := tree.OpenFile(w.Dir(), e.Name); err == nil {
			t.Errorf("%s was opened as %d", e.Name, fd)
		}
	}
}

func TestKernelsOwnFilesAreLeftAlone(t *testing.T) {
	w := walk(t, "/", 100)
	for {
		e, err := w.Next()
		must(t, err)
		if e.Name == "proc" {
			break
		}
	}
	if err := w.Enter(); !errors.Is(err, tree.ErrKernelFS) {
		t.Errorf("%v", err)
	}
}

func TestCheckIsAsked(t *testing.T) {
	gone := errors.New("gone")
	fd, err := tree.OpenDir(unix.AT_FDCWD, t.TempDir())
	must(t, err)
	w, err := tree.NewWalk(fd, 10, func() error { return gone })
	must(t, err)
	defer w.Close()
	if _, err := w.Next(); !errors.Is(err, gone) {
		t.Error(err)
	}
}
