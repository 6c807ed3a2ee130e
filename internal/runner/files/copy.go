package files

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Copy copies a file, a link, or a directory with all that is in it. What was
// copied before a failure stays.
func (s *Server) Copy(req protocol.Copy, check Check) error {
	from, err := s.locate(req.From, reach(req.AllowOutside))
	if err != nil {
		return err
	}
	to, err := s.locate(req.To, reach(req.AllowOutside))
	if err != nil {
		return err
	}
	src, err := from.open(from.rel, unix.O_PATH)
	if err != nil {
		return s.explain(err, req.From)
	}
	defer tree.Close(src)
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return s.explain(err, req.From)
	}
	if to.rel == "." && st.Mode&unix.S_IFMT == unix.S_IFDIR && req.Overwrite {
		to.rel = "./." // what is in the directory goes into the workspace itself
	}
	dir, name, err := to.holder()
	if err != nil {
		return s.explain(err, req.To)
	}
	defer tree.Close(dir)
	c := &copier{replace: req.Overwrite, check: check}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if !req.Recursive {
			return protocol.Refuse(protocol.CodeInvalid, "%q is a directory; ask for a recursive copy", req.From).Because(protocol.ReasonIsADirectory)
		}
		err = c.directory(src, dir, name, &st)
	case unix.S_IFREG:
		err = c.opened(from, dir, name)
	default:
		return notRegular(req.From)
	}
	return s.explain(err, req.To)
}

// copier is one Copy under way.
type copier struct {
	replace bool
	check   Check
}

// opened copies the file at a place, whose links are followed.
func (c *copier) opened(from place, dir int, name string) error {
	fd, err := from.open(from.rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return err
	}
	defer tree.Close(fd)
	st, err := statRegular(fd, from.asked)
	if err != nil {
		return err
	}
	return c.content(fd, st, dir, name)
}

// directory copies the directory src, whose state is st, to name in dir.
func (c *copier) directory(src, dir int, name string, st *unix.Stat_t) error {
	if err := c.mkdir(dir, name); err != nil {
		return err
	}
	top, err := tree.OpenDir(dir, name)
	if err != nil {
		return err
	}
	to, err := tree.NewChain(top)
	if err != nil {
		return err
	}
	defer to.Close()
	top, err = tree.OpenDir(src, ".")
	if err != nil {
		return err
	}
	w, err := tree.NewWalk(top, tree.Wide, c.check)
	if err != nil {
		return err
	}
	defer w.Close()
	if to.Is(st) {
		return intoItself()
	}
	if err := c.below(w, to); err != nil {
		return err
	}
	return unix.Fchmod(to.Dir(), st.Mode&0o1777)
}

func intoItself() error {
	return protocol.Refuse(protocol.CodeInvalid, "a directory cannot be copied into itself")
}

// below copies all that w finds to the directory of to.
func (c *copier) below(w *tree.Walk, to *tree.Chain) error {
	var target unix.Stat_t
	if err := unix.Fstat(to.Dir(), &target); err != nil {
		return err
	}
	modes := make([]uint32, 0, 64) // of the directories on the way
	return w.Each(func(e *tree.Entry) (err error) {
		switch {
		case e.Leave:
			err = errors.Join(unix.Fchmod(to.Dir(), modes[len(modes)-1]), to.Leave())
			modes = modes[:len(modes)-1]
		case e.Type() == unix.S_IFDIR:
			modes = append(modes, e.Stat.Mode&0o1777)
			err = c.enter(w, e, to)
			if err == nil && w.Is(&target) {
				err = intoItself()
			}
		default:
			err = c.entry(w, e, to.Dir())
		}
		return err
	})
}

func (c *copier) enter(w *tree.Walk, e *tree.Entry, to *tree.Chain) error {
	name := e.Name
	if err := w.Enter(); err != nil {
		return err
	}
	if err := c.mkdir(to.Dir(), name); err != nil {
		return err
	}
	return to.Enter(name)
}

