package attack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// Section K: what processes are, may become and can reach.

// K15: no program gains anything by its owner, its mode or its attributes.
func TestK15_SetuidPrograms(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.x(`cp $(command -v bash) /opt/s && chmod 4755 /opt/s; cp /opt/s /workspace/s && chmod 4755 /workspace/s`)
	for _, dir := range []string{"/opt", "/workspace"} {
		r, err := b.session.RunProcess(t.Context(), []string{
			dir + "/s", "-p", "-c", `grep -E '^(Uid|CapEff|CapPrm|NoNewPrivs)' /proc/self/status | tr -s '\t\n' ' '`,
		}, &sandkasten.ProcessOptions{User: "1000:1000", Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if want := "Uid: 1000 1000 1000 1000 CapPrm: 0000000000000000 CapEff: 0000000000000000 NoNewPrivs: 1 "; r.Stdout != want {
			t.Errorf("a set-uid program in %s is %q", dir, r.Stdout)
		}
	}
	b.needProbe()
	b.none(`setpriv --reuid 1000 --regid 1000 --clear-groups su -c id root </dev/null 2>/dev/null | grep uid=0 && echo su works
		setpriv --reuid 1000 --regid 1000 --clear-groups mount -t tmpfs x /mnt 2>/dev/null && echo mount works
		cp /bin/true /opt/f; python3 -c '
import os
os.setxattr("/opt/f", "security.capability", bytes.fromhex("0100000200042000000000000000000000000000"))
print("sets a capability")' 2>/dev/null`)
}

// workloadCaps is CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID, SETPCAP
// and NET_BIND_SERVICE, in figures of their own.
const workloadCaps = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<6 | 1<<7 | 1<<8 | 1<<10

// K16: every thread of a session is filtered and gains nothing, however it was
// started: by a command, a job, a program as another user, a terminal, the
// calls for files; and the runner.
func TestK16_EveryProcessIsConfined(t *testing.T) {
	b := attack(t)
	b.needProbe()
	b.x(`sleep 100 & (setsid sleep 100 &) ; $PROBE threads 3 & sleep 0.1`)
	terminal, err := b.session.OpenTerminal(t.Context(), &sandkasten.TerminalOptions{Command: []string{"sh", "-c", "echo ready; sleep 101"}})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if _, err := io.ReadAtLeast(terminal, make([]byte, 64), 5); err != nil {
		t.Fatal(err)
	}
	p, err := b.session.StartProcess(t.Context(), []string{"sleep", "102"}, &sandkasten.ProcessOptions{User: "1000:1000"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill(t.Context())
	// A watch of a directory keeps a process of the calls for files at work.
	for change, err := range b.session.Watch(t.Context(), "/workspace", nil) {
		if err != nil {
			t.Fatal(err)
		}
		if change.Op == "ready" {
			b.wantConfined()
			break
		}
	}
}

// A call for files with a user has that user's rights and no others: while it is at
// work its process is as confined as any, whoever it is asked to be. Root is the
// sandbox's root alone, and what root may not reach it does not reach, either.
func TestFilesOfAUserAreConfined(t *testing.T) {
	b := attack(t)
	b.needProbe()
	b.x("echo x >/workspace/secret && chmod 600 /workspace/secret && mkdir -p /workspace/w && chmod 755 /workspace/w")
	for _, user := range []string{"0", "0:0", "root", "1000:0", "1000:1000"} {
		files := b.session.FilesAs(user)
		_, err := files.ReadAll(t.Context(), "secret", nil)
		if strings.HasPrefix(user, "1000") != errors.Is(err, sandkasten.ErrPermissionDenied) {
			t.Errorf("user %s: %v", user, err)
		}
		for _, path := range []string{"/proc/1/mem", "/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_helper", "../etc/shadow"} {
			if err := files.Write(t.Context(), path, strings.NewReader("x"), nil); err == nil {
				t.Errorf("user %s wrote %s", user, path)
			}
		}
		for change, err := range b.session.Watch(t.Context(), "/workspace/w", &sandkasten.WatchOptions{User: user}) {
			if err != nil {
				t.Fatalf("user %s: %v", user, err)
			}
			if change.Op == "ready" {
				b.wantConfined()
				break
			}
		}
	}
}

// wantConfined looks at every thread of the session from the host.
func (b *box) wantConfined() {
	b.t.Helper()
	threads := b.threads()
	if len(threads) < 10 {
		b.t.Errorf("only %d threads were found", len(threads))
	}
	for thread, status := range threads {
		for field, want := range map[string]string{"Seccomp": "2", "NoNewPrivs": "1", "CapInh": "0000000000000000"} {
			if status[field] != want {
				b.t.Errorf("%s: %s is %s, want %s", thread, field, status[field], want)
			}
		}
		sets := []string{"CapBnd", "CapPrm", "CapEff", "CapAmb"}
		relay := b.contained() && status["Name"] == "runner" // beside it, of the same program
		if fields := strings.Fields(status["NStgid"]); fields[len(fields)-1] == "1" || relay {
			sets = sets[:1] // the runner holds more than it can ever hand on
		}
		for _, set := range sets {
			var caps uint64
			if _, err := fmt.Sscanf(status[set], "%x", &caps); err != nil || caps&^workloadCaps != 0 {
				b.t.Errorf("%s: %s is %q, %v", thread, set, status[set], err)
			}
		}
	}
}

// threads reads /proc/PID/status on the host of all threads of the session, by
// name and number.
func (b *box) threads() map[string]map[string]string {
	b.t.Helper()
	own := strings.TrimSpace(b.x(`readlink /proc/self/ns/pid`))
	tasks, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		b.t.Fatal(err)
	}
	threads := map[string]map[string]string{}
	for _, task := range tasks {
		if ns, err := os.Readlink(task + "/ns/pid"); err != nil || ns != own {
			continue
		}
		text, err := os.ReadFile(task + "/status")
		if err != nil {
			continue // it has ended
		}
		fields := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = strings.TrimSpace(value)
		}
		threads[fields["Name"]+" "+filepath.Base(task)] = fields
	}
	return threads
}

// K17: what a session does to the files of its image, through any door of the
// kernel's that has led into the page cache, is seen by nobody else: not by
// the host, in memory or on disk, nor by a neighbour of the same image.
func TestK17_PageCacheOfTheImage(t *testing.T) {
	b := attack(t)
	b.needProbe()
	const sums = `cd / && sha256sum bin/bash bin/ls bin/cat bin/su etc/passwd etc/os-release etc/shadow usr/bin/python3.* usr/bin/[a-m]*sum | sort; cd /workspace`
	theirs := func() string {
		r, err := b.neighbour.Exec(t.Context(), sums, nil)
		if err != nil || strings.Count(r.Output, "\n") < 10 {
			t.Fatalf("the neighbour's files: %q, %v", r.Output, err)
		}
		return r.Output
	}
	before, disk := theirs(), b.imageSums()

	b.none(`python3 -c '
import os, socket, ctypes
def attempt(name, f):
    try: f(); print(name)
    except OSError: pass
def alg():
    s = socket.socket(38, socket.SOCK_SEQPACKET, 0); s.bind(("aead", "authencesn(hmac(sha256),cbc(aes))"))
def ulp():
    s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, 31, b"tls")
def encap():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.IPPROTO_UDP, 100, 2)
def espintcp():
    s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, 31, b"espintcp")
def splice():
    r, w = os.pipe(); os.splice(os.open("/bin/su", os.O_RDONLY), w, 64) if hasattr(os, "splice") else None
    libc = ctypes.CDLL(None, use_errno=True)
    n = libc.splice(os.open("/bin/su", os.O_RDONLY), None, w, None, 64, 0)
    if n < 0: raise OSError(ctypes.get_errno())
attempt("AF_ALG", alg); attempt("TLS below TCP", ulp); attempt("UDP encapsulation", encap)
attempt("espintcp", espintcp); attempt("splice", splice)
for family in (21, 33, 15, 30, 44): attempt("family %d" % family, lambda: socket.socket(family, socket.SOCK_DGRAM, 0))
attempt("xfrm", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 6))
'`)
	b.x(`for f in /bin/bash /bin/ls /etc/passwd /etc/os-release /usr/bin/python3.*; do
			exec 5<$f; python3 -c 'import mmap; m = mmap.mmap(5, 4096, mmap.MAP_SHARED, mmap.PROT_WRITE); m[0:4] = b"xxxx"'
			echo x >>$f; dd if=/dev/zero of=$f conv=notrunc bs=4k count=1; truncate -s 0 $f; done 2>/dev/null
		rm -rf --no-preserve-root /usr/lib/python3 /etc/passwd; chmod -R 777 /etc`)

	if after := theirs(); after != before {
		t.Errorf("the neighbour saw\n%sand now sees\n%s", before, after)
	}
	if after := b.imageSums(); after != disk {
		t.Errorf("the image was\n%sand is now\n%s", disk, after)
	}
}

// imageSums reads files of the image on the host, past the page cache and
// through it.
func (b *box) imageSums() string {
	b.t.Helper()
	const script = `for f in $(find -L "$1" -path '*/bin/ls' -o -path '*/bin/bash' -o -path '*/bin/su' -o -path '*/etc/passwd' -o -path '*/etc/os-release' | sort); do
		dd if=$f iflag=direct bs=64k status=none | sha256sum; sha256sum $f; stat -c '%a %u %s' $f; done`
	cmd := b.daemon.Command()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script, "sh", filepath.Join(b.daemon.Data, "images")}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "\n") < 15 {
		b.t.Fatalf("the image's files: %v: %s", err, out)
	}
	return string(out)
}

