// Package files reads, writes and lists files inside a sandbox for whoever asks
// over the protocol. It decides which paths a request may reach and what kinds
// of files are served. It knows requests and answers, not connections.
package files

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// File is a file that was opened to be read: Bytes bytes, which is what it had
// then and the request asked for. If it shrinks meanwhile, Read ends early. The
// caller closes it.
type File struct {
	Info   protocol.FileInfo
	Offset int64
	Bytes  int64
	FD     int // for those who can do without Read

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
		tree.Close(fd)
		return nil, err
	}
	described := info(req.Path, st)
	if req.Tag {
		if described, err = infoTagged(req.Path, fd); err != nil {
			tree.Close(fd)
			return nil, s.explain(err, req.Path)
		}
	}
	n := max(0, described.Size-req.Offset)
	if req.MaxBytes > 0 {
		n = min(n, req.MaxBytes)
	}
	f := os.NewFile(uintptr(fd), "file")
	return &File{Info: described, Offset: req.Offset, Bytes: n, FD: fd, Reader: io.NewSectionReader(f, req.Offset, n), Closer: f}, nil
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
		return nil, protocol.Refuse(protocol.CodeInvalid, "%q is a directory; list it instead", asked).Because(protocol.ReasonIsADirectory)
	default:
		if !protection.Off(protection.SpecialFiles) {
			return nil, notRegular(asked)
		}
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return nil, os.NewSyscallError("fstatfs", err)
	}
	// Files of procfs have no size, and some are the runner's own memory.
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return nil, protocol.Refuse(protocol.CodeUnprocessable, "%q is made up by the kernel as it is read; read it with a command", asked).Because(protocol.ReasonNotRegular)
	}
	return &st, nil
}

// info describes a file.
func info(name string, st *unix.Stat_t) protocol.FileInfo {
	return protocol.FileInfo{
		Name: name, Type: tree.TypeName(st.Mode), Size: st.Size, Mode: st.Mode & 0o7777,
		UID: st.Uid, GID: st.Gid, ModTimeMS: st.Mtim.Nano() / 1e6,
	}
}
