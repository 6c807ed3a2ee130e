package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

func openControl() (int, error) {
	fd, err := sys.Open(unix.AT_FDCWD, "/dev/loop-control", unix.O_RDWR, 0)
	if err != nil {
		return -1, fmt.Errorf("loop devices are not usable (load the module with `modprobe loop`): %w", err)
	}
	return fd, nil
}

// ownerPrefix is before the name of the installation that has a device.
const ownerPrefix = "sandkasten/"

// attachLoop binds the image to a free loop device, which is free again after its
// last use. Others take devices too, so the free one may be gone when we reach
// for it.
func attachLoop(control, image int, flags uint32, owner string) (fd int, dev string, err error) {
	for range 128 {
		n, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return -1, "", os.NewSyscallError("LOOP_CTL_GET_FREE", err)
		}
		dev := "/dev/loop" + strconv.Itoa(n)
		if err := ensureNode(dev, n); err != nil {
			return -1, "", err
		}
		fd, err := sys.Open(unix.AT_FDCWD, dev, unix.O_RDWR, 0)
		if err != nil {
			return -1, "", err
		}
		cfg := unix.LoopConfig{Fd: uint32(image), Size: sector}
		cfg.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | flags
		copy(cfg.Info.File_name[:len(cfg.Info.File_name)-1], ownerPrefix+owner)
		err = unix.IoctlLoopConfigure(fd, &cfg)
		if err == nil {
			return fd, dev, nil
		}
		sys.Close(fd)
		if !errors.Is(err, unix.EBUSY) {
			return -1, "", os.NewSyscallError("LOOP_CONFIGURE", err)
		}
	}
	return -1, "", errors.New("every free device was taken by somebody else")
}

// sector is the least that is read or written of a loop device.
const sector = 4096

// loopMajor is the number of the loop driver.
const loopMajor = 7

// ensureNode makes the device file where no udev does.
func ensureNode(dev string, n int) error {
	if _, err := os.Stat(dev); err == nil {
		return nil
	}
	err := unix.Mknod(dev, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(n))))
	if err != nil && err != unix.EEXIST {
		return &os.PathError{Op: "mknod", Path: dev, Err: err}
	}
	return nil
}

// imageFile is an image that some loop device may have.
type imageFile struct {
	device, inode uint64
	path          string // as the kernel calls it
}

func lookUp(path string) (i imageFile, err error) {
	fd, err := sys.Open(unix.AT_FDCWD, path, unix.O_PATH, 0)
	if err != nil {
		return i, err
	}
	defer sys.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return i, &os.PathError{Op: "fstat", Path: path, Err: err}
	}
	i = imageFile{device: st.Dev, inode: st.Ino}
	i.path, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return i, err
}

// mayBe reports whether a device whose file is called that can have the image. Its
// directories may be called otherwise there, and one that had no name when it was given
// to a device has a number for a name.
func (i imageFile) mayBe(name string) bool {
	base := filepath.Base(name)
	return base == filepath.Base(i.path) || strings.HasPrefix(base, "#")
}

// is reports whether a device whose file is called that has the image, as far as that
// can be told by names.
func (i imageFile) is(name string) bool {
	return name == i.path || filepath.Base(name) == "#"+strconv.FormatUint(i.inode, 10)
}

// openIfOn opens a loop device if it has the image, or returns -1. Others' devices are
// told by the names of their files: to ask a device of its file is to ask the file
// system, and another's may be gone or not answer.
func openIfOn(n int, image imageFile) (int, error) {
	name, err := backingFile(n)
	if err != nil || !image.mayBe(name) {
		return -1, nil //nolint:nilerr // it has none, or is losing it
	}
	fd, err := openWith(n, image.device, image.inode)
	if err != nil && !image.is(name) {
		return -1, nil //nolint:nilerr // another's, whose file cannot be reached
	}
	return fd, err
}

