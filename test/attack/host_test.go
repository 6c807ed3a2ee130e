package attack

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
	"golang.org/x/sys/unix"
)

// What sandboxes of one host could share without a mount in common: inodes, counts
// of the kernel's, and tables that are the whole host's.

// everybodys are files that every sandbox has, and that could be one inode.
const everybodys = `/dev/null /dev/zero /dev/full /dev/random /dev/urandom /proc/keys /proc/interrupts /proc/diskstats /proc/meminfo
	/proc/cpuinfo /proc/stat /proc/loadavg /proc/sys/fs/file-nr`

// watcher tells of files that others open while it runs, and locks them meanwhile.
const watcher = `
import ctypes, fcntl, os, struct, sys, time
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
names, held, seen = {}, [], {}
for path in sys.argv[1:]:
	try:
		held.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
		fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
	except OSError:
		pass
	names[libc.inotify_add_watch(watch, path.encode(), 0x2d)] = path
print("watching", flush=True)
end = time.time() + 6
while time.time() < end:
	try:
		text = os.read(watch, 65536)
	except BlockingIOError:
		time.sleep(0.01)
		continue
	while text:
		wd, mask, cookie, size = struct.unpack("iIII", text[:16])
		seen[names.get(wd, "?")] = seen.get(names.get(wd, "?"), 0) + 1
		text = text[16 + size:]
for path, times in seen.items():
	if times > 100: # more than its own sandbox's few
		print("sees opens of", path)
print("ended", flush=True)
`

// opener opens files many times, and tells which it cannot lock.
const opener = `
import fcntl, os, sys
for path in sys.argv[1:]:
	try:
		for i in range(200):
			file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
			if i < 199: os.close(file)
	except OSError:
		continue
	try:
		fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
	except BlockingIOError:
		print("cannot lock", path)
	os.close(file)
`

// P13: nobody sees others open devices and files of /proc, or keeps them waiting for
// a lock on one.
func TestP13_SharedInodes(t *testing.T) {
	b := attack(t)
	other := b.create()
	files := strings.Join(strings.Fields(everybodys), " ")
	b.upload(b.session, "watcher.py", []byte(watcher))
	b.x(`(python3 watcher.py ` + files + ` >/tmp/seen 2>&1 &); until grep -q . /tmp/seen; do sleep 0.1; done`)
	for _, path := range strings.Fields(files) {
		if !opensAndLocks(path, 200) {
			t.Errorf("the host waits for a lock on %s", path)
		}
	}
	b.upload(other, "opener.py", []byte(opener))
	r, err := other.Exec(t.Context(), `python3 opener.py `+files, &sandkasten.ExecOptions{Timeout: patience})
	if err != nil || r.Output != "" {
		t.Errorf("a neighbour: %q, %v", r.Output, err)
	}
	b.none(`until grep -q ended /tmp/seen; do sleep 0.2; done; grep -v -e watching -e ended /tmp/seen`)
}

