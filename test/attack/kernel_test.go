package attack

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// Section K: the kernel's surface, as far as system calls go.

// K01: nothing in a session can mount, remount or unmount, and its root stays
// as it is.
func TestK01_MountAndRemount(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	const root = `grep ' / / ' /proc/self/mountinfo`
	before := b.x(root)
	b.none(`mount -t tmpfs x /mnt 2>/dev/null && echo mounts
		mount -o remount,rw / 2>/dev/null && echo remounts the root
		mount --bind /proc /mnt 2>/dev/null && echo binds
		umount /proc 2>/dev/null && echo unmounts /proc
		umount -l /dev/shm 2>/dev/null && echo unmounts /dev/shm`)
	b.denied(
		call{"mount", unix.SYS_MOUNT, []any{"x", "/mnt", "tmpfs", 0, 0}},
		call{"bind", unix.SYS_MOUNT, []any{"/proc", "/mnt", 0, unix.MS_BIND | unix.MS_REC, 0}},
		call{"remount", unix.SYS_MOUNT, []any{"x", "/", 0, unix.MS_REMOUNT, 0}},
		call{"remount of a mask", unix.SYS_MOUNT, []any{"x", "/proc/sys", 0, unix.MS_REMOUNT | unix.MS_BIND, 0}},
		call{"umount", unix.SYS_UMOUNT2, []any{"/proc/sys", unix.MNT_DETACH}},
		call{"pivot_root", unix.SYS_PIVOT_ROOT, []any{"/", "/"}},
		call{"chroot", unix.SYS_CHROOT, []any{"/mnt"}},
	)
	if after := b.x(root); after != before || before == "" {
		t.Errorf("the root was %q and is %q", before, after)
	}
}

// K26: mounting, which most ways out begin with, is refused by each of three
// protections, of which the control takes away the other two.
func TestK26_MountsByEachLayer(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	b.denied(
		call{"mount", unix.SYS_MOUNT, []any{"x", "/mnt", "tmpfs", 0, 0}},
		call{"umount", unix.SYS_UMOUNT2, []any{"/dev/shm", unix.MNT_DETACH}},
	)
}

// namespaces are the flags that clone, unshare and setns know.
var namespaces = map[string]int{
	"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID,
	"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
}

// K02: no namespace can be made or joined.
func TestK02_UnshareAndSetns(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.none(`for n in -Ur -m -n -p -C -i -u -T; do unshare $n true 2>/dev/null && echo unshare $n; done
		nsenter -t 1 -m true 2>/dev/null && echo nsenter
		python3 -c '
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name in os.listdir("/proc/self/ns"):
    fd = os.open("/proc/self/ns/" + name, os.O_RDONLY)
    if libc.setns(fd, 0) == 0: print("setns", name)
'`)
	b.needProbe()
	var list []call
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		flag := namespaces[name]
		list = append(list,
			call{"unshare " + name, unix.SYS_UNSHARE, []any{flag}},
			call{"unshare with more bits " + name, unix.SYS_UNSHARE, []any{1<<32 | flag}},
			call{"setns " + name, unix.SYS_SETNS, []any{-1, flag}})
	}
	b.denied(list...)
}

// K03: no child begins in a namespace of its own, and threads and children of
// ordinary programs work.
func TestK03_CloneFlags(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	// With CLONE_THREAD alone no child appears, even if the call is let through.
	list := []call{{"clone3", unix.SYS_CLONE3, []any{"\x00\x00\x01\x10" + strings.Repeat("\x00", 84), 88}}}
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		flag := namespaces[name] | unix.CLONE_THREAD
		list = append(list,
			call{"clone " + name, unix.SYS_CLONE, []any{flag, 0, 0, 0, 0}},
			call{"clone with more bits " + name, unix.SYS_CLONE, []any{1<<32 | flag, 0, 0, 0, 0}})
	}
	b.denied(list...)
	out := b.x(`$PROBE threads 20; python3 -c '
import os, threading
t = [threading.Thread(target=lambda: None) for _ in range(20)]
[x.start() for x in t]; [x.join() for x in t]
os.waitpid(os.fork() or os._exit(0), 0)' && echo forked`)
	if out != "made 20\nforked\n" {
		t.Errorf("threads and children no longer work: %q", out)
	}
}

