package files

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Server resolves the paths of file requests. Two directories can be the top
// of a request, and the kernel keeps the resolution below it while whoever is
// in the sandbox swaps directories for links: a check of the path before the
// open could not. Its methods may be called concurrently.
type Server struct {
	workspace string
	root      int           // open "/"
	inside    int           // open workspace
	changes   int           // open, the upper directory of the root, or -1
	baseline  string        // path of the list of what the root was made of, or ""
	editing   chan struct{} // held while files are in memory
}

// Open returns a Server of the workspace, an absolute path of a directory. The
// caller closes it. Changes, which stays the caller's, is the open directory to
// which overlayfs writes what is changed of the root, or -1. Baseline is the
// path of a list of package baseline that tells it otherwise, or "".
func Open(workspace string, changes int, baseline string) (*Server, error) {
	if !path.IsAbs(workspace) {
		return nil, errors.New("the workspace must be an absolute path")
	}
	s := &Server{workspace: path.Clean(workspace), changes: changes, baseline: baseline, editing: make(chan struct{}, 2)}
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	var err error
	if s.root, err = unix.Open("/", flags, 0); err != nil {
		return nil, os.NewSyscallError("open /", err)
	}
	if s.inside, err = unix.Open(s.workspace, flags, 0); err != nil {
		tree.Close(s.root)
		return nil, os.NewSyscallError("open "+s.workspace, err)
	}
	return s, nil
}

// Close frees what the Server holds.
func (s *Server) Close() error {
	return errors.Join(unix.Close(s.root), unix.Close(s.inside))
}

// reach says how far a request may go.
type reach bool

const (
	inWorkspace reach = false
	anywhere    reach = true
)

// place is a path below one of the two tops.
type place struct {
	top     int
	resolve uint64
	rel     string // relative to top, clean; "." is the top itself
	asked   string // as the client wrote it
	base    string // what an absolute path must start with to be below top
}

// locate turns a client's path into a place. Bytes that are not UTF-8 are escaped in it.
func (s *Server) locate(asked string, far reach) (place, error) {
	abs := protocol.UnescapeName(asked)
	switch {
	case asked == "":
		return place{}, protocol.Refuse(protocol.CodeInvalid, "path must not be empty")
	case len(abs) > protocol.MaxPath:
		return place{}, protocol.Refuse(protocol.CodeInvalid, "path must not be longer than %d bytes", protocol.MaxPath)
	case strings.IndexByte(asked, 0) >= 0:
		return place{}, protocol.Refuse(protocol.CodeInvalid, "path must not contain zero bytes")
	}
	if !path.IsAbs(abs) {
		abs = s.workspace + "/" + abs
	}
	p := place{asked: asked, top: s.inside, base: s.workspace}
	// Links are never followed out of the top, nor are the magic ones of /proc
	// that jump past every check.
	p.resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	if far == anywhere || protection.Off(protection.FilePaths) {
		p.top, p.base = s.root, "/"
		p.resolve = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	}
	rel, ok := below(p.base, abs)
	if !ok {
		return place{}, s.outside(asked)
	}
	p.rel = rel
	return p, nil
}

// below returns abs relative to base. It is lexical, which is right only
// because the result is resolved by the kernel with base as the limit.
func below(base, abs string) (string, bool) {
	abs = path.Clean(abs)
	if abs == base {
		return ".", true
	}
	if base != "/" {
		base += "/"
	}
	rel, ok := strings.CutPrefix(abs, base)
	return rel, ok
}

func (s *Server) outside(asked string) *protocol.Error {
	return protocol.Refuse(protocol.CodeDenied, "%q is not below %s; this session's file requests are limited to that directory (a link that leads out counts, too)", asked, s.workspace).Because(protocol.ReasonOutsideWorkspace)
}

// open opens the place. Whatever it is, that does not block.
func (p place) open(rel string, flags uint64) (int, error) {
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: p.resolve}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(p.top, rel, how)
		// EAGAIN: somebody renamed directories during a ".." step.
		if err == unix.EINTR || err == unix.EAGAIN && try < 100 {
			continue
		}
		return fd, err
	}
}

// parent opens the directory that holds the place's last element, making
// missing ones, and returns that element. A link there is followed, so that
// the element names a file, or nothing yet.
func (p place) parent() (dir int, name string, err error) {
	for range 40 { // as many links as the kernel follows
		if p.rel == "." {
			return -1, "", unix.EISDIR
		}
		dir, err := p.makeDirs(path.Dir(p.rel))
		if err != nil {
			return -1, "", err
		}
		name := path.Base(p.rel)
		target, err := tree.Readlink(dir, name)
		if err != nil {
			return dir, name, nil // not a link
		}
		tree.Close(dir)
		if !path.IsAbs(target) {
			p.rel = path.Join(path.Dir(p.rel), target)
		} else if rel, ok := below(p.base, target); ok {
			p.rel = rel
		} else {
			return -1, "", unix.EXDEV
		}
	}
	return -1, "", unix.ELOOP
}

