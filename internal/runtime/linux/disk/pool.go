package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// Pool is a directory for images on a file system that can copy them without
// copying data: XFS in one sparse file on a host that has another file system.
// It is mounted where nobody else sees it, for as long as the Pool is open or
// an image in it is mounted, whether its daemon lives or not.
type Pool struct{ dir int }

// MakePool writes an empty pool for size bytes of images to path, unless there
// is one. It is whole or not there.
func MakePool(ctx context.Context, path string, size int64) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	made := path + ".new"
	f, err := os.OpenFile(made, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(f.Truncate(size), f.Close())
	if err == nil {
		// Sharing of data is the whole point, and older ones have it off. The
		// sectors are those of our loop devices.
		err = mkfsXFS(ctx, "-q", "-m", "reflink=1", "-s", "size="+strconv.Itoa(sector), made)
	}
	if err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return nil
}

func mkfsXFS(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "mkfs.xfs", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.xfs (package xfsprogs): %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// OpenPool mounts the pool in path, once more if it is mounted. The caller
// closes it. Its loop device carries the owner's name.
func OpenPool(path, owner string) (*Pool, error) {
	lock, err := sys.Open(unix.AT_FDCWD, path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer sys.Close(lock)
	// On two devices the file would be two file systems.
	if err := unix.Flock(lock, unix.LOCK_EX); err != nil {
		return nil, os.NewSyscallError("flock", err)
	}
	dev, loop, err := poolDevice(path, owner)
	if err != nil {
		return nil, fmt.Errorf("attach %s to a loop device: %w", path, err)
	}
	defer sys.Close(loop) // the mount holds it
	// What is deleted makes room on the host.
	mnt, err := mountFS("xfs", map[string]string{"source": dev}, []string{"discard"}, diskAttrs()|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, fmt.Errorf("mount %s (the kernel needs XFS: `modprobe xfs`): %w", path, err)
	}
	defer sys.Close(mnt)
	dir, err := sys.Open(mnt, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Pool{dir: dir}, nil
}

// poolDevice opens the loop device that has the pool, or gives it one. It works
// past the host's cache: what is in the pool is cached already.
func poolDevice(path, owner string) (dev string, loop int, err error) {
	if loop, dev, err := device(path); err != nil || loop >= 0 {
		return dev, loop, err
	}
	control, err := openControl()
	if err != nil {
		return "", -1, err
	}
	defer sys.Close(control)
	// Not what the lock is on, which the device would keep locked.
	image, err := sys.Open(unix.AT_FDCWD, path, unix.O_RDWR, 0)
	if err != nil {
		return "", -1, err
	}
	defer sys.Close(image)
	loop, dev, err = attachLoop(control, image, unix.LO_FLAGS_DIRECT_IO, owner)
	if err != nil {
		return "", -1, err
	}
	if err := writeNote(path, dev); err != nil {
		sys.Close(loop)
		return "", -1, err
	}
	return dev, loop, nil
}

// Close closes the directory. The mount lasts as long as an image in it is
// used.
func (p *Pool) Close() error { return os.NewSyscallError("close", unix.Close(p.dir)) }

// Path names a file in the pool for this process, as long as the pool is open.
func (p *Pool) Path(name string) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(p.dir), name)
}
