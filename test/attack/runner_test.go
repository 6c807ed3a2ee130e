package attack

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// Section N: the runner, PID 1 of a session, from inside.

// N01: no signal reaches the runner, as root of the session or as another user.
func TestN01_SignalsToTheRunner(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	for _, who := range []string{"", "setpriv --reuid 1000 --regid 1000 --clear-groups "} {
		answers := map[string]int{}
		b.decode(who+`$PROBE kill 1`, "", &answers)
		for answer, count := range answers {
			if answer != "EPERM" {
				t.Errorf("%s%d signals: the kernel answers %q", who, count, answer)
			}
		}
	}
	b.x(`for s in $(seq 1 64); do kill -$s 1; done 2>/dev/null`)
	b.next()
	if !b.contained() { // its threads are not to be seen
		return
	}
	// One of its threads is within reach, the one that starts programs, and
	// whatever it is sent does nothing.
	answers := map[string]int{}
	b.decode(`$PROBE kill 1 threads`, "", &answers)
	if answers["ok"] == 0 || answers["EPERM"] < answers["ok"] {
		t.Errorf("the kernel's answers for the threads: %v", answers)
	}
	b.next()
}

// N02: the runner's limits, priority, processors and memory are not for the
// session to change, nor is its input.
func TestN02_TamperingWithTheRunner(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	const runner = 1
	who := ""
	if b.contained() { // root is the runner's user there, and may break its own
		who = "setpriv --reuid 1000 --regid 1000 --clear-groups "
	}
	b.deniedTo(who+"$PROBE calls",
		call{"prlimit", unix.SYS_PRLIMIT64, []any{runner, unix.RLIMIT_NOFILE, strings.Repeat("\x00", 16), 0}},
		call{"setpriority", unix.SYS_SETPRIORITY, []any{0, runner, 19}},
		call{"sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, []any{runner, 8, "\x01\x00\x00\x00\x00\x00\x00\x00"}},
		call{"sched_setscheduler", unix.SYS_SCHED_SETSCHEDULER, []any{runner, 5, "\x00\x00\x00\x00"}}, // SCHED_IDLE
		call{"ioprio_set", unix.SYS_IOPRIO_SET, []any{1, runner, 3 << 13}},
		call{"process_madvise", unix.SYS_PROCESS_MADVISE, []any{-1, 0, 0, 4, 0}},
		call{"process_mrelease", unix.SYS_PROCESS_MRELEASE, []any{-1, 0}},
	)
	b.none(`as=` + strconv.Quote(who) + `
		$as prlimit --pid 1 --nofile=0 2>/dev/null && echo limits it
		$as renice 19 1 >/dev/null 2>&1 && echo renices it
		$as taskset -p 1 1 >/dev/null 2>&1 && echo binds it
		$as chrt -i -p 0 1 2>/dev/null && echo idles it
		$as ionice -c3 -p 1 2>/dev/null && echo idles its reads
		for fd in 0 1 2 3 4 5; do ( echo x >/proc/1/fd/$fd ) 2>/dev/null && echo writes to its descriptor $fd; done`)
	b.next()
}

// N04: the daemon's way in is a socket that has no name in the session: there
// is nothing to connect to, to replace or to listen in on.
func TestN04_RunnerSocket(t *testing.T) {
	t.Parallel()
	b := attack(t)
	known := "/dev/null"
	if b.contained() { // its name is seen, and whoever knows it is hung up on
		known = "@sandkasten-runner$"
		b.none(`python3 -c '
import socket
s = socket.socket(socket.AF_UNIX)
s.connect("\0sandkasten-runner")
s.settimeout(2)
s.send(b"{\"type\":\"ping\",\"body\":{}}\n")
print("an answer:", s.recv(100) or 1/0)' 2>/dev/null`)
	}
	b.none(`find / -xdev -type s; find /dev /run /tmp /workspace -type s; ls -A /run/sandkasten 2>/dev/null
		tail -n +2 /proc/net/unix | awk '$4 == "00010000" { print "listens: " $0 }' | grep -v '` + known + `'
		python3 - <<'END'
import os, socket
# What the descriptors of any process lead to cannot be opened anew.
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: fds = os.listdir("/proc/%s/fd" % pid)
    except OSError: continue
    for fd in fds:
        path = "/proc/%s/fd/%s" % (pid, fd)
        try:
            if os.readlink(path).startswith("socket:"):
                socket.socket(socket.AF_UNIX).connect(path)
                print("connects to", path)
        except OSError: pass
# Requests that look like the daemon's, on any socket that this process has.
for fd in range(200):
    try:
        s = socket.socket(fileno=os.dup(fd))
        s.settimeout(0.2)
        s.send(b'{"type":"ping","body":{}}\n')
        print("an answer:", s.recv(100))
    except OSError: pass
END`)
	b.next()
}

// N05: there is no path of the runner's in the session whose loss it would
// notice.
func TestN05_PathsOfTheRunner(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.x(`cd /; chmod -R 000 /run /var /etc /tmp 2>/dev/null; rm -rf --no-preserve-root /run/* /run/.[!.]* /tmp/* /var/* /etc/* /dev/* 2>/dev/null
		mv /run /run2; mv /workspace /elsewhere; mv /tmp /tmp2; true`)
	b.next()
	if err := b.session.Write(t.Context(), "after", strings.NewReader("x"), nil); err != nil {
		t.Errorf("files no longer work: %v", err)
	}
	if _, err := b.session.Stat(t.Context(), "after", nil); err != nil {
		t.Errorf("files no longer work: %v", err)
	}
	// As many connections as there can be, all at once.
	b.x(`python3 -c '
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 4000)); s.listen(4096); time.sleep(30)' >/dev/null 2>&1 & for i in $(seq 200); do grep -q ':0FA0 .* 0A ' /proc/net/tcp && break; sleep 0.05; done`)
	var tunnels []*sandkasten.Tunnel
	for range 200 {
		c, err := b.session.DialPort(t.Context(), 4000)
		if err != nil {
			break
		}
		tunnels = append(tunnels, c)
	}
	b.next()
	for _, c := range tunnels {
		c.Close()
	}
	if len(tunnels) == 0 {
		t.Error("no connection could be made: nothing was tried")
	}
}

// N06: what a session names things cannot forge lines of the daemon's log, which
// has all that it can have.
func TestN06_ForgedLogLines(t *testing.T) {
	t.Parallel()
	s := stageWith(t, blackbox.Options{}, "log: {level: debug, format: text}")
	b := s.a.session(t, nil)
	const forged = "FORGED-BY-A-SESSION"
	for _, name := range []string{
		"\n{\"level\":\"error\",\"msg\":\"" + forged + "\"}", "\r\nlevel=ERROR msg=" + forged, "\x1b[31m" + forged + "\x1b[0m",
	} {
		s.a.do(t, "GET", "/v1/"+url.PathEscape(name), nil).refused(t, "a path", 404)
		b.do(t, "GET", b.file("stat", name), nil).refused(t, "a file", 404)
		b.do(t, "POST", b.at("/processes"), map[string]any{"cmd": []string{name}}).refused(t, "a program", 422)
		b.do(t, "POST", b.at("/exec"), map[string]any{"cmd": `mkdir -p "$(cat)"; cd "$(cat)"`, "stdin": name, "shell": "s"}).refused(t, "a directory", 200)
		s.a.do(t, "POST", "/v1/sessions", map[string]any{"image": name}).refused(t, "an image", 400)
	}
	told := false
	for line := range strings.Lines(s.logOf(t, s.a.do(t, "GET", "/v1/info", nil))) {
		told = told || strings.Contains(line, forged)
		if strings.Contains(line, "\x1b") || strings.HasPrefix(line, "{\"level\":\"error\",\"msg\":\""+forged) || strings.HasPrefix(line, "level=ERROR msg="+forged) {
			t.Errorf("in the log: %q", line)
		}
	}
	if !told {
		t.Error("the log has nothing of it: nothing was tried")
	}
}
