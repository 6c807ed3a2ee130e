package seccomp

// fullMask compares all of an argument's low 32 bits.
const fullMask = 0xffffffff

// checked is the calls that are allowed with some arguments and not with
// others.
func checked() []Rule {
	return []Rule{
		{
			Group: "new processes",
			Why:   "Threads and children, but no new namespace.",
			Then:  notPermitted,
			Check: []Case{{When: []Cond{in(0, namespaceFlags, eq(0)...)}, Then: Allow}},
			Calls: []string{"clone"},
		},
		{
			Group: "new sockets",
			Why: "UNIX, TCP, UDP and route netlink. Every other family, type and protocol is kernel code, often loaded on demand, " +
				"that programs in a sandbox have no use for. The errors are those of a kernel built without them, which libaudit and " +
				"with it `useradd`, `su` and `sudo` take for a host without audit. Raw and packet sockets say what they say without CAP_NET_RAW. " +
				"Netlink sockets that are allowed the runner makes, 16 at a time.",
			Then:  noFamily,
			Check: socketCases(),
			Calls: []string{"socket"},
		},
		{
			Group: "socket pairs",
			Why:   "UNIX only, as the kernel itself has it for most families.",
			Then:  notPermitted,
			Check: []Case{{When: []Cond{is(0, afUnix)}, Then: Allow}},
			Calls: []string{"socketpair"},
		},
		{
			Group: "socket options",
			Why:   "No packet filters, no protocol stacked on TCP or UDP, no netfilter tables, no IPsec policy, no kernel crypto.",
			Then:  Allow,
			Check: socketOptionCases(),
			Calls: []string{"setsockopt"},
		},
		{
			Group: "device and file controls",
			Why: "No typing into a terminal on behalf of others, no line disciplines, no file flags or project ids " +
				"(the quota), no freezing, no changes to interfaces.",
			Then:  Allow,
			Check: ioctlCases(),
			Calls: []string{"ioctl"},
		},
		{
			Group: "process controls",
			Why:   "All but PR_SET_MM, which rewrites what /proc shows of a process.",
			Then:  Allow,
			Check: []Case{{When: []Cond{is(0, 35)}, Then: notPermitted}},
			Calls: []string{"prctl"},
		},
		{
			Group: "personality",
			Why:   "Asking, and the ones that change what uname says; not the ones that weaken address randomisation.",
			Then:  notPermitted,
			Check: []Case{{When: []Cond{is(0, 0, 8, 0x20000, 0x20008, 0xffffffff)}, Then: Allow}},
			Calls: []string{"personality"},
		},
		{
			Group: "memory maps",
			Why: "No huge pages of the host's pool, which the memory limit does not count: the error is that of a kernel without them. " +
				"Transparent huge pages are counted, and stay.",
			Then:  Allow,
			Check: []Case{{When: []Cond{in(3, mapHugeTLB, eq(mapHugeTLB)...), in(3, mapAnonymous, eq(mapAnonymous)...)}, Then: invalid}},
			Calls: []string{"mmap"},
		},
		hugeFlag("memory files", "memfd_create", 1, 0x4), // MFD_HUGETLB
		hugeFlag("shared memory", "shmget", 2, 0o4000),   // SHM_HUGETLB
		deviceNodes("mknod", 1),
		deviceNodes("mknodat", 2),
		{
			Group: "the limit on core dumps",
			Why:   coreLimitStays,
			Then:  Allow,
			Check: []Case{{When: []Cond{is(0, rlimitCore)}, Then: done}},
			Calls: []string{"setrlimit"},
		},
		{
			Group: "the limit on core dumps, asked for or set",
			Why:   "As for `setrlimit`. Where the old limit is asked for at the same time, nothing would write it: refused.",
			Then:  Allow,
			Check: []Case{
				{When: append(null(2), is(1, rlimitCore)), Then: Allow},
				{When: append(null(3), is(1, rlimitCore)), Then: done},
				{When: []Cond{is(1, rlimitCore)}, Then: notPermitted},
			},
			Calls: []string{"prlimit64"},
		},
	}
}

const coreLimitStays = "It is one byte, and stays so, though the call succeeds: programs that turn core dumps off give up otherwise. " +
	"At any other value, 0 included, the kernel runs the host's `core_pattern` helper for a crash inside, as root."

// Of <linux/mman.h>. MAP_HUGETLB means nothing for a file's map.
const mapAnonymous, mapHugeTLB = 0x20, 0x40000

// hugeFlag refuses a call with the flag for huge pages as a kernel without them does.
func hugeFlag(group, call string, flagsArg int, flag uint32) Rule {
	return Rule{
		Group: group,
		Why:   "No huge pages, as for `mmap`.",
		Then:  Allow,
		Check: []Case{{When: []Cond{in(flagsArg, flag, eq(flag)...)}, Then: notImplemented}},
		Calls: []string{call},
	}
}

const rlimitCore = 4 // of <asm-generic/resource.h>

// namespaceFlags is CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET} and, though
// clone cannot make it, CLONE_NEWTIME.
const namespaceFlags = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x80

// Of <linux/socket.h>, <linux/net.h> and <linux/in.h>.
const (
	afUnix, afInet, afInet6, afNetlink, afPacket     = 1, 2, 10, 16, 17
	sockStream, sockDgram, sockRaw, sockSeqpacket    = 1, 2, 3, 5
	sockTypeMask                                     = 0xf // the rest is SOCK_NONBLOCK and SOCK_CLOEXEC
	protoDefault, protoTCP, protoUDP, protoNetlinkRT = 0, 6, 17, 0
)