// K18: IPC objects, abstract sockets and shared memory of others are not there.
func TestK18_ObjectsOfOthers(t *testing.T) {
	t.Parallel()
	b := attack(t)
	const name = "sk-object-of-the-neighbour"
	r, err := b.neighbour.Exec(t.Context(), `touch /dev/shm/`+name+`; ipcmk -M 4096 -S 1 -Q >/dev/null
		python3 -c 'import socket, time; s = socket.socket(socket.AF_UNIX); s.bind("\0`+name+`"); s.listen(); print("ready", flush=True); time.sleep(60)' >/tmp/ready &
		until grep -q ready /tmp/ready 2>/dev/null; do sleep 0.05; done; ipcs | grep -c 0x`, nil)
	if err != nil || r.Output != "3\n" {
		t.Fatalf("the neighbour's objects: %q, %v", r.Output, err)
	}
	defer b.neighbour.Exec(t.Context(), `kill %1; rm /dev/shm/* /tmp/ready; ipcrm -a`, nil)
	b.none(`ls /dev/shm | grep -F ` + name + `
		ipcs | grep 0x
		ls /dev/mqueue 2>/dev/null
		grep -aF -e ` + name + ` -e ` + b.canaries.Abstract + ` /proc/net/unix
		python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("\0` + name + `"); print("connects")' 2>/dev/null`)
}

