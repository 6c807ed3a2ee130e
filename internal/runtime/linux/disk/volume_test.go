package disk_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// newVolume makes a volume and returns its image.
func newVolume(t *testing.T, m *disk.Maker, dir string) string {
	t.Helper()
	image := filepath.Join(dir, "volume.img")
	if err := m.MakeVolume(t.Context(), image, size); err != nil {
		t.Fatal(err)
	}
	return image
}

// mountVolume returns the directory for files of a mount and its descriptor.
func mountVolume(t *testing.T, m *disk.Maker, image string) (files string, fd int) {
	t.Helper()
	fd, err := m.OpenVolume(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/workspace", fd), fd
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s: %q, %v; want %q", path, got, err, want)
	}
}

// wantSound checks an image that nobody has mounted.
func wantSound(t *testing.T, image string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "e2fsck", "-f", "-n", image).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
}

func closeFD(t *testing.T, fd int) {
	t.Helper()
	if err := unix.Close(fd); err != nil {
		t.Error(err)
	}
}

func wantAttached(t *testing.T, image string, want bool) {
	t.Helper()
	if got, err := disk.Attached(image); err != nil || got != want {
		t.Errorf("attached: %v, %v; want %v", got, err, want)
	}
}

// Two makers stand for two daemons, or one before and after a restart.
func TestVolumeIsOneFileSystemHoweverOftenItIsOpened(t *testing.T) {
	m, dir := maker(t)
	other, err := disk.NewMaker(dir, dir, false, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	image := newVolume(t, m, dir)
	first, fd1 := mountVolume(t, m, image)
	write(t, first+"/a", "1")
	second, fd2 := mountVolume(t, other, image)
	wantFile(t, second+"/a", "1")
	write(t, second+"/a", "2")
	wantFile(t, first+"/a", "2")
	var st1, st2 unix.Stat_t
	if err := errors.Join(unix.Stat(first, &st1), unix.Stat(second, &st2)); err != nil || st1.Dev != st2.Dev {
		t.Errorf("devices %x and %x, %v", st1.Dev, st2.Dev, err)
	}
	closeFD(t, fd1)
	wantFile(t, second+"/a", "2")
	wantAttached(t, image, true)
	closeFD(t, fd2)
	wantAttached(t, image, false)
	wantSound(t, image)

	third, fd3 := mountVolume(t, m, image)
	defer closeFD(t, fd3)
	wantFile(t, third+"/a", "2")
}

func TestVolumeIsBounded(t *testing.T) {
	m, dir := maker(t)
	image := newVolume(t, m, dir)
	files, fd := mountVolume(t, m, image)
	defer closeFD(t, fd)
	f, err := os.Create(files + "/big")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := io.Copy(f, io.LimitReader(zeros{}, 2*size))
	if !errors.Is(err, unix.ENOSPC) || n < size*3/4 || n > size {
		t.Errorf("wrote %d of %d: %v", n, size, err)
	}
}

// zeros is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// The same count from the mounted file system and from its superblock.
func TestVolumeBytes(t *testing.T) {
	m, dir := maker(t)
	image := newVolume(t, m, dir)
	used := func() int64 {
		t.Helper()
		n, err := disk.VolumeBytes(image)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	empty := used()
	if empty > 1<<20 {
		t.Errorf("an empty one has %d bytes", empty)
	}
	files, fd := mountVolume(t, m, image)
	write(t, files+"/f", strings.Repeat("x", 5<<20))
	if err := syncFS(fd); err != nil {
		t.Fatal(err)
	}
	mounted := used()
	closeFD(t, fd)
	wantAttached(t, image, false)
	if after := used(); after != mounted || after-empty < 5<<20 || after-empty > 6<<20 {
		t.Errorf("empty %d, mounted %d, unmounted %d", empty, mounted, after)
	}
}

func syncFS(mnt int) error {
	fd, err := unix.Openat(mnt, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(fd), unix.Close(fd))
}

// What is deleted inside takes no room on the host any more.
func TestVolumeGivesBackWhatIsDeleted(t *testing.T) {
	m, dir := maker(t)
	image := newVolume(t, m, dir)
	blocks := func() int64 {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(image, &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	files, fd := mountVolume(t, m, image)
	write(t, files+"/f", strings.Repeat("x", 20<<20))
	if err := syncFS(fd); err != nil {
		t.Fatal(err)
	}
	full := blocks()
	if err := os.Remove(files + "/f"); err != nil {
		t.Fatal(err)
	}
	closeFD(t, fd)
	if left := blocks(); full-left < 19<<20 {
		t.Errorf("%d bytes full, %d after the file is gone", full, left)
	}
}

// The image as a host's crash leaves it: mounted, with things in the journal.
func TestVolumeIsRepairedAfterACrashOfTheHost(t *testing.T) {
	m, dir := maker(t)
	image := newVolume(t, m, dir)
	files, fd := mountVolume(t, m, image)
	for i := range 50 {
		write(t, fmt.Sprintf("%s/f%d", files, i), "kept")
	}
	if err := syncFS(fd); err != nil {
		t.Fatal(err)
	}
	crashed := filepath.Join(dir, "crashed.img")
	copySparse(t, image, crashed)
	closeFD(t, fd)

	if out, err := exec.CommandContext(t.Context(), "dumpe2fs", "-h", crashed).CombinedOutput(); err != nil || !strings.Contains(string(out), "needs_recovery") {
		t.Fatalf("the copy is not dirty: %v\n%s", err, out)
	}
	again, fd := mountVolume(t, m, crashed)
	for i := range 50 {
		wantFile(t, fmt.Sprintf("%s/f%d", again, i), "kept")
	}
	closeFD(t, fd)
	wantSound(t, crashed)
}

func copySparse(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
}

// An error that the kernel noted is repaired, and one that nobody can repair
// is refused, every time.
func TestVolumeWithErrors(t *testing.T) {
	m, dir := maker(t)
	image := newVolume(t, m, dir)
	debugfs(t, image, "set_super_value state 2")
	_, fd := mountVolume(t, m, image)
	closeFD(t, fd)
	wantSound(t, image)

	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 1024), 1024); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := m.OpenVolume(t.Context(), image); !errors.Is(err, disk.ErrDamaged) {
			t.Errorf("without a superblock: %v", err)
		}
	}
}

func debugfs(t *testing.T, image, command string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "debugfs", "-w", "-R", command, image).CombinedOutput(); err != nil {
		t.Fatalf("debugfs: %v: %s", err, out)
	}
}

