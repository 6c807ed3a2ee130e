package ports

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/protocol"
)

const (
	dialTime   = 5 * time.Second // for a connection inside one machine, whose backlog may be full
	pieceBytes = 32 << 10        // at once, in each direction
)

// Conn is a connection to a port. The file owns the descriptor.
type Conn struct {
	fd   int
	file *os.File
}

// Dial connects to a port of the loopback: 127.0.0.1, then ::1. Its errors are
// for the client. The caller closes the connection.
func Dial(port int) (*Conn, error) {
	if port < 1 || port > 65535 {
		return nil, protocol.Refuse(protocol.CodeInvalid, "port must be between 1 and 65535")
	}
	s, err := connectTo(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err != nil {
		var err6 error
		if s, err6 = connectTo(unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}); err6 == nil {
			return s, nil
		}
	}
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, protocol.Refuse(protocol.CodeNotFound, "nothing listens on port %d in the sandbox; start the server there, on 127.0.0.1 or 0.0.0.0", port)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, protocol.Refuse(protocol.CodeUnavailable, "the server on port %d in the sandbox does not accept connections", port)
	default:
		return nil, protocol.Refuse(protocol.CodeUnavailable, "port %d in the sandbox cannot be reached (%v)", port, err)
	}
}

// connectTo waits at most dialTime. Package net would do it too, and make the
// runner a third larger.
func connectTo(family int, address unix.Sockaddr) (*Conn, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = unix.Connect(fd, address)
	s := &Conn{fd: fd, file: os.NewFile(uintptr(fd), "port")}
	if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
		err = s.connected()
	}
	if err == nil && s.isSelf() {
		err = unix.ECONNREFUSED
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// connected waits for the end of a connect that has begun.
func (s *Conn) connected() error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	if err := s.file.SetWriteDeadline(time.Now().Add(dialTime)); err != nil {
		return err
	}
	if err := raw.Write(func(fd uintptr) bool { return polled(int(fd), unix.POLLOUT|unix.POLLERR) }); err != nil {
		return err
	}
	code, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	return errors.Join(err, s.file.SetWriteDeadline(time.Time{}))
}

// isSelf reports whether the socket has connected to itself: where nobody
// listens on a port that the kernel happens to choose for the near end too,
// TCP's simultaneous open succeeds.
func (s *Conn) isSelf() bool {
	near, err1 := unix.Getsockname(s.fd)
	far, err2 := unix.Getpeername(s.fd)
	return err1 == nil && err2 == nil && portOf(near) == portOf(far)
}

func portOf(address unix.Sockaddr) int {
	if six, ok := address.(*unix.SockaddrInet6); ok {
		return six.Port
	}
	return address.(*unix.SockaddrInet4).Port
}

// polled reports whether one of events is there now.
func polled(fd int, events int16) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&events != 0
}

// Close ends the connection.
func (s *Conn) Close() error { return s.file.Close() }

// Splice passes bytes between the connection and a peer, in both directions and
// the end of each by itself, until both have ended or the peer is gone. peer is
// a stream socket that does not block, without deadlines; in is what comes from
// it.
func (s *Conn) Splice(peer *os.File, in io.Reader) error {
	raw, err := peer.SyscallConn()
	if err != nil {
		return err
	}
	end := func(how int) {
		if err := raw.Control(func(fd uintptr) { shut(int(fd), how) }); err != nil {
			return // it is closed
		}
	}
	var wg guard.Group
	fail := func(error) {
		shut(s.fd, unix.SHUT_RDWR)
		end(unix.SHUT_RDWR)
	}
	wg.Go(func() {
		if writeErr := pass(s.file, in); writeErr != nil {
			return // the server takes no more: what it has sent ends the other direction
		}
		shut(s.fd, unix.SHUT_WR)
		awaitHangup(raw)
		shut(s.fd, unix.SHUT_RDWR)
	}, fail)
	wg.Go(func() {
		if pass(peer, s.file) != nil {
			end(unix.SHUT_RDWR)
			return
		}
		end(unix.SHUT_WR)
	}, fail)
	wg.Wait()
	return nil
}

// pass copies until src ends, for whatever reason, or dst fails, and returns
// only the latter's error.
func pass(dst io.Writer, src io.Reader) error {
	buf := make([]byte, pieceBytes)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// shut ends one direction of a connection, or both. The other end may have
// done so before.
func shut(fd, how int) {
	if err := unix.Shutdown(fd, how); err != nil {
		return
	}
}

// awaitHangup waits until both directions of the peer have ended, which the
// kernel tells apart from the end of one.
func awaitHangup(peer syscall.RawConn) {
	if err := peer.Read(func(fd uintptr) bool { return polled(int(fd), unix.POLLHUP|unix.POLLERR) }); err != nil {
		return // it is closed
	}
}
