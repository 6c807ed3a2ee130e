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
	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const size = 64 << 20

// make returns a mounted disk as a path and its image.
func newDisk(t *testing.T, m *disk.Maker, dir string) (mounted, image string, fd int) {
	t.Helper()
	image = filepath.Join(dir, "disk.img")
	d, err := m.Make(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Keep(image); err != nil {
		t.Fatal(err)
	}
	fd, err = unix.Dup(d.Mount)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	return fmt.Sprintf("/proc/self/fd/%d", fd), image, fd
}

func maker(t *testing.T) (*disk.Maker, string) {
	t.Helper()
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	dir := testenv.DataDir(t)
	m, err := disk.NewMaker(dir, dir, false, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, dir
}

func TestDiskHasWhatASandboxNeeds(t *testing.T) {
	m, dir := maker(t)
	root, _, fd := newDisk(t, m, dir)
	defer unix.Close(fd)
	for path, mode := range map[string]os.FileMode{
		"upper": 0o755 | os.ModeDir, "work": 0o755 | os.ModeDir, "workspace": 0o755 | os.ModeDir,
		"upper/proc": 0o555 | os.ModeDir, "upper/tmp": 0o777 | os.ModeDir | os.ModeSticky, "upper/etc/hosts": 0o644,
	} {
		fi, err := os.Stat(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
		} else if fi.Mode() != mode {
			t.Errorf("%s: mode %v, want %v", path, fi.Mode(), mode)
		}
	}
	if text, err := os.ReadFile(root + "/upper/etc/resolv.conf"); err != nil || string(text) != netns.ResolvConf() {
		t.Errorf("resolv.conf: %q, %v", text, err)
	}
	if _, err := os.Stat(root + "/lost+found"); !os.IsNotExist(err) {
		t.Errorf("lost+found: %v", err)
	}
}

// The quota that works on every host: what does not fit is refused honestly.
func TestDiskIsBounded(t *testing.T) {
	m, dir := maker(t)
	root, image, fd := newDisk(t, m, dir)
	defer unix.Close(fd)
	f, err := os.Create(root + "/workspace/big")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var wrote int64
	block := make([]byte, 1<<20)
	for range 2 * size >> 20 {
		n, err := f.Write(block)
		wrote += int64(n)
		if err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			break
		}
	}
	if wrote < size*3/4 || wrote > size {
		t.Errorf("wrote %d of a disk of %d", wrote, size)
	}
	if fi, err := os.Stat(image); err != nil || fi.Size() != size {
		t.Errorf("image: %v, %v", fi.Size(), err)
	}
}

func TestInodesAreBounded(t *testing.T) {
	m, dir := maker(t)
	root, _, fd := newDisk(t, m, dir)
	defer unix.Close(fd)
	for i := range size / 1024 {
		err := os.WriteFile(fmt.Sprintf("%s/workspace/%d", root, i), nil, 0o600)
		if errors.Is(err, unix.ENOSPC) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no end of inodes")
}

func TestDisksDoNotShare(t *testing.T) {
	m, dir := maker(t)
	var roots []string
	for i := range 2 {
		sub := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		root, _, fd := newDisk(t, m, sub)
		defer unix.Close(fd)
		roots = append(roots, root)
	}
	if err := os.WriteFile(roots[0]+"/workspace/f", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(roots[1] + "/workspace/f"); !os.IsNotExist(err) {
		t.Fatalf("seen on the other disk: %v", err)
	}
}

func TestOpenFindsWhatWasWritten(t *testing.T) {
	m, dir := maker(t)
	root, image, fd := newDisk(t, m, dir)
	if err := os.WriteFile(root+"/workspace/f", []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	opened, err := m.Open(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/workspace/f", opened.Mount))
	if err != nil || string(b) != "kept" {
		t.Fatalf("%q, %v", b, err)
	}
}

// A disk with an error that the kernel noted, or that it comes upon when it is opened, is
// repaired, and its other files are there.
func TestDamagedDiskIsRepaired(t *testing.T) {
	const mark = "work/work/incompat/volatile"
	for name, damage := range map[string]func(t *testing.T, image string){
		"noted": func(t *testing.T, image string) { debugfs(t, image, "set_super_value state 2") },
		"met": func(t *testing.T, image string) {
			out, err := exec.CommandContext(t.Context(), "debugfs", "-R", "imap /"+mark+"/dirty", image).Output()
			var inode, group, block, offset int64
			_, text, _ := strings.Cut(string(out), "Inode ")
			if _, scanErr := fmt.Sscanf(strings.ReplaceAll(text, "\n\t", " "), "%d is part of block group %d located at block %d, offset 0x%x", &inode, &group, &block, &offset); err != nil || scanErr != nil {
				t.Fatalf("%s, %v, %v", out, err, scanErr)
			}
			f, err := os.OpenFile(image, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte("damage"), block<<12+offset+4); err != nil { // its checksum is wrong now
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, dir := maker(t)
			root, image, fd := newDisk(t, m, dir)
			err := errors.Join(
				os.WriteFile(root+"/workspace/f", []byte("kept"), 0o600), os.MkdirAll(filepath.Join(root, mark), 0o700),
				os.WriteFile(filepath.Join(root, mark, "dirty"), nil, 0o600), unix.Close(fd),
			)
			if err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "the disk is let go", func() bool { used, err := disk.Attached(image); return err == nil && !used })
			damage(t, image)
			opened, err := m.Open(t.Context(), image)
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			b, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/workspace/f", opened.Mount))
			if err != nil || string(b) != "kept" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

func TestKeepRefusesATakenName(t *testing.T) {
	m, dir := maker(t)
	_, image, fd := newDisk(t, m, dir)
	defer unix.Close(fd)
	d, err := m.Make(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Keep(image); !os.IsExist(err) {
		t.Fatalf("got %v", err)
	}
}

func TestADiskThatIsNotKeptLeavesNothing(t *testing.T) {
	m, dir := maker(t)
	d, err := m.Make(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Fatalf("left: %v, %v", left, err)
	}
}

func TestDiscardEndsWriting(t *testing.T) {
	m, dir := maker(t)
	root, image, fd := newDisk(t, m, dir)
	defer unix.Close(fd)
	open, err := os.Open(root + "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := disk.Discard(int(open.Fd()), image); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/workspace/f", []byte("x"), 0o600); !errors.Is(err, unix.EIO) {
		t.Fatalf("after discard: %v", err)
	}
}

// Shutting down a file system of the host's would be the end of the host.
func TestDiscardTouchesNoOtherFileSystem(t *testing.T) {
	m, dir := maker(t)
	sub := filepath.Join(dir, "other")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	_, image, fd := newDisk(t, m, dir)
	defer unix.Close(fd)
	otherRoot, _, otherFD := newDisk(t, m, sub)
	defer unix.Close(otherFD)
	for _, where := range []string{dir, otherRoot + "/workspace"} {
		open, err := os.Open(where)
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		if err := disk.Discard(int(open.Fd()), image); err == nil {
			t.Errorf("%s was shut down", where)
		}
		if err := os.WriteFile(filepath.Join(where, "f"), []byte("x"), 0o600); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
}

func TestHostsFileNamesTheSandbox(t *testing.T) {
	if got := disk.HostsFile("box"); got != "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\tbox\n" {
		t.Fatalf("%q", got)
	}
}
