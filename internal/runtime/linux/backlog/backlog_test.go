package backlog

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
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

func TestLargestBuffer(t *testing.T) {
	for name, tc := range map[string]struct {
		grown, asked string
		want         int64
	}{
		"grown":     {"4096\t131072\t6291456\n", "212992\n", 6291456},
		"asked for": {"4096 131072 6291456", "4194304", 8388608},
		"unknown":   {"4096", "212992", 0},
		"no number": {"4096 131072 much", "212992", 0},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"ipv4/tcp_rmem": tc.grown, "core/rmem_max": tc.asked} {
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755), os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if got := largestBuffer(dir); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	if got := largestBuffer(t.TempDir()); got != 0 {
		t.Errorf("where nobody says: %d", got)
	}
}

func TestAnswersThatAreCutOff(t *testing.T) {
	whole := diagRequest(unix.AF_INET, connected)
	for name, messages := range map[string][]byte{
		"a header":          whole[:8],
		"a message":         whole[:40],
		"a short socket":    whole, // a request is shorter than an answer
		"a size of nothing": make([]byte, 32),
	} {
		if sum, done, err := addUp(messages); err == nil || sum != 0 || done {
			t.Errorf("%s: %d, %v, %v", name, sum, done, err)
		}
	}
}

// asking calls do where a Watcher asks: on a thread that ends.
func asking(t *testing.T, k *kernel, do func() (int64, error)) (waiting int64, err error) {
	t.Helper()
	done := make(chan struct{})
	go sys.OnOtherThread(func() {
		defer close(done)
		if err = k.begin(); err == nil {
			waiting, err = do()
		}
	})
	<-done
	return waiting, err
}

// manners are the two ways to ask, both of all namespaces that have a socket at all.
func manners(t *testing.T, test func(t *testing.T, waitingOf func(pids ...int) (int64, error))) {
	t.Helper()
	for name, tables := range map[string]bool{"by a socket": false, "by tables": true} {
		t.Run(name, func(t *testing.T) {
			k := &kernel{tables: tables}
			test(t, func(pids ...int) (int64, error) {
				return asking(t, k, func() (int64, error) {
					k.buffer = 1 << 40
					return k.waitingOf(nil, pids)
				})
			})
			if k.tables != tables {
				t.Error("this kernel has no socket that can be asked (CONFIG_INET_DIAG)")
			}
		})
	}
}

// Whoever shares our network is not looked at, and who has ended has nothing.
func TestWaitingOfOurs(t *testing.T) {
	manners(t, func(t *testing.T, waitingOf func(...int) (int64, error)) {
		for _, pid := range []int{os.Getpid(), 1 << 30} {
			if got, err := waitingOf(pid); got != 0 || err != nil {
				t.Errorf("process %d: %d, %v", pid, got, err)
			}
		}
	})
}

// python runs a program in a network of its own, where lo is up, and returns when it
// has printed a line.
func python(t *testing.T, program string) (pid int, ended <-chan struct{}) {
	t.Helper()
	testenv.NeedsRoot(t)
	const prologue = `import ctypes, os, socket, threading, time
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x40000000) == 0
os.system("ip link set lo up 2>/dev/null || ifconfig lo up")
`
	cmd := exec.CommandContext(t.Context(), "python3", "-c", prologue+program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	over := make(chan struct{})
	go func() { _ = cmd.Wait(); close(over) }() // by the signal
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-over
	})
	return cmd.Process.Pid, over
}

// What was accepted and what waits for its sender does not count, whatever the family.
func TestWaitingIsWhatNobodyAccepted(t *testing.T) {
	pid, _ := python(t, `
kept = []
for family, host in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
    s = socket.socket(family); s.bind((host, 0)); s.listen(8)
    for accept in True, False, False:
        c = socket.socket(family); c.connect(s.getsockname()); c.sendall(b"x" * 50000)
        kept += [c, s, accept and s.accept()]
    c.close()
print("filled", flush=True)
time.sleep(60)
`)
	manners(t, func(t *testing.T, waitingOf func(...int) (int64, error)) {
		const ends = 2 // each counts as a byte
		if got, err := waitingOf(pid); got != 4*50000+ends || err != nil {
			t.Errorf("%d bytes wait, %v", got, err)
		}
	})
}

