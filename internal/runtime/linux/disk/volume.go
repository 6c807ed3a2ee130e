package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// MakeVolume writes an empty volume of size bytes to path, which must not
// exist, and returns when it is durable. When it fails there may be a file.
func (m *Maker) MakeVolume(ctx context.Context, path string, size int64) error {
	t, err := m.template(ctx, layout{size: size, journal: true, volume: true})
	if err != nil {
		return err
	}
	image, err := sys.Open(unix.AT_FDCWD, path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer sys.Close(image)
	if err := t.copyTo(image); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.NewSyscallError("fsync", unix.Fsync(image))
}

// journalMB is the size of a volume's journal: what ext4 takes by default, but
// never so much that a large volume's costs more than it is worth.
func journalMB(size int64) int64 { return min(max(size>>26, 4), 32) }

// OpenVolume returns a mount of a volume, detached. All its mounts are of one
// file system, for a file on two loop devices is two file systems that destroy
// each other: the device that has it is looked for, also that of another
// process. So calls for one path must come one after the other. A volume that
// its host's crash has left dirty is repaired first.
func (m *Maker) OpenVolume(ctx context.Context, path string) (int, error) {
	mnt, err := MountAgain(path)
	if err != nil || mnt >= 0 {
		return mnt, err
	}
	if err := repair(ctx, path); err != nil {
		return -1, err
	}
	image, err := sys.Open(unix.AT_FDCWD, path, unix.O_RDWR, 0)
	if err != nil {
		return -1, err
	}
	defer sys.Close(image)
	loop, dev, err := attachLoop(m.control, image, 0, m.owner)
	if err != nil {
		return -1, fmt.Errorf("attach a loop device: %w", err)
	}
	defer sys.Close(loop)
	// Before it is mounted: until then the device ends with us.
	if err := writeNote(path, dev); err != nil {
		return -1, err
	}
	// What is deleted inside makes room on the host. The tables of inodes are
	// holes, which need not be filled with zeros.
	return mountDevice(dev, "discard", "noinit_itable")
}

// noteSuffix ends the name of the file that names an image's last device.
const noteSuffix = ".loop"

func writeNote(path, dev string) error { return os.WriteFile(path+noteSuffix, []byte(dev), 0o600) }

// Remove deletes an image, if it is there, and what was noted of it.
func Remove(path string) error {
	for _, name := range []string{path, path + noteSuffix} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// MountAgain returns another mount of an image that is mounted, or -1 if it is
// not. The caller closes it.
func MountAgain(path string) (int, error) {
	return mountFrom(path, device)
}

func mountFrom(path string, device func(string) (int, string, error)) (int, error) {
	loop, dev, err := device(path)
	if err != nil || loop < 0 {
		return -1, err
	}
	defer sys.Close(loop) // until then it cannot be cleared
	return mountDevice(dev)
}

// Attached reports whether a loop device has the image.
func Attached(path string) (bool, error) {
	loop, _, err := device(path)
	sys.Close(loop)
	return loop >= 0, err
}

// VolumeBytes is what is used of a volume, of its file system's own counting.
// Like OpenVolume it must not meet another call for the path. What it costs
// does not grow with the host's devices.
func VolumeBytes(path string) (int64, error) {
	mnt, err := mountFrom(path, notedDevice)
	if err != nil {
		return 0, err
	}
	if mnt < 0 {
		sb, err := readSuperblock(path)
		return sb.used(), err
	}
	defer sys.Close(mnt)
	var st unix.Statfs_t
	if err := unix.Fstatfs(mnt, &st); err != nil {
		return 0, os.NewSyscallError("fstatfs", err)
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, nil
}

// device opens the loop device that has the image, or returns -1. While it is
// open the device keeps the image.
func device(path string) (fd int, dev string, err error) {
	image, err := lookUp(path)
	if err != nil {
		return -1, "", err
	}
	if fd, dev, err := notedDevice(path); err != nil || fd >= 0 {
		return fd, dev, err
	}
	devices, err := numbers()
	if err != nil {
		return -1, "", err
	}
	for _, n := range devices {
		if fd, err := openIfOn(n, image); err != nil || fd >= 0 {
			return fd, loopName(n), err
		}
	}
	return -1, "", nil
}

// notedDevice is device for an image whose every device was noted: it looks at
// the one that had it last.
func notedDevice(path string) (fd int, dev string, err error) {
	text, err := os.ReadFile(path + noteSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, "", nil
	}
	if err != nil {
		return -1, "", err
	}
	n, err := strconv.Atoi(strings.TrimPrefix(string(text), loopPrefix))
	if err != nil {
		return -1, "", nil //nolint:nilerr // it was not written whole, so nothing was mounted
	}
	image, err := lookUp(path)
	if err != nil {
		return -1, "", err
	}
	fd, err = openIfOn(n, image)
	return fd, loopName(n), err
}

// ErrDamaged means that a volume cannot be repaired without somebody deciding
// what to give up.
var ErrDamaged = errors.New("the file system is damaged")

// repair brings a volume that nobody has mounted in order if its last mount
// did not end well. Most often that is a replay of the journal; only after an
// error of the file system all of it is read.
func repair(ctx context.Context, path string) error {
	sb, err := readSuperblock(path)
	if err != nil || sb.clean() {
		return err
	}
	return e2fsck(ctx, "-p", path)
}

// repairAll repairs an image that nobody has mounted whatever has to be given up for
// that: the files of a sandbox that cannot start are of no use to anybody.
func repairAll(ctx context.Context, path string) error {
	fd, _, err := device(path)
	if err == nil && fd >= 0 {
		sys.Close(fd)
		err = fmt.Errorf("%w: %s is in use", ErrDamaged, path)
	}
	if err != nil {
		return err
	}
	return e2fsck(ctx, "-fy", path)
}

func e2fsck(ctx context.Context, how, path string) error {
	out, err := exec.CommandContext(ctx, "e2fsck", how, path).CombinedOutput()
	exit, exited := errors.AsType[*exec.ExitError](err)
	const corrected, reboot = 1, 2
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("e2fsck %s %s: %w", how, path, ctx.Err())
	case exited && exit.ExitCode() > 0 && exit.ExitCode()&^(corrected|reboot) == 0:
		return nil
	case exited:
		return fmt.Errorf("%w: e2fsck %s %s: %w: %s", ErrDamaged, how, path, err, bytes.TrimSpace(out))
	}
	return fmt.Errorf("e2fsck (package e2fsprogs): %w", err)
}

// superblock is the part of ext4's that matters here.
type superblock [1024]byte

func readSuperblock(path string) (*superblock, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var sb superblock
	const offset, magic = 1024, 0xef53
	_, err = f.ReadAt(sb[:], offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err != nil || binary.LittleEndian.Uint16(sb[0x38:]) != magic {
		return nil, fmt.Errorf("%w: %s has no superblock", ErrDamaged, path)
	}
	return &sb, nil
}

func (sb *superblock) u32(offset int) int64 {
	return int64(binary.LittleEndian.Uint32(sb[offset:]))
}

// clean reports whether there is no error and nothing in the journal.
func (sb *superblock) clean() bool {
	const valid, failed, recover = 0x1, 0x2, 0x4
	state := binary.LittleEndian.Uint16(sb[0x3a:])
	return state&(valid|failed) == valid && sb.u32(0x60)&recover == 0
}

// failed reports whether the kernel has noted an error.
func (sb *superblock) failed() bool {
	return binary.LittleEndian.Uint16(sb[0x3a:])&0x2 != 0
}

// used is what statfs would say of a clean file system: all blocks without
// those that are free and those that no file can have.
func (sb *superblock) used() int64 {
	if sb == nil {
		return 0
	}
	blocks := sb.u32(0x4) | sb.u32(0x150)<<32
	free := sb.u32(0xc) | sb.u32(0x158)<<32
	overhead := sb.u32(0x248)
	return max(blocks-free-overhead, 0) << (10 + sb.u32(0x18)&0xf)
}
