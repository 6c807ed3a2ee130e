package backlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// kernel is who is asked for the connections of network namespaces. It goes into them:
// what calls it is a thread of its own, and says so with begin.
type kernel struct {
	ours   uint64 // the namespace that the thread began in
	buffer int64  // the most bytes that wait in one connection, as the host is set
	tables bool   // it has no socket to ask, so that its tables in /proc are read
	answer []byte // reused
}

func (k *kernel) begin() error {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return &os.PathError{Op: "stat", Path: "/proc/thread-self/ns/net", Err: err}
	}
	k.ours = st.Ino
	k.buffer = largestBuffer("/proc/sys/net")
	return nil
}

// largestBuffer is how many bytes one connection can have received and keep, or 0 where
// nobody says. A new namespace has the host's bound, or a program asks for a buffer.
func largestBuffer(dir string) int64 {
	grown, err := os.ReadFile(filepath.Join(dir, "ipv4/tcp_rmem"))
	asked, askedErr := os.ReadFile(filepath.Join(dir, "core/rmem_max"))
	fields := strings.Fields(string(grown))
	if err != nil || askedErr != nil || len(fields) != 3 {
		return 0
	}
	most, err := strconv.ParseInt(fields[2], 10, 64)
	double, askedErr := strconv.ParseInt(strings.TrimSpace(string(asked)), 10, 64)
	if err != nil || askedErr != nil {
		return 0
	}
	return max(most, 2*double) // as setsockopt counts
}

// waitingOf is waitingBytes of the first process or thread that can be asked: one
// whose first thread has ended goes on without telling of its network itself.
func (k *kernel) waitingOf(quit <-chan struct{}, pids []int) (int64, error) {
	for _, pid := range pids {
		process := fmt.Sprintf("/proc/%d", pid)
		waiting, err := k.waitingBytes(quit, process)
		if !gone(err) {
			return waiting, err
		}
		threads, err := filepath.Glob(process + "/task/*")
		if err != nil {
			return 0, err
		}
		for _, dir := range threads {
			waiting, err := k.waitingBytes(quit, dir)
			if !gone(err) {
				return waiting, err
			}
		}
	}
	return 0, nil // all have ended
}

