// Package disk gives each sandbox a file system of its own to write to, so
// that what one fills up is its own: an ext4 image in a sparse file, sized to
// the sandbox's limit and mounted through a loop device. It works on every
// host; the image costs what is written to it. Mounts are detached: they show
// up nowhere and end with the last process or descriptor that uses them.
//
// Images are kept in a directory of the host, or in a pool, whose file system
// can copy them without copying data.
//
// A disk ends with its sandbox. A volume is the same for files that stay: it
// has a journal, is mounted as often as there are sandboxes with it, and is
// written out when the last of them is gone.
package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// Directories on a disk.
const (
	Upper     = "upper" // what the sandbox changed of its root
	Work      = "work"  // overlay's own
	Workspace = "workspace"
)

// Maker makes disks. It keeps one empty file system per size in memory as a
// template, since copying its few blocks is ten times as fast as mkfs.
type Maker struct {
	scratch string // for templates
	images  string // where images are made
	journal bool
	owner   string
	control int // /dev/loop-control

	mu        sync.Mutex
	templates map[layout]*template // guarded by mu
}

// NewMaker opens the host's loop control. Images are made on the file system
// of the directory images, which is where Keep can name them; scratch is for
// what is needed meanwhile. Both must exist and be ours alone. With a journal
// the disks survive a crash of the host. Loop devices carry the owner's name.
func NewMaker(scratch, images string, journal bool, owner string) (*Maker, error) {
	control, err := openControl()
	if err != nil {
		return nil, err
	}
	return &Maker{scratch: scratch, images: images, journal: journal, owner: owner, control: control, templates: map[layout]*template{}}, nil
}

// Close closes what NewMaker opened. Mounted disks live on.
func (m *Maker) Close() error { return unix.Close(m.control) }

// Disk is a fresh file system: its mount, detached, and its image, a file
// without a name. Close frees both unless something else uses them.
type Disk struct {
	Mount int
	image int
	dev   string // the loop device
}

// Close closes the descriptors. The loop device goes with the last use of the
// mount, a nameless image with it.
func (d *Disk) Close() { sys.Close(d.Mount, d.image) }

// Keep gives the image a name, which must be on the file system of the
// Maker's images and not be taken. Deleting it is up to the caller.
func (d *Disk) Keep(path string) error {
	err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(d.image), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.PathError{Op: "linkat", Path: path, Err: err}
	}
	return nil
}

// Note has MountAgain find a disk of that name without looking at every loop
// device of the host.
func (d *Disk) Note(path string) error { return writeNote(path, d.dev) }

// Make makes a disk of size bytes. The caller closes it. Until Keep there is
// nothing that a crash could leave behind.
func (m *Maker) Make(ctx context.Context, size int64) (*Disk, error) {
	if protection.Off(protection.DiskLimit) {
		size *= 4
	}
	t, err := m.template(ctx, layout{size: size, journal: m.journal})
	if err != nil {
		return nil, err
	}
	image, err := sys.Open(unix.AT_FDCWD, m.images, unix.O_RDWR|unix.O_TMPFILE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a disk image: %w", err)
	}
	if err := t.copyTo(image); err != nil {
		sys.Close(image)
		return nil, fmt.Errorf("write a disk image: %w", err)
	}
	mnt, dev, err := m.mount(image)
	if err != nil {
		sys.Close(image)
		return nil, err
	}
	return &Disk{Mount: mnt, image: image, dev: dev}, nil
}

