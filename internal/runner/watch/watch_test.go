package watch_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/watch"
	"github.com/sandkasten/sandkasten/protocol"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, dir string, recursive bool) *watch.Watcher {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	w, err := watch.New(fd, recursive, func() error { return nil })
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

// until reads changes up to the one that creates a file of that name.
func until(t *testing.T, w *watch.Watcher, last string) []string {
	t.Helper()
	var got []string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		p := []unix.PollFd{{Fd: int32(w.FD()), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, 1000); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
		done := false
		must(t, w.Read(func(c protocol.Change) error {
			if c.Op == "create" && filepath.Base(c.Path) == last {
				done = true
			}
			got = append(got, told(c))
			return nil
		}))
		if done {
			return got
		}
	}
	t.Fatalf("%s was not told; %q", last, got)
	return nil
}

func told(c protocol.Change) string {
	text := c.Op + " " + c.Path
	if c.From != "" {
		text = c.Op + " " + c.From + ">" + c.Path
	}
	if c.Type != "" {
		text += " " + c.Type
	}
	return text
}

func TestChanges(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	must(t, os.MkdirAll(dir+"/sub/deep", 0o755))
	must(t, os.WriteFile(dir+"/f", nil, 0o644))
	w := begin(t, dir, true)
	for i, tc := range []struct {
		name string
		do   func() error
		want string
	}{
		{"create", func() error { return os.Symlink("x", dir+"/l") }, "create l symlink"},
		{"write", func() error { return os.WriteFile(dir+"/f", []byte("x"), 0o644) }, "write f"},
		{"mode", func() error { return os.Chmod(dir+"/f", 0o600) }, "chmod f"},
		{"rename", func() error { return os.Rename(dir+"/f", dir+"/sub/g") }, "rename f>sub/g file"},
		{"below", func() error { return os.Remove(dir + "/sub/g") }, "remove sub/g"},
		{"out", func() error { return os.Rename(dir+"/l", outside+"/l") }, "remove l"},
		{"in", func() error { return os.Rename(outside+"/l", dir+"/l") }, "create l symlink"},
		{"directory", func() error { return os.Rename(dir+"/sub", dir+"/sup") }, "rename sub>sup dir"},
		{"in its new place", func() error { return os.Mkdir(dir+"/sup/deep/x", 0o755) }, "create sup/deep/x dir"},
		{"directory out", func() error { return os.Rename(dir+"/sup", outside+"/sup") }, "remove sup dir"},
		{"no more", func() error { return os.Mkdir(outside+"/sup/y", 0o755) }, ""},
		{"directory in", func() error { return os.Rename(outside+"/sup", dir+"/sup") }, "create sup dir|create sup/deep dir|create sup/deep/x dir|create sup/y dir"},
		{"watched again", func() error { return os.Remove(dir + "/sup/y") }, "remove sup/y dir"},
	} {
		must(t, tc.do())
		mark := fmt.Sprint("mark", i)
		must(t, os.Mkdir(dir+"/"+mark, 0o755))
		got := until(t, w, mark)
		if text := strings.Join(got[:len(got)-1], "|"); text != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, text, tc.want)
		}
	}
}

// Nothing that is created in a new directory is lost, nor told twice.
func TestNewDirectories(t *testing.T) {
	dir := t.TempDir()
	w := begin(t, dir, true)
	const n = 200
	made := make(chan error, 1)
	go func() {
		for i := range n {
			path := fmt.Sprintf("%s/%d/a/b", dir, i)
			if err := errors.Join(os.MkdirAll(path, 0o755), os.WriteFile(path+"/f", nil, 0o644)); err != nil {
				made <- err
				return
			}
		}
		made <- os.Mkdir(dir+"/end", 0o755)
	}()
	seen := map[string]int{}
	for _, c := range until(t, w, "end") {
		seen[c]++
	}
	must(t, <-made)
	for i := range n {
		for _, want := range []string{"create %d dir", "create %d/a dir", "create %d/a/b dir", "create %d/a/b/f file"} {
			if c := fmt.Sprintf(want, i); seen[c] != 1 {
				t.Fatalf("%q was told %d times", c, seen[c])
			}
		}
	}
}

