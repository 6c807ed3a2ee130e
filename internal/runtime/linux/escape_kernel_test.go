package linux

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestEscape_Mounts(t *testing.T) {
	escapeTest{control: without("seccomp", "caps", "landlock"), attack: func(b *box) {
		before := b.sh(`grep ' / / ' /proc/self/mountinfo`)
		b.calls(
			call{"mount", unix.SYS_MOUNT, []any{"x", "/mnt", "tmpfs", 0, 0}},
			call{"bind", unix.SYS_MOUNT, []any{"/proc", "/mnt", 0, unix.MS_BIND | unix.MS_REC, 0}},
			call{"remount", unix.SYS_MOUNT, []any{"x", "/proc/sys", 0, unix.MS_REMOUNT | unix.MS_BIND, 0}},
			call{"umount", unix.SYS_UMOUNT2, []any{"/proc/sys", unix.MNT_DETACH}},
			call{"pivot_root", unix.SYS_PIVOT_ROOT, []any{"/", "/"}},
			call{"chroot", unix.SYS_CHROOT, []any{"/mnt"}},
			call{"fsopen", unix.SYS_FSOPEN, []any{"tmpfs", 0}},
			call{"fsconfig", unix.SYS_FSCONFIG, []any{-1, 6, 0, 0, 0}},
			call{"fsmount", unix.SYS_FSMOUNT, []any{-1, 0, 0}},
			call{"fspick", unix.SYS_FSPICK, []any{unix.AT_FDCWD, "/", 0}},
			call{"open_tree", unix.SYS_OPEN_TREE, []any{unix.AT_FDCWD, "/proc", unix.OPEN_TREE_CLONE}},
			call{"open_tree_attr", unix.SYS_OPEN_TREE_ATTR, []any{unix.AT_FDCWD, "/proc", unix.OPEN_TREE_CLONE, 0, 0}},
			call{"move_mount", unix.SYS_MOVE_MOUNT, []any{-1, "", -1, "", 4}},
			call{"mount_setattr", unix.SYS_MOUNT_SETATTR, []any{unix.AT_FDCWD, "/", 0, strings.Repeat("\x00", 32), 32}},
		)
		if after := b.sh(`grep ' / / ' /proc/self/mountinfo`); after != before {
			b.got("the root is now %s", after)
		}
	}}.run(t)
}

// Mounting is what most ways out begin with: each of three protections refuses
// it with the other two gone.
func TestEscape_MountsByEachLayer(t *testing.T) {
	all := []string{"seccomp", "caps", "landlock"}
	for _, layer := range all {
		t.Run(layer, func(t *testing.T) {
			others := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == layer })
			escapeTest{leaveOut: others, control: without(layer), attack: func(b *box) {
				b.calls(
					call{"mount", unix.SYS_MOUNT, []any{"x", "/mnt", "tmpfs", 0, 0}},
					call{"umount", unix.SYS_UMOUNT2, []any{"/dev/shm", unix.MNT_DETACH}},
				)
			}}.run(t)
		})
	}
}

func TestEscape_Namespaces(t *testing.T) {
	escapeTest{control: without("seccomp"), attack: func(b *box) {
		// With CLONE_THREAD alone no child appears, even if the call is let through.
		list := []call{{"clone3", unix.SYS_CLONE3, []any{"\x00\x00\x01\x10" + strings.Repeat("\x00", 84), 88}}}
		for name, flag := range map[string]int{
			"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID,
			"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
		} {
			list = append(list,
				call{"unshare " + name, unix.SYS_UNSHARE, []any{flag}},
				call{"setns " + name, unix.SYS_SETNS, []any{-1, flag}},
				call{"clone " + name, unix.SYS_CLONE, []any{flag | unix.CLONE_THREAD, 0, 0, 0, 0}},
				call{"clone with more bits " + name, unix.SYS_CLONE, []any{1<<32 | flag | unix.CLONE_THREAD, 0, 0, 0, 0}})
		}
		b.calls(list...)
		if out := b.sh(`$PROBE threads 20; python3 -c 'import os; os.waitpid(os.fork() or os._exit(0), 0)' && echo forked`); out != "made 20\nforked\n" {
			b.t.Errorf("threads and children no longer work: %q", out)
		}
	}}.run(t)
}

