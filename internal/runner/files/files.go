// Package files reads, writes and lists files inside a sandbox for whoever asks
// over the protocol. It decides which paths a request may reach and what kinds
// of files are served. It knows requests and answers, not connections.
package files

import (
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of listings. The second keeps the answer below protocol.MaxHeader.
const (
	maxEntries = 10_000
	maxListing = 160 << 10
	maxScanned = 200_000
)

// File is a file that was opened to be read: Bytes bytes, which is what it had
// then and the request asked for. If it shrinks meanwhile, Read ends early. The
// caller closes it.
type File struct {
	Info  protocol.FileInfo
	Bytes int64

	io.Reader
	io.Closer
}

// Read opens a file.
func (s *Server) Read(req protocol.Read) (*File, error) {
	if req.Offset < 0 || req.MaxBytes < 0 {
		return nil, protocol.Refuse(protocol.CodeInvalid, "offset and max_bytes must not be negative")
	}
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return nil, err
	}
	// O_NONBLOCK: the open of a FIFO would wait for a writer.
	fd, err := at.open(at.rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, s.explain(err, req.Path)
	}
	st, err := statRegular(fd, req.Path)
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	n := max(0, st.Size-req.Offset)
	if req.MaxBytes > 0 {
		n = min(n, req.MaxBytes)
	}
	f := os.NewFile(uintptr(fd), "file")
	return &File{Info: info(req.Path, st), Bytes: n, Reader: io.NewSectionReader(f, req.Offset, n), Closer: f}, nil
}

// statRegular refuses what is not a regular file with bytes of its own.
func statRegular(fd int, asked string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		return nil, protocol.Refuse(protocol.CodeInvalid, "%q is a directory; list it instead", asked)
	default:
		return nil, notRegular(asked)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return nil, os.NewSyscallError("fstatfs", err)
	}
	// Files of procfs have no size, and some are the runner's own memory.
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return nil, protocol.Refuse(protocol.CodeUnprocessable, "%q is made up by the kernel as it is read; read it with a command", asked)
	}
	return &st, nil
}

// Write makes or replaces a file with the next size bytes of content: under
// another name first, so that a reader sees the old content or the new and
// never a part. An error of content is returned as it is.
func (s *Server) Write(req protocol.Write, content io.Reader, size int64) error {
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return err
	}
	if req.Mode&^0o7777 != 0 {
		return protocol.Refuse(protocol.CodeInvalid, "mode must be permission bits, at most 07777")
	}
	if req.Path[len(req.Path)-1] == '/' {
		return protocol.Refuse(protocol.CodeInvalid, "path must not end with a slash: it names a file")
	}
	dir, name, err := at.parent()
	if err != nil {
		return s.explain(err, req.Path)
	}
	defer closeFD(dir)
	mode, err := modeFor(dir, name, req)
	if err == nil {
		err = replace(dir, name, mode, content, size)
	}
	if err != nil {
		return s.explain(err, req.Path)
	}
	return nil
}

// modeFor is the mode that the written file gets. It refuses to replace what
// is not a regular file.
func modeFor(dir int, name string, req protocol.Write) (uint32, error) {
	mode := uint32(0o644)
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
	case err != nil:
		return 0, err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return 0, unix.EISDIR
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return 0, notRegular(req.Path)
	default:
		mode = st.Mode & 0o7777
	}
	if req.Mode != 0 {
		mode = req.Mode
	}
	return mode, nil
}

// replace writes size bytes of content to a new file and renames it to name.
func replace(dir int, name string, mode uint32, content io.Reader, size int64) error {
	temp, fd, err := createTemp(dir)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "file")
	// CopyN: content that was cut short must not become a file.
	_, err = io.CopyN(f, content, size)
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	if cerr := f.Close(); err == nil {
		err = cerr // a full disk may show itself only now
	}
	if err == nil {
		err = unix.Renameat(dir, temp, dir, name)
	}
	if err != nil {
		if uerr := unix.Unlinkat(dir, temp, 0); uerr != nil {
			return errors.Join(err, os.NewSyscallError("unlinkat", uerr))
		}
	}
	return err
}