func TestOnlyTheDirectory(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/sub", 0o755))
	must(t, os.Symlink("sub", dir+"/link"))
	w := begin(t, dir, false)
	must(t, os.WriteFile(dir+"/sub/f", nil, 0o644))
	must(t, os.Mkdir(dir+"/end", 0o755))
	if got := until(t, w, "end"); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func TestTheDirectoryGoes(t *testing.T) {
	dir := t.TempDir() + "/d"
	must(t, os.Mkdir(dir, 0o755))
	w := begin(t, dir, true)
	must(t, os.Remove(dir))
	var got []string
	err := w.Read(func(c protocol.Change) error { got = append(got, told(c)); return nil })
	if e, ok := errors.AsType[*protocol.Error](err); !ok || e.Code != protocol.CodeNotFound || len(got) == 0 || got[len(got)-1] != "remove . dir" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTooManyDirectories(t *testing.T) {
	dir := t.TempDir()
	for i := range 8200 {
		must(t, os.Mkdir(fmt.Sprintf("%s/%d", dir, i), 0o755))
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	_, err = watch.New(fd, true, func() error { return nil })
	if e, ok := errors.AsType[*protocol.Error](err); !ok || e.Code != protocol.CodeTooLarge {
		t.Error(err)
	}
}

// flood makes more changes in dir than the kernel keeps for a watcher, and reports
// whether it could.
func flood(t *testing.T, dir string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	var queue int
	if _, err := fmt.Sscan(string(text), &queue); err != nil || queue > 100_000 {
		t.Logf("a queue of %d events is too long to fill (%v)", queue, err)
		return false
	}
	for i := range queue/2 + 10 { // each is two events, which differ from those before
		name := fmt.Sprintf("%s/%d", dir, i%100)
		fd, err := unix.Open(name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		must(t, errors.Join(err, unix.Close(fd), os.Remove(name)))
	}
	return true
}

func TestOverflowIsTold(t *testing.T) {
	dir := t.TempDir()
	w := begin(t, dir, true)
	must(t, os.Mkdir(dir+"/a", 0o755))
	if !flood(t, dir) {
		return
	}
	must(t, os.MkdirAll(dir+"/lost/deep", 0o755))
	overflow := false
	must(t, w.Read(func(c protocol.Change) error { overflow = overflow || c.Op == "overflow"; return nil }))
	if !overflow {
		t.Fatal("the overflow was not told")
	}
	// Directories that were made meanwhile are watched nevertheless.
	must(t, os.Mkdir(dir+"/lost/deep/end", 0o755))
	until(t, w, "end")
}

// What went while changes were lost does not count to the directories that may be
// watched.
func TestOverflowForgetsWhatIsGone(t *testing.T) {
	dir := t.TempDir()
	w := begin(t, dir, true)
	fill := func(parent string) {
		for i := range 4500 {
			must(t, os.MkdirAll(fmt.Sprintf("%s/%s/%d", dir, parent, i), 0o755))
		}
	}
	fill("old")
	until(t, w, "4499")
	if !flood(t, dir) {
		return
	}
	must(t, os.RemoveAll(dir+"/old"))
	fill("new")
	must(t, w.Read(func(protocol.Change) error { return nil }))
	for i := 0; i < 4500; i += 10 {
		must(t, os.Mkdir(fmt.Sprintf("%s/new/%d/sub", dir, i), 0o755))
	}
	must(t, os.Mkdir(dir+"/end", 0o755))
	seen := 0
	for _, c := range until(t, w, "end") {
		if strings.HasSuffix(c, "/sub dir") {
			seen++
		}
	}
	if seen != 450 {
		t.Errorf("of 450 directories %d are watched", seen)
	}
}

// A directory that a program may not read does not end the watch of the others.
func TestADirectoryThatMayNotBeRead(t *testing.T) {
	dir := t.TempDir()
	w := begin(t, dir, true)
	must(t, os.Mkdir(dir+"/locked", 0o000))
	must(t, os.Mkdir(dir+"/end", 0o755))
	if os.Geteuid() == 0 { // whom no mode stops
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, unix.Setfsuid(65534))
		defer func() { must(t, unix.Setfsuid(0)) }()
	}
	if got := until(t, w, "end"); strings.Join(got, "|") != "create locked dir|create end dir" {
		t.Errorf("%q", got)
	}
}