func TestEscape_KernelSurface(t *testing.T) {
	escapeTest{control: without("seccomp"), attack: func(b *box) {
		b.calls(
			call{"bpf", unix.SYS_BPF, []any{0, strings.Repeat("\x00", 64), 64}},
			call{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, []any{strings.Repeat("\x00", 128), 0, -1, -1, 0}},
			call{"userfaultfd", unix.SYS_USERFAULTFD, []any{1}},
			call{"keyctl", unix.SYS_KEYCTL, []any{0, -3, 1}},
			call{"add_key", unix.SYS_ADD_KEY, []any{"user", "x", "y", 1, -3}},
			call{"request_key", unix.SYS_REQUEST_KEY, []any{"user", "x", 0, -3}},
			call{"io_uring_setup", unix.SYS_IO_URING_SETUP, []any{8, strings.Repeat("\x00", 120)}},
			call{"io_uring_enter", unix.SYS_IO_URING_ENTER, []any{-1, 1, 0, 0}},
			call{"io_uring_register", unix.SYS_IO_URING_REGISTER, []any{-1, 0}},
			call{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, []any{unix.AT_FDCWD, "\x08\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00", 0}},
			call{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, []any{unix.AT_FDCWD, "/", strings.Repeat("\x00", 256), "        ", 0}},
			call{"modify_ldt", unix.SYS_MODIFY_LDT, []any{0, strings.Repeat("\x00", 64), 64}},
			call{"personality", unix.SYS_PERSONALITY, []any{0x40000}},
			call{"cachestat", unix.SYS_CACHESTAT, []any{0, strings.Repeat("\x00", 16), strings.Repeat("\x00", 64), 0}},
			call{"mincore", unix.SYS_MINCORE, []any{0, 0, strings.Repeat("\x00", 8)}},
			call{"io_setup", unix.SYS_IO_SETUP, []any{1, strings.Repeat("\x00", 8)}},
			call{"mbind", unix.SYS_MBIND, []any{0, 0, 0, 0, 0}},
			call{"migrate_pages", unix.SYS_MIGRATE_PAGES, []any{1, 64, "\x01\x00\x00\x00\x00\x00\x00\x00", "\x01\x00\x00\x00\x00\x00\x00\x00"}},
			call{"memfd_secret", unix.SYS_MEMFD_SECRET, []any{0}},
			call{"fanotify_init", unix.SYS_FANOTIFY_INIT, []any{0x200, 0}},
		)
		if out := b.sh(`[ -e /dev/userfaultfd ] && echo there`); out != "" {
			b.got("/dev/userfaultfd is there")
		}
	}}.run(t)
}

// What runs a machine. The control leaves the calls to the kernel's own checks,
// which refuse some of them too.
func TestEscape_MachineControl(t *testing.T) {
	escapeTest{control: without("seccomp", "caps"), attack: func(b *box) {
		b.calls(
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
		)
	}}.run(t)
}

func TestEscape_SocketFamilies(t *testing.T) {
	escapeTest{control: without("seccomp"), attack: func(b *box) {
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
		b.decode(`$PROBE sockets`, nil, &open)
		for socket := range open {
			var domain, kind, protocol int
			if _, err := fmt.Sscan(socket, &domain, &kind, &protocol); err != nil {
				b.t.Fatal(err)
			}
			if !allowed(domain, kind, protocol) {
				b.got("socket %s", socket)
			}
		}
		for _, want := range []string{"1 1 0", "1 5 0", "2 1 6", "2 2 17", "16 3 0"} {
			if !open[want] {
				b.t.Errorf("socket %s no longer works", want)
			}
		}
	}}.run(t)
}

func TestEscape_ForeignSystemCalls(t *testing.T) {
	escapeTest{control: without("seccomp"), attack: func(b *box) {
		for _, how := range []string{"int80", "i386"} {
			if out := b.sh(`$PROBE ` + how + ` 2>&1`); strings.Contains(out, "survived") {
				b.got("%s: %s", how, out)
			}
		}
		// The x32 number of getpid, and numbers that no kernel has.
		for name, answer := range b.answers(`$PROBE calls`, []call{
			{"x32", 1<<30 | unix.SYS_GETPID, nil}, {"512", 512, nil}, {"999", 999, nil},
		}) {
			if answer != "ENOSYS" {
				b.got("%s: %s", name, answer)
			}
		}
	}}.run(t)
}

