package stage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// A netlink socket can keep up to twice net.core.rmem_max of unread answers, 8 MiB
// on new kernels, which no control group counts. So the kernel asks the runner
// for each one that the workload wants: the runner makes it, which leaves no
// moment between counting and making, and puts it into the caller's table.
const (
	// mostNetlink is how many netlink sockets a sandbox has at a time. Programs list
	// interfaces or resolve a name with one, and close it.
	mostNetlink = 16
	// netlinkWait is how long one more waits for another to close.
	netlinkWait = 200 * time.Millisecond
	// netlinkPace is between two sockets: the runner makes them with time that the
	// sandbox's limit does not count.
	netlinkPace = 200 * time.Microsecond
)

// Of <linux/seccomp.h>.
type (
	notification struct {
		id         uint64
		pid, flags uint32
		nr         int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	notificationAnswer struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}
	givenDescriptor struct {
		id                       uint64
		flags, from, to, fdFlags uint32
	}
)

// ioctlAddFD is SECCOMP_IOCTL_NOTIF_ADDFD.
const ioctlAddFD = 0x40182103

// netlinkGate answers calls of socket for AF_NETLINK.
type netlinkGate struct {
	calls     *os.File // the seccomp listener
	protocols *os.File // /proc/net/protocols of the sandbox
	left      int      // sockets that there is room for since the last count
}

// listenNetlink loads the filter on the calling thread, from which all of the
// workload is cloned, and answers its calls for as long as the process lives.
func listenNetlink(filter []unix.SockFilter) error {
	prog := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(prog)))
	if e == unix.EINVAL { // before 5.19 a signal may interrupt the call
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
		fd, _, e = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(prog)))
	}
	if e != 0 {
		return os.NewSyscallError("seccomp listener", e)
	}
	if err := unix.SetNonblock(int(fd), true); err != nil { // else it would take a thread to wait
		return errors.Join(os.NewSyscallError("fcntl", err), os.NewSyscallError("close", unix.Close(int(fd))))
	}
	protocols, err := os.Open("/proc/self/net/protocols")
	if err != nil {
		return errors.Join(err, os.NewSyscallError("close", unix.Close(int(fd))))
	}
	g := &netlinkGate{calls: os.NewFile(fd, "seccomp listener"), protocols: protocols}
	conn, err := g.calls.SyscallConn()
	if err != nil {
		return err
	}
	// Without its listener the kernel refuses the calls.
	guard.Go(func() { g.serve(conn) }, func(error) { g.calls.Close() })
	return nil
}

// serve ends only when nothing could call any more.
func (g *netlinkGate) serve(conn syscall.RawConn) {
	_ = conn.Read(func(fd uintptr) bool { // an error says that it has been closed
		for g.waiting(int(fd)) {
			g.answer(fd)
			<-time.After(netlinkPace)
		}
		return false
	})
}

func (g *netlinkGate) waiting(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1 && poll[0].Revents&unix.POLLIN != 0
}

func (g *netlinkGate) answer(fd uintptr) {
	var call notification
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&call))); e != 0 {
		return // whoever called has ended
	}
	errno := g.give(fd, &call)
	if errno == 0 {
		return
	}
	refusal := notificationAnswer{id: call.id, errno: -int32(errno)}
	// One that has ended meanwhile needs no answer.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&refusal)))
}

// give makes the socket and has the call return it.
func (g *netlinkGate) give(fd uintptr, call *notification) unix.Errno {
	if !g.room() {
		return unix.ENOBUFS
	}
	kind := int(int32(call.args[1]))
	socket, err := unix.Socket(unix.AF_NETLINK, kind|unix.SOCK_CLOEXEC, int(int32(call.args[2])))
	if err != nil {
		errno, _ := errors.AsType[unix.Errno](err)
		return errno
	}
	defer sys.Close(socket)
	given := givenDescriptor{id: call.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, from: uint32(socket), fdFlags: uint32(kind & unix.SOCK_CLOEXEC)}
	_, _, e := unix.Syscall(unix.SYS_IOCTL, fd, ioctlAddFD, uintptr(unsafe.Pointer(&given)))
	return e
}

// room waits until there are fewer than the most.
func (g *netlinkGate) room() bool {
	if protection.Off(protection.NetlinkSockets) {
		return true
	}
	if g.left > 0 {
		g.left--
		return true
	}
	for end := time.Now().Add(netlinkWait); ; {
		n, err := g.count()
		if err != nil {
			return false
		}
		if n < mostNetlink {
			g.left = mostNetlink - n - 1 // to count costs more than a socket
			return true
		}
		if time.Now().After(end) {
			return false
		}
		<-time.After(time.Millisecond)
	}
}

// count is how many netlink sockets the sandbox has.
func (g *netlinkGate) count() (int, error) {
	text := make([]byte, 16<<10)
	n, err := g.protocols.ReadAt(text, 0)
	if n == 0 {
		return 0, err
	}
	return netlinkSockets(text[:n])
}

// netlinkSockets reads /proc/net/protocols: name, size, sockets.
func netlinkSockets(protocols []byte) (int, error) {
	for line := range bytes.Lines(protocols) {
		if f := bytes.Fields(line); len(f) > 2 && string(f[0]) == "NETLINK" {
			return strconv.Atoi(string(f[2]))
		}
	}
	return 0, fmt.Errorf("no NETLINK in %d bytes of protocols", len(protocols))
}
