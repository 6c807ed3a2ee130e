package linux

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sharedCandidates are files that every sandbox has, and that could be one inode.
const sharedCandidates = `/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /proc/keys /proc/interrupts /proc/diskstats
	/proc/meminfo /proc/cpuinfo /proc/stat /proc/loadavg /proc/sys/kernel/random/boot_id /proc/sys/fs/file-nr`

// watcher counts what it sees of opens, and holds locks meanwhile. It runs in a
// sandbox and on the host.
const watcher = `
import ctypes, fcntl, os, struct, sys, time
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
names, held = {}, []
for path in sys.argv[1:]:
	try:
		file = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
		fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
		held.append(file)
	except OSError:
		pass
	names[libc.inotify_add_watch(watch, path.encode(), 0x2d)] = path
print("watching", flush=True)
seen, end = {}, time.time() + 5
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

// Who opens a device or a masked file in a sandbox shares no inode with others:
// watches count nobody else's opens, and locks keep nobody waiting.
func TestEscape_SharedInodes(t *testing.T) {
	escapeTest{control: without("own-inodes"), attack: func(b *box) {
		files := strings.Join(strings.Fields(sharedCandidates), " ")
		b.sh("cat >/tmp/watcher.py <<'END'\n" + watcher + "END\n(python3 /tmp/watcher.py " + files + ` >/tmp/seen 2>&1 &)
			until grep -q . /tmp/seen; do sleep 0.1; done`)
		other, err := b.d.Open(b.t.Context(), b.target.id)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, path := range strings.Fields(files) {
			if path != "/dev/tty" && !openAndLock(path, 200) {
				b.got("the host waits for a lock on %s", path)
			}
		}
		out, _, err := run(b.t, b.dialler(other.(*sandbox)), "locks", "python3 -c '"+openMany+"' "+files, nil, longTimeout)
		if err != nil {
			b.t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			b.got("%s", line)
		}
		for line := range strings.Lines(b.sh("until grep -q ended /tmp/seen; do sleep 0.2; done; grep -v -e watching -e ended /tmp/seen")) {
			b.got("%s", line)
		}
	}}.run(t)
}

// openMany is what openAndLock does, in a sandbox.
const openMany = `
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
		print("a neighbour waits for a lock on", path)
	os.close(file)
`

// openAndLock opens a file so often, and reports whether it could lock it then. One
// that is not there or cannot be opened counts as locked.
func openAndLock(path string, times int) bool {
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