// opensAndLocks opens a file so often, and reports whether it could lock it each time.
// One that is not there or cannot be opened counts as locked.
func opensAndLocks(path string, times int) bool {
	for range times {
		f, err := os.Open(path)
		if err != nil {
			return true
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		f.Close()
		if err != nil {
			return false
		}
	}
	return true
}

// countables prints a sum of each file of /proc that belongs to no process.
const countables = `find /proc -path '/proc/[0-9]*' -prune -o -path /proc/self -prune -o -path /proc/thread-self -prune -o -path /proc/kmsg -prune -o \
	-path /proc/kcore -prune -o -path /proc/sysvipc -prune -o -type f -perm -o=r -print 2>/dev/null |
	while read f; do echo "$f $(timeout 5 head -c 65536 $f 2>/dev/null | md5sum)"; done`

// ownCounts are files that change by what the sandbox itself does, or by time alone.
var ownCounts = []string{
	"/proc/uptime", "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/ns_last_pid", "/proc/stat", "/proc/meminfo", "/proc/loadavg",
}

// P14: what a neighbour reads and writes changes no number in /proc.
func TestP14_CountingNeighbours(t *testing.T) {
	b := attack(t)
	other := b.create()
	before := b.x(countables)
	if strings.Count(before, "\n") < 100 {
		t.Fatalf("found too few files: %q", before)
	}
	const work = `for i in 1 2 3; do dd if=/dev/zero of=x bs=1M count=8 conv=fsync status=none; cat /usr/lib/x86_64-linux-gnu/*.so* >/dev/null; done; rm x`
	if _, err := other.Exec(t.Context(), work, &sandkasten.ExecOptions{Timeout: patience}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.x(countables)) {
		file, _, _ := strings.Cut(line, " ")
		if !strings.Contains(before, line) && !slices.Contains(ownCounts, file) {
			t.Errorf("%s changes with what others do", file)
		}
	}
}

// K25: a session takes nothing of what the host has for asynchronous I/O, and tells
// nothing of the page cache.
func TestK25_HostWideTables(t *testing.T) {
	b := attack(t)
	b.needProbe()
	b.denied(
		call{"io_setup", unix.SYS_IO_SETUP, []any{65536, strings.Repeat("\x00", 8)}},
		call{"io_submit", unix.SYS_IO_SUBMIT, []any{0, 0, 0}},
		call{"mincore", unix.SYS_MINCORE, []any{0, 0, strings.Repeat("\x00", 8)}},
		call{"cachestat", unix.SYS_CACHESTAT, []any{0, strings.Repeat("\x00", 16), strings.Repeat("\x00", 64), 0}},
	)
	before, err := os.ReadFile("/proc/sys/fs/aio-nr")
	if err != nil {
		t.Fatal(err)
	}
	b.x(`python3 -c '
import ctypes, time
libc, context = ctypes.CDLL(None), ctypes.c_ulong()
for i in range(1000): context.value = 0; libc.syscall(206, 1024, ctypes.byref(context))
time.sleep(5)' & sleep 2`)
	if after, err := os.ReadFile("/proc/sys/fs/aio-nr"); err != nil || string(after) != string(before) {
		t.Errorf("fs.aio-nr was %s and is %s, %v", before, after, err)
	}
}

// R16: the host may have as many open files as its memory holds, so that a session's
// memory bounds what it takes of them, whatever the host's settings were.
func TestR16_OpenFilesOfTheHost(t *testing.T) {
	b := attack(t)
	if b.contained() {
		return // the setting is the engine's host's
	}
	const setting = "/proc/sys/fs/file-max"
	before, err := os.ReadFile(setting)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(setting, before, 0o644); err != nil {
			t.Error(err)
		}
	})
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		t.Fatal(err)
	}
	enough := uint64(host.Totalram) * uint64(host.Unit) / 128
	if err := os.WriteFile(setting, []byte(strconv.FormatUint(enough/100, 10)), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 6 { // more than are prepared
		b.create()
	}
	var now uint64
	for end := time.Now().Add(paced(5 * time.Second)); now < enough && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(setting)
		if err != nil {
			t.Fatal(err)
		}
		if now, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if now < enough {
		t.Errorf("the host may have %d open files; its memory holds %d", now, enough)
	}
}

// P15: the files that describe the machine describe the sandbox's: they have the size
// of its limits, and what a neighbour uses does not show.
func TestP15_OwnMachine(t *testing.T) {
	b := attack(t, limits(sandkasten.Limits{CPU: 0.5, MemoryMB: 128}))
	if b.contained() {
		return // they are the host's
	}
	other := b.create()
	const memory = `sed -n 's/^MemFree: *\([0-9]*\).*/\1/p' /proc/meminfo`
	const machine = `sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo; grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat; nproc`
	if got := b.x(machine); got != "131072\n1\n1\n1\n" {
		t.Errorf("of half a processor and 128 MiB it sees %q", got)
	}
	var before, after int
	if _, err := fmt.Sscan(b.x(memory), &before); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := other.Exec(t.Context(), `timeout 6 python3 -c 'held = b"x" * (100 << 20)
while True: pass'`, &sandkasten.ExecOptions{Timeout: patience})
		ended <- err
	}()
	b.x("sleep 4")
	if _, err := fmt.Sscan(b.x(memory), &after); err != nil || before-after > 40<<10 {
		t.Errorf("%d KiB were free, and %d are beside a neighbour that takes memory, %v", before, after, err)
	}
	var load float64
	if _, err := fmt.Sscan(b.x("cat /proc/loadavg"), &load); err != nil || load > 0.3 {
		t.Errorf("sees a load of %v, %v", load, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