// backingFile is the name of a loop device's file as the kernel shows it, which asks
// no file system.
func backingFile(n int) (string, error) {
	text, err := os.ReadFile("/sys/block/" + loopBase + strconv.Itoa(n) + "/loop/backing_file")
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), " (deleted)"), err
}

// openWith opens a loop device if it has that file, or returns -1.
func openWith(n int, device, inode uint64) (int, error) {
	// To open one that has none could make it.
	if _, err := os.Lstat("/sys/block/" + loopBase + strconv.Itoa(n) + "/loop"); errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	fd, err := openLoop(n)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
		return -1, nil // it was removed
	}
	if err != nil {
		return -1, err
	}
	on, err := isOn(fd, device, inode)
	if err != nil || !on {
		sys.Close(fd)
		return -1, err
	}
	return fd, nil
}

const (
	loopBase   = "loop"
	loopPrefix = "/dev/" + loopBase
)

func loopName(n int) string { return loopPrefix + strconv.Itoa(n) }

func openLoop(n int) (int, error) {
	if err := ensureNode(loopName(n), n); err != nil {
		return -1, err
	}
	return sys.Open(unix.AT_FDCWD, loopName(n), unix.O_RDONLY, 0)
}

// isOn reports whether a loop device has a file. One that is being cleared has written
// everything and counts as free.
func isOn(loop int, device, inode uint64) (bool, error) {
	info, err := unix.IoctlLoopGetStatus64(loop)
	if errors.Is(err, unix.ENXIO) {
		return false, nil
	}
	if err != nil {
		return false, os.NewSyscallError("LOOP_GET_STATUS64", err)
	}
	return info.Inode == inode && info.Device == device, nil
}

// Loop is a loop device that has a file.
type Loop struct {
	Number        int
	Path          string // of the file when it was attached
	Device, Inode uint64 // of the file
	owner         string // with its prefix; "" is not known
}

// numbers are those of the host's loop devices, with a file and without.
func numbers() ([]int, error) {
	entries, err := os.ReadDir("/sys/block")
	if err != nil {
		return nil, err
	}
	var all []int
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), loopBase)
		if n, err := strconv.Atoi(number); ok && err == nil {
			all = append(all, n)
		}
	}
	return all, nil
}

// Loops returns the devices on files that are, or were, below dir, but for those
// that another installation than owner has: a path may be of other files elsewhere.
// One whose file cannot be reached is none of them.
func Loops(dir, owner string) ([]Loop, error) {
	devices, err := numbers()
	if err != nil {
		return nil, err
	}
	var all []Loop
	for _, n := range devices {
		path, err := backingFile(n)
		if err != nil || !strings.HasPrefix(path, dir+"/") {
			continue // it was detached, or is somebody else's
		}
		l, ok, err := statusOf(n)
		if err != nil {
			continue // nobody can say whose it is, and nobody can do anything to it
		}
		other, named := strings.CutPrefix(l.owner, ownerPrefix)
		if l.Path = path; ok && (!named || other == owner || other == "") {
			all = append(all, l)
		}
	}
	return all, nil
}

// statusOf reports what a loop device has, and whether it has anything.
func statusOf(n int) (l Loop, ok bool, err error) {
	fd, err := openLoop(n)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	defer sys.Close(fd)
	info, err := unix.IoctlLoopGetStatus64(fd)
	if errors.Is(err, unix.ENXIO) {
		return l, false, nil
	}
	if err != nil {
		return l, false, os.NewSyscallError("LOOP_GET_STATUS64", err)
	}
	return Loop{Number: n, Device: info.Device, Inode: info.Inode, owner: unix.ByteSliceToString(info.File_name[:])}, true, nil
}

// Detach takes the file from a loop device, if it is still the same file: now,
// or when the last mount of the device has ended.
func Detach(l Loop) error {
	fd, err := openWith(l.Number, l.Device, l.Inode)
	if err != nil || fd < 0 {
		return err
	}
	defer sys.Close(fd)
	if err := unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return os.NewSyscallError("LOOP_CLR_FD", err)
	}
	return nil
}