// mkdir makes a directory that nobody else can read until it has its mode. One
// that is there is used if it may be replaced.
func (c *copier) mkdir(dir int, name string) error {
	err := unix.Mkdirat(dir, name, 0o700)
	if err != unix.EEXIST || !c.replace {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.EEXIST
	}
	return nil
}

// entry copies what is no directory.
func (c *copier) entry(w *tree.Walk, e *tree.Entry, dir int) error {
	switch e.Type() {
	case unix.S_IFREG:
		fd, st, err := tree.OpenFile(w.Dir(), e.Name)
		if err != nil {
			return err
		}
		defer tree.Close(fd)
		return c.content(fd, st, dir, e.Name)
	case unix.S_IFLNK:
		target, err := tree.Readlink(w.Dir(), e.Name)
		if err != nil {
			return err
		}
		err = unix.Symlinkat(target, dir, e.Name)
		if errors.Is(err, unix.EEXIST) && c.replace {
			if err := unix.Unlinkat(dir, e.Name, 0); err != nil {
				return err
			}
			err = unix.Symlinkat(target, dir, e.Name)
		}
		return err
	}
	return protocol.Refuse(protocol.CodeUnprocessable, "%q is a pipe, a socket or a device, which cannot be copied; remove it, or copy the others one by one", strings.ToValidUTF8(w.Path(), "?")).Because(protocol.ReasonNotRegular)
}

// content copies an open file to name in dir, whole or not at all.
func (c *copier) content(src int, st *unix.Stat_t, dir int, name string) error {
	to := target{mode: st.Mode & 0o777, create: !c.replace}
	var old unix.Stat_t
	switch err := unix.Fstatat(dir, name, &old, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
	case err != nil:
		return err
	case !c.replace:
		return unix.EEXIST
	case old.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.EISDIR
	case old.Dev == st.Dev && old.Ino == st.Ino:
		return nil // onto itself
	}
	_, err := withTemp(dir, name, to, func(fd int) error { return copyData(fd, src, st.Size, c.check) })
	return err
}

// copyData copies the first size bytes of src to the empty file dst. Holes stay
// holes.
func copyData(dst, src int, size int64, check Check) error {
	for at := int64(0); at < size; {
		start, err := unix.Seek(src, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // nothing but a hole
		}
		end := size
		if err == nil {
			end, err = unix.Seek(src, start, unix.SEEK_HOLE)
		} else if errors.Is(err, unix.EINVAL) { // a file system that does not tell
			start, end, err = at, size, nil
		}
		if err != nil {
			return err
		}
		if at, err = copyRange(dst, src, start, min(end, size), check); err != nil {
			return err
		}
		if at < min(end, size) { // it has shrunk
			return unix.Ftruncate(dst, at)
		}
	}
	return unix.Ftruncate(dst, size)
}

// piece is how much is copied between two checks.
const piece = 16 << 20

// copyRange copies the bytes from start to end and returns how far it came: not
// to the end if src is shorter.
func copyRange(dst, src int, start, end int64, check Check) (int64, error) {
	var buf []byte // once the kernel has refused to do it
	for start < end {
		if err := check(); err != nil {
			return start, err
		}
		var n int
		var err error
		if buf == nil {
			in, out := start, start
			n, err = unix.CopyFileRange(src, &in, dst, &out, int(min(end-start, piece)), 0)
			if kernelRefuses(err) {
				buf = make([]byte, bulk)
				continue
			}
		} else {
			n, err = unix.Pread(src, buf[:min(end-start, bulk)], start)
			if err == nil {
				err = pwriteAll(dst, buf[:n], start)
			}
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return start, err
		}
		if n == 0 {
			return start, nil
		}
		start += int64(n)
	}
	return start, nil
}

// kernelRefuses reports whether copy_file_range does not work between two
// files, whatever their content.
func kernelRefuses(err error) bool {
	for _, e := range []error{unix.EXDEV, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func pwriteAll(fd int, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}
