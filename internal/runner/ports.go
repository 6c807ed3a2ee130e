package runner

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of ports.
const (
	maxDials    = maxConns / 2    // connections to ports at once: the rest is for everything else
	dialTime    = 5 * time.Second // for a connection inside one machine, whose backlog may be full
	maxPorts    = 1024            // listed
	maxSockets  = 4 << 20         // bytes read of a socket table
	spliceBytes = 32 << 10        // at once, in each direction
)

// ports answers with what is listened on in the sandbox's network namespace.
// The runner itself listens on no port.
func (c *conn) ports() error {
	var list protocol.PortList
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(c.r.opts.Proc + "/net/" + table)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return protocol.Refuse(protocol.CodeUnavailable, "the sandbox's ports cannot be listed (%v)", err)
		}
		list.Ports = append(list.Ports, listening(io.LimitReader(f, maxSockets))...)
		if err := f.Close(); err != nil {
			return err
		}
	}
	slices.SortFunc(list.Ports, func(a, b protocol.Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Address, b.Address))
	})
	list.Ports = slices.Compact(list.Ports) // several sockets may share a port
	list.Ports = list.Ports[:min(len(list.Ports), maxPorts)]
	return c.out.Send(protocol.TypePortList, list, nil)
}

// listening reads a socket table of procfs and returns what is in state
// LISTEN. It passes over lines that it does not understand.
func listening(table io.Reader) []protocol.Port {
	const listen = "0A"
	var found []protocol.Port
	for lines := bufio.NewScanner(table); lines.Scan(); {
		f := bytes.Fields(lines.Bytes())
		if len(f) < 4 || string(f[3]) != listen {
			continue
		}
		address, port, ok := parseSocket(string(f[1]))
		if ok {
			found = append(found, protocol.Port{Port: port, Address: address.String(), Loopback: address.IsLoopback()})
		}
	}
	return found
}

// parseSocket reads "0100007F:0BB8": the address as words in the machine's
// order, the port as a number.
func parseSocket(s string) (address netip.Addr, port int, ok bool) {
	host, number, _ := bytes.Cut([]byte(s), []byte(":"))
	raw, err := hex.DecodeString(string(host))
	if err != nil || len(raw)%4 != 0 {
		return address, 0, false
	}
	for word := raw; len(word) > 0; word = word[4:] {
		binary.BigEndian.PutUint32(word, binary.NativeEndian.Uint32(word))
	}
	address, ok = netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(string(number), 16, 16)
	return address.Unmap(), int(n), ok && err == nil && n > 0
}

// dial connects to a port of the sandbox's loopback. The daemon's connection
// then carries that one's bytes, to its end.
func (c *conn) dial(req protocol.Dial, _ int64) error {
	if req.Port < 1 || req.Port > 65535 {
		return protocol.Refuse(protocol.CodeInvalid, "port must be between 1 and 65535")
	}
	if c.r.dials.Add(1) > maxDials {
		c.r.dials.Add(-1)
		return protocol.Refuse(protocol.CodeExhausted, "the sandbox has %d connections to its ports, which is the limit; close some", maxDials)
	}
	defer c.r.dials.Add(-1)
	port, err := connect(req.Port)
	if err != nil {
		return err
	}
	defer port.file.Close()
	if err := c.out.Send(protocol.TypeOK, nil, nil); err != nil {
		return err
	}
	if err := c.file.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	c.splice(port)
	return errBroken // what is left of the connection is no protocol of ours
}

// socket is a connection to a port. The file owns the descriptor.
type socket struct {
	fd   int
	file *os.File
}

// connect tries both loopback addresses.
func connect(port int) (socket, error) {
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
		return s, protocol.Refuse(protocol.CodeNotFound, "nothing listens on port %d in the sandbox; start the server there, on 127.0.0.1 or 0.0.0.0", port)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return s, protocol.Refuse(protocol.CodeUnavailable, "the server on port %d in the sandbox does not accept connections", port)
	default:
		return s, protocol.Refuse(protocol.CodeUnavailable, "port %d in the sandbox cannot be reached (%v)", port, err)
	}
}

// connectTo waits at most dialTime. Package net would do it too, and make the
// runner a third larger.
func connectTo(family int, address unix.Sockaddr) (socket, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return socket{}, os.NewSyscallError("socket", err)
	}
	err = unix.Connect(fd, address)
	s := socket{fd: fd, file: os.NewFile(uintptr(fd), "port")}
	if err == unix.EINPROGRESS || err == unix.EINTR {
		err = s.connected()
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err != nil {
		return socket{}, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// connected waits for the end of a connect that has begun.
func (s socket) connected() error {
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

// polled reports whether one of events is there now.
func polled(fd int, events int16) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&events != 0
}

// splice passes bytes on in both directions, and the end of each by itself,
// until both have ended or the daemon is gone.
func (c *conn) splice(port socket) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if writeErr := pass(port.file, c.in.Rest()); writeErr != nil {
			return // the server takes no more: what it has sent ends the other direction
		}
		shut(port.fd, unix.SHUT_WR)
		c.awaitHangup()
		shut(port.fd, unix.SHUT_RDWR)
	})
	wg.Go(func() {
		if pass(c.file, port.file) != nil {
			shut(c.fd, unix.SHUT_RDWR)
			return
		}
		shut(c.fd, unix.SHUT_WR)
	})
	wg.Wait()
}

// pass copies until src ends, for whatever reason, or dst fails, and returns
// only the latter's error.
func pass(dst io.Writer, src io.Reader) error {
	buf := make([]byte, spliceBytes)
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

// awaitHangup waits until both directions of the daemon's connection have
// ended: the kernel tells that apart from the end of one.
func (c *conn) awaitHangup() {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return
	}
	if err := raw.Read(func(fd uintptr) bool { return polled(int(fd), unix.POLLHUP|unix.POLLERR) }); err != nil {
		return // closed
	}
}
