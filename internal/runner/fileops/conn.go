// Package fileops answers the requests about files of one connection: in the
// runner, or, what may take much of anything, in a process that counts against
// the sandbox's limits. It belongs here if it moves requests and answers; what
// is done with files does not.
package fileops

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/files"
	"github.com/sandkasten/sandkasten/protocol"
)

// stallTime is how long a daemon may leave what it is sent unread.
const stallTime = 30 * time.Second

// Patient gives each write to a connection its own deadline.
type Patient struct{ File *os.File }

// Write writes all of b.
func (p Patient) Write(b []byte) (int, error) {
	if err := p.File.SetWriteDeadline(time.Now().Add(stallTime)); err != nil {
		return 0, err
	}
	return p.File.Write(b)
}

// Conn is a connection on which a request has been received.
type Conn struct {
	Files *files.Server
	File  *os.File // a socket that does not block
	FD    int      // of File
	In    *protocol.Reader
	Out   *protocol.Writer
}

// errBroken marks an answer that was cut off. Only closing the connection
// tells the daemon so.
var errBroken = errors.New("answer cut off")

// errGone says that nobody waits for the answer any more.
var errGone = errors.New("the daemon closed the connection")

// Gone reports whether the daemon closed its end of a connection.
func Gone(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}

// check is what long operations ask whether to go on.
func (c *Conn) check() error {
	if Gone(c.FD) {
		return errGone
	}
	return nil
}

// Handles reports whether requests of type t are about files.
func Handles(t protocol.Type) bool {
	switch t {
	case protocol.TypeRead, protocol.TypeWrite, protocol.TypeList, protocol.TypeStat, protocol.TypeMkdir,
		protocol.TypeMove, protocol.TypeCopy, protocol.TypeRemove, protocol.TypeChmod,
		protocol.TypeGlob, protocol.TypeGrep, protocol.TypeEdit, protocol.TypeWatch, protocol.TypePack, protocol.TypeUnpack:
		return true
	}
	return false
}

// Answer does what a request asks. A *protocol.Error is still to be sent to
// the daemon; any other error is the connection's end.
func (c *Conn) Answer(h protocol.Header) error {
	switch h.Type {
	case protocol.TypeRead:
		return handleDecoded(h, c.read)
	case protocol.TypeWrite:
		return handleDecoded(h, func(r protocol.Write) error { return c.write(r, h.Bytes) })
	case protocol.TypeList:
		return handleDecoded(h, func(r protocol.List) error { return c.entries(c.Files.List(r, c.check)) })
	case protocol.TypeStat:
		return handleDecoded(h, c.stat)
	case protocol.TypeMkdir:
		return handleDecoded(h, func(r protocol.Mkdir) error { return c.ok(c.Files.Mkdir(r)) })
	case protocol.TypeMove:
		return handleDecoded(h, func(r protocol.Move) error { return c.ok(c.Files.Move(r)) })
	case protocol.TypeCopy:
		return handleDecoded(h, func(r protocol.Copy) error { return c.ok(c.Files.Copy(r, c.check)) })
	case protocol.TypeRemove:
		return handleDecoded(h, func(r protocol.Remove) error { return c.ok(c.Files.Remove(r, c.check)) })
	case protocol.TypeChmod:
		return handleDecoded(h, func(r protocol.Chmod) error { return c.ok(c.Files.Chmod(r, c.check)) })
	case protocol.TypeGlob:
		return handleDecoded(h, func(r protocol.Glob) error { return c.entries(c.Files.Glob(r, c.check)) })
	case protocol.TypeGrep:
		return handleDecoded(h, c.grep)
	case protocol.TypeEdit:
		return handleDecoded(h, func(r protocol.Edit) error { return c.edit(r, h.Bytes) })
	case protocol.TypeWatch:
		return handleDecoded(h, c.watch)
	case protocol.TypePack:
		return handleDecoded(h, c.pack)
	case protocol.TypeUnpack:
		return handleDecoded(h, c.unpack)
	}
	return protocol.Refuse(protocol.CodeInvalid, "a %s frame is not a request about files", h.Type)
}

// handleDecoded hands a request's body to its handler.
func handleDecoded[T any](h protocol.Header, handle func(T) error) error {
	var body T
	if err := h.Decode(&body); err != nil {
		return protocol.Refuse(protocol.CodeInvalid, "%v", err)
	}
	return handle(body)
}

func (c *Conn) ok(err error) error {
	if err != nil {
		return err
	}
	return c.Out.Send(protocol.TypeOK, nil, nil)
}

func (c *Conn) entries(e protocol.Entries, err error) error {
	if err != nil {
		return err
	}
	return c.Out.Send(protocol.TypeEntries, e, nil)
}

func (c *Conn) stat(req protocol.Stat) error {
	info, err := c.Files.Stat(req)
	if err != nil {
		return err
	}
	return c.Out.Send(protocol.TypeInfo, info, nil)
}

func (c *Conn) write(req protocol.Write, size int64) error {
	info, err := c.Files.Write(req, c.In, size)
	if err != nil || !req.Tag {
		return c.ok(err)
	}
	return c.Out.Send(protocol.TypeInfo, info, nil)
}

func (c *Conn) read(req protocol.Read) error {
	f, err := c.Files.Read(req)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.Out.Announce(protocol.TypeFile, f.Info, f.Bytes); err != nil {
		return err
	}
	if err := c.sendFile(f); err != nil {
		// Also if the file shrank: the bytes announced cannot come.
		return errors.Join(errBroken, err)
	}
	return nil
}

// sendFile sends a file's bytes without taking them in hand.
func (c *Conn) sendFile(f *files.File) error {
	raw, err := c.File.SyscallConn()
	if err != nil {
		return err
	}
	offset, left := f.Offset, f.Bytes
	for left > 0 {
		if err := c.File.SetWriteDeadline(time.Now().Add(stallTime)); err != nil {
			return err
		}
		var n int
		var sendErr error
		err := raw.Write(func(fd uintptr) bool {
			n, sendErr = unix.Sendfile(int(fd), f.FD, &offset, int(min(left, 1<<20)))
			return sendErr != unix.EAGAIN
		})
		if err != nil {
			return err
		}
		switch {
		case sendErr == unix.EINTR:
		case sendErr != nil:
			return os.NewSyscallError("sendfile", sendErr)
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		left -= int64(n)
	}
	return nil
}