// makeDirs opens the directory rel, making what is missing of it.
func (p place) makeDirs(rel string) (int, error) {
	fd, err := p.open(rel, unix.O_PATH|unix.O_DIRECTORY)
	if !errors.Is(err, unix.ENOENT) || rel == "." {
		return fd, err
	}
	up, err := p.makeDirs(path.Dir(rel))
	if err != nil {
		return -1, err
	}
	defer tree.Close(up)
	if err = unix.Mkdirat(up, path.Base(rel), 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	made := err == nil
	fd, err = p.open(rel, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil && made && path.Base(rel) == ownDir {
		if err := ignoreAll(fd); err != nil {
			tree.Close(fd)
			return -1, err
		}
	}
	return fd, err
}

// ownDir is a directory for files of clients' that are not the user's work, as the
// outputs that an agent's tools keep. One that is made here is not seen by git.
const ownDir = ".sandkasten"

// ignoreAll has git ignore a directory, which is new, and all that comes into it.
func ignoreAll(dir int) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, ".gitignore", flags, 0o644)
	if err == unix.EEXIST {
		return nil // somebody was faster
	}
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte("*\n"))
	return errors.Join(err, unix.Close(fd))
}

// holder opens the directory that holds the place's last element, which may be
// a link or missing, and returns that element.
func (p place) holder() (dir int, name string, err error) {
	if p.rel == "." {
		return -1, "", unix.EBUSY
	}
	dir, err = p.open(path.Dir(p.rel), unix.O_PATH|unix.O_DIRECTORY)
	return dir, path.Base(p.rel), err
}

// explain turns a failed system call on a client's path into what the client
// can do about it.
func (s *Server) explain(err error, asked string) error {
	if errors.Is(err, tree.ErrMoved) {
		return protocol.Refuse(protocol.CodeUnavailable, "directories below %q were moved meanwhile; try again", asked)
	}
	if errors.Is(err, tree.ErrKernelFS) {
		return protocol.Refuse(protocol.CodeDenied, "below %q are files that the kernel makes up", asked).Because(protocol.ReasonNotRegular)
	}
	if errors.Is(err, errChanged) {
		return protocol.Refuse(protocol.CodePrecondition, "%q is not the file that If-Match names: it was changed or removed since; read it again, and decide whether to replace what is there now", asked).Because(protocol.ReasonFileChanged)
	}
	if errors.Is(err, errLocked) {
		return protocol.Refuse(protocol.CodeConflict, "a program in the sandbox holds a lock on %q; try again when it has ended", asked)
	}
	errno, ok := errors.AsType[unix.Errno](err)
	if !ok {
		return err
	}
	switch errno {
	case unix.ENOENT:
		return protocol.Refuse(protocol.CodeNotFound, "%q does not exist", asked).Because(protocol.ReasonNoSuchFile)
	case unix.EEXIST:
		return protocol.Refuse(protocol.CodeExists, "%q exists", asked).Because(protocol.ReasonFileExists)
	case unix.EBUSY:
		return protocol.Refuse(protocol.CodeInvalid, "%q is the workspace, the root or a mount; only what is in it can be changed", asked)
	case unix.ENOTEMPTY:
		return protocol.Refuse(protocol.CodeInvalid, "the directory %q is not empty", asked).Because(protocol.ReasonDirNotEmpty)
	case unix.EXDEV:
		return s.outside(asked)
	case unix.ELOOP:
		return protocol.Refuse(protocol.CodeInvalid, "%q has too many links, or one that only the kernel may follow", asked)
	case unix.ENOTDIR:
		return protocol.Refuse(protocol.CodeInvalid, "a part of %q is not a directory", asked).Because(protocol.ReasonNotADirectory)
	case unix.EISDIR:
		return protocol.Refuse(protocol.CodeInvalid, "%q is a directory", asked).Because(protocol.ReasonIsADirectory)
	case unix.ENAMETOOLONG:
		return protocol.Refuse(protocol.CodeInvalid, "a part of %q is too long", asked)
	case unix.ENXIO, unix.ENODEV:
		return notRegular(asked)
	case unix.EACCES, unix.EPERM:
		return protocol.Refuse(protocol.CodeDenied, "no permission for %q", asked).Because(protocol.ReasonNoPermission)
	case unix.EROFS:
		return protocol.Refuse(protocol.CodeDenied, "%q is on a read-only file system", asked).Because(protocol.ReasonReadOnlyFS)
	case unix.ENOSPC, unix.EDQUOT:
		return protocol.Refuse(protocol.CodeNoSpace, "no space left in the sandbox for %q; remove files or ask for a larger disk", asked)
	case unix.EFBIG:
		return protocol.Refuse(protocol.CodeTooLarge, "%q is larger than a file may be here", asked)
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM:
		return protocol.Refuse(protocol.CodeUnavailable, "the runner is out of descriptors or memory; try again")
	}
	return protocol.Refuse(protocol.CodeUnprocessable, "%q: %v", asked, os.NewSyscallError("access", errno))
}

func notRegular(asked string) *protocol.Error {
	return protocol.Refuse(protocol.CodeInvalid, "%q is neither a file nor a directory; devices, pipes and sockets are not served", asked).Because(protocol.ReasonNotRegular)
}
