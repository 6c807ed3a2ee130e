package archive

import (
	"archive/tar"
	"errors"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// cleanName returns an entry's path relative to the target, "" for that itself.
// Names that try to be absolute or to climb are refused, not mended: an honest
// archive has none.
func cleanName(name string) (string, error) {
	if name == "" || len(name) > maxPath {
		return "", malformed("an entry's name has %d bytes; 1 to %d are allowed", len(name), maxPath)
	}
	if protection.Off(protection.ArchiveNames) {
		return strings.TrimPrefix(path.Clean(name), "/"), nil
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
		}
		parts = append(parts, part)
	}
	for i, part := range parts {
		if i == len(parts)-1 { // of a whiteout what counts is the name that it removes
			part = strings.TrimPrefix(part, whiteoutPrefix)
		}
		if len(part) > maxName {
			return "", malformed("entry %q has a name over %d bytes", name, maxName)
		}
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
	how   protocol.Snapshot
	check func() error
	files map[uint64]bool // inodes of the files that came with the archive
	times []dirTime

	dir   string // kept open because the next entry usually goes there too
	dirFD int
}

func newTarget(top int, how protocol.Snapshot, check func() error) *target {
	return &target{top: top, how: how, check: check, files: map[uint64]bool{}, dirFD: -1}
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
	if protection.Off(protection.ArchivePaths) {
		how.Resolve = 0
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
	case errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR):
		return -1, malformed("%q is to be a directory, but is a link or a file", rel)
	case !errors.Is(err, unix.ENOENT) || rel == ".":
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

// dirTime is the time of a directory, which gets it when nothing more comes into it.
type dirTime struct {
	name  string
	mtime time.Time
}

// maxDirTimes bounds how many directories get their time, as they are kept in memory.
const maxDirTimes = 100_000

// dated has a directory get its time at the end.
func (t *target) dated(name string, m meta) {
	if !m.mtime.IsZero() && len(t.times) < maxDirTimes {
		t.times = append(t.times, dirTime{name, m.mtime})
	}
}

// settle gives directories their times, as far as they are there and may be changed.
func (t *target) settle() error {
	for _, dir := range t.times {
		if err := t.check(); err != nil {
			return err
		}
		fd, err := t.open(path.Join(".", dir.name), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			continue // a later entry took its place
		}
		_ = setTime(fd, dir.mtime) // of another owner's directory it cannot be
		tree.Close(fd)
	}
	return nil
}

// setTime sets the time of an open file. What lies in the future or before 1970 becomes now.
func setTime(fd int, mtime time.Time) error {
	now := time.Now()
	if mtime.After(now) || mtime.Before(time.Unix(0, 0)) {
		mtime = now
	}
	ts := unix.NsecToTimespec(mtime.UnixNano())
	return unix.UtimesNanoAt(fd, "", []unix.Timespec{ts, ts}, unix.AT_EMPTY_PATH)
}

// vacate removes what is in an entry's way. A directory that has entries stays,
// unless a layer covers or removes it.
func (t *target) vacate(dir int, base, name string) error {
	err := unix.Unlinkat(dir, base, 0)
	if err == unix.EISDIR {
		err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		if err == unix.ENOTEMPTY && t.how == protocol.SnapshotLayer {
			if err := tree.Empty(dir, base, t.check); err != nil {
				return err
			}
			err = unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		}
		if err == unix.ENOTEMPTY {
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
func (t *target) directory(name string, m meta) error {
	t.dated(name, m)
	if name == "" {
		return nil // the target keeps its own mode
	}
	dir, base, err := t.parent(name)
	if err != nil {
		return err
	}
	err = unix.Mkdirat(dir, base, m.mode)
	if errors.Is(err, unix.EEXIST) {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if err := unix.Unlinkat(dir, base, 0); err != nil {
				return err
			}
		}
		err = unix.Mkdirat(dir, base, m.mode)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	fd, err := tree.OpenDir(dir, base)
	if err != nil {
		return err
	}
	defer tree.Close(fd)
	if err := t.own(fd, m); err != nil {
		return err
	}
	return unix.Fchmod(fd, m.mode)
}

// own gives a file of a snapshot its owner. That comes before its mode, of
// which it clears bits.
func (t *target) own(fd int, m meta) error {
	if !t.owners() {
		return nil
	}
	return unix.Fchown(fd, m.uid, m.gid)
}

// owners reports whether files get the owners that the archive says: those of a
// snapshot, unless who unpacks is not root, whose they are then. So does tar(1).
func (t *target) owners() bool { return t.how != "" && unix.Geteuid() == 0 }

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

// meta is what an entry says of itself.
type meta struct {
	mode     uint32
	uid, gid int // of a snapshot
	mtime    time.Time
}

// maxID is the highest that a sandbox knows.
const maxID = 65534

// metaOf is the meta of an entry, as far as it can be given to a file.
func (t *target) metaOf(h *tar.Header, name string) (meta, error) {
	m := meta{mode: uint32(h.Mode), uid: h.Uid, gid: h.Gid, mtime: h.ModTime}
	if t.how != "" && (h.Uid < 0 || h.Uid > maxID || h.Gid < 0 || h.Gid > maxID) {
		return meta{}, malformed("entry %q has an owner that is not between 0 and %d", name, maxID)
	}
	if h.Typeflag == tar.TypeDir {
		m.mode &= 0o1777
		if t.how != "" {
			m.mode = uint32(h.Mode) & 0o3777
		}
	}
	return m, nil
}

// finish gives a file its owner, mode and time, of which an archive may say
// anything.
func (t *target) finish(fd int, m meta) error {
	if err := t.own(fd, m); err != nil {
		return err
	}
	kept := m.mode & 0o777
	if protection.Off(protection.ArchiveModes) {
		kept = m.mode & 0o7777
	}
	if err := unix.Fchmod(fd, kept); err != nil {
		return err
	}
	return setTime(fd, m.mtime)
}

// symlink makes a link. It is stored as it is: nothing here ever follows it.
func (t *target) symlink(name, to string, m meta) error {
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
	if err := unix.Symlinkat(to, dir, base); err != nil || !t.owners() {
		return err
	}
	return unix.Fchownat(dir, base, m.uid, m.gid, unix.AT_SYMLINK_NOFOLLOW)
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
	if err != nil || !protection.Off(protection.ArchiveLinks) && (st.Mode&unix.S_IFMT != unix.S_IFREG || !t.files[st.Ino]) {
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
