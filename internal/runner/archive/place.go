package archive

import (
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
)

// cleanName returns an entry's path relative to the target, "" for that itself.
// Names that try to be absolute or to climb are refused, not mended: an honest
// archive has none.
func cleanName(name string) (string, error) {
	if name == "" || len(name) > maxPath {
		return "", malformed("an entry's name has %d bytes; 1 to %d are allowed", len(name), maxPath)
	}
	if strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) {
		return "", malformed("entry %q is not a relative path", name)
	}
	parts := make([]string, 0, 16)
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case climbs(part):
			return "", malformed("entry %q leads out of the archive", name)
		case len(part) > maxName:
			return "", malformed("entry %q has a name over %d bytes", name, maxName)
		}
		parts = append(parts, part)
	}
	if len(parts) > maxDepth {
		return "", malformed("an entry is more than %d directories deep", maxDepth)
	}
	return strings.Join(parts, "/"), nil
}

// climbs also knows the other separator: harmless here, but a name like ..\x
// has no honest use.
func climbs(part string) bool {
	for p := range strings.SplitSeq(part, `\`) {
		if p == ".." {
			return true
		}
	}
	return false
}

// target is the directory that an archive goes to. No link in it is followed
// and no mount crossed, and all resolution is the kernel's.
type target struct {
	top   int
	files map[uint64]bool // inodes of the files that came with the archive

	dir   string // kept open because the next entry usually goes there too
	dirFD int
}

func newTarget(top int) *target {
	return &target{top: top, files: map[uint64]bool{}, dirFD: -1}
}

func (t *target) close() {
	if t.dirFD >= 0 {
		tree.Close(t.dirFD)
		t.dirFD = -1
	}
}

func (t *target) open(rel string, flags uint64) (int, error) {
	how := &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(t.top, rel, how)
		if err == unix.EINTR || err == unix.EAGAIN && try < 100 {
			continue
		}
		return fd, err
	}
}

// parent opens the directory that name belongs to, making what is missing of
// it, and returns name's last element. It is valid until the next call.
func (t *target) parent(name string) (dir int, base string, err error) {
	up := path.Dir(name)
	if t.dirFD < 0 || t.dir != up {
		t.close()
		if t.dirFD, err = t.enter(up); err != nil {
			t.dirFD = -1
			return -1, "", err
		}
		t.dir = up
	}
	return t.dirFD, path.Base(name), nil
}

func (t *target) enter(rel string) (int, error) {
	fd, err := t.open(rel, unix.O_PATH|unix.O_DIRECTORY)
	switch {
	case err == unix.ELOOP || err == unix.ENOTDIR:
		return -1, malformed("%q is to be a directory, but is a link or a file", rel)
	case err != unix.ENOENT || rel == ".":
		return fd, err
	}
	up, err := t.enter(path.Dir(rel))
	if err != nil {
		return -1, err
	}
	defer tree.Close(up)
	if err := unix.Mkdirat(up, path.Base(rel), 0o755); err != nil && err != unix.EEXIST {
		return -1, err
	}
	return t.open(rel, unix.O_PATH|unix.O_DIRECTORY)
}

// vacate removes what is in an entry's way. A directory that has entries stays.
func (t *target) vacate(dir int, base, name string) error {
	err := unix.Unlinkat(dir, base, 0)
	if err == unix.EISDIR {
		if err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR); err == unix.ENOTEMPTY {
			return malformed("entry %q is no directory, but there is one in its place that is not empty", name)
		}
	}
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// directory makes a directory, in place of a link or file if need be. One that
// is there stays, with what is in it.
func (t *target) directory(name string, mode uint32) error {
	if name == "" {
		return nil // the target keeps its own mode
	}
	dir, base, err := t.parent(name)
	if err != nil {
		return err
	}
	err = unix.Mkdirat(dir, base, mode)
	if err == unix.EEXIST {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if err := unix.Unlinkat(dir, base, 0); err != nil {
				return err
			}
		}
		err = unix.Mkdirat(dir, base, mode)
	}
	if err != nil && err != unix.EEXIST {
		return err
	}
	fd, err := tree.OpenDir(dir, base)
	if err != nil {
		return err
	}
	defer tree.Close(fd)
	return unix.Fchmod(fd, mode)
}

// create makes a new file in the place of name. The caller closes it.
func (t *target) create(name string) (int, error) {
	dir, base, err := t.parent(name)
	if err != nil {
		return -1, err
	}
	if err := t.vacate(dir, base, name); err != nil {
		return -1, err
	}
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		tree.Close(fd)
		return -1, err
	}
	t.files[st.Ino] = true
	return fd, nil
}

// finish gives a file its mode and time, of which an archive may say anything.
func finish(fd int, mode uint32, mtime time.Time) error {
	if err := unix.Fchmod(fd, mode&0o777); err != nil {
		return err
	}
	now := time.Now()
	if mtime.After(now) || mtime.Before(time.Unix(0, 0)) {
		mtime = now
	}
	tv := unix.NsecToTimeval(mtime.UnixNano())
	return unix.Futimes(fd, []unix.Timeval{tv, tv})
}

// symlink makes a link. It is stored as it is: nothing here ever follows it.
func (t *target) symlink(name, to string) error {
	if to == "" || len(to) > maxLink || strings.ContainsRune(to, 0) {
		return malformed("link %q has a target of %d bytes; 1 to %d are allowed", name, len(to), maxLink)
	}
	dir, base, err := t.parent(name)
	if err != nil {
		return err
	}
	if err := t.vacate(dir, base, name); err != nil {
		return err
	}
	return unix.Symlinkat(to, dir, base)
}

// hardlink gives a file of this archive a second name. Anything else would
// reach what is not the archive's.
func (t *target) hardlink(name, to string) error {
	from, err := cleanName(to)
	if err != nil {
		return err
	}
	if from == name {
		return malformed("hard link %q leads to itself", name)
	}
	fd, err := t.open(from, unix.O_PATH|unix.O_NOFOLLOW)
	var st unix.Stat_t
	if err == nil {
		defer tree.Close(fd)
		err = unix.Fstat(fd, &st)
	}
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || !t.files[st.Ino] {
		return malformed("hard link %q does not lead to a file that came before it", name)
	}
	dir, base, err := t.parent(name)
	if err != nil {
		return err
	}
	if err := t.vacate(dir, base, name); err != nil {
		return err
	}
	// By the descriptor: what is under the name may be another file by now.
	return unix.Linkat(unix.AT_FDCWD, procFD(fd), dir, base, unix.AT_SYMLINK_FOLLOW)
}