// K04: the newer calls for mounts are as closed as the old one.
func TestK04_NewMountCalls(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	b.denied(
		call{"fsopen", unix.SYS_FSOPEN, []any{"tmpfs", 0}},
		call{"fsconfig", unix.SYS_FSCONFIG, []any{-1, 6, 0, 0, 0}},
		call{"fsmount", unix.SYS_FSMOUNT, []any{-1, 0, 0}},
		call{"fspick", unix.SYS_FSPICK, []any{unix.AT_FDCWD, "/", 0}},
		call{"open_tree", unix.SYS_OPEN_TREE, []any{unix.AT_FDCWD, "/proc", unix.OPEN_TREE_CLONE}},
		call{"open_tree_attr", unix.SYS_OPEN_TREE_ATTR, []any{unix.AT_FDCWD, "/proc", unix.OPEN_TREE_CLONE, 0, 0}},
		call{"move_mount", unix.SYS_MOVE_MOUNT, []any{-1, "", -1, "", 4}},
		call{"mount_setattr", unix.SYS_MOUNT_SETATTR, []any{unix.AT_FDCWD, "/", 0, strings.Repeat("\x00", 32), 32}},
	)
}

// K05: the kernel's programmable and shared parts are out of reach.
func TestK05_ProgramsAndKeyrings(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	b.denied(
		call{"bpf", unix.SYS_BPF, []any{0, strings.Repeat("\x00", 64), 64}},
		call{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, []any{strings.Repeat("\x00", 128), 0, -1, -1, 0}},
		call{"userfaultfd", unix.SYS_USERFAULTFD, []any{1}},
		call{"keyctl", unix.SYS_KEYCTL, []any{0, -3, 1}},
		call{"add_key", unix.SYS_ADD_KEY, []any{"user", "x", "y", 1, -3}},
		call{"request_key", unix.SYS_REQUEST_KEY, []any{"user", "x", 0, -3}},
	)
	b.none(`[ -e /dev/userfaultfd ] && echo there is /dev/userfaultfd`)
}

// K06: io_uring is closed, and what has it as an option works without.
func TestK06_IOUring(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	b.denied(
		call{"io_uring_setup", unix.SYS_IO_URING_SETUP, []any{8, strings.Repeat("\x00", 120)}},
		call{"io_uring_enter", unix.SYS_IO_URING_ENTER, []any{-1, 1, 0, 0}},
		call{"io_uring_register", unix.SYS_IO_URING_REGISTER, []any{-1, 0}},
	)
	out := b.x(`python3 -c '
import asyncio
async def main():
    p = await asyncio.create_subprocess_exec("echo", "works", stdout=asyncio.subprocess.PIPE)
    print((await p.communicate())[0].decode(), end="")
asyncio.run(main())'`)
	if out != "works\n" {
		t.Errorf("asyncio no longer works: %q", out)
	}
}

// K07: of all families, types and protocols, UNIX, TCP, UDP and route netlink
// sockets can be made.
func TestK07_SocketSweep(t *testing.T) {
	t.Parallel()
	b := attack(t)
	allowed := func(domain, kind, protocol int) bool {
		switch domain {
		case unix.AF_UNIX:
			return kind == unix.SOCK_STREAM || kind == unix.SOCK_DGRAM || kind == unix.SOCK_SEQPACKET
		case unix.AF_INET, unix.AF_INET6:
			return kind == unix.SOCK_STREAM && (protocol == 0 || protocol == unix.IPPROTO_TCP) ||
				kind == unix.SOCK_DGRAM && (protocol == 0 || protocol == unix.IPPROTO_UDP)
		case unix.AF_NETLINK:
			return protocol == unix.NETLINK_ROUTE && (kind == unix.SOCK_DGRAM || kind == unix.SOCK_RAW)
		}
		return false
	}
	open := map[string]bool{}
	b.decode(`$PROBE sockets`, "", &open)
	for socket := range open {
		var domain, kind, protocol int
		if _, err := fmt.Sscan(socket, &domain, &kind, &protocol); err != nil {
			t.Fatal(err)
		}
		if !allowed(domain, kind, protocol) {
			t.Errorf("socket %s can be made", socket)
		}
	}
	for _, socket := range []string{"1 1 0", "1 5 0", "2 1 6", "2 2 17", "16 3 0"} {
		if !open[socket] {
			t.Errorf("socket %s no longer works", socket)
		}
	}
}

// K08: 32-bit calls kill their program, and x32 and unknown numbers do not exist.
func TestK08_ForeignCalls(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	b.none(`for how in int80 i386; do $PROBE $how 2>&1 | grep survived | sed "s/^/$how: /"; done`)
	unknown := []call{{"512", 512, nil}, {"999", 999, nil}}
	x32 := []call{{"x32 getpid", 1<<30 | unix.SYS_GETPID, nil}, {"x32 socket", 1<<30 | unix.SYS_SOCKET, []any{unix.AF_VSOCK, 1, 0}}}
	if b.contained() {
		b.killedBy(x32) // by the engine's form of the policy
	} else {
		unknown = append(unknown, x32...)
	}
	for name, answer := range b.answers(`$PROBE calls`, unknown) {
		if answer != "ENOSYS" {
			t.Errorf("%s: the kernel answers %q", name, answer)
		}
	}
	b.next()
}