// K19: no namespace is shared with the host or a neighbour.
func TestK19_NamespacesAreOwn(t *testing.T) {
	t.Parallel()
	b := attack(t)
	const look = `for n in cgroup ipc mnt net pid user uts; do readlink /proc/self/ns/$n; done`
	own := strings.Fields(b.x(look))
	if len(own) != 7 {
		t.Fatalf("namespaces: %q", own)
	}
	r, err := b.neighbour.Exec(t.Context(), look, nil)
	if err != nil {
		t.Fatal(err)
	}
	others := strings.Fields(r.Output)
	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		link, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, link)
	}
	for _, ns := range own {
		if b.contained() && strings.HasPrefix(ns, "user:") {
			continue // the engine's, which has one for all or none
		}
		if slices.Contains(others, ns) {
			t.Errorf("shares %s", ns)
		}
	}
}

// K20: who kills all that it can ends the session's own processes, and the
// session goes on.
func TestK20_KillEverything(t *testing.T) {
	t.Parallel()
	b := attack(t)
	r, err := b.neighbour.Exec(t.Context(), `sleep 333 & echo $!`, nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.TrimSpace(r.Output)
	b.none(`kill -9 -- -` + theirs + ` 2>/dev/null && [ ! -e /proc/` + theirs + ` ] && echo kills the group of a process that is not there`)
	if out := b.x(`sleep 1000 & setsid sleep 1000 & python3 -c 'import os; os.kill(-1, 9)'; echo survived`); strings.Contains(out, "survived") {
		t.Errorf("not all was killed: %q", out)
	}
	b.next()
	const sleepers = `ps -eo comm= | grep sleep`
	for end := time.Now().Add(paced(5 * time.Second)); b.x(sleepers) != "" && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // what was killed is reaped one by one
	}
	b.none(sleepers)
	if r, err := b.neighbour.Exec(t.Context(), `kill -0 `+theirs+` && echo lives; kill `+theirs, nil); err != nil || !strings.HasPrefix(r.Output, "lives") {
		t.Errorf("the neighbour's process: %q, %v", r.Output, err)
	}
}

