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

// openIfOn opens a loop device if it has the image, or returns -1.
func openIfOn(n int, image *unix.Stat_t) (int, error) {
	// To open one that has none could make it.
	if _, err := os.Lstat("/sys/block/loop" + strconv.Itoa(n) + "/loop"); errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	fd, err := openLoop(n)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
		return -1, nil // it was removed
	}
	if err != nil {
		return -1, err
	}
	on, err := isOn(fd, image)
	if err != nil || !on {
		sys.Close(fd)
		return -1, err
	}
	return fd, nil
}

const loopPrefix = "/dev/loop"

func loopName(n int) string { return loopPrefix + strconv.Itoa(n) }

func openLoop(n int) (int, error) {
	if err := ensureNode(loopName(n), n); err != nil {
		return -1, err
	}
	return sys.Open(unix.AT_FDCWD, loopName(n), unix.O_RDONLY, 0)
}

// isOn reports whether a loop device has the image. One that is being cleared
// has written everything and counts as free.
func isOn(loop int, image *unix.Stat_t) (bool, error) {
	info, err := unix.IoctlLoopGetStatus64(loop)
	if errors.Is(err, unix.ENXIO) {
		return false, nil
	}
	if err != nil {
		return false, os.NewSyscallError("LOOP_GET_STATUS64", err)
	}
	return info.Inode == image.Ino && info.Device == image.Dev, nil
}

// Loop is a loop device that has a file.
type Loop struct {
	Number        int
	Path          string // of the file when it was attached
	Device, Inode uint64 // of the file
	owner         string // with its prefix; "" is not known
}

// Loops returns the devices on files that are, or were, below dir, but for those
// that another installation than owner has: a path may be of other files elsewhere.
func Loops(dir, owner string) ([]Loop, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var all []Loop
	for _, file := range files {
		text, err := os.ReadFile(file)
		path := strings.TrimSuffix(strings.TrimSpace(string(text)), " (deleted)")
		n, bad := strconv.Atoi(strings.TrimPrefix(strings.Split(file, "/")[3], "loop"))
		if err != nil || bad != nil || !strings.HasPrefix(path, dir+"/") {
			continue // it was detached, or is somebody else's
		}
		l, ok, err := statusOf(n)
		if err != nil {
			return nil, err
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
	fd, err := openIfOn(l.Number, &unix.Stat_t{Dev: l.Device, Ino: l.Inode})
	if err != nil || fd < 0 {
		return err
	}
	defer sys.Close(fd)
	if err := unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return os.NewSyscallError("LOOP_CLR_FD", err)
	}
	return nil
}