// A process whose first thread has ended hides nothing: its other threads are asked,
// and those who cannot tell do not stand for all.
func TestWaitingAsksThreads(t *testing.T) {
	pid, _ := python(t, `
def fill():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(8)
    c = socket.socket(); c.connect(s.getsockname()); c.sendall(b"x" * 50000)
    print("filled", flush=True)
    time.sleep(60)
threading.Thread(target=fill).start()
time.sleep(0.3)
libc.syscall(60, 0)  # exit of the first thread only
`)
	testenv.Eventually(t, "the first thread has ended", func() bool {
		_, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
		return errors.Is(err, fs.ErrNotExist)
	})
	manners(t, func(t *testing.T, waitingOf func(...int) (int64, error)) {
		if got, err := waitingOf(1<<30, pid); err != nil || got < 50000 {
			t.Errorf("%d bytes wait, %v", got, err)
		}
	})
}

// watch returns a Watcher over a tree of plain files in the place of cgroup v2, where
// each sandbox has one process.
func watch(t *testing.T, sandboxes map[string]int) *Watcher {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", "sandkasten", "sandkasten/node"} {
		write(filepath.Join(name, "cgroup.subtree_control"), "cpu memory pids")
	}
	write("sandkasten/node/cgroup.procs", "")
	for id, pid := range sandboxes {
		write(filepath.Join("sandkasten/node", id, "cgroup.procs"), strconv.Itoa(pid))
		write(filepath.Join("sandkasten/node", id, "cgroup.freeze"), "0")
	}
	groups, err := cgroup.New("1 1 0:1 / "+dir+" rw - cgroup2 cgroup2 rw\n", "sandkasten/node")
	if err != nil {
		t.Fatal(err)
	}
	w := New(groups, slog.New(slog.DiscardHandler))
	ids, err := groups.List()
	if err != nil {
		t.Fatal(err)
	}
	w.round = &round{left: ids}
	return w
}

// Who has too much in connections that nobody accepts is ended, and nobody else.
func TestWhoFillsTheBacklogIsEnded(t *testing.T) {
	const fill = `
kept = []
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(4096)
for _ in range(CONNECTIONS):
    c = socket.socket(); c.connect(s.getsockname()); c.setblocking(False); c.send(b"x" * 65536); kept.append(c)
print("filled", flush=True)
time.sleep(60)
`
	full, fullEnded := python(t, strings.Replace(fill, "CONNECTIONS", "900", 1))
	some, someEnded := python(t, strings.Replace(fill, "CONNECTIONS", "40", 1))
	w := watch(t, map[string]int{"full": full, "some": some})
	if err := w.ask(nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-fullEnded:
	case <-time.After(10 * time.Second):
		t.Error("it goes on")
	}
	select {
	case <-someEnded:
		t.Error("a sandbox within its bound was ended")
	default:
	}
}

// namespaces starts processes that each have a network and some listeners.
func namespaces(t testing.TB, n, listeners int) []int {
	t.Helper()
	testenv.NeedsRoot(t)
	const program = `import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
n, listeners = int(sys.argv[1]), int(sys.argv[2])
ours = os.open("/proc/self/ns/net", os.O_RDONLY)
for _ in range(n):
    kept = []
    assert libc.unshare(0x40000000) == 0
    for _ in range(listeners):
        s = socket.socket(); s.bind(("0.0.0.0", 0)); s.listen(8); kept.append(s)
    pid = os.fork()
    if pid == 0:
        sys.stdin.read()
        os._exit(0)
    print(pid, flush=True)
    [s.close() for s in kept]
print("done", flush=True)
sys.stdin.read()
while True:
    try: os.wait()
    except ChildProcessError: break
`
	cmd := exec.CommandContext(t.Context(), "python3", "-c", program, strconv.Itoa(n), strconv.Itoa(listeners))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil && !errors.Is(err, context.Canceled) && cmd.ProcessState == nil {
			t.Error(err)
		}
	})
	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "done"; {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != n {
		t.Fatalf("%d of %d namespaces", len(pids), n)
	}
	return pids
}

