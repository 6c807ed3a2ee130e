package files

import (
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Write makes, replaces or extends a file with the next size bytes of content.
// Unless it appends it writes under another name first, so that a reader sees
// the old content or the new and never a part. An error of content is returned
// as it is. With req.Tag it describes what it has written.
func (s *Server) Write(req protocol.Write, content io.Reader, size int64) (protocol.FileInfo, error) {
	if err := checkWrite(req); err != nil {
		return protocol.FileInfo{}, err
	}
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return protocol.FileInfo{}, err
	}
	if len(req.IfMatch) > 0 { // before directories are made and the content comes
		if err := at.match(req.IfMatch); err != nil {
			return protocol.FileInfo{}, s.explain(err, req.Path)
		}
	}
	dir, name, err := at.parent()
	if err != nil {
		return protocol.FileInfo{}, s.explain(err, req.Path)
	}
	defer tree.Close(dir)
	target, err := targetOf(dir, name, req)
	var written protocol.FileInfo
	switch {
	case err != nil:
	case req.Append:
		written, err = appendTo(dir, name, target, content, size)
	default:
		written, err = replace(dir, name, target, content, size)
	}
	written.Name = req.Path
	return written, s.explain(err, req.Path)
}

func checkWrite(req protocol.Write) error {
	switch {
	case req.Mode&^0o7777 != 0:
		return badMode()
	case req.Append && req.ModTimeNS != nil:
		return protocol.Refuse(protocol.CodeInvalid, "mtime_ns and append exclude each other")
	case req.Create && req.Append:
		return protocol.Refuse(protocol.CodeInvalid, "create and append exclude each other")
	case len(req.IfMatch) > 0 && (req.Create || req.Append):
		return protocol.Refuse(protocol.CodeInvalid, "if_match goes neither with create nor with append")
	case strings.HasSuffix(req.Path, "/"):
		return protocol.Refuse(protocol.CodeInvalid, "path must not end with a slash: it names a file").Because(protocol.ReasonIsADirectory)
	}
	return nil
}

func badMode() error {
	return protocol.Refuse(protocol.CodeInvalid, "mode must be permission bits, at most 07777")
}

// target is what a written file becomes.
type target struct {
	mode   uint32
	owner  *[2]uint32 // uid and gid of the file that was there
	create bool       // fail with EEXIST if there is one by now
	match  []string   // fail with errChanged if the file has none of these tags
	asked  string     // path of the request
	tag    bool       // describe what was written
	mtime  *int64     // nanoseconds since 1970; nil is now
}

// targetOf refuses to replace what is not a regular file.
func targetOf(dir int, name string, req protocol.Write) (target, error) {
	to := target{mode: 0o644, create: req.Create, match: req.IfMatch, asked: req.Path, tag: req.Tag, mtime: req.ModTimeNS}
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
	case err != nil:
		return to, err
	case req.Create:
		return to, unix.EEXIST
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return to, unix.EISDIR
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return to, notRegular(req.Path)
	default:
		to.mode, to.owner = st.Mode&0o7777, &[2]uint32{st.Uid, st.Gid}
	}
	if req.Mode != 0 {
		to.mode = req.Mode
	}
	return to, nil
}

// replace writes size bytes of content to a new file and renames it to name.
func replace(dir int, name string, to target, content io.Reader, size int64) (protocol.FileInfo, error) {
	if protection.Off(protection.AtomicWrites) {
		return protocol.FileInfo{}, inPlace(dir, name, content, size)
	}
	return withTemp(dir, name, to, func(fd int) error {
		if err := reserveSpace(fd, size); err != nil {
			return err
		}
		return receive(fd, content, size)
	})
}

// inPlace is replace without its protection.
func inPlace(dir int, name string, content io.Reader, size int64) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(receive(fd, content, size), unix.Close(fd))
}

// reserveSpace takes the blocks of a new file of size bytes. Writing to them then
// costs a third less, and a disk without room says so before the content comes.
func reserveSpace(fd int, size int64) error {
	if size <= bulk {
		return nil
	}
	if err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, size); err == unix.ENOSPC || err == unix.EDQUOT {
		return err
	}
	return nil // also where the file system cannot do it: writing takes them then
}

// withTemp makes a new file, has it filled, and renames it to name.
func withTemp(dir int, name string, to target, fill func(fd int) error) (written protocol.FileInfo, err error) {
	temp, fd, err := createTemp(dir)
	if err != nil {
		return written, err
	}
	kept := -1 // by its name it could be another's by the time that it is described
	err = fill(fd)
	if err == nil {
		err = to.apply(fd)
	}
	if err == nil && to.tag {
		if kept, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			defer tree.Close(kept)
		}
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr // a full disk may show itself only now
	}
	if err == nil {
		err = to.rename(dir, temp, name)
	}
	if err != nil {
		if uerr := unix.Unlinkat(dir, temp, 0); uerr != nil {
			return written, errors.Join(err, os.NewSyscallError("unlinkat", uerr))
		}
		return written, err
	}
	if to.tag {
		return infoTagged(to.asked, kept)
	}
	return written, nil
}

// apply sets owner and mode. A file that cannot be its old owner's must not
// run as the new one either.
func (to target) apply(fd int) error {
	mode := to.mode
	if to.owner != nil {
		// Owner before mode: chown clears bits that chmod sets.
		if err := unix.Fchown(fd, int(to.owner[0]), int(to.owner[1])); err != nil {
			mode &= 0o777
		}
	}
	if err := unix.Fchmod(fd, mode); err != nil || to.mtime == nil {
		return err
	}
	at := unix.NsecToTimespec(*to.mtime)
	return unix.UtimesNanoAt(fd, "", []unix.Timespec{at, at}, unix.AT_EMPTY_PATH)
}

func (to target) rename(dir int, temp, name string) error {
	switch {
	case to.create:
		return unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
	case len(to.match) > 0:
		return renameMatched(dir, temp, name, to.match)
	}
	return unix.Renameat(dir, temp, dir, name)
}

// appendTo adds to the end of a regular file, which is made if it is missing.
func appendTo(dir int, name string, to target, content io.Reader, size int64) (written protocol.FileInfo, err error) {
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags|unix.O_CREAT|unix.O_EXCL, to.mode)
	made := err == nil
	if errors.Is(err, unix.EEXIST) {
		fd, err = unix.Openat(dir, name, flags, 0)
	}
	if err != nil {
		return written, err
	}
	_, err = statRegular(fd, name)
	if err == nil && made {
		err = unix.Fchmod(fd, to.mode) // whatever the umask is
	}
	if err == nil {
		err = receive(fd, content, size)
	}
	if err == nil && to.tag {
		written, err = infoTagged(to.asked, fd)
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return written, err
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
		fd, err := unix.Openat(dir, string(name), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err == unix.EEXIST || err == unix.EINTR {
			continue
		}
		return string(name), fd, err
	}
}

// bulk is how much of a file is moved at once.
const bulk = 256 << 10

// receive writes the next size bytes of content to fd. Content that was cut
// short is io.EOF: it must not become a file.
func receive(fd int, content io.Reader, size int64) error {
	buf := make([]byte, min(size, bulk))
	for size > 0 {
		n, err := io.ReadAtLeast(content, buf[:min(size, int64(len(buf)))], 1)
		if werr := writeAll(fd, buf[:n]); werr != nil {
			return werr
		}
		size -= int64(n)
		if err != nil && size > 0 {
			return err
		}
	}
	return nil
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