// killedBy makes calls each of which must end the thread that makes it.
func (b *box) killedBy(list []call) {
	b.t.Helper()
	for _, c := range list {
		in, err := json.Marshal([]call{c})
		if err != nil {
			b.t.Fatal(err)
		}
		if r := b.exec(`timeout -s KILL 2 $PROBE calls`, sandkasten.ExecOptions{Stdin: string(in)}); strings.Contains(r.Output, c.Name) || r.ExitCode < 128 {
			b.t.Errorf("%s: %q, exit code %d", c.Name, r.Output, r.ExitCode)
		}
	}
}

// K09: a program can neither type into its terminal nor change what the kernel
// makes of it, whatever the argument's high half is.
func TestK09_TerminalControls(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	const tty = 2
	var list []call
	for _, c := range []call{
		{"TIOCSTI", unix.TIOCSTI, []any{"x"}},
		{"TIOCLINUX", 0x541c, []any{"\x02"}},
		{"TIOCSETD gsm", unix.TIOCSETD, []any{"\x15\x00\x00\x00"}},
		{"TIOCSETD hdlc", unix.TIOCSETD, []any{"\x0d\x00\x00\x00"}},
		{"TIOCCONS", unix.TIOCCONS, []any{0}},
	} {
		list = append(list,
			call{c.Name, unix.SYS_IOCTL, []any{tty, c.Nr, c.Args[0]}},
			call{c.Name + " with more bits", unix.SYS_IOCTL, []any{tty, 1<<32 | c.Nr, c.Args[0]}})
	}
	b.deniedTo(`$PROBE tty calls`, list...)
}

// K10: what a file counts against and whether it can be deleted is not for a
// session to set, and its disk is full when it is.
func TestK10_FileControls(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	const ownFile = 0 // standard input: a file in /workspace
	b.deniedTo(`touch f && input=$(cat) && $PROBE calls <<<"$input"`,
		call{"FS_IOC_SETFLAGS", unix.SYS_IOCTL, []any{ownFile, unix.FS_IOC_SETFLAGS, strings.Repeat("\x00", 8)}},
		call{"FS_IOC_FSSETXATTR", unix.SYS_IOCTL, []any{ownFile, 0x401c5820, strings.Repeat("\x00", 28)}},
		call{"FIFREEZE", unix.SYS_IOCTL, []any{ownFile, 0xc0045877, 0}},
		call{"EXT4_IOC_SHUTDOWN", unix.SYS_IOCTL, []any{ownFile, 0x8004587d, "\x01\x00\x00\x00"}},
		call{"file_setattr", unix.SYS_FILE_SETATTR, []any{unix.AT_FDCWD, "f", strings.Repeat("\x00", 24), 24, 0}},
		call{"setxattr trusted.x", unix.SYS_SETXATTR, []any{"f", "trusted.overlay.opaque", "y", 1, 0}},
	)
	disk := `fallocate -l 400M g 2>/dev/null && echo 400 MiB on a disk of 256`
	if b.contained() {
		disk = "" // see R04
	}
	b.none(`chattr +i f 2>/dev/null && echo makes a file undeletable
		chattr -p 0 f 2>/dev/null && echo sets the project
		` + disk + `
		rm -f g`)
}

// K11: files cannot be opened by the numbers that file systems have for them.
func TestK11_FileHandles(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	root := "\x08\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00" // inode 2, which is "/" of an ext4
	b.denied(
		call{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, []any{unix.AT_FDCWD, root, 0}},
		call{"open_by_handle_at in the workspace", unix.SYS_OPEN_BY_HANDLE_AT, []any{0, root, 0}},
		call{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, []any{unix.AT_FDCWD, "/", strings.Repeat("\x00", 256), "        ", 0}},
	)
}

// K12: neither the runner nor a process of the host can be traced, read or
// compared; processes of the host have no number here.
func TestK12_TracingOthers(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	const runner = 1
	b.denied(
		call{"ptrace seize", unix.SYS_PTRACE, []any{unix.PTRACE_SEIZE, runner, 0, 0}},
		call{"ptrace attach", unix.SYS_PTRACE, []any{unix.PTRACE_ATTACH, runner, 0, 0}},
		call{"process_vm_readv", unix.SYS_PROCESS_VM_READV, []any{runner, 0, 0, 0, 0, 0}},
		call{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, []any{runner, 0, 0, 0, 0, 0}},
		call{"pidfd_getfd", unix.SYS_PIDFD_GETFD, []any{-1, 0, 0}},
		call{"kcmp", unix.SYS_KCMP, []any{runner, runner, 0, 0, 0}},
	)
	daemon := b.daemon.PID()
	b.none(fmt.Sprintf(`kill -0 %d 2>/dev/null && echo sees the daemon
		[ -e /proc/%d ] && echo there is the daemon in /proc
		for pid in {2..400}; do [ -e /proc/$pid/exe ] && readlink /proc/$pid/exe | grep -q sandkasten && echo sees $pid; done`, daemon, daemon))
	b.next()
}