// Open mounts an image that Make wrote earlier, for another overlay on what it
// holds. It must not be in use, and whole: unmounted, or with a journal. One that
// is damaged, as by a host's disk that was full or failed, is repaired first: what
// can be read is kept. The caller closes the disk.
func (m *Maker) Open(ctx context.Context, path string) (*Disk, error) {
	sb, err := readSuperblock(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var d *Disk
	if err == nil && !sb.failed() {
		d, err = m.open(path)
	} else if err == nil {
		err = ErrDamaged
	}
	if !errors.Is(err, ErrDamaged) && !errors.Is(err, unix.EBADMSG) && !errors.Is(err, unix.EUCLEAN) {
		return d, err
	}
	repaired, repairErr := m.Repair(ctx, path)
	if repairErr != nil {
		return nil, errors.Join(err, repairErr)
	}
	return repaired, nil
}

// Repair is Open of a disk that is known to be damaged.
func (m *Maker) Repair(ctx context.Context, path string) (*Disk, error) {
	if err := repairAll(ctx, path); err != nil {
		return nil, err
	}
	return m.open(path)
}

func (m *Maker) open(path string) (*Disk, error) {
	image, err := sys.Open(unix.AT_FDCWD, path, unix.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	mnt, dev, err := m.mount(image)
	if err != nil {
		sys.Close(image)
		return nil, err
	}
	d := &Disk{Mount: mnt, image: image, dev: dev}
	err = clearVolatile(mnt)
	for _, dir := range []string{Upper, Work} {
		if statErr := unix.Faccessat(mnt, dir, unix.F_OK, 0); statErr == unix.ENOENT {
			err = errors.Join(err, fmt.Errorf("%w: %s has no directory %s; what could be read of it may be in lost+found", ErrDamaged, path, dir))
		}
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// clearVolatile removes the mark that a volatile overlay leaves, by which
// another one would refuse a disk that may have lost writes. This one has not.
func clearVolatile(mnt int) error {
	mark := Work + "/work/incompat/volatile"
	for _, name := range []string{mark + "/dirty", mark} {
		flags := 0
		if name == mark {
			flags = unix.AT_REMOVEDIR
		}
		if err := unix.Unlinkat(mnt, name, flags); err != nil && err != unix.ENOENT {
			return &os.PathError{Op: "unlinkat", Path: name, Err: err}
		}
	}
	return nil
}

func (m *Maker) mount(image int) (mnt int, dev string, err error) {
	loop, dev, err := attachLoop(m.control, image, 0, m.owner)
	if err != nil {
		return -1, "", fmt.Errorf("attach a loop device: %w", err)
	}
	// The mount holds the device; autoclear frees it after the last use.
	defer sys.Close(loop)
	mnt, err = mountDevice(dev)
	return mnt, dev, err
}

// mountDevice mounts the ext4 on dev, once more if it is mounted: all mounts of
// a device are of one file system, under the first one's flags.
func mountDevice(dev string, flags ...string) (int, error) {
	// Remounting read-only would hide an error from the sandbox for long;
	// continuing would hide it for good.
	return mountFS("ext4", map[string]string{"source": dev, "errors": "remount-ro"}, flags, diskAttrs())
}

// diskAttrs are of every mount of what a sandbox has written.
func diskAttrs() int {
	const attrs = unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOATIME
	if protection.Off(protection.NoSuid) {
		return attrs
	}
	return attrs | unix.MOUNT_ATTR_NOSUID
}

// mountFS returns a detached mount.
func mountFS(fstype string, options map[string]string, flags []string, attrs int) (int, error) {
	fs, err := sys.Fsopen(fstype)
	if err != nil {
		return -1, err
	}
	defer sys.Close(fs)
	for key, value := range options {
		if err := sys.FsconfigString(fs, key, value); err != nil {
			return -1, err
		}
	}
	for _, flag := range flags {
		if err := sys.FsconfigFlag(fs, flag); err != nil {
			return -1, err
		}
	}
	if err := sys.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return sys.Fsmount(fs, attrs)
}

// Discard drops what was written to a disk and not yet to its image, so that
// unmounting does not wait for data that nobody wants. fd is an open directory
// that is said to be on it. It is shut down for good, so nothing is done to a
// file system whose device is not a loop device on exactly this image.
func Discard(fd int, image string) error {
	if _, err := loopOf(fd, image); err != nil {
		return err
	}
	const ioctlShutdown, noLogFlush = 0x8004587d, 2
	return os.NewSyscallError("EXT4_IOC_SHUTDOWN", unix.IoctlSetPointerInt(fd, ioctlShutdown, noLogFlush))
}

// loopOf returns the number of the loop device on exactly this image that fd's
// file system is on, or an error if it is on none.
func loopOf(fd int, image string) (int, error) {
	var dir, img unix.Stat_t
	if err := unix.Fstat(fd, &dir); err != nil {
		return -1, os.NewSyscallError("fstat", err)
	}
	if err := unix.Stat(image, &img); err != nil {
		return -1, &os.PathError{Op: "stat", Path: image, Err: err}
	}
	if unix.Major(dir.Dev) != loopMajor {
		return -1, errors.New("not on a loop device")
	}
	n := int(unix.Minor(dir.Dev))
	loop, err := openLoop(n)
	if err != nil {
		return -1, err
	}
	defer sys.Close(loop)
	on, err := isOn(loop, img.Dev, img.Ino)
	if err == nil && !on {
		err = errors.New("on another loop device")
	}
	return n, err
}

// template is an empty file system: the extents of its image that hold data.
type template struct {
	size    int64
	extents []extent
}

type extent struct {
	off  int64
	data []byte
}

func (t *template) copyTo(fd int) error {
	if err := unix.Ftruncate(fd, t.size); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	for _, e := range t.extents {
		if n, err := unix.Pwrite(fd, e.data, e.off); err != nil || n != len(e.data) {
			return errors.Join(os.NewSyscallError("pwrite", err), shortWrite(n, len(e.data)))
		}
	}
	return nil
}

func shortWrite(n, want int) error {
	if n == want {
		return nil
	}
	return fmt.Errorf("%d of %d bytes written: %w", n, want, unix.ENOSPC)
}

// layout is all in which empty file systems differ.
type layout struct {
	size    int64
	journal bool
	volume  bool // else a disk
}

// mkfs is what mkfs.ext4 is told. No reserved blocks: the sandbox's root is not
// the host's. One inode for 16 KiB, as ext4 does.
func (l layout) mkfs() []string {
	features, args := "^resize_inode", []string{
		"-q", "-F", "-b", "4096", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0",
	}
	if !l.journal { // it costs a second write of every change
		features += ",^has_journal"
	}
	if protection.Off(protection.InodeLimit) {
		args = append(args, "-i", "1024")
	}
	if l.volume {
		args = append(args, "-J", "size="+strconv.FormatInt(journalMB(l.size), 10))
	}
	return append(args, "-O", features)
}

// template returns the one for l, building it when it is the first.
func (m *Maker) template(ctx context.Context, l layout) (*template, error) {
	m.mu.Lock()
	defer m.mu.Unlock() // held while building: everybody waits for the same thing
	if t, ok := m.templates[l]; ok {
		return t, nil
	}
	t, err := m.build(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("build an empty disk of %d MiB: %w", l.size>>20, err)
	}
	if len(m.templates) >= maxTemplates { // sizes come from clients
		for other := range m.templates {
			delete(m.templates, other)
			break
		}
	}
	m.templates[l] = t
	return t, nil
}

const maxTemplates = 32

// build makes one in a file without a name, of which nothing is left however it ends.
func (m *Maker) build(ctx context.Context, l layout) (*template, error) {
	f, err := os.OpenFile(m.scratch, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(l.size); err != nil {
		return nil, err
	}
	mkfs := exec.CommandContext(ctx, "mkfs.ext4", append(l.mkfs(), "/proc/self/fd/3")...)
	mkfs.ExtraFiles = []*os.File{f}
	out, err := mkfs.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("mkfs.ext4 (package e2fsprogs): %w: %s", err, bytes.TrimSpace(out))
	}
	mnt, _, err := m.mount(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	// Closing the last descriptor of a detached mount unmounts it, and what
	// was populated is in the image afterwards.
	if err := errors.Join(populate(mnt, l), syncFS(mnt), unix.Close(mnt)); err != nil {
		return nil, err
	}
	return readTemplate(f, l.size)
}

// syncFS writes a mounted file system out to its image.
func syncFS(mnt int) error {
	fd, err := sys.Open(mnt, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer sys.Close(fd)
	return os.NewSyscallError("syncfs", unix.Syncfs(fd))
}

// readTemplate collects the extents that are not holes.
func readTemplate(f *os.File, size int64) (*template, error) {
	t := &template{size: size}
	err := eachExtent(int(f.Fd()), func(start, end int64) error {
		data := make([]byte, end-start)
		if _, err := f.ReadAt(data, start); err != nil {
			return err
		}
		if len(bytes.Trim(data, "\x00")) > 0 { // allocated, but as good as a hole
			t.extents = append(t.extents, extent{start, data})
		}
		return nil
	})
	return t, err
}

// eachExtent calls do for the parts of a file that are not holes, until it
// fails.
func eachExtent(fd int, do func(start, end int64) error) error {
	for off := int64(0); ; {
		start, err := unix.Seek(fd, off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil
		}
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		end, err := unix.Seek(fd, start, unix.SEEK_HOLE)
		if err != nil {
			return os.NewSyscallError("lseek", err)
		}
		if err := do(start, end); err != nil {
			return err
		}
		off = end
	}
}
