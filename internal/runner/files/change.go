package files

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Stat describes a file.
func (s *Server) Stat(req protocol.Stat) (protocol.FileInfo, error) {
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return protocol.FileInfo{}, err
	}
	flags := uint64(unix.O_PATH)
	if !req.Follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := at.open(at.rel, flags)
	if err != nil {
		return protocol.FileInfo{}, s.explain(err, req.Path)
	}
	defer tree.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return protocol.FileInfo{}, s.explain(err, req.Path)
	}
	i := info(req.Path, &st)
	if req.Tag && i.Type == "file" {
		if i, err = infoTagged(req.Path, fd); err != nil {
			return protocol.FileInfo{}, s.explain(err, req.Path)
		}
	}
	if i.Type == "symlink" {
		if i.Target, err = tree.Readlink(fd, ""); err != nil {
			return protocol.FileInfo{}, s.explain(err, req.Path)
		}
	}
	return i, nil
}

// Mkdir makes a directory.
func (s *Server) Mkdir(req protocol.Mkdir) error {
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return err
	}
	if req.Mode&^0o7777 != 0 {
		return badMode()
	}
	err = at.mkdir(req)
	if errors.Is(err, unix.ENOENT) {
		return protocol.Refuse(protocol.CodeNotFound, "a directory above %q does not exist; make it, or ask for parents", req.Path).Because(protocol.ReasonNoSuchFile)
	}
	return s.explain(err, req.Path)
}

func (p place) mkdir(req protocol.Mkdir) error {
	mode := req.Mode
	if mode == 0 {
		mode = 0o755
	}
	if p.rel == "." {
		if req.Parents {
			return nil
		}
		return unix.EEXIST
	}
	open := func(rel string) (int, error) { return p.open(rel, unix.O_PATH|unix.O_DIRECTORY) }
	if req.Parents {
		open = p.makeDirs
	}
	dir, err := open(path.Dir(p.rel))
	if err != nil {
		return err
	}
	defer tree.Close(dir)
	name := path.Base(p.rel)
	err = unix.Mkdirat(dir, name, mode)
	if errors.Is(err, unix.EEXIST) && req.Parents {
		fd, err := open(p.rel)
		if err == nil {
			tree.Close(fd)
		}
		return err
	}
	if err != nil {
		return err
	}
	return setMode(dir, name, mode) // whatever the umask is
}

// setMode changes the mode of what is under that name now, unless it is a link
// or neither a file nor a directory.
func setMode(dir int, name string, mode uint32) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer tree.Close(fd)
	return setModeOf(fd, mode)
}

// setModeOf is setMode of an O_PATH descriptor. fchmod(2) does not take one,
// and opening the file takes rights that changing its mode does not.
func setModeOf(fd int, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
	}
	return unix.ENXIO
}

// Move renames a file, a link or a directory.
func (s *Server) Move(req protocol.Move) error {
	from, err := s.locate(req.From, reach(req.AllowOutside))
	if err != nil {
		return err
	}
	to, err := s.locate(req.To, reach(req.AllowOutside))
	if err != nil {
		return err
	}
	fromDir, fromName, err := from.holder()
	if err != nil {
		return s.explain(err, req.From)
	}
	defer tree.Close(fromDir)
	toDir, toName, err := to.holder()
	if err != nil {
		return s.explain(err, req.To)
	}
	defer tree.Close(toDir)
	flags := uint(unix.RENAME_NOREPLACE)
	if req.Overwrite {
		flags = 0
	}
	switch err := unix.Renameat2(fromDir, fromName, toDir, toName, flags); err {
	case unix.EXDEV:
		return protocol.Refuse(protocol.CodeUnprocessable, "%q cannot be moved in one step: it is a directory of the image, or %q is on another file system; copy it and remove it then", req.From, req.To)
	case unix.EINVAL:
		return protocol.Refuse(protocol.CodeInvalid, "%q cannot be moved into itself", req.From)
	case unix.ENOENT, unix.EBUSY:
		return s.explain(err, req.From)
	default:
		return s.explain(err, req.To)
	}
}

// Remove removes a file, or a directory with all that is in it.
func (s *Server) Remove(req protocol.Remove, check Check) error {
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return err
	}
	dir, name, err := at.holder()
	if err != nil {
		return s.explain(err, req.Path)
	}
	defer tree.Close(dir)
	err = unix.Unlinkat(dir, name, 0)
	if !errors.Is(err, unix.EISDIR) {
		return s.explain(err, req.Path)
	}
	err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	if !errors.Is(err, unix.ENOTEMPTY) {
		return s.explain(err, req.Path)
	}
	if !req.Recursive {
		return protocol.Refuse(protocol.CodeConflict, "the directory %q is not empty; ask for recursive removal", req.Path).Because(protocol.ReasonDirNotEmpty)
	}
	if err := tree.Empty(dir, name, check); err != nil {
		return s.explain(err, req.Path)
	}
	return s.explain(unix.Unlinkat(dir, name, unix.AT_REMOVEDIR), req.Path)
}

// Chmod sets the mode of a file or directory, or of all below one.
func (s *Server) Chmod(req protocol.Chmod, check Check) error {
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return err
	}
	if req.Mode&^0o7777 != 0 {
		return badMode()
	}
	fd, err := at.open(at.rel, unix.O_PATH)
	if err != nil {
		return s.explain(err, req.Path)
	}
	defer tree.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return s.explain(err, req.Path)
	}
	if req.Recursive && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := s.chmodBelow(fd, req.Mode, check); err != nil {
			return s.explain(err, req.Path)
		}
	}
	return s.explain(setModeOf(fd, req.Mode), req.Path)
}

func (s *Server) chmodBelow(fd int, mode uint32, check Check) error {
	top, err := tree.OpenDir(fd, ".")
	if err != nil {
		return err
	}
	w, err := tree.NewWalk(top, tree.Wide, check)
	if err != nil {
		return err
	}
	defer w.Close()
	return w.Each(func(e *tree.Entry) (err error) {
		switch {
		case e.Leave: // last, since it may forbid what is to be done below it
			err = setMode(w.Dir(), e.Name, mode)
		case e.Type() == unix.S_IFDIR:
			err = w.Enter()
		case e.Type() == unix.S_IFREG:
			err = setMode(w.Dir(), e.Name, mode)
		}
		// What is another file by now is nothing to set a mode of.
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENXIO) && !errors.Is(err, unix.ELOOP) {
			return err
		}
		return nil
	})
}