// gone reports that a process or thread has ended.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// waitingBytes is what has arrived on connections that nobody has accepted, in the
// network namespace of a process or thread, by its directory in /proc: all of it, or
// more than most. The error is gone if it has ended. Where so few connections wait that
// they cannot hold that much it is 0, and costs a tenth.
func (k *kernel) waitingBytes(quit <-chan struct{}, dir string) (int64, error) {
	four, six, err := countSockets(dir)
	if err != nil || four+six == 0 {
		return 0, err
	}
	netns, err := sys.Open(unix.AT_FDCWD, dir+"/ns/net", unix.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer sys.Close(netns)
	var st unix.Stat_t
	if err := unix.Fstat(netns, &st); err != nil || st.Ino == k.ours {
		return 0, os.NewSyscallError("fstat", err) // a sandbox without a network of its own, or another process by now
	}
	if !k.tables {
		waiting, err := k.dump(quit, netns, families(four, six))
		if !unsupported(err) {
			return waiting, err
		}
		k.tables = true
	}
	return readTables(dir)
}

// countSockets is how many sockets of TCP a network namespace has, over IPv4 and IPv6.
func countSockets(dir string) (four, six int64, err error) {
	if four, err = count(dir+"/net/sockstat", "TCP:"); err != nil {
		return 0, 0, err
	}
	six, err = count(dir+"/net/sockstat6", "TCP6:")
	if errors.Is(err, fs.ErrNotExist) { // without IPv6
		err = nil
	}
	return four, six, err
}

func count(file, protocol string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) > 2 && string(f[0]) == protocol && string(f[1]) == "inuse" {
			return strconv.ParseInt(string(f[2]), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s does not say how many sockets there are", file)
}

// families are those of TCP that have sockets.
func families(four, six int64) (all []uint8) {
	if four > 0 {
		all = append(all, unix.AF_INET)
	}
	if six > 0 {
		all = append(all, unix.AF_INET6)
	}
	return all
}

// dump asks in the network namespace, in which it leaves the calling thread. Listeners
// say at once how many connections wait for them to accept; for what those have received
// the kernel looks through the whole host's connections.
func (k *kernel) dump(quit <-chan struct{}, netns int, families []uint8) (sum int64, err error) {
	if err := sys.Setns(netns, unix.CLONE_NEWNET); err != nil {
		return 0, err
	}
	connections, err := k.ask(quit, families, 1<<stateListen)
	if err != nil || connections == 0 || k.buffer > 0 && connections <= most/k.buffer {
		return 0, err
	}
	return k.ask(quit, families, connected)
}

// ask adds up the receive queues of sockets in some states, until there is more than
// most.
func (k *kernel) ask(quit <-chan struct{}, families []uint8, states uint32) (sum int64, err error) {
	for _, family := range families {
		if sum > most {
			break
		}
		more, err := k.dumpFamily(quit, family, states, most-sum)
		if err != nil {
			return 0, err
		}
		sum += more
	}
	return sum, nil
}

// The structures of sock_diag(7).
const (
	requestSize = 56 // inet_diag_req_v2
	socketSize  = 72 // inet_diag_msg
	stateAt     = 1  // idiag_state
	queueAt     = 56 // idiag_rqueue
	inodeAt     = 68 // idiag_inode
	answerSize  = 64 << 10

	// connected are all states but those of listeners, whose queues are numbers of
	// connections, and of connections that have ended.
	connected uint32 = (1<<12 - 1) &^ (1<<stateListen | 1<<stateTimeWait)

	stateTimeWait, stateListen = 6, 10

	// answerTime is for the kernel, which has the answer when it is asked.
	answerTime = time.Second
)

// dumpFamily adds up the queues of listeners, or of connections without an inode, which
// they get when they are accepted, until there is more than enough: the kernel takes
// 0.1 s for a large table, in which a program fills 200 MiB. What it has not told by then
// ends with the socket.
func (k *kernel) dumpFamily(quit <-chan struct{}, family uint8, states uint32, enough int64) (sum int64, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer sys.Close(fd)
	patience := unix.NsecToTimeval(answerTime.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := sys.Write(fd, string(diagRequest(family, states))); err != nil {
		return 0, err
	}
	if k.answer == nil {
		k.answer = make([]byte, answerSize)
	}
	for sum <= enough {
		select {
		case <-quit:
			return sum, nil
		default:
		}
		n, err := sys.Read(fd, k.answer)
		if err != nil {
			return 0, err
		}
		waiting, done, err := addUp(k.answer[:n])
		if sum += waiting; err != nil || done {
			return sum, err
		}
	}
	return sum, nil
}

// diagRequest asks for the sockets of TCP of a family, in some states.
func diagRequest(family uint8, states uint32) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+requestSize)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b[unix.SizeofNlMsghdr], b[unix.SizeofNlMsghdr+1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(b[unix.SizeofNlMsghdr+4:], states)
	return b
}

var errMalformed = errors.New("the kernel's answer about sockets is malformed")

// addUp reads some of the messages of an answer; done is with the last.
func addUp(messages []byte) (sum int64, done bool, err error) {
	for len(messages) > 0 {
		if len(messages) < unix.SizeofNlMsghdr {
			return 0, false, errMalformed
		}
		size := int(binary.NativeEndian.Uint32(messages))
		if size < unix.SizeofNlMsghdr || size > len(messages) {
			return 0, false, errMalformed
		}
		body := messages[unix.SizeofNlMsghdr:size]
		switch binary.NativeEndian.Uint16(messages[4:]) {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			if len(body) < 4 {
				return sum, true, nil
			}
			if code := int32(binary.NativeEndian.Uint32(body)); code < 0 {
				return 0, true, os.NewSyscallError("sock_diag", unix.Errno(-code))
			}
			return sum, true, nil
		case unix.SOCK_DIAG_BY_FAMILY:
			if len(body) < socketSize {
				return 0, false, errMalformed
			}
			if body[stateAt] == stateListen || binary.NativeEndian.Uint32(body[inodeAt:]) == 0 {
				sum += int64(binary.NativeEndian.Uint32(body[queueAt:]))
			}
		}
		messages = messages[min((size+3)&^3, len(messages)):] // each is aligned to four bytes
	}
	return sum, false, nil
}

// unsupported reports that the kernel was built without what is asked, has not loaded
// it, or does not let us ask.
func unsupported(err error) bool {
	for _, errno := range []unix.Errno{unix.ENOENT, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.EOPNOTSUPP, unix.EINVAL, unix.EACCES, unix.EPERM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// readTables is dump for a kernel that cannot be asked otherwise, of a process or thread by
// its directory in /proc. Each table takes 0.6 to 7 ms: the kernel looks through the whole
// host's connections for it.
func readTables(dir string) (sum int64, err error) {
	for _, file := range []string{"/net/tcp", "/net/tcp6"} {
		waiting, err := unacceptedOf(dir+file, most-sum)
		if errors.Is(err, fs.ErrNotExist) && file == "/net/tcp6" {
			continue // without IPv6
		}
		if err != nil {
			return 0, err
		}
		sum += waiting
	}
	return sum, nil
}

// unacceptedOf is unaccepted of the table in a file.
func unacceptedOf(name string, enough int64) (int64, error) {
	table, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer table.Close()
	return unaccepted(table, enough)
}

// unaccepted is dumpFamily of a table.
func unaccepted(table io.Reader, enough int64) (sum int64, err error) {
	const state, queues, inode, listening = 3, 4, 9, "0A"
	lines := bufio.NewScanner(table)
	for sum <= enough && lines.Scan() {
		f := bytes.Fields(lines.Bytes())
		if len(f) <= inode || string(f[inode]) != "0" || string(f[state]) == listening {
			continue
		}
		_, received, _ := bytes.Cut(f[queues], []byte(":"))
		if n, err := strconv.ParseInt(string(received), 16, 64); err == nil {
			sum += n
		}
	}
	return sum, lines.Err()
}
