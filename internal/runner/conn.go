package runner

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/fds"
	"github.com/sandkasten/sandkasten/internal/runner/fileops"
	"github.com/sandkasten/sandkasten/protocol"
)

// conn is one connection of the daemon's. It carries one operation at a time.
type conn struct {
	r    *Runner
	fd   int
	file *os.File
	in   *protocol.Reader
	out  *protocol.Writer
	buf  []byte // for output on its way
}

// accept answers connections until Close. It blocks a thread of its own: a
// listener that the Go runtime polls would wake more than it saves.
func (r *Runner) accept() error {
	defer fds.Close(r.opts.Listener)
	for {
		fd, _, err := unix.Accept4(r.opts.Listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case err == nil:
			if guard.Try(func() error { return r.open(fd) }) != nil {
				fds.Close(fd)
			}
		case r.isClosed():
			return nil
		case err == unix.EINTR || err == unix.ECONNABORTED:
		case err == unix.EMFILE || err == unix.ENFILE || err == unix.ENOMEM || err == unix.ENOBUFS:
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // until others end; accept tells nothing of that
		default:
			return os.NewSyscallError("accept4", err)
		}
	}
}

func (r *Runner) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// errRefused says that a connection is not served.
var errRefused = errors.New("the connection is refused")

// open serves a new connection, which is the caller's if that fails.
func (r *Runner) open(fd int) error {
	if r.opts.Admit != nil && !r.opts.Admit(fd) {
		return errRefused
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.conns) >= maxConns {
		return errRefused
	}
	f := os.NewFile(uintptr(fd), "daemon")
	c := &conn{r: r, fd: fd, file: f, in: protocol.NewReader(f, protocol.Daemon), out: protocol.NewWriter(fileops.Patient{File: f})}
	r.conns[c] = struct{}{}
	r.wg.Go(c.serve, func(error) { c.hangUp() })
	return nil
}

// hangUp makes every later read and write of the connection fail.
func (c *conn) hangUp() {
	if err := unix.Shutdown(c.fd, unix.SHUT_RDWR); err != nil {
		return // the daemon was faster
	}
}

// gone reports whether the daemon closed its end.
func (c *conn) gone() bool { return fileops.Gone(c.fd) }

// serve answers requests until the daemon goes away or breaks the protocol. A
// defect that a request hits ends its connection, not the sandbox.
func (c *conn) serve() {
	defer func() {
		if p := recover(); p != nil {
			c.lastWord(protocol.Refuse(protocol.CodeInternal, "the runner has a defect: %v", p))
		}
		c.r.mu.Lock()
		delete(c.r.conns, c)
		err := c.file.Close()
		c.r.mu.Unlock()
		if err != nil {
			return // nobody is left to hear of it
		}
	}()
	for {
		h, err := c.in.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.lastWord(protocol.Refuse(protocol.CodeInvalid, "%v", err))
			}
			return
		}
		if err := c.answer(h); err != nil {
			var f *protocol.Error
			if !errors.As(err, &f) {
				return // the connection itself failed
			}
			if c.in.Discard() != nil || c.complain(f) != nil {
				return
			}
		}
	}
}

// lastWord says why the connection ends. Nobody may be there to hear it.
func (c *conn) lastWord(f *protocol.Error) {
	if err := c.complain(f); err != nil {
		return
	}
}

// complain answers with an error.
func (c *conn) complain(f *protocol.Error) error {
	return c.out.Send(protocol.TypeError, f, nil)
}

// answer does what one request asks. A fault is still to be sent to the
// daemon; any other error is the connection's end.
func (c *conn) answer(h protocol.Header) error {
	switch h.Type {
	case protocol.TypePing:
		return c.out.Send(protocol.TypePong, protocol.Pong{Version: protocol.Version, Min: protocol.MinVersion}, nil)
	case protocol.TypeExec:
		return handleDecoded(h, c.exec)
	case protocol.TypeAttach:
		return handleDecoded(h, c.attach)
	case protocol.TypeCancel:
		return handleDecoded(h, c.cancel)
	case protocol.TypeExecs:
		return c.execs()
	case protocol.TypeStart:
		return handleDecoded(h, c.start)
	case protocol.TypeStdin:
		return handleDecoded(h, c.stdin)
	case protocol.TypeSignal:
		return handleDecoded(h, c.signal)
	case protocol.TypeResize:
		return handleDecoded(h, c.resize)
	case protocol.TypeShells:
		return c.out.Send(protocol.TypeShellList, protocol.ShellList{Shells: c.r.shellJobs(c.r.shellInfos())}, nil)
	case protocol.TypeCloseShell:
		return handleDecoded(h, c.closeShell)
	case protocol.TypeSettle:
		return handleDecoded(h, c.settle)
	case protocol.TypeHold:
		return handleDecoded(h, c.hold)

	case protocol.TypePorts:
		return c.ports()
	case protocol.TypeDial:
		return handleDecoded(h, c.dial)
	}
	if fileops.Handles(h.Type) {
		return c.answerFiles(h)
	}
	return protocol.Refuse(protocol.CodeInvalid, "a %s frame is not a request", h.Type)
}

