package seccomp_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp"
)

// argumentCase is one call and what both policies answer, in both modes.
type argumentCase struct {
	name             string
	nr               uint32
	args             [6]uint64
	workload, runner string
}

func same(name string, nr uint32, want string, args ...uint64) argumentCase {
	c := argumentCase{name: name, nr: nr, workload: want, runner: want}
	copy(c.args[:], args)
	return c
}

// Each case is tried as it is and with every pattern of garbage in the high
// halves of its arguments, which the kernel ignores and a filter must too.
func TestArguments(t *testing.T) {
	cases := cloneCases()
	for _, more := range [][]argumentCase{
		ioctlCases(), socketOptionCases(), prctlCases(), personalityCases(), nodeCases(), unshareCases(), socketpairCases(), limitCases(), hugeCases(),
	} {
		cases = append(cases, more...)
	}
	for name, p := range policies() {
		prog := compile(t, p)
		for _, c := range cases {
			want := c.workload
			if name == "runner strict" || name == "runner mvp" {
				want = c.runner
			}
			for garbage := range uint64(64) {
				args := c.args
				for i := range args {
					args[i] |= (garbage >> i & 1) * 0xdeadbeef00000000
				}
				if got := answer(t, prog, call{nr: c.nr, arch: auditAMD64, args: args}); got != want {
					t.Errorf("%s: %s %x: got %s, want %s", name, c.name, args, got, want)
				}
			}
		}
	}
}

func cloneCases() []argumentCase {
	const thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD |
		unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID
	cases := []argumentCase{
		same("thread", unix.SYS_CLONE, "allow", thread),
		same("fork", unix.SYS_CLONE, "allow", unix.CLONE_CHILD_CLEARTID|unix.CLONE_CHILD_SETTID|uint64(unix.SIGCHLD)),
		same("vfork", unix.SYS_CLONE, "allow", unix.CLONE_VM|unix.CLONE_VFORK|uint64(unix.SIGCHLD)),
		same("pidfd", unix.SYS_CLONE, "allow", unix.CLONE_PIDFD|uint64(unix.SIGCHLD)),
	}
	for bit := range 7 {
		flag := []uint64{
			unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC,
			unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET,
		}[bit]
		cases = append(cases,
			same(fmt.Sprintf("clone %#x", flag), unix.SYS_CLONE, "EPERM", flag|uint64(unix.SIGCHLD)),
			same(fmt.Sprintf("thread %#x", flag), unix.SYS_CLONE, "EPERM", flag|thread))
	}
	return append(cases, same("clone CLONE_NEWTIME", unix.SYS_CLONE, "EPERM", unix.CLONE_NEWTIME))
}

func unshareCases() []argumentCase {
	cgroup := same("unshare cgroup", unix.SYS_UNSHARE, "EPERM", unix.CLONE_NEWCGROUP)
	cgroup.runner = "allow"
	return []argumentCase{
		cgroup,
		same("unshare nothing", unix.SYS_UNSHARE, "EPERM"),
		same("unshare files", unix.SYS_UNSHARE, "EPERM", unix.CLONE_FILES),
		same("unshare user", unix.SYS_UNSHARE, "EPERM", unix.CLONE_NEWUSER),
		same("unshare cgroup and user", unix.SYS_UNSHARE, "EPERM", unix.CLONE_NEWCGROUP|unix.CLONE_NEWUSER),
	}
}

func hugeCases() []argumentCase {
	const anonymous = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	return []argumentCase{
		same("mmap", unix.SYS_MMAP, "allow", 0, 4096, unix.PROT_READ, anonymous),
		same("mmap huge", unix.SYS_MMAP, "EINVAL", 0, 4096, unix.PROT_READ, anonymous|unix.MAP_HUGETLB),
		same("mmap of 1 GiB pages", unix.SYS_MMAP, "EINVAL", 0, 4096, unix.PROT_READ, anonymous|unix.MAP_HUGETLB|30<<unix.MAP_HUGE_SHIFT),
		same("mmap of a file, huge", unix.SYS_MMAP, "allow", 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_HUGETLB, 3),
		same("memfd_create", unix.SYS_MEMFD_CREATE, "allow", 0, unix.MFD_CLOEXEC),
		same("memfd_create huge", unix.SYS_MEMFD_CREATE, "ENOSYS", 0, unix.MFD_CLOEXEC|unix.MFD_HUGETLB),
		same("memfd_create of 1 GiB pages", unix.SYS_MEMFD_CREATE, "ENOSYS", 0, unix.MFD_HUGETLB|unix.MFD_HUGE_1GB),
		same("shmget", unix.SYS_SHMGET, "allow", 0, 4096, unix.IPC_CREAT|0o600),
		same("shmget huge", unix.SYS_SHMGET, "ENOSYS", 0, 4096, unix.IPC_CREAT|0o4600),
	}
}

