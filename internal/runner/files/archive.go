package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/archive"
	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Pack writes a directory's content, or a file, to out as an archive.
func (s *Server) Pack(req protocol.Pack, out io.Writer, check Check) error {
	format := archive.Format(req.Format)
	if err := format.Valid(); err != nil {
		return err
	}
	which := archive.Selection{Include: unescapeAll(req.Include), Exclude: unescapeAll(req.Exclude)}
	if req.Snapshot == protocol.SnapshotLayer {
		return s.packChanges(out, format, which, check)
	}
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return err
	}
	fd, err := at.open(at.rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return s.explain(err, req.Path)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		_, err = statRegular(fd, req.Path)
	}
	if err != nil {
		tree.Close(fd)
		return s.explain(err, req.Path)
	}
	return s.explain(archive.Pack(out, format, fd, path.Base(at.rel), which, check), req.Path)
}

func unescapeAll(names []string) []string {
	raw := make([]string, len(names))
	for i, name := range names {
		raw[i] = protocol.UnescapeName(name)
	}
	return raw
}

// notSaved are the paths of a root whose content is another's: where file
// systems are mounted, and what names the sandbox.
var notSaved = []string{"dev", "proc", "sys", "workspace", "etc/hostname", "etc/hosts", "etc/machine-id", "etc/resolv.conf"}

// packChanges is Pack of what has changed of the root.
func (s *Server) packChanges(out io.Writer, format archive.Format, which archive.Selection, check Check) error {
	if s.baseline != "" {
		return s.packDifference(out, format, which, check)
	}
	if s.changes < 0 {
		return protocol.Refuse(protocol.CodeUnimplemented, "what has changed of the root of this sandbox cannot be told")
	}
	fd, err := tree.OpenDir(s.changes, ".")
	if err != nil {
		return s.explain(err, "/")
	}
	which.Layer, which.Exclude = true, append(which.Exclude, notSaved...)
	return s.explain(archive.Pack(out, format, fd, "", which, check), "/")
}

// engineMade are the paths of a root that an engine has made, or mounts.
var engineMade = []string{".dockerenv", ".sandkasten"}

// packDifference is packChanges by the baseline, which nobody in the sandbox
// can write.
func (s *Server) packDifference(out io.Writer, format archive.Format, which archive.Selection, check Check) (err error) {
	list, err := os.Open(s.baseline)
	if err != nil {
		return fmt.Errorf("open the list of what the root was made of: %w", err)
	}
	defer func() { err = errors.Join(err, list.Close()) }()
	var st unix.Stat_t
	if err := unix.Fstat(int(list.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	root, err := tree.OpenDir(s.root, ".")
	if err != nil {
		return s.explain(err, "/")
	}
	which.Exclude = append(append(which.Exclude, notSaved...), engineMade...)
	// The list was written when the root was there and nothing ran in it.
	base := archive.Baseline{List: list, Taken: st.Ctim}
	return s.explain(archive.PackChanges(out, format, root, base, which, check), "/")
}

// Unpack extracts an archive into a directory, which is made if it is missing.
// An error of in is returned as it is.
func (s *Server) Unpack(req protocol.Unpack, in io.Reader, check Check) (protocol.Unpacked, error) {
	format := archive.Format(req.Format)
	if err := format.Valid(); err != nil {
		return protocol.Unpacked{}, err
	}
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return protocol.Unpacked{}, err
	}
	dir, err := at.makeDirs(at.rel)
	if err != nil {
		return protocol.Unpacked{}, s.explain(err, req.Path)
	}
	defer tree.Close(dir)
	spool := -1
	if format == archive.Zip { // on the disk that it will go to, and only by this descriptor
		name, fd, err := createTemp(dir)
		if err != nil {
			return protocol.Unpacked{}, s.explain(err, req.Path)
		}
		spool = fd
		defer tree.Close(spool)
		if err := unix.Unlinkat(dir, name, 0); err != nil {
			return protocol.Unpacked{}, s.explain(err, req.Path)
		}
	}
	done, err := archive.Unpack(dir, format, req.Snapshot, in, spool, check)
	return done, s.explain(err, req.Path)
}