// K21: no crash in a session has the host's core_pattern helper run, which
// would be as root and outside of every namespace.
func TestK21_CoreDumps(t *testing.T) {
	b := attack(t)
	helper := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(helper, []byte("#!/bin/sh\n[ $1 = attack21 ] && echo $2 >>"+helper+".ran\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const setting = "/proc/sys/kernel/core_pattern"
	old, err := os.ReadFile(setting)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(setting, []byte("|"+helper+" %e %u"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.WriteFile(setting, old, 0)
	for _, limit := range []string{"1", "unlimited", "100", "0"} {
		b.x(`ulimit -c ` + limit + `
			sh -c 'echo attack21 >/proc/self/comm; kill -SEGV $$'
			python3 -c 'import os; open("/proc/self/comm", "w").write("attack21"); os.abort()'`)
	}
	time.Sleep(500 * time.Millisecond) // the kernel does not wait for the helper
	if text, err := os.ReadFile(helper + ".ran"); err == nil {
		t.Errorf("the helper ran for %s", text)
	}
	b.next()
}

// K23: a process cannot protect itself from running out of memory, nor change
// which ids it has.
func TestK23_OwnProcess(t *testing.T) {
	t.Parallel()
	b := attack(t)
	ids := `setpriv --reuid 65535 true 2>/dev/null && echo becomes the id of the runner`
	if b.contained() {
		ids = "" // which is root there
	}
	b.none(`( echo -1000 >/proc/self/oom_score_adj ) 2>/dev/null && echo protects itself
		( echo '0 0 1' >/proc/self/uid_map ) 2>/dev/null && echo maps ids
		( echo allow >/proc/self/setgroups ) 2>/dev/null && echo sets groups
		for f in current exec fscreate sockcreate keycreate; do ( echo x >/proc/self/attr/$f ) 2>/dev/null && echo sets $f; done
		` + ids)
}

// K24: limits and priorities cannot be raised.
func TestK24_RaisingLimits(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.none(`( prlimit --pid $BASHPID --nofile=2000000:2000000 ) 2>/dev/null && echo raises open files
		( ulimit -Hn 2000000 ) 2>/dev/null && echo raises open files
		( ulimit -c 100; ulimit -Sc 0; [ $(prlimit --core --noheadings --raw -o SOFT) = 1 ] ) 2>/dev/null || echo changes the size of cores
		[ $(nice -n -5 nice 2>/dev/null) -lt 0 ] && echo raises its priority
		chrt -f 99 true 2>/dev/null && echo runs in real time
		ionice -c1 true 2>/dev/null && echo reads in real time
		python3 -c '
import ctypes, mmap
m = mmap.mmap(-1, 128 << 20)
libc = ctypes.CDLL(None, use_errno=True)
if libc.mlock(ctypes.byref(ctypes.c_char.from_buffer(m)), ctypes.c_size_t(128 << 20)) == 0: print("locks 128 MiB")'`)
}
