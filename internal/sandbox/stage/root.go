package stage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// Names on the staging file system. Short and relative: they are what the
// sandbox's own /proc/self/mountinfo shows of its overlay.
const (
	diskDir   = "disk"
	facadeDir = "facade"
	volumeDir = "volume"
	rootDir   = "root"
)

// inRoot is how a path below the new root is resolved: the image may be
// hostile, so no link is followed and nothing leads out (CVE-2026-41579).
const inRoot = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// leaveHost lets go of all that the host has mounted. A new mount namespace begins
// with a copy of that, and a runner may wait in its own for days: until it ended, a
// disk that the host has unmounted would be in use. It waits in an empty directory in
// memory, with a /proc: in a user namespace the kernel mounts another one, which the
// sandbox needs, only where one can be seen.
func leaveHost() error {
	// Nothing mounted from here on may travel back to the host.
	if err := sys.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if protection.Off(protection.OwnInodes) { // the devices are the host's: FromHost
		return nil
	}
	proc, err := NewFS("proc", "hidepid=invisible", hidden)
	if err != nil {
		return err
	}
	defer sys.Close(proc)
	root, err := NewFS("tmpfs", "size=4k,nr_inodes=4,mode=755", hidden&^unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return err
	}
	defer sys.Close(root)
	if err := mountOn(root, "/proc"); err != nil {
		return err
	}
	if err := unix.Fchdir(root); err != nil {
		return fmt.Errorf("fchdir: %w", err)
	}
	if err := attach(proc, "proc"); err != nil {
		return err
	}
	return enterRoot(root)
}

