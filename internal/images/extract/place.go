package extract

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// cleanName returns an entry's path relative to the root, "" for the root
// itself. Names that try to be absolute or to climb are refused, not mended:
// an honest archive has none.
func cleanName(name string, limits Limits) (string, error) {
	if name == "" || len(name) > limits.Path {
		return "", malformed("an entry's name has %d bytes; 1 to %d are allowed", len(name), limits.Path)
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
		if len(part) > maxNameBytes {
			return "", malformed("entry %q has a name over %d bytes", name, maxNameBytes)
		}
	}
	if len(parts) > limits.Depth {
		return "", malformed("an entry is more than %d directories deep", limits.Depth)
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

func join(dir, base string) string { return strings.TrimPrefix(dir+"/"+base, "/") }

// parent is the directory that the last entry went to, kept open because the
// next one usually goes there too.
type parent struct {
	asked string // as the archive writes it
	path  string // where that led
	stale bool   // asked may lead elsewhere by now
	fd    int
}

func (p *parent) close() error {
	if p.fd < 0 {
		return nil
	}
	fd := p.fd
	*p = parent{fd: -1}
	return unix.Close(fd)
}

// place opens the directory that name belongs to, making what is missing of
// it, and returns name's last component. The parent is valid until the next
// call.
func (x *extractor) place(name string) (*parent, string, error) {
	dir, base := path.Split(name)
	if base == "" {
		return nil, "", malformed("the root itself is not a directory in it")
	}
	dir = strings.TrimSuffix(dir, "/")
	if x.parent.fd >= 0 && x.parent.asked == dir && !x.parent.stale {
		return &x.parent, base, nil
	}
	if err := x.parent.close(); err != nil {
		return nil, "", err
	}
	at, err := x.enter(dir)
	if err != nil {
		return nil, "", err
	}
	fd, err := x.tree.open(at, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, "", fmt.Errorf("open directory %q: %w", at, err)
	}
	x.parent = parent{asked: dir, path: at, fd: fd}
	return &x.parent, base, nil
}

// enter walks to dir and returns where it is, free of links. Links, of this
// archive or of the layers below, are followed inside the root: bin/sh lands
// in usr/bin where bin leads there. Missing directories are made as the layers
// below have them, or plain.
func (x *extractor) enter(dir string) (string, error) {
	w := walk{todo: strings.Split(dir, "/")}
	for {
		next, more := w.step()
		if !more {
			return w.at, nil
		}
		if strings.Count(next, "/") >= x.opt.Limits.Depth {
			return "", malformed("links lead more than %d directories deep", x.opt.Limits.Depth)
		}
		e, err := x.view.Lstat(next)
		switch {
		case errors.Is(err, os.ErrNotExist):
			e = Entry{layer: -1}
		case err != nil:
			return "", err
		case e.IsSymlink():
			if err := x.view.follow(&w, e); err != nil {
				return "", err
			}
			continue
		case !e.IsDir():
			return "", malformed("%q is a file, and then a directory", next)
		}
		if e.layer != 0 {
			if err := x.imply(next, e); err != nil {
				return "", err
			}
		}
		w.at = next
	}
}

// imply makes a directory that the archive did not mention.
func (x *extractor) imply(p string, like Entry) error {
	x.result.Implied = true
	above := strings.TrimPrefix(path.Dir("/"+p), "/")
	fd, err := x.tree.open(above, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open directory %q: %w", above, err)
	}
	err = x.mkdir(&parent{path: above, fd: fd}, path.Base(p))
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return err
	}
	m := meta{mode: 0o755, uid: keepID, gid: keepID, mtime: x.now}
	if like.layer > 0 {
		m.mode, m.uid, m.gid = like.Mode&0o3777, int(like.UID), int(like.GID)
	}
	return x.applyDirectory(p, m)
}

// vacate removes what stands at base, so that it can be made anew; nothing is
// ever written through an existing name. It reports whether that was a
// whiteout. A directory with entries is not replaced.
func (x *extractor) vacate(dir *parent, base string) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, os.NewSyscallError("fstatat", err)
	}
	flags := 0
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	if flags != 0 || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		x.parent.stale = true
	}
	err = unix.Unlinkat(dir.fd, base, flags)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return false, malformed("%q is a directory with files in it, and then something else", join(dir.path, base))
	}
	return isWhiteout(st), os.NewSyscallError("unlinkat", err)
}

// statBelowLinks looks at p, following links in its directories but not p
// itself.
func (x *extractor) statBelowLinks(p string) (Entry, error) {
	dir, base := path.Split(p)
	at, err := x.view.Stat(dir)
	if err != nil {
		return Entry{}, err
	}
	return x.view.Lstat(join(at.Path, base))
}

// whiteout handles the names by which an OCI layer removes files of the layers
// below. It reports whether name was one.
func (x *extractor) whiteout(name string) (bool, error) {
	base := path.Base(name)
	if !strings.HasPrefix(base, whiteoutPrefix) {
		return false, nil
	}
	if x.opt.Kind == Root {
		return true, malformed("%q belongs in one layer of an image; import the whole image with --oci", name)
	}
	if base == opaqueMarker {
		dir, _, err := x.place(name)
		if err != nil {
			return true, err
		}
		return true, x.setOpaque(dir.path)
	}
	if strings.HasPrefix(base, metadataPrefix) {
		return true, nil // bookkeeping of aufs, no part of the files
	}
	gone := strings.TrimPrefix(base, whiteoutPrefix)
	if gone == "" || gone == "." || gone == ".." {
		return true, malformed("%q is not a name that can be removed", name)
	}
	return true, x.removeBelow(path.Join(path.Dir(name), gone))
}

// removeBelow hides what the layers below have at name. What this archive put
// there stays: its own entries win over its own whiteouts.
func (x *extractor) removeBelow(name string) error {
	dir, base, err := x.place(name)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstatat(dir.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return os.NewSyscallError("mknodat", unix.Mknodat(dir.fd, base, unix.S_IFCHR, 0))
	case err != nil:
		return os.NewSyscallError("fstatat", err)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return x.setOpaque(join(dir.path, base))
	}
	return nil
}

func (x *extractor) setOpaque(dir string) error {
	fd, err := x.tree.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open directory %q: %w", dir, err)
	}
	return errors.Join(os.NewSyscallError("fsetxattr", unix.Fsetxattr(fd, opaqueXattr, []byte("y"), 0)), unix.Close(fd))
}