// K13: what runs the machine is out of reach.
func TestK13_MachineControl(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	b.denied(
		call{"kexec_load", unix.SYS_KEXEC_LOAD, []any{0, 0, 0, 0}},
		call{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, []any{-1, -1, 0, 0, 0}},
		call{"reboot", unix.SYS_REBOOT, []any{0, 0, 0, 0}}, // the magic numbers are wrong
		call{"init_module", unix.SYS_INIT_MODULE, []any{"x", 1, ""}},
		call{"finit_module", unix.SYS_FINIT_MODULE, []any{-1, "", 0}},
		call{"delete_module", unix.SYS_DELETE_MODULE, []any{"x", 0}},
		call{"swapon", unix.SYS_SWAPON, []any{"/tmp/x", 0}},
		call{"acct", unix.SYS_ACCT, []any{"/tmp/x"}},
		call{"quotactl", unix.SYS_QUOTACTL, []any{0x800007 << 8, "/", 0, 0}},
		call{"syslog", unix.SYS_SYSLOG, []any{3, strings.Repeat(" ", 64), 64}},
		call{"settimeofday", unix.SYS_SETTIMEOFDAY, []any{strings.Repeat("\x00", 16), 0}},
		call{"clock_settime", unix.SYS_CLOCK_SETTIME, []any{0, strings.Repeat("\x00", 16)}},
		call{"adjtimex", unix.SYS_ADJTIMEX, []any{strings.Repeat("\x00", 208)}},
		call{"sethostname", unix.SYS_SETHOSTNAME, []any{"escaped", 7}},
		call{"setdomainname", unix.SYS_SETDOMAINNAME, []any{"escaped", 7}},
		call{"iopl", unix.SYS_IOPL, []any{3}},
		call{"ioperm", unix.SYS_IOPERM, []any{0x80, 1, 1}},
		call{"vhangup", unix.SYS_VHANGUP, nil},
		call{"lookup_dcookie", unix.SYS_LOOKUP_DCOOKIE, []any{0, 0, 0}},
		call{"fanotify_init", unix.SYS_FANOTIFY_INIT, []any{0x200, 0}},
	)
}

// K14: personalities, segments and what tells of others' memory are refused.
func TestK14_MemoryControls(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	b.denied(
		call{"personality", unix.SYS_PERSONALITY, []any{0x40000}},
		call{"modify_ldt", unix.SYS_MODIFY_LDT, []any{0, strings.Repeat("\x00", 64), 64}},
		call{"cachestat", unix.SYS_CACHESTAT, []any{0, strings.Repeat("\x00", 16), strings.Repeat("\x00", 64), 0}},
		call{"mincore", unix.SYS_MINCORE, []any{0, 0, strings.Repeat("\x00", 8)}},
		call{"io_setup", unix.SYS_IO_SETUP, []any{1, strings.Repeat("\x00", 8)}},
		call{"mbind", unix.SYS_MBIND, []any{0, 0, 0, 0, 0}},
		call{"migrate_pages", unix.SYS_MIGRATE_PAGES, []any{1, 64, "\x01\x00\x00\x00\x00\x00\x00\x00", "\x01\x00\x00\x00\x00\x00\x00\x00"}},
		call{"move_pages", unix.SYS_MOVE_PAGES, []any{1, 0, 0, 0, 0, 0}},
		call{"memfd_secret", unix.SYS_MEMFD_SECRET, []any{0}},
	)
}

// K22: a program that makes system calls at random for some seconds ends its
// own session at most.
func TestK22_RandomCalls(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.exec(`timeout -s KILL 6 python3 -c '
import ctypes, os, random
libc = ctypes.CDLL(None)
values = [0, 1, 2, 3, 255, 4096, 65536, 1 << 31, 1 << 32, -1, id(libc), ctypes.addressof(ctypes.create_string_buffer(65536))]
while True:
    if os.fork() == 0:
        random.seed(os.urandom(8))
        for _ in range(500): libc.syscall(random.randrange(480), *[ctypes.c_long(random.choice(values)) for _ in range(6)])
        os._exit(0)
    try: os.wait()
    except OSError: pass
' >/dev/null 2>&1`, sandkasten.ExecOptions{})
	b.next()
}