// handleDecoded hands a request's body to its handler.
func handleDecoded[T any](h protocol.Header, handle func(T, int64) error) error {
	var body T
	if err := h.Decode(&body); err != nil {
		return protocol.Refuse(protocol.CodeInvalid, "%v", err)
	}
	return handle(body, h.Bytes)
}

func (c *conn) exec(req protocol.Exec, size int64) error {
	release, err := c.r.takePayload(size)
	if err != nil {
		return err
	}
	payload, err := c.execPayload(req, size)
	if err != nil {
		release()
		return err
	}
	e := newExec(req, payload, &c.r.records.budget)
	e.release = release
	s, err := c.r.shell(req.Shell)
	if err != nil {
		e.release()
		return err
	}
	if err := c.r.records.add(e); err != nil {
		e.release()
		return err
	}
	// Attached before it runs, so that it is not cut short for this reader.
	rd := e.out.Attach(0)
	defer rd.Detach()
	if err := s.submit(e); err != nil {
		c.r.records.remove(e)
		e.release()
		return err
	}
	return c.accepted(e, rd, req.Accept)
}

// takePayload counts the size of a request against what may be in memory at
// once, until the function that it returns is called.
func (r *Runner) takePayload(size int64) (release func(), err error) {
	if r.payload.Add(size) > maxPayload {
		r.payload.Add(-size)
		return nil, protocol.Refuse(protocol.CodeExhausted, "the commands that run or wait in this session have %d bytes, which is the limit; wait for one to end", maxPayload)
	}
	return sync.OnceFunc(func() { r.payload.Add(-size) }), nil
}

// execPayload checks a request and reads its command and stdin.
func (c *conn) execPayload(req protocol.Exec, size int64) ([]byte, error) {
	switch {
	case !validName(req.Shell):
		return nil, protocol.Refuse(protocol.CodeInvalid, "shell must be at most %d of the characters a-z A-Z 0-9 . _ -", maxIDLen)
	case req.CommandBytes < 0 || req.CommandBytes > size:
		return nil, protocol.Refuse(protocol.CodeInvalid, "command_bytes must lie within the payload")
	case req.CommandBytes > protocol.MaxCommand || size-req.CommandBytes > protocol.MaxCommand:
		return nil, protocol.Refuse(protocol.CodeTooLarge, "the command and its stdin are limited to %d bytes each; write longer ones to a file first", protocol.MaxCommand)
	}
	if err := checkTerms(req.ID, req.TimeoutMS, req.GraceMS); err != nil {
		return nil, err
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(c.in, payload); err != nil {
		return nil, err
	}
	if bytes.IndexByte(payload[:req.CommandBytes], 0) >= 0 && !protection.Off(protection.CommandText) {
		return nil, protocol.Refuse(protocol.CodeInvalid, "the command must not contain zero bytes")
	}
	return payload, nil
}

// checkTerms refuses what no exec can have, of either kind.
func checkTerms(id string, timeoutMS, graceMS int64) error {
	switch {
	case !validName(id) || id == "":
		return protocol.Refuse(protocol.CodeInvalid, "id must be 1 to %d of the characters a-z A-Z 0-9 . _ -", maxIDLen)
	case timeoutMS < 0 || graceMS < 0:
		return protocol.Refuse(protocol.CodeInvalid, "timeout_ms and grace_ms must not be negative")
	}
	return nil
}

// validName accepts the names that clients give to execs and shells.
func validName(s string) bool {
	if len(s) > maxIDLen {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