// mountOn mounts fd on a directory.
func mountOn(fd int, dir string) error {
	at, err := sys.Open(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer sys.Close(at)
	return sys.MoveMount(fd, at)
}

// buildRoot assembles the root file system and makes it the process's. The mount
// namespace shows the place where the runner waited; at the end it shows only what
// was put below the new root. It returns the overlay's upper directory, open to be
// read, which has no path any more.
func buildRoot(b *Boot, mounts []int) (changes int, err error) {
	if err := stagingArea(b.Layers, mounts); err != nil {
		return -1, fmt.Errorf("staging: %w", err)
	}
	root, err := mountOverlay(b.Layers, b.Volatile)
	if err != nil {
		return -1, fmt.Errorf("overlay: %w", err)
	}
	m := mounter{root: root}
	defer sys.Close(root)
	for _, mt := range b.Mounts {
		if err := m.mount(mt); err != nil {
			return -1, fmt.Errorf("mount %s: %w", mt.Target, err)
		}
	}
	if err := m.mask(b.Masks); err != nil {
		return -1, err
	}
	for _, f := range b.Faces { // some lie below what masks make read-only
		// Writable for the daemon, whose files they are; nobody inside may write to them.
		if err := m.cover(f.Path, hidden&^unix.MOUNT_ATTR_RDONLY, facadeFile(f.File)); err != nil {
			return -1, fmt.Errorf("cover %s: %w", f.Path, err)
		}
	}
	for _, l := range b.Links {
		if err := m.link(l); err != nil {
			return -1, fmt.Errorf("link %s: %w", l.Path, err)
		}
	}
	if b.ReadonlyRoot {
		// The root alone: what was mounted below keeps its own attributes.
		if err := sys.MountSetattr(root, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return -1, fmt.Errorf("make the root read-only: %w", err)
		}
	}
	changes, err = sys.Open(unix.AT_FDCWD, diskDir+"/upper", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	return changes, enterRoot(root)
}

// stagingArea makes the working directory a small file system of our own with
// the layers, the disk and the volume attached, since an overlay on most
// kernels takes only what is mounted in the caller's namespace, and so does a
// copy of a part. It covers /proc, the one directory where the runner waited;
// nothing needs that from here on.
func stagingArea(layers int, mounts []int) error {
	fd, err := NewFS("tmpfs", "size=64k,mode=700", 0)
	if err != nil {
		return err
	}
	defer sys.Close(fd)
	if err := mountOn(fd, "/proc"); err != nil {
		return err
	}
	if err := unix.Fchdir(fd); err != nil {
		return fmt.Errorf("fchdir: %w", err)
	}
	for i, mnt := range mounts {
		dir := layerDir(i)
		switch i {
		case layers:
			dir = diskDir
		case layers + 1:
			dir = facadeDir
		case layers + 2:
			dir = volumeDir
		}
		if err := attach(mnt, dir); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return sys.Mkdirat(unix.AT_FDCWD, rootDir, 0o755)
}

func layerDir(i int) string { return "l" + strconv.Itoa(i) }

// attach makes dir and mounts fd on it.
func attach(fd int, dir string) error {
	if err := sys.Mkdirat(unix.AT_FDCWD, dir, 0o755); err != nil {
		return err
	}
	return mountOn(fd, dir)
}

// mountOverlay puts the layers and the disk's upper directory together and
// returns the mounted root. A volatile one syncs nothing: its sandbox does not
// survive a crash of the host.
func mountOverlay(layers int, volatile bool) (int, error) {
	lower := make([]string, layers)
	for i := range lower {
		lower[i] = layerDir(i)
	}
	flag, attrs := "", uint64(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if volatile {
		flag = ",volatile"
	}
	if protection.Off(protection.NoSuid) {
		attrs &^= unix.MOUNT_ATTR_NOSUID
	}
	fd, err := NewFS("overlay", "source=sandbox,lowerdir="+strings.Join(lower, ":")+",upperdir="+diskDir+"/upper,workdir="+diskDir+"/work,"+
		"userxattr,xino=off,index=off,metacopy=off"+flag, attrs)
	if err != nil {
		return -1, err
	}
	at, err := sys.Open(unix.AT_FDCWD, rootDir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer sys.Close(at)
	return fd, sys.MoveMount(fd, at)
}

// NewFS makes a detached file system.
func NewFS(fstype, options string, attrs uint64) (int, error) {
	fs, err := sys.Fsopen(fstype)
	if err != nil {
		return -1, err
	}
	defer sys.Close(fs)
	if err := Configure(fs, options); err != nil {
		return -1, err
	}
	if err := sys.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return sys.Fsmount(fs, int(attrs))
}

// Configure gives a file system that is being made, or made anew, the options
// of a Mount.
func Configure(fs int, options string) (err error) {
	for option := range strings.SplitSeq(options, ",") {
		key, value, valued := strings.Cut(option, "=")
		switch {
		case valued:
			err = sys.FsconfigString(fs, key, value)
		case key != "":
			err = sys.FsconfigFlag(fs, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mounter carries out Mounts and Masks below root.
type mounter struct{ root int }

// open returns a handle on what is at path below the root.
func (m *mounter) open(path string) (int, error) {
	return sys.Openat2(m.root, relative(path), unix.O_PATH|unix.O_NOFOLLOW, 0, inRoot)
}

func (m *mounter) mount(mt Mount) error {
	src, err := source(mt)
	if err != nil {
		return err
	}
	defer sys.Close(src)
	if err := m.makeTarget(mt); err != nil {
		return err
	}
	at, err := m.open(mt.Target)
	if err != nil {
		return err
	}
	defer sys.Close(at)
	if mt.From != FromNew && mt.Attrs != 0 {
		if err := sys.MountSetattr(src, &unix.MountAttr{Attr_set: mt.Attrs}); err != nil {
			return err
		}
	}
	return sys.MoveMount(src, at)
}

// source returns a detached mount.
func source(mt Mount) (int, error) {
	switch mt.From {
	case FromNew:
		return NewFS(mt.FS, mt.Options, mt.Attrs)
	case FromHost:
		return sys.OpenTree(unix.AT_FDCWD, mt.Path)
	case FromFacade:
		return part(facadeDir + "/" + mt.Path)
	case FromDisk:
		return part(diskDir + "/" + mt.Path)
	case FromVolume:
		return part(volumeDir + "/" + mt.Path)
	}
	return -1, fmt.Errorf("unknown source %q", mt.From)
}

// part copies the mount of what is at path in the staging area. No link on the
// way is followed.
func part(path string) (int, error) {
	at, err := sys.Openat2(unix.AT_FDCWD, path, unix.O_PATH|unix.O_NOFOLLOW, 0, inRoot)
	if err != nil {
		return -1, err
	}
	defer sys.Close(at)
	return sys.OpenTree(at, "")
}

const hidden = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// mask covers files with an empty one and directories with an empty one. Both come
// from the staging area, where nothing inside can have put something else in
// their place (CVE-2025-31133), and both are this sandbox's alone: what others
// open, lock or watch is another inode.
func (m *mounter) mask(masks Masks) error {
	empty, err := NewFS("tmpfs", "size=4k,nr_inodes=1,mode=555", hidden)
	if err != nil {
		return fmt.Errorf("mask: %w", err)
	}
	defer sys.Close(empty)
	if err := attach(empty, "empty"); err != nil { // only an attached mount can be copied
		return fmt.Errorf("mask: %w", err)
	}
	blank, err := blankFile()
	if err != nil {
		return fmt.Errorf("mask: %w", err)
	}
	defer sys.Close(blank)
	cover := func(paths []string, attrs uint64, source func(at int) (int, error)) error {
		for _, path := range paths {
			if err := m.cover(path, attrs, source); err != nil {
				return fmt.Errorf("mask %s: %w", path, err)
			}
		}
		return nil
	}
	return errors.Join(
		// First, since it covers what is mounted below.
		cover(masks.ReadOnly, hidden, func(at int) (int, error) { return sys.OpenTree(at, "") }),
		cover(masks.Files, 0, func(int) (int, error) { return sys.OpenTree(blank, "") }),
		cover(masks.Dirs, 0, func(int) (int, error) { return sys.OpenTree(empty, "") }),
	)
}

// blankFile returns the mount of the facade's empty file, attached to be copied, with
// its attributes: there are dozens of masks, and every create waits for them.
func blankFile() (int, error) {
	fd, err := part(facadeDir + "/" + EmptyFile)
	if err != nil {
		return -1, err
	}
	const name = "blank"
	at, err := sys.Open(unix.AT_FDCWD, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o444)
	if err == nil {
		err = errors.Join(sys.MountSetattr(fd, &unix.MountAttr{Attr_set: hidden}), sys.MoveMount(fd, at))
		sys.Close(at)
	}
	if err != nil {
		sys.Close(fd)
		return -1, err
	}
	return fd, nil
}

// facadeFile returns a source for cover: a copy of the mount of a file of the
// facade.
func facadeFile(name string) func(int) (int, error) {
	return func(int) (int, error) { return part(facadeDir + "/" + name) }
}

// cover mounts what source makes of the handle on path over it.
func (m *mounter) cover(path string, attrs uint64, source func(at int) (int, error)) error {
	at, err := m.open(path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer sys.Close(at)
	fd, err := source(at)
	if err != nil {
		return err
	}
	defer sys.Close(fd)
	if attrs != 0 {
		if err := sys.MountSetattr(fd, &unix.MountAttr{Attr_set: attrs}); err != nil {
			return err
		}
	}
	return sys.MoveMount(fd, at)
}

func (m *mounter) makeTarget(mt Mount) error {
	if mt.Make == "" {
		return nil
	}
	dir, name := split(mt.Target)
	at, err := sys.Openat2(m.root, dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, inRoot)
	if err != nil {
		return err
	}
	defer sys.Close(at)
	if mt.Make == MakeDir {
		return sys.Mkdirat(at, name, 0o755)
	}
	f, err := sys.Open(at, name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY, 0o644)
	sys.Close(f)
	return err
}

func (m *mounter) link(l Link) error {
	dir, name := split(l.Path)
	at, err := sys.Openat2(m.root, dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, inRoot)
	if err != nil {
		return err
	}
	defer sys.Close(at)
	return unix.Symlinkat(l.Target, at, name)
}

func relative(path string) string { return strings.TrimPrefix(path, "/") }

// split takes an absolute path apart; its directory is relative to the root.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if dir = relative(path[:i]); dir == "" {
		dir = "."
	}
	return dir, path[i+1:]
}

// enterRoot makes root the root directory and lets go of everything else.
func enterRoot(root int) error {
	if err := unix.Fchdir(root); err != nil {
		return fmt.Errorf("fchdir: %w", err)
	}
	// The old root lands on top of the new one and is detached from there, so
	// no directory of the image is needed to hold it.
	if err := sys.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := sys.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("chdir: %w", err)
	}
	return nil
}