func socketCases() []Case {
	kind := func(types ...uint32) Cond { return in(1, sockTypeMask, eq(types...)...) }
	return []Case{
		{When: []Cond{is(0, afUnix), kind(sockStream, sockDgram, sockSeqpacket)}, Then: Allow},
		{When: []Cond{is(0, afInet, afInet6), kind(sockStream), is(2, protoDefault, protoTCP)}, Then: Allow},
		{When: []Cond{is(0, afInet, afInet6), kind(sockDgram), is(2, protoDefault, protoUDP)}, Then: Allow},
		{When: []Cond{is(0, afNetlink), kind(sockDgram, sockRaw), is(2, protoNetlinkRT)}, Then: Allow},
		{When: []Cond{is(0, afPacket)}, Then: notPermitted},
		{When: []Cond{is(0, afInet, afInet6), kind(sockRaw)}, Then: notPermitted},
		{When: []Cond{is(0, afUnix, afInet, afInet6, afNetlink)}, Then: noProtocol},
	}
}

func socketOptionCases() []Case {
	deny := func(level uint32, options ...Range) Case {
		return Case{When: []Cond{is(1, level), in(2, fullMask, options...)}, Then: notPermitted}
	}
	return []Case{
		// SO_ATTACH_FILTER, then SO_ATTACH_BPF and SO_ATTACH_REUSEPORT_[CE]BPF.
		deny(1, eq(26, 50, 51, 52)...),
		// IP_IPSEC_POLICY and IP_XFRM_POLICY; the tables of ip, arp, eb and IPVS.
		deny(0, Range{16, 17}, Range{64, 159}, Range{1152, 1215}),
		// IPV6_IPSEC_POLICY and IPV6_XFRM_POLICY; the tables of ip6.
		deny(41, Range{34, 35}, Range{64, 65}),
		deny(6, eq(19, 31)...), // TCP_REPAIR, TCP_ULP
		deny(17, eq(100)...),   // UDP_ENCAP
		// SOL_ALG and SOL_TLS, whatever the option.
		{When: []Cond{is(1, 279, 282)}, Then: notPermitted},
	}
}

func ioctlCases() []Case {
	const command = 1
	kind := func(typ uint32) Cond { return in(command, 0xff00, eq(typ<<8)...) }
	return []Case{
		// TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD, TIOCVHANGUP.
		{When: []Cond{is(command, 0x5412, 0x541c, 0x541d, 0x5423, 0x5437)}, Then: notPermitted},
		// Type 'f', the filesystems' own: all but FS_IOC_GETFLAGS, its 32-bit
		// form and FS_IOC_FIEMAP. SETFLAGS, ext4's moving, resizing and
		// swapping, fscrypt and fs-verity are in the rest.
		{When: []Cond{is(command, 0x80086601, 0x80046601, 0xc020660b)}, Then: Allow},
		{When: []Cond{kind('f')}, Then: notPermitted},
		// Type 'X': all but FS_IOC_FSGETXATTR. FSSETXATTR with the project id,
		// FIFREEZE, FITHAW, FITRIM and the shutdown of ext4 and XFS are in the rest.
		{When: []Cond{is(command, 0x801c581f)}, Then: Allow},
		{When: []Cond{kind('X')}, Then: notPermitted},
		// SIOC*: what writes routes, interfaces, neighbours, bonds, bridges and
		// VLANs, SIOCGSKNS, and all that is private to a device or a protocol.
		{When: []Cond{in(command, fullMask, interfaceWrites()...)}, Then: notPermitted},
	}
}

func interfaceWrites() []Range {
	single := eq(
		0x8911, 0x8914, 0x8916, 0x8918, 0x891a, 0x891c, 0x891e, 0x8920, 0x8924, 0x8926, 0x8930, 0x8934,
		0x8936, 0x8937, 0x8941, 0x8943, 0x8949, 0x894a, 0x894c, 0x8953, 0x8955, 0x8960, 0x8962, 0x8971)
	return append(single,
		Range{0x890b, 0x890d}, // SIOCADDRT, SIOCDELRT, SIOCRTMSG
		Range{0x8922, 0x8923}, // SIOCSIFMTU, SIOCSIFNAME
		Range{0x8931, 0x8932}, // SIOCADDMULTI, SIOCDELMULTI
		Range{0x8980, 0x89b0}, // DLCI, VLAN, bonding, bridging, time stamping
		Range{0x89e0, 0x89ff}, // SIOCPROTOPRIVATE, SIOCDEVPRIVATE
		Range{0x8b00, 0x8bff}, // wireless extensions
	)
}

// deviceNodes refuses block and character devices, with 0:0 among them: it is
// how overlayfs marks a deleted file, and would delete one in a snapshot.
func deviceNodes(call string, modeArg int) Rule {
	const typeMask, char, block = 0o170000, 0o020000, 0o060000
	return Rule{
		Group: "device nodes",
		Why:   "Files, pipes and sockets, but no devices.",
		Then:  Allow,
		Check: []Case{{When: []Cond{in(modeArg, typeMask, eq(char, block)...)}, Then: notPermitted}},
		Calls: []string{call},
	}
}

// null holds when argument arg is a null pointer.
func null(arg int) []Cond {
	high := is(arg, 0)
	high.High = true
	return []Cond{is(arg, 0), high}
}

// is holds when argument arg has one of the values.
func is(arg int, values ...uint32) Cond { return in(arg, fullMask, eq(values...)...) }

func in(arg int, mask uint32, ranges ...Range) Cond { return Cond{Arg: arg, Mask: mask, In: ranges} }

func eq(values ...uint32) []Range {
	ranges := make([]Range, 0, len(values))
	for _, v := range values {
		ranges = append(ranges, Range{v, v})
	}
	return ranges
}