func limitCases() []argumentCase {
	const old, limits = 0x7f0000001000, 0x7f0000002000
	return []argumentCase{
		same("setrlimit core", unix.SYS_SETRLIMIT, "done", unix.RLIMIT_CORE, limits),
		same("setrlimit files", unix.SYS_SETRLIMIT, "allow", unix.RLIMIT_NOFILE, limits),
		same("prlimit core, set and asked for", unix.SYS_PRLIMIT64, "EPERM", 0, unix.RLIMIT_CORE, limits, old),
		same("prlimit core of another, set and asked for", unix.SYS_PRLIMIT64, "EPERM", 1, unix.RLIMIT_CORE, limits, old),
		same("prlimit files", unix.SYS_PRLIMIT64, "allow", 0, unix.RLIMIT_NOFILE, limits, old),
		same("prlimit files, set", unix.SYS_PRLIMIT64, "allow", 0, unix.RLIMIT_NOFILE, limits),
	}
}

// A pointer is null if both of its halves are.
func TestNullPointers(t *testing.T) {
	const aligned, high = 0x7f0000001000, 0x100000000 // of the second the low half is zero
	for name, p := range policies() {
		prog := compile(t, p)
		for _, pointer := range []uint64{aligned, high, 1} {
			for garbage := range uint64(2) {
				core := unix.RLIMIT_CORE | garbage<<32
				for _, c := range []struct {
					set, old uint64
					want     string
				}{{0, pointer, "allow"}, {0, 0, "allow"}, {pointer, 0, "done"}, {pointer, pointer, "EPERM"}, {high, aligned, "EPERM"}, {aligned, high, "EPERM"}} {
					if got := answer(t, prog, call{nr: unix.SYS_PRLIMIT64, arch: auditAMD64, args: [6]uint64{0, core, c.set, c.old}}); got != c.want {
						t.Errorf("%s: prlimit core %#x %#x: got %s, want %s", name, c.set, c.old, got, c.want)
					}
				}
			}
		}
	}
}

func ioctlCases() []argumentCase {
	var cases []argumentCase
	add := func(want string, commands map[string]uint64) {
		for name, cmd := range commands {
			cases = append(cases, same(name, unix.SYS_IOCTL, want, 0, cmd))
		}
	}
	add("EPERM", map[string]uint64{
		"TIOCSTI": 0x5412, "TIOCLINUX": 0x541c, "TIOCSETD": 0x5423, "TIOCCONS": 0x541d, "TIOCVHANGUP": 0x5437,
		"FS_IOC_SETFLAGS": 0x40086602, "FS_IOC32_SETFLAGS": 0x40046602, "FS_IOC_FSSETXATTR": 0x401c5820,
		"FS_IOC_SETVERSION of ext4": 0x40086604, "EXT4_IOC_MOVE_EXT": 0xc028660f, "EXT4_IOC_SWAP_BOOT": 0x6611,
		"EXT4_IOC_RESIZE_FS": 0x40086610, "EXT4_IOC_SHUTDOWN": 0x8004587d, "FIFREEZE": 0xc0045877, "FITHAW": 0xc0045878,
		"FITRIM": 0xc0185879, "FS_IOC_SET_ENCRYPTION_POLICY": 0x800c6613, "FS_IOC_ADD_ENCRYPTION_KEY": 0xc0506617,
		"FS_IOC_ENABLE_VERITY": 0x40806685,
		"SIOCADDRT":            0x890b, "SIOCDELRT": 0x890c, "SIOCSIFFLAGS": 0x8914, "SIOCSIFADDR": 0x8916, "SIOCSIFNETMASK": 0x891c,
		"SIOCSIFMTU": 0x8922, "SIOCSIFNAME": 0x8923, "SIOCSIFHWADDR": 0x8924, "SIOCADDMULTI": 0x8931, "SIOCSIFTXQLEN": 0x8943,
		"SIOCGSKNS": 0x894c, "SIOCSARP": 0x8955, "SIOCSIFVLAN": 0x8983, "SIOCBONDENSLAVE": 0x8990, "SIOCBRADDBR": 0x89a0,
		"SIOCSHWTSTAMP": 0x89b0, "SIOCPROTOPRIVATE": 0x89e0, "SIOCADDTUNNEL": 0x89f1, "SIOCDEVPRIVATE+15": 0x89ff,
		"SIOCSIWCOMMIT": 0x8b00, "SIOCSIWESSID": 0x8b1a,
	})
	add("allow", map[string]uint64{
		"TCGETS": 0x5401, "TCSETSW": 0x5403, "TIOCSCTTY": 0x540e, "TIOCGPGRP": 0x540f, "TIOCSPGRP": 0x5410, "TIOCOUTQ": 0x5411,
		"TIOCGWINSZ": 0x5413, "TIOCSWINSZ": 0x5414, "FIONREAD": 0x541b, "FIONBIO": 0x5421, "TIOCNOTTY": 0x5422,
		"TIOCGETD": 0x5424, "FIOCLEX": 0x5451, "TIOCGPTN": 0x80045430, "TIOCSPTLCK": 0x40045431, "TIOCGPTPEER": 0x5441,
		"FS_IOC_GETFLAGS": 0x80086601, "FS_IOC_FIEMAP": 0xc020660b, "FS_IOC_FSGETXATTR": 0x801c581f,
		"FICLONE": 0x40049409, "FICLONERANGE": 0x4020940d, "FIGETBSZ": 2,
		"SIOCGIFCONF": 0x8912, "SIOCGIFFLAGS": 0x8913, "SIOCGIFADDR": 0x8915, "SIOCGIFMTU": 0x8921, "SIOCGIFHWADDR": 0x8927,
		"SIOCGIFINDEX": 0x8933, "SIOCETHTOOL": 0x8946, "SIOCGARP": 0x8954, "SIOCATMARK": 0x8905,
	})
	return cases
}