// roundOver is what a turn over the namespaces takes of a processor.
func roundOver(t testing.TB, k *kernel, pids []int) time.Duration {
	t.Helper()
	var took time.Duration
	done := make(chan error)
	go sys.OnOtherThread(func() {
		err := k.begin()
		var before, after unix.Rusage
		err = errors.Join(err, unix.Getrusage(unix.RUSAGE_THREAD, &before))
		for _, pid := range pids {
			_, asked := k.waitingOf(nil, []int{pid})
			err = errors.Join(err, asked)
		}
		err = errors.Join(err, unix.Getrusage(unix.RUSAGE_THREAD, &after))
		took = time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
		done <- err
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return took
}

// A round over 2,000 sandboxes takes what a round over some takes, so many times. Read
// from tables it took 13 ms each, on a host with a large table of connections.
func TestARoundIsCheap(t *testing.T) {
	const some, perSandbox = 40, 2 * time.Millisecond
	networked, alone := namespaces(t, some, 2), namespaces(t, some, 0)
	var k kernel
	roundOver(t, &k, networked) // which loads what is asked
	byTables, bySocket, byCount := time.Hour, time.Hour, time.Hour
	for range 3 {
		byTables = min(byTables, roundOver(t, &kernel{tables: true}, networked))
		bySocket = min(bySocket, roundOver(t, &k, networked))
		byCount = min(byCount, roundOver(t, &k, alone))
	}
	t.Logf("of one sandbox: %v by its tables, %v by a socket, %v without sockets", byTables/some, bySocket/some, byCount/some)
	if k.tables {
		t.Fatal("this kernel has no socket that can be asked (CONFIG_INET_DIAG)")
	}
	if bySocket > some*perSandbox {
		t.Errorf("%v for %d sandboxes", bySocket, some)
	}
	if large := byTables > some*500*time.Microsecond; large && bySocket > byTables/3 {
		t.Errorf("%v for %d sandboxes, and %v by tables", bySocket, some, byTables)
	}
}

// BenchmarkRound is a round over sandboxes that have two listeners each, as those with
// a network have, and over some that have no sockets.
func BenchmarkRound(b *testing.B) {
	for name, listeners := range map[string]int{"networked": 2, "alone": 0} {
		pids := namespaces(b, 40, listeners)
		for manner, k := range map[string]*kernel{"socket": {}, "tables": {tables: true}} {
			b.Run(name+"/"+manner, func(b *testing.B) {
				var total time.Duration
				for b.Loop() {
					total += roundOver(b, k, pids)
				}
				b.ReportMetric(float64(total.Microseconds())/float64(b.N*len(pids)), "cpu-us/sandbox")
			})
		}
	}
}

// many are sandboxes enough for a round that takes seconds by tables.
func many(t *testing.T) map[string]int {
	t.Helper()
	pids := namespaces(t, 1, 2)
	all := map[string]int{}
	for i := range 3000 {
		all[strconv.Itoa(i)] = pids[0]
	}
	return all
}

// A stop does not wait for a round.
func TestARoundEndsWithTheWatch(t *testing.T) {
	w := watch(t, many(t))
	quit := make(chan struct{})
	close(quit)
	before := len(w.round.left)
	if err := w.ask(quit); err != nil || len(w.round.left) != before {
		t.Errorf("asked %d after the end, %v", before-len(w.round.left), err)
	}
}

// A round pauses after a turn, and goes on with those that have not been asked.
func TestARoundIsTakenInTurns(t *testing.T) {
	w := watch(t, many(t))
	w.kernel.tables = true // the slow way
	turns, left := 0, len(w.round.left)
	for ; len(w.round.left) > 0 && turns < 3; turns++ {
		began := time.Now()
		if err := w.ask(nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 20*turn {
			t.Errorf("a turn took %v", took)
		}
		if len(w.round.left) >= left {
			t.Fatal("a turn asked nobody")
		}
		left = len(w.round.left)
	}
	if turns < 2 {
		t.Error("all were asked in one turn")
	}
}
