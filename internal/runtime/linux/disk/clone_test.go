package disk_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

const poolSize = 512 << 20

// newPool returns a maker whose images are in a pool.
func newPool(t *testing.T) (*disk.Maker, *disk.Pool, string) {
	t.Helper()
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	testenv.NeedsXFS(t)
	dir := testenv.DataDir(t)
	file := filepath.Join(dir, "pool.img")
	for range 2 { // the second time there is one
		if err := disk.MakePool(t.Context(), file, poolSize); err != nil {
			t.Fatal(err)
		}
	}
	p := openPool(t, file)
	m, err := disk.NewMaker(dir, p.Path("."), false, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, p, file
}

func openPool(t *testing.T, file string) *disk.Pool {
	t.Helper()
	p, err := disk.OpenPool(file, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// wantCopy opens the image of a snapshot and looks for a file in it.
func wantCopy(t *testing.T, m *disk.Maker, image, name, want string) {
	t.Helper()
	d, err := m.Open(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	wantFile(t, fmt.Sprintf("/proc/self/fd/%d/%s", d.Mount, name), want)
}

// openWorkspace opens a directory on a disk.
func openWorkspace(t *testing.T, root string) int {
	t.Helper()
	fd, err := unix.Open(root+"/workspace", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// plenty is room for anything.
func plenty(int64) error { return nil }

func snapshot(t *testing.T, root, from, to string) (copied bool) {
	t.Helper()
	fd := openWorkspace(t, root)
	defer closeFD(t, fd)
	copied, err := disk.Snapshot(t.Context(), fd, from, to, plenty)
	if err != nil {
		t.Fatal(err)
	}
	return copied
}

// In a pool a snapshot takes no space; elsewhere it takes that of the data.
func TestSnapshot(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 1<<20)
	used := func(t *testing.T, dir string) int64 {
		t.Helper()
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		return int64(st.Blocks-st.Bfree) * st.Bsize
	}
	check := func(t *testing.T, m *disk.Maker, dir string) (grown int64, copied bool) {
		t.Helper()
		root, image, fd := newDisk(t, m, dir)
		defer closeFD(t, fd)
		write(t, root+"/workspace/big", content)
		snapshot(t, root, image, filepath.Join(dir, "warm.img"))
		before := used(t, dir)
		copied = snapshot(t, root, image, filepath.Join(dir, "copy.img"))
		grown = used(t, dir) - before
		write(t, root+"/workspace/big", "changed")
		wantCopy(t, m, filepath.Join(dir, "copy.img"), "workspace/big", content)
		return grown, copied
	}
	t.Run("pool", func(t *testing.T) {
		m, p, _ := newPool(t)
		if grown, copied := check(t, m, p.Path(".")); copied || grown > int64(len(content))/4 {
			t.Errorf("copied %v, %d bytes", copied, grown)
		}
	})
	t.Run("directory", func(t *testing.T) {
		m, dir := maker(t)
		_, copied := check(t, m, dir)
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, "copy.img"), &st); err != nil || st.Size != size || st.Blocks*512 > size/2 {
			t.Errorf("copied %v, %d blocks of %d bytes, %v", copied, st.Blocks, st.Size, err)
		}
	})
}

// Whoever writes meanwhile makes it fail, or wait, but never be half.
func TestSnapshotOfABusyDisk(t *testing.T) {
	m, dir := maker(t)
	root, image, fd := newDisk(t, m, dir)
	defer closeFD(t, fd)
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			name := fmt.Sprintf("%s/workspace/d%d", root, i%50)
			if err := errors.Join(os.RemoveAll(name), os.Mkdir(name, 0o700), os.WriteFile(name+"/f", []byte(name), 0o600)); err != nil {
				stopped <- err
				return
			}
		}
	}()
	dirFD := openWorkspace(t, root)
	copied := filepath.Join(dir, "copy.img")
	_, err := disk.Snapshot(t.Context(), dirFD, image, copied, plenty)
	close(stop)
	if err := errors.Join(<-stopped, unix.Close(dirFD)); err != nil {
		t.Fatal(err)
	}
	if errors.Is(err, disk.ErrBusy) {
		if _, err := os.Stat(copied); !os.IsNotExist(err) {
			t.Errorf("a copy is left: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	// 1: the counts in the superblock, which is written when it is unmounted.
	out, err := exec.CommandContext(t.Context(), "e2fsck", "-p", "-f", copied).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
}

func TestSnapshotOfAnotherDisk(t *testing.T) {
	m, dir := maker(t)
	root, _, fd := newDisk(t, m, dir)
	defer closeFD(t, fd)
	other := newVolume(t, m, dir)
	dirFD := openWorkspace(t, root)
	defer closeFD(t, dirFD)
	if _, err := disk.Snapshot(t.Context(), dirFD, other, filepath.Join(dir, "copy.img"), plenty); err == nil {
		t.Error("made of an image that the disk is not on")
	}
}

// Data is copied only where there is room for it, and nothing is left where not.
func TestCloneAsksForRoom(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a", strings.Repeat("x", 100_000))
	full := errors.New("full for the test")
	asked := int64(0)
	copied, err := disk.Clone(t.Context(), dir+"/a", dir+"/b", func(bytes int64) error {
		asked = bytes
		return full
	})
	if err == nil && !copied && asked == 0 {
		return // the host shares data
	}
	if !errors.Is(err, full) || asked < 100_000 || asked > 200_000 {
		t.Errorf("asked for %d bytes: %v", asked, err)
	}
	if _, err := os.Stat(dir + "/b"); !os.IsNotExist(err) {
		t.Errorf("a copy is left: %v", err)
	}
}

// A name that is taken is left alone.
func TestCloneOverAnother(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a", "a")
	write(t, dir+"/b", "b")
	if _, err := disk.Clone(t.Context(), dir+"/a", dir+"/b", plenty); !os.IsExist(err) {
		t.Errorf("got %v", err)
	}
	wantFile(t, dir+"/b", "b")
}

// The pool lives as long as a disk in it does, and is found again.
func TestPoolOutlivesItsDaemon(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	testenv.NeedsXFS(t)
	dir := testenv.DataDir(t)
	file := filepath.Join(dir, "pool.img")
	if err := disk.MakePool(t.Context(), file, poolSize); err != nil {
		t.Fatal(err)
	}
	first, err := disk.OpenPool(file, "test")
	if err != nil {
		t.Fatal(err)
	}
	m, err := disk.NewMaker(dir, first.Path("."), false, "test")
	if err != nil {
		t.Fatal(err)
	}
	root, _, fd := newDisk(t, m, first.Path("."))
	write(t, root+"/workspace/f", "lives")
	if err := errors.Join(first.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	wantAttached(t, file, true)
	write(t, root+"/workspace/g", "goes on")

	again := openPool(t, file)
	if attached, err := disk.Attached(again.Path("disk.img")); err != nil || !attached {
		t.Errorf("the disk's image in the pool that was opened again: %v, %v", attached, err)
	}
	closeFD(t, fd)
	if attached, err := disk.Attached(again.Path("disk.img")); err != nil || attached {
		t.Errorf("after its end: %v, %v", attached, err)
	}
}

// A pool that is full refuses, and what is in it goes on.
func TestPoolIsBounded(t *testing.T) {
	m, p, _ := newPool(t)
	var st unix.Statfs_t
	if err := unix.Statfs(p.Path("."), &st); err != nil || int64(st.Blocks)*st.Bsize > poolSize {
		t.Errorf("%d bytes, %v", int64(st.Blocks)*st.Bsize, err)
	}
	root, _, fd := newDisk(t, m, p.Path("."))
	defer closeFD(t, fd)
	write(t, root+"/workspace/f", "kept")
	err := os.WriteFile(p.Path("big"), make([]byte, poolSize), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("filled: %v", err)
	}
	if err := os.Remove(p.Path("big")); err != nil {
		t.Fatal(err)
	}
	wantFile(t, root+"/workspace/f", "kept")
}