func socketOptionCases() []argumentCase {
	var cases []argumentCase
	add := func(want string, level uint64, options ...uint64) {
		for _, o := range options {
			cases = append(cases, same(fmt.Sprintf("setsockopt %d %d", level, o), unix.SYS_SETSOCKOPT, want, 0, level, o))
		}
	}
	add("EPERM", unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_CBPF, unix.SO_ATTACH_REUSEPORT_EBPF)
	add("allow", unix.SOL_SOCKET, unix.SO_REUSEADDR, unix.SO_KEEPALIVE, unix.SO_REUSEPORT, unix.SO_LINGER, unix.SO_PASSCRED, unix.SO_SNDBUF)
	add("EPERM", unix.SOL_TCP, unix.TCP_ULP, unix.TCP_REPAIR)
	add("allow", unix.SOL_TCP, unix.TCP_NODELAY, unix.TCP_KEEPIDLE, unix.TCP_CORK, unix.TCP_FASTOPEN)
	add("EPERM", unix.SOL_UDP, unix.UDP_ENCAP)
	add("allow", unix.SOL_UDP, unix.UDP_SEGMENT, unix.UDP_GRO)
	add("EPERM", unix.SOL_IP, unix.IP_IPSEC_POLICY, unix.IP_XFRM_POLICY, 64, 65, 96, 97, 128, 129, 1152)
	add("allow", unix.SOL_IP, unix.IP_TOS, unix.IP_TTL, unix.IP_PKTINFO, unix.IP_MTU_DISCOVER, unix.IP_ADD_MEMBERSHIP, unix.IP_RECVERR)
	add("EPERM", unix.SOL_IPV6, unix.IPV6_IPSEC_POLICY, unix.IPV6_XFRM_POLICY, 64, 65)
	add("allow", unix.SOL_IPV6, unix.IPV6_V6ONLY, unix.IPV6_TCLASS, unix.IPV6_RECVTCLASS, unix.IPV6_JOIN_GROUP, unix.IPV6_RECVPKTINFO)
	add("EPERM", unix.SOL_ALG, 1, 2, 5)
	add("EPERM", 282, 1, 2) // SOL_TLS
	add("allow", unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NETLINK_EXT_ACK)
	return cases
}

func prctlCases() []argumentCase {
	return []argumentCase{
		same("PR_SET_MM", unix.SYS_PRCTL, "EPERM", unix.PR_SET_MM, unix.PR_SET_MM_MAP),
		same("PR_SET_NAME", unix.SYS_PRCTL, "allow", unix.PR_SET_NAME),
		same("PR_SET_DUMPABLE", unix.SYS_PRCTL, "allow", unix.PR_SET_DUMPABLE),
		same("PR_SET_PDEATHSIG", unix.SYS_PRCTL, "allow", unix.PR_SET_PDEATHSIG),
		same("PR_SET_SECCOMP", unix.SYS_PRCTL, "allow", unix.PR_SET_SECCOMP),
		same("PR_SET_VMA", unix.SYS_PRCTL, "allow", unix.PR_SET_VMA),
	}
}

func personalityCases() []argumentCase {
	return []argumentCase{
		same("query", unix.SYS_PERSONALITY, "allow", 0xffffffff),
		same("PER_LINUX", unix.SYS_PERSONALITY, "allow", 0),
		same("PER_LINUX32", unix.SYS_PERSONALITY, "allow", 8),
		same("UNAME26", unix.SYS_PERSONALITY, "allow", 0x20000),
		same("ADDR_NO_RANDOMIZE", unix.SYS_PERSONALITY, "EPERM", 0x40000),
		same("READ_IMPLIES_EXEC", unix.SYS_PERSONALITY, "EPERM", 0x400000),
		same("MMAP_PAGE_ZERO", unix.SYS_PERSONALITY, "EPERM", 0x100000),
		same("PER_SVR4", unix.SYS_PERSONALITY, "EPERM", 1),
	}
}

