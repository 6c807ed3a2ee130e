package backlog

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestUnaccepted(t *testing.T) {
	const table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000011 00:00000000 00000000     0        0 0 1 0000000000000000 100 0 0 10 0\n" +
		"   1: 0100007F:1F90 0100007F:A001 01 00000000:00001000 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 30 10 -1\n" +
		"   2: 0100007F:1F90 0100007F:A002 08 00000000:0000F000 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 30 10 -1\n" +
		"   3: 0100007F:1F90 0100007F:A003 01 00000000:00FF0000 00:00000000 00000000     0        0 4711 1 0000000000000000 20 4 30 10 -1\n" +
		"broken\n"
	for enough, want := range map[int64]int64{1 << 30: 0x10000, 0xff: 0x1000} {
		if got, err := unaccepted(strings.NewReader(table), enough); got != want || err != nil {
			t.Errorf("until there are more than %#x: %#x bytes, %v, want %#x", enough, got, err, want)
		}
	}
}

func TestTCPMemory(t *testing.T) {
	got, err := tcpMemory([]byte("sockets: used 9\nTCP: inuse 5 orphan 0 tw 1 alloc 9 mem 25\nUDP: inuse 2 mem 99\n"))
	if want := int64(25 * os.Getpagesize()); got != want || err != nil {
		t.Errorf("%d, %v, want %d", got, err, want)
	}
	for _, text := range []string{"", "TCP: inuse 5\n", "TCP: inuse 5 mem many\n"} {
		if got, err := tcpMemory([]byte(text)); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// Whoever shares our network is not looked at, and who has ended has nothing.
func TestWaitingOfOurs(t *testing.T) {
	for _, pid := range []int{os.Getpid(), 1 << 30} {
		if got, err := waitingOf([]int{pid}); got != 0 || err != nil {
			t.Errorf("process %d: %d, %v", pid, got, err)
		}
	}
}

// A process whose first thread has ended hides nothing: its other threads are asked,
// and those who cannot tell do not stand for all.
func TestWaitingAsksThreads(t *testing.T) {
	testenv.NeedsRoot(t)
	const program = `import ctypes, os, socket, threading, time
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x40000000) == 0
os.system("ip link set lo up 2>/dev/null || ifconfig lo up")
def fill():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(8)
    c = socket.socket(); c.connect(s.getsockname()); c.sendall(b"x" * 50000)
    print("filled", flush=True)
    time.sleep(60)
threading.Thread(target=fill).start()
time.sleep(0.3)
libc.syscall(60, 0)  # exit of the first thread only
`
	cmd := exec.CommandContext(t.Context(), "python3", "-c", program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }() // by the signal
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	ended := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "ns/net")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Readlink(ended); errors.Is(err, fs.ErrNotExist) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the first thread does not end")
		}
	}
	if got, err := waitingOf([]int{1 << 30, cmd.Process.Pid}); err != nil || got < 50000 {
		t.Errorf("%d bytes wait, %v", got, err)
	}
}