// createTemp makes a new file in dir under a name that nobody can foresee.
func createTemp(dir int) (string, int, error) {
	for {
		var random [8]byte
		if _, err := unix.Getrandom(random[:], 0); err != nil {
			return "", -1, os.NewSyscallError("getrandom", err)
		}
		name := append([]byte(".sandkasten-"), make([]byte, 16)...)
		for i, b := range random {
			const hex = "0123456789abcdef"
			name[12+2*i], name[13+2*i] = hex[b>>4], hex[b&15]
		}
		fd, err := unix.Openat(dir, string(name), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err == unix.EEXIST || err == unix.EINTR {
			continue
		}
		return string(name), fd, err
	}
}

// List returns a directory's entries by name. Links are described, not
// followed.
func (s *Server) List(req protocol.List) (protocol.Entries, error) {
	if req.Max < 0 {
		return protocol.Entries{}, protocol.Refuse(protocol.CodeInvalid, "max must not be negative")
	}
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return protocol.Entries{}, err
	}
	fd, err := at.open(at.rel, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return protocol.Entries{}, s.explain(err, req.Path)
	}
	d := os.NewFile(uintptr(fd), "directory")
	defer d.Close()
	limit := maxEntries
	if req.Max > 0 {
		limit = min(limit, req.Max)
	}
	s.listing <- struct{}{}
	defer func() { <-s.listing }()
	names, all, err := firstNames(d, limit)
	if err != nil {
		return protocol.Entries{}, s.explain(err, req.Path)
	}
	out := entries(fd, names, limit)
	out.Truncated = out.Truncated || !all
	return out, nil
}

// firstNames returns the first names of a directory in order, limit of them at
// least if there are as many, and whether those are all. However many there
// are, only some more than limit are in memory at once.
func firstNames(d *os.File, limit int) (names []string, all bool, err error) {
	all = true
	for scanned := 0; scanned < maxScanned; {
		more, err := d.Readdirnames(1024)
		scanned += len(more)
		names = append(names, more...)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return nil, false, err
		}
		if end || len(names) > limit+8*1024 {
			slices.Sort(names)
			// A few more than asked for: some may be gone when they are looked at.
			if keep := limit + 1024; len(names) > keep {
				names, all = names[:keep:keep], false
			}
		}
		if end {
			return names, all, nil
		}
	}
	slices.Sort(names)
	return names, false, nil
}

// entries describes the first of the names, as many as fit.
func entries(dir int, names []string, limit int) protocol.Entries {
	out := protocol.Entries{Entries: []protocol.FileInfo{}}
	room := maxListing
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // removed since
		}
		e := info(name, &st)
		if e.Type == "symlink" {
			if target, err := readlinkat(dir, name); err == nil {
				e.Target = target
			}
		}
		// JSON makes up to six bytes of one, and the fields take about 120.
		room -= 120 + jsonSize(e.Name) + jsonSize(e.Target)
		if len(out.Entries) == limit || room < 0 {
			out.Truncated = true
			break
		}
		out.Entries = append(out.Entries, e)
	}
	return out
}

// jsonSize is how long s can be in JSON.
func jsonSize(s string) int {
	n := 0
	for _, b := range []byte(s) {
		if b < ' ' || b >= 0x7f || b == '<' || b == '>' || b == '&' || b == '"' || b == '\\' {
			n += 6
		} else {
			n++
		}
	}
	return n
}

// info describes a file.
func info(name string, st *unix.Stat_t) protocol.FileInfo {
	return protocol.FileInfo{
		Name: name, Type: typeOf(st.Mode), Size: st.Size, Mode: st.Mode & 0o7777,
		UID: st.Uid, GID: st.Gid, ModTimeMS: st.Mtim.Nano() / 1e6,
	}
}

// typeOf names the kind of file that a mode tells.
func typeOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "dir"
	case unix.S_IFLNK:
		return "symlink"
	case unix.S_IFIFO:
		return "fifo"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "device"
}