func nodeCases() []argumentCase {
	var cases []argumentCase
	for mode, want := range map[uint64]string{
		unix.S_IFCHR: "EPERM", unix.S_IFBLK: "EPERM", unix.S_IFREG: "allow", unix.S_IFIFO: "allow", unix.S_IFSOCK: "allow", 0: "allow",
	} {
		cases = append(cases,
			same(fmt.Sprintf("mknod %o", mode), unix.SYS_MKNOD, want, 0, mode|0o644),
			same(fmt.Sprintf("mknodat %o", mode), unix.SYS_MKNODAT, want, 0, 0, mode|0o4755, 0),
			// The kernel takes 16 bits of the mode.
			same(fmt.Sprintf("mknod %o with more", mode), unix.SYS_MKNOD, want, 0, mode|0xffff0000))
	}
	return cases
}

func socketpairCases() []argumentCase {
	cases := []argumentCase{same("socketpair unix", unix.SYS_SOCKETPAIR, "allow", unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC)}
	for domain := range uint64(64) {
		if domain != unix.AF_UNIX {
			cases = append(cases, same(fmt.Sprintf("socketpair %d", domain), unix.SYS_SOCKETPAIR, "EPERM", domain, unix.SOCK_STREAM))
		}
	}
	return cases
}

// The whole of (family, type, protocol) against the few that are allowed.
func TestArguments_SocketSweep(t *testing.T) {
	type key struct{ domain, kind, protocol uint64 }
	allowed := map[key]bool{
		{unix.AF_INET, unix.SOCK_STREAM, 0}: true, {unix.AF_INET, unix.SOCK_STREAM, 6}: true,
		{unix.AF_INET, unix.SOCK_DGRAM, 0}: true, {unix.AF_INET, unix.SOCK_DGRAM, 17}: true,
		{unix.AF_INET6, unix.SOCK_STREAM, 0}: true, {unix.AF_INET6, unix.SOCK_STREAM, 6}: true,
		{unix.AF_INET6, unix.SOCK_DGRAM, 0}: true, {unix.AF_INET6, unix.SOCK_DGRAM, 17}: true,
		{unix.AF_NETLINK, unix.SOCK_DGRAM, 0}: true, {unix.AF_NETLINK, unix.SOCK_RAW, 0}: true,
	}
	prog := compile(t, seccomp.Workload(runtime.SeccompStrict))
	for domain := range uint64(64) {
		for kind := range uint64(16) {
			for protocol := range uint64(300) {
				want := "EAFNOSUPPORT"
				switch {
				case allowed[key{domain, kind, protocol}],
					domain == unix.AF_UNIX && (kind == unix.SOCK_STREAM || kind == unix.SOCK_DGRAM || kind == unix.SOCK_SEQPACKET):
					want = "allow"
				case domain == unix.AF_PACKET, kind == unix.SOCK_RAW && (domain == unix.AF_INET || domain == unix.AF_INET6):
					want = "EPERM"
				case domain == unix.AF_UNIX, domain == unix.AF_INET, domain == unix.AF_INET6, domain == unix.AF_NETLINK:
					want = "EPROTONOSUPPORT"
				}
				for _, flags := range []uint64{0, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 1 << 32} {
					c := call{nr: unix.SYS_SOCKET, arch: auditAMD64, args: [6]uint64{domain, kind | flags, protocol | flags>>32<<40}}
					if got := answer(t, prog, c); got != want {
						t.Fatalf("socket %x: got %s, want %s", c.args, got, want)
					}
				}
			}
		}
	}
}

// The runner is asked for netlink sockets, whatever is in the arguments' high
// halves, and for nothing else.
func TestNetlink(t *testing.T) {
	prog := compile(t, seccomp.Netlink(runtime.SeccompStrict))
	for nr := range uint32(1024) {
		for _, family := range []uint64{0, unix.AF_UNIX, unix.AF_INET, unix.AF_NETLINK, 1<<32 | unix.AF_NETLINK} {
			want := "allow"
			if nr == unix.SYS_SOCKET && uint32(family) == unix.AF_NETLINK {
				want = "notify"
			}
			if got := answer(t, prog, call{nr: nr, arch: auditAMD64, args: [6]uint64{family}}); got != want {
				t.Errorf("call %d of family %#x: %s, want %s", nr, family, got, want)
			}
		}
	}
}