func TestOpenVolumeThatIsNotThere(t *testing.T) {
	m, dir := maker(t)
	if _, err := m.OpenVolume(t.Context(), filepath.Join(dir, "no.img")); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
	image := newVolume(t, m, dir)
	if err := m.MakeVolume(t.Context(), image, size); !os.IsExist(err) {
		t.Errorf("over another: %v", err)
	}
}

// The note of a volume's last device is a shortcut and no more.
func TestVolumeWithoutItsNote(t *testing.T) {
	m, dir := maker(t)
	image := newVolume(t, m, dir)
	files, fd := mountVolume(t, m, image)
	defer closeFD(t, fd)
	write(t, files+"/f", "one file system")
	for _, note := range []string{"", "/dev/loop", "/dev/loop999999"} {
		if err := os.WriteFile(image+".loop", []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		again, fd := mountVolume(t, m, image)
		wantFile(t, again+"/f", "one file system")
		closeFD(t, fd)
	}
}

// A device of somebody else's, whose file is on a file system that is gone: nothing
// can be asked of it, also if its file is called as ours are.
func TestDevicesOfOthersWhoseFileIsGone(t *testing.T) {
	m, dir := maker(t)
	testenv.NeedsXFS(t)
	image := newVolume(t, m, dir)
	for _, name := range []string{"volume.img", "other.img"} {
		t.Run(name, func(t *testing.T) {
			gone := brokenDevice(t, m, name)
			wantAttached(t, image, false)
			files, fd := mountVolume(t, m, image)
			write(t, files+"/f", "ours")
			wantAttached(t, image, true)
			// Which is found also without its note, among all.
			if err := os.Remove(image + ".loop"); err != nil {
				t.Fatal(err)
			}
			wantAttached(t, image, true)
			closeFD(t, fd)
			// A note that leads to what has become another's.
			if err := os.WriteFile(image+".loop", []byte(gone), 0o600); err != nil {
				t.Fatal(err)
			}
			wantAttached(t, image, false)
			loops, err := disk.Loops(dir, "test")
			for _, l := range loops {
				if err == nil && gone == fmt.Sprint("/dev/loop", l.Number) {
					err = errors.New("what cannot be asked is taken for ours")
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// brokenDevice attaches a file of that name to a loop device and shuts down the file
// system that it is on. It returns the device.
func brokenDevice(t *testing.T, m *disk.Maker, name string) string {
	t.Helper()
	below := filepath.Join(testenv.DataDir(t), "below.xfs")
	if err := disk.MakePool(t.Context(), below, 320<<20); err != nil {
		t.Fatal(err)
	}
	pool, err := disk.OpenPool(below, "another")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	image := pool.Path(name)
	if err := m.MakeVolume(t.Context(), image, size); err != nil {
		t.Fatal(err)
	}
	_, fd := mountVolume(t, m, image)
	t.Cleanup(func() { closeFD(t, fd) })
	dev, err := os.ReadFile(image + ".loop")
	if err != nil {
		t.Fatal(err)
	}
	shutDown(t, pool.Path("."))
	loop, err := os.Open(string(dev))
	if err != nil {
		t.Fatal(err)
	}
	defer loop.Close()
	if _, err := unix.IoctlLoopGetStatus64(int(loop.Fd())); !errors.Is(err, unix.EIO) {
		t.Fatalf("asked of its file, the device says %v", err)
	}
	return string(dev)
}

// shutDown has an XFS fail from now on, as when its disk is gone.
func shutDown(t *testing.T, path string) {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	const goingDown, noLogFlush = 0x8004587d, 2
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), goingDown, noLogFlush); err != nil {
		t.Fatal(err)
	}
}
