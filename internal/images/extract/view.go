package extract

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// View is layers seen as the one tree that overlayfs would show: the topmost
// layer that has a path decides, a whiteout or an opaque directory hides what
// is below. Paths are relative to the root, slash separated, and links are
// followed inside the tree only, as a process with that root would.
//
// A View holds one descriptor per layer; Close frees them.
type View struct {
	trees []tree
}

// OpenView opens the layers, top first.
func OpenView(dirs []string) (*View, error) {
	v := &View{}
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open layer %s: %w", dir, err), v.Close())
		}
		v.trees = append(v.trees, tree{fd: fd})
	}
	return v, nil
}

// Close frees the descriptors.
func (v *View) Close() error {
	var errs []error
	for _, t := range v.trees {
		errs = append(errs, unix.Close(t.fd))
	}
	v.trees = nil
	return errors.Join(errs...)
}

// Entry is one thing in a View, never a link that was followed.
type Entry struct {
	Path  string // without links in it
	Mode  uint32 // st_mode
	UID   uint32
	GID   uint32
	Size  int64
	layer int
}

// IsDir reports whether the entry is a directory.
func (e Entry) IsDir() bool { return e.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsRegular reports whether the entry is a regular file.
func (e Entry) IsRegular() bool { return e.Mode&unix.S_IFMT == unix.S_IFREG }

// IsSymlink reports whether the entry is a symbolic link.
func (e Entry) IsSymlink() bool { return e.Mode&unix.S_IFMT == unix.S_IFLNK }

// Lstat looks at p itself, whose directories may not be links. The error is
// fs.ErrNotExist if it is not there.
func (v *View) Lstat(p string) (Entry, error) {
	for i, t := range v.trees {
		st, err := t.stat(p)
		switch {
		case err == nil && isWhiteout(st):
			return Entry{}, os.ErrNotExist
		case err == nil:
			return Entry{Path: p, Mode: st.Mode, UID: st.Uid, GID: st.Gid, Size: st.Size, layer: i}, nil
		case !isAbsent(err):
			return Entry{}, fmt.Errorf("look up %q: %w", p, err)
		}
		hidden, err := t.hides(p)
		if err != nil {
			return Entry{}, err
		}
		if hidden {
			break
		}
	}
	return Entry{}, os.ErrNotExist
}

// Stat follows links inside the tree. The error is fs.ErrNotExist if p leads
// nowhere.
func (v *View) Stat(p string) (Entry, error) {
	w := walk{todo: strings.Split(p, "/")}
	for {
		next, more := w.step()
		if !more {
			return v.Lstat(w.at)
		}
		e, err := v.Lstat(next)
		if err != nil {
			return Entry{}, err
		}
		if e.IsSymlink() {
			if err := v.follow(&w, e); err != nil {
				return Entry{}, err
			}
			continue
		}
		if len(w.todo) > 0 && !e.IsDir() {
			return Entry{}, os.ErrNotExist
		}
		w.at = next
	}
}

// ReadFile returns at most limit bytes of the regular file that p leads to,
// and TooLarge if there are more.
func (v *View) ReadFile(p string, limit int64) ([]byte, error) {
	e, err := v.Stat(p)
	if err != nil {
		return nil, err
	}
	if !e.IsRegular() {
		return nil, fmt.Errorf("read %q: not a regular file", p)
	}
	if e.Size > limit {
		return nil, errdefs.New(errdefs.TooLarge, "/%s in the image is over %d bytes", e.Path, limit)
	}
	fd, err := v.trees[e.layer].open(e.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), e.Path)
	defer f.Close()
	data := make([]byte, e.Size)
	n, err := f.ReadAt(data, 0)
	if n < len(data) {
		return nil, fmt.Errorf("read %q: %w", p, err)
	}
	return data, nil
}

func (v *View) follow(w *walk, link Entry) error {
	target, err := v.trees[link.layer].readlink(link.Path)
	if err != nil {
		return err
	}
	return w.jump(target)
}

// walk is a lookup under way: at holds no links, todo may.
type walk struct {
	at    string
	todo  []string
	links int
}

// step gives the path of the next component, or false at the end. The root is
// its own parent.
func (w *walk) step() (string, bool) {
	for len(w.todo) > 0 {
		name := w.todo[0]
		w.todo = w.todo[1:]
		switch name {
		case "", ".":
		case "..":
			w.at = strings.TrimPrefix(path.Dir("/"+w.at), "/")
		default:
			return path.Join(w.at, name), true
		}
	}
	return "", false
}

// jump replaces the component that step gave by a link's target.
func (w *walk) jump(target string) error {
	w.links++
	if w.links > maxLinksFollowed {
		return malformed("too many symbolic links in one path")
	}
	if strings.HasPrefix(target, "/") {
		w.at = ""
	}
	w.todo = append(strings.Split(target, "/"), w.todo...)
	return nil
}

// tree is one layer's root directory, reached only through its descriptor.
type tree struct {
	fd int
}

// open resolves p with the kernel's guarantee that it neither leaves the tree
// nor passes a link or a mount.
func (t tree) open(p string, flags uint64) (int, error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	if p == "" {
		p = "."
	}
	for {
		fd, err := unix.Openat2(t.fd, p, &how)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return -1, os.NewSyscallError("openat2", err)
		}
	}
}

func (t tree) stat(p string) (unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := t.open(p, unix.O_PATH)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, os.NewSyscallError("fstat", unix.Fstat(fd, &st))
}

func (t tree) readlink(p string) (string, error) {
	fd, err := t.open(p, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", os.NewSyscallError("readlinkat", err)
	}
	return string(buf[:n]), nil
}

// hides reports whether this layer, which lacks p itself, keeps the layers
// below from showing it: a directory above p is opaque, or is none at all.
func (t tree) hides(p string) (bool, error) {
	at := ""
	for name := range strings.SplitSeq(path.Dir(p), "/") {
		opaque, err := t.opaque(at)
		if opaque || err != nil {
			return opaque, err
		}
		if name == "." {
			return false, nil
		}
		at = path.Join(at, name)
		st, err := t.stat(at)
		if isAbsent(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return true, nil
		}
	}
	return t.opaque(at)
}

func (t tree) opaque(dir string) (bool, error) {
	fd, err := t.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var value [8]byte
	n, err := unix.Fgetxattr(fd, opaqueXattr, value[:])
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return false, nil
	}
	return err == nil && string(value[:n]) == "y", os.NewSyscallError("fgetxattr", err)
}

// isAbsent reports that a path is not in a tree: nothing there, or below
// something that is not a directory.
func isAbsent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func isWhiteout(st unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}