func TestEscape_TerminalInjection(t *testing.T) {
	escapeTest{control: without("seccomp"), attack: func(b *box) {
		const tty = 2
		var list []call
		for name, c := range map[string]call{
			"TIOCSTI":       {Args: []any{tty, unix.TIOCSTI, "x"}},
			"TIOCLINUX":     {Args: []any{tty, 0x541c, "\x02"}},
			"TIOCSETD gsm":  {Args: []any{tty, unix.TIOCSETD, "\x15\x00\x00\x00"}},
			"TIOCSETD hdlc": {Args: []any{tty, unix.TIOCSETD, "\x0d\x00\x00\x00"}},
			"TIOCCONS":      {Args: []any{tty, unix.TIOCCONS, 0}},
		} {
			c.Nr = unix.SYS_IOCTL
			c.Name = name
			list = append(list, c)
			list = append(list, call{name + " with more bits", c.Nr, []any{tty, 1<<32 | c.Args[1].(int), c.Args[2]}})
		}
		b.noteCalls(`$PROBE tty calls`, list)
	}}.run(t)
}

// Project ids are what quotas count by, and flags can make files undeletable.
func TestEscape_FileControls(t *testing.T) {
	escapeTest{control: without("seccomp"), attack: func(b *box) {
		const ownFile = 0 // standard input: a file in /workspace
		b.noteCalls(`touch f && input=$(cat) && $PROBE calls <<<"$input"`, []call{
			{"FS_IOC_SETFLAGS", unix.SYS_IOCTL, []any{ownFile, unix.FS_IOC_SETFLAGS, strings.Repeat("\x00", 8)}},
			{"FS_IOC_FSSETXATTR", unix.SYS_IOCTL, []any{ownFile, 0x401c5820, strings.Repeat("\x00", 28)}},
			{"FIFREEZE", unix.SYS_IOCTL, []any{ownFile, 0xc0045877, 0}},
			{"EXT4_IOC_SHUTDOWN", unix.SYS_IOCTL, []any{ownFile, 0x8004587d, "\x01\x00\x00\x00"}},
			{"file_setattr", unix.SYS_FILE_SETATTR, []any{unix.AT_FDCWD, "f", strings.Repeat("\x00", 24), 24, 0}},
			{"setxattr security.capability", unix.SYS_SETXATTR, []any{
				"f", "security.capability",
				"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20, 0,
			}},
			{"setxattr trusted.x", unix.SYS_SETXATTR, []any{"f", "trusted.overlay.opaque", "y", 1, 0}},
		})
	}}.run(t)
}

func TestEscape_DeviceNodes(t *testing.T) {
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		var list []call
		for i, dev := range []uint64{unix.Mkdev(8, 0), unix.Mkdev(1, 1), unix.Mkdev(10, 229), unix.Mkdev(1, 3), 0} {
			for name, mode := range map[string]int{"b": unix.S_IFBLK, "c": unix.S_IFCHR} {
				node := fmt.Sprintf("%s%d", name, i)
				list = append(list,
					call{"mknod " + node, unix.SYS_MKNOD, []any{node, mode | 0o666, int(dev)}},
					call{"mknodat " + node, unix.SYS_MKNODAT, []any{unix.AT_FDCWD, "at" + node, mode | 0o666, int(dev)}})
			}
		}
		b.calls(list...)
		found := b.sh(`find /dev -mindepth 1 ! -path '/dev/pts/[0-9]*' -printf '%f\n' | sort | tr '\n' ' '`)
		if found != "fd full null ptmx ptmx pts random shm stderr stdin stdout tty urandom zero " {
			b.got("in /dev: %s", found)
		}
	}}.run(t)
}

