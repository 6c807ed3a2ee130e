package linux

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// belowRoot is how paths in a sandbox in which nothing of a client has run are
// resolved: its image may be hostile, so no link is followed.
const belowRoot = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// resize gives a file system in memory, mounted in a sandbox with this root
// directory, the size that m has for it.
func resize(root int, m stage.Mount) error {
	at, err := sys.Openat2(root, strings.TrimPrefix(m.Target, "/"), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, belowRoot)
	if err != nil {
		return err
	}
	defer sys.Close(at)
	fs, err := sys.Fspick(at)
	if err != nil {
		return err
	}
	defer sys.Close(fs)
	if err := stage.Configure(fs, m.Options); err != nil {
		return err
	}
	return sys.FsconfigReconfigure(fs)
}

// replaceMount mounts the directory dir of a detached file system in the place
// of what is mounted on target, an absolute path, in the mount namespace of a
// process.
func replaceMount(pid, volume int, dir, target string) error {
	ns, err := sys.Open(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/ns/mnt", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer sys.Close(ns)
	return onThrowawayThread(func() error {
		part, err := partHere(volume, dir)
		if err != nil {
			return err
		}
		defer sys.Close(part)
		return replaceMountHere(ns, part, target)
	})
}

// onThrowawayThread calls do on a thread that ends with it.
func onThrowawayThread(do func() error) error {
	done := make(chan error)
	go sys.OnOtherThread(func() { done <- do() })
	return <-done
}

// partHere returns a mount of a directory of a detached file system, detached.
// Most kernels copy a part only of what is mounted in the caller's namespace.
// That is never the sandbox's: programs of a hostile image run in it, and what
// they changed beside the directory would meet the next sandbox. It leaves the
// calling thread in a namespace of its own, where it has its root directory to
// itself: else it could enter no other.
func partHere(volume int, dir string) (int, error) {
	if err := sys.Unshare(unix.CLONE_NEWNS); err != nil {
		return -1, err
	}
	if err := sys.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return -1, err
	}
	if err := mountOn(volume, "/proc"); err != nil { // a directory that every host has
		return -1, err
	}
	at, err := sys.Openat2(volume, dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, belowRoot)
	if err != nil {
		return -1, err
	}
	defer sys.Close(at)
	return sys.OpenTree(at, "")
}

// replaceMountHere leaves the calling thread in the namespace.
func replaceMountHere(ns, part int, target string) error {
	if err := sys.Setns(ns, unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := sys.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	return mountOn(part, target)
}

// mountOn attaches a mount in the calling thread's namespace.
func mountOn(fd int, target string) error {
	root, err := sys.Open(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer sys.Close(root)
	at, err := sys.Openat2(root, strings.TrimPrefix(target, "/"), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, belowRoot)
	if err != nil {
		return err
	}
	defer sys.Close(at)
	return sys.MoveMount(fd, at)
}