func TestEscape_SetuidPrograms(t *testing.T) {
	escapeTest{control: without("nnp", "seccomp", "caps"), attack: func(b *box) {
		const status = `grep -E '^(Uid|CapEff|NoNewPrivs)' /proc/self/status | tr -s '\t\n' ' '`
		b.sh(`cp $(command -v bash) /opt/s && chmod 4755 /opt/s; cp $(command -v bash) /workspace/s && chmod 4755 /workspace/s`)
		for _, dir := range []string{"/opt", "/workspace"} {
			out := b.sh(`cd /; setpriv --reuid 1000 --regid 1000 --clear-groups ` + dir + `/s -p -c "` + strings.ReplaceAll(status, `"`, `\"`) + `"`)
			if !strings.HasPrefix(out, "Uid: 1000 1000 1000 1000 CapEff: 0000000000000000 NoNewPrivs: 1") {
				b.got("a set-uid program in %s: %s", dir, out)
			}
		}
		out := b.sh(status)
		if want := fmt.Sprintf("Uid: 0 0 0 0 CapEff: %016x NoNewPrivs: 1 ", workloadCaps); out != want {
			b.got("root in the sandbox is %s, want %s", out, want)
		}
	}}.run(t)
}

// workloadCaps is CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID, SETPCAP
// and NET_BIND_SERVICE, in figures of their own.
const workloadCaps = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<6 | 1<<7 | 1<<8 | 1<<10

// Every thread of every process of the sandbox, seen from the host.
func TestEscape_EveryProcessIsConfined(t *testing.T) {
	for _, protection := range []string{"seccomp", "nnp", "caps"} {
		t.Run(protection, func(t *testing.T) {
			escapeTest{control: without(protection), attack: func(b *box) {
				b.sh(`sleep 100 & (setsid sleep 100 &) ; $PROBE threads 3 & sleep 0.1`)
				defer b.terminal("sh", "-c", "echo ready; sleep 101")()
				statuses := b.threadStatuses()
				if len(statuses) < 10 {
					b.t.Fatalf("only %d threads found", len(statuses))
				}
				for thread, status := range statuses {
					for field, want := range map[string]string{"Seccomp": "2", "NoNewPrivs": "1", "CapInh": "0000000000000000"} {
						if status[field] != want {
							b.got("%s: %s is %s, want %s", thread, field, status[field], want)
						}
					}
					sets := []string{"CapBnd", "CapPrm", "CapEff", "CapAmb"}
					if status["Tgid"] == strconv.Itoa(b.sandbox.state.Process.PID) {
						sets = sets[:1] // the runner holds more than it can ever hand on
					}
					for _, set := range sets {
						if caps := hexadecimal(b.t, status[set]); caps&^workloadCaps != 0 {
							b.got("%s: %s is %#x", thread, set, caps)
						}
					}
				}
				b.sh(`kill $(jobs -p); pkill sleep`)
			}}.run(t)
		})
	}
}

// terminal starts a program on a terminal and returns what ends it.
func (b *box) terminal(command ...string) (end func()) {
	b.t.Helper()
	start := protocol.Start{ID: "terminal", TTY: true, Rows: 24, Cols: 80}
	if _, err := b.client.Start(b.t.Context(), start, runnerclient.Program{Args: command}); err != nil {
		b.t.Fatal(err)
	}
	var shown bytes.Buffer
	if _, _, err := b.client.Poll(b.t.Context(), protocol.Attach{ID: start.ID, WaitMS: 60_000}, &shown); err != nil || shown.Len() == 0 {
		b.t.Fatalf("the terminal shows %q, %v", shown.String(), err)
	}
	return func() {
		if err := b.client.Cancel(b.t.Context(), start.ID); err != nil {
			b.t.Error(err)
		}
	}
}

// threadStatuses reads /proc/PID/status of all threads in the sandbox's PID
// namespace, by name and number.
func (b *box) threadStatuses() map[string]map[string]string {
	b.t.Helper()
	own := b.namespace(b.sandbox.state.Process.PID, "pid_for_children")
	tasks, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		b.t.Fatal(err)
	}
	statuses := map[string]map[string]string{}
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
		statuses[fields["Name"]+" "+filepath.Base(task)] = fields
	}
	return statuses
}

func (b *box) namespace(pid int, kind string) string {
	b.t.Helper()
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	if err != nil {
		b.t.Fatal(err)
	}
	return link
}

func hexadecimal(t *testing.T, s string) uint64 {
	t.Helper()
	var n uint64
	if _, err := fmt.Sscanf(s, "%x", &n); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return n
}

func TestEscape_NamespacesAreOwn(t *testing.T) {
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		kinds := []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}
		own := strings.Fields(b.sh(`for n in ` + strings.Join(kinds, " ") + `; do readlink /proc/self/ns/$n; done`))
		if len(own) != len(kinds) {
			b.t.Fatalf("namespaces: %q", own)
		}
		others := []int{os.Getpid()}
		if b.sandbox != nil {
			neighbour, err := b.d.readState(b.target.id)
			if err != nil {
				b.t.Fatal(err)
			}
			others = append(others, neighbour.Process.PID)
		}
		for _, pid := range others {
			for i, kind := range kinds {
				if b.namespace(pid, kind) == own[i] {
					b.got("shares %s", own[i])
				}
			}
		}
	}}.run(t)
}

// SysV objects, queues, abstract sockets and /dev/shm of the host's and of the
// neighbour's are not there.
func TestEscape_InterProcessObjects(t *testing.T) {
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		const look = `cat /proc/sysvipc/shm; ls /dev/shm; cat /proc/net/unix`
		name := fmt.Sprintf("sandkasten-canary-%d", os.Getpid())
		if err := os.WriteFile("/dev/shm/"+name, nil, 0o644); err != nil {
			b.t.Fatal(err)
		}
		defer os.Remove("/dev/shm/" + name)
		socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		defer unix.Close(socket)
		if err := unix.Bind(socket, &unix.SockaddrUnix{Name: "@" + name}); err != nil {
			b.t.Fatal(err)
		}
		if out := b.sh(look); strings.Contains(out, name) {
			b.got("sees %s: %s", name, out)
		}
	}}.run(t)
}

func TestEscape_KillEverything(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	if out := b.sh(`sleep 1000 & setsid sleep 1000 & python3 -c 'import os; os.kill(-1, 9)'; echo survived`); strings.Contains(out, "survived") {
		t.Errorf("not all was killed: %q", out)
	}
	b.guard() // the runner has made a new shell, and the neighbour is well
	if out := b.sh(`ps -eo comm= | grep -c sleep`); out != "0\n" {
		t.Errorf("%q of the processes live on", out)
	}
}

// The kernel starts a core_pattern helper as the host's root, outside of every
// namespace, with the crashed program's memory as input.
func TestEscape_CoreDumps(t *testing.T) {
	escapeTest{control: without("corelimit"), attack: func(b *box) {
		helper := filepath.Join(b.t.TempDir(), "helper")
		script := "#!/bin/sh\n[ $1 = escape ] && echo $2 >>" + helper + ".ran\n"
		if err := os.WriteFile(helper, []byte(script), 0o700); err != nil {
			b.t.Fatal(err)
		}
		withCorePattern(b.t, "|"+helper+" %e %u")
		for _, limit := range []string{"1", "unlimited", "100", "0"} {
			b.sh(`ulimit -c ` + limit + `
				sh -c 'echo escape >/proc/self/comm; kill -SEGV $$'
				python3 -c 'import os; open("/proc/self/comm", "w").write("escape"); os.abort()'`)
		}
		wait := time.Second
		if b.d.opts.leaveOut["corelimit"] {
			wait = longTimeout
		}
		for deadline := time.Now().Add(wait); time.Now().Before(deadline); { // the kernel does not wait for the helper to have written
			text, err := os.ReadFile(helper + ".ran")
			if err == nil && len(text) > 0 {
				b.got("the helper ran for %s", text)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}}.run(t)
}

// withCorePattern changes the host's core_pattern until the test ends.
func withCorePattern(t *testing.T, pattern string) {
	t.Helper()
	const path = "/proc/sys/kernel/core_pattern"
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(pattern), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(path, old, 0); err != nil {
			t.Error(err)
		}
	})
}

func TestEscape_RaisingLimits(t *testing.T) {
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		for _, attempt := range []string{
			`echo -1000 >/proc/self/oom_score_adj`,
			`ulimit -Hn 2000000`,
			`ulimit -c 100; [ $(prlimit --core --noheadings --raw -o SOFT) = 100 ]`, // the call itself says that it has worked
			`nice -n -5 true 2>&1 | grep -q . && false || [ $(nice -n -5 nice) -lt 0 ]`,
			`chrt -f 99 true`,
			`ionice -c1 true`,
			`echo '0 0 1' >/proc/self/uid_map`,
			`echo allow >/proc/self/setgroups`,
		} {
			out := b.sh(`( ` + attempt + ` ) 2>/dev/null && echo raised`)
			if strings.Contains(out, "raised") {
				b.got("%s", attempt)
			}
		}
	}}.run(t)
}
