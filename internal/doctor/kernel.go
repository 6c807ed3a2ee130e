package doctor

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// These checks are about what the kernel can do.

func root(h Host) Finding {
	const sysAdmin = 1 << 21
	if h.UID != 0 {
		return fail("running as user "+strconv.Itoa(h.UID), "run it as root: making namespaces with their own ids and cgroups needs it")
	}
	caps, ok := h.field("proc/self/status", "CapEff:")
	set, err := strconv.ParseUint(caps, 16, 64)
	switch {
	case !ok || err != nil:
		return warn("root, capabilities unknown", "mount /proc")
	case h.Engine:
		return fine("root") // it unpacks images
	case set&sysAdmin == 0:
		return fail("root without CAP_SYS_ADMIN", "run it on the host itself or in a privileged container")
	}
	return fine("root with CAP_SYS_ADMIN")
}

// kernel wants 5.19: the first with idmapped mounts below overlayfs.
func kernel(h Host) Finding {
	release, err := h.text("proc/sys/kernel/osrelease")
	if err != nil {
		return fail("unknown version", "mount /proc")
	}
	major, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	big, err1 := strconv.Atoi(major)
	small, err2 := strconv.Atoi(rest)
	if err1 != nil || err2 != nil {
		return warn("unknown version "+release, "use Linux 5.19 or later")
	}
	switch old := big < 5 || big == 5 && small < 19; {
	case old && wsl(release) && big < 5:
		return fail("WSL 1, which has no Linux kernel", "in Windows: wsl --set-version <distribution> 2")
	case old && wsl(release):
		return fail("Linux "+release, "in Windows: wsl --update, then wsl --shutdown; WSL 2.5 and later have a kernel that is new enough")
	case old:
		return fail("Linux "+release, "use Linux 5.19 or later: overlay filesystems with idmapped layers need it")
	}
	return fine("Linux " + release)
}

// wsl says whether the kernel is that of the Windows Subsystem for Linux.
func wsl(release string) bool { return strings.Contains(strings.ToLower(release), "microsoft") }

func namespaces(h Host) Finding {
	var missing []string
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		if !h.exists("proc/self/ns/" + ns) {
			missing = append(missing, ns)
		}
	}
	if len(missing) > 0 {
		return fail("no "+strings.Join(missing, ", ")+" namespaces", "use a kernel built with CONFIG_NAMESPACES and all of its kinds")
	}
	return fine("all seven")
}

func userNamespaces(h Host) Finding {
	const name = "user.max_user_namespaces"
	n, absent, err := h.setting(name)
	switch {
	case err != nil:
		return warn("cannot read "+name, "mount /proc/sys")
	case absent:
		return fail("the kernel has none", "use a kernel built with CONFIG_USER_NS")
	case n == 0:
		return fail("switched off", "sysctl -w "+name+"=65536").by("sysctl -w " + name + "=65536")
	case n < int64(h.MaxSessions):
		return tooLow(h, name, n, 2*int64(h.MaxSessions))
	}
	return fine(fmt.Sprintf("at most %d", n))
}

// namespaceCounts are those of the other kinds. The kernel gives each a
// maximum of its own, as a rule all the same.
func namespaceCounts(h Host) Finding {
	least, kind := int64(math.MaxInt64), ""
	for _, name := range []string{"mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		name = "user.max_" + name + "_namespaces"
		n, absent, err := h.setting(name)
		if err != nil || absent {
			return warn("cannot read "+name, "mount /proc/sys")
		}
		if n < least {
			least, kind = n, name
		}
	}
	if least < int64(h.MaxSessions) {
		return tooLow(h, kind, least, 2*int64(h.MaxSessions))
	}
	return fine(fmt.Sprintf("at most %d of each kind", least))
}

// cgroups tells the three layouts apart: v2 alone, v1 with an empty v2 beside
// it (hybrid), and v1 alone.
func cgroups(h Host) Finding {
	needed := []string{"cpu", "memory", "pids"}
	v2 := "boot with systemd.unified_cgroup_hierarchy=1"
	if release, err := h.text("proc/sys/kernel/osrelease"); err == nil && wsl(release) {
		v2 = "write kernelCommandLine=cgroup_no_v1=all below [wsl2] in %UserProfile%\\.wslconfig and wsl --shutdown"
	}
	if controllers, err := h.text("sys/fs/cgroup/cgroup.controllers"); err == nil {
		if missing := missingFrom(needed, strings.Fields(controllers)); len(missing) > 0 {
			return fail("v2 without "+strings.Join(missing, ", "), "boot without cgroup_disable=, or hand these controllers down to this cgroup")
		}
		return fine("v2 with " + controllers)
	}
	var mounted []string
	for _, controller := range needed {
		if h.exists("sys/fs/cgroup/" + controller + "/tasks") {
			mounted = append(mounted, controller)
		}
	}
	if missing := missingFrom(needed, mounted); len(missing) > 0 {
		return fail("v1 without "+strings.Join(missing, ", "), "mount cgroup v2 on /sys/fs/cgroup, or "+v2)
	}
	if !h.exists("sys/fs/cgroup/unified/cgroup.procs") {
		return warn("v1", v2+": on v1 ending a sandbox takes longer")
	}
	return fine("hybrid: v1 controllers, v2 for ending")
}

// kernelMemory asks whether the limits on memory count what the kernel keeps for a
// session: files, pipes, queues, and what waits in sockets. v2 counts all of it unless it
// was told not to at boot; v1 has a limit of its own for TCP and UDP.
func kernelMemory(h Host) Finding {
	options, err := h.text("proc/cmdline")
	if err != nil {
		return warn("unknown", "mount /proc")
	}
	var off []string
	for option := range strings.FieldsSeq(options) {
		if value, ours := strings.CutPrefix(option, "cgroup.memory="); ours {
			off = append(off, strings.Split(value, ",")...)
		}
	}
	const unbounded = " in no limit: a session can fill the host's memory with them"
	v2 := h.exists("sys/fs/cgroup/cgroup.controllers")
	switch {
	case slices.Contains(off, "nokmem"):
		return warn("files, pipes and queues are"+unbounded, "boot without cgroup.memory=nokmem")
	case v2 && slices.Contains(off, "nosocket"):
		return warn("sockets are"+unbounded, "boot without cgroup.memory=nosocket")
	case !v2 && !h.exists("sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes"):
		return warn("sockets are"+unbounded, "boot with systemd.unified_cgroup_hierarchy=1: cgroup v2 counts them")
	}
	return fine("in the limits")
}

func missingFrom(needed, have []string) []string {
	return slices.DeleteFunc(slices.Clone(needed), func(n string) bool { return slices.Contains(have, n) })
}

func overlayfs(h Host) Finding {
	filesystems, err := h.text("proc/filesystems")
	if err != nil {
		return warn("cannot read /proc/filesystems", "mount /proc")
	}
	if !slices.Contains(strings.Fields(filesystems), "overlay") {
		return fail("not loaded", "modprobe overlay, and write overlay into /etc/modules-load.d/sandkasten.conf").by("modprobe overlay")
	}
	return fine("available")
}

func seccomp(h Host) Finding {
	actions, err := h.text("proc/sys/kernel/seccomp/actions_avail")
	if err != nil || !slices.Contains(strings.Fields(actions), "errno") {
		return fail("no seccomp filters", "use a kernel built with CONFIG_SECCOMP_FILTER")
	}
	return fine("filters")
}

func landlock(h Host) Finding {
	abi, err := h.LandlockABI()
	switch {
	case err != nil:
		return warn("unknown: "+err.Error(), "")
	case abi == 0:
		return warn("not available", "boot with landlock in lsm=: one of several walls is missing without it")
	}
	return fine(fmt.Sprintf("ABI %d", abi))
}

// Core dump helpers run as root on the host, outside every sandbox. Sandboxes
// have an RLIMIT_CORE of one byte against them.
func coreDumps(h Host) Finding {
	pattern, err := h.text("proc/sys/kernel/core_pattern")
	switch {
	case err != nil:
		return warn("cannot read core_pattern", "mount /proc/sys")
	case strings.HasPrefix(pattern, "|"):
		return fine("a helper handles them; sandboxes make none")
	}
	return fine("written to files; sandboxes make none")
}

func ttyInjection(h Host) Finding {
	n, absent, err := h.setting("dev.tty.legacy_tiocsti")
	if err == nil && !absent && n == 0 {
		return fine("closed by the kernel and by our filter")
	}
	return fine("closed by our filter")
}

func ioUring(h Host) Finding {
	n, absent, err := h.setting("kernel.io_uring_disabled")
	if err == nil && !absent && n > 0 {
		return fine("closed by the kernel and by our filter")
	}
	return fine("closed by our filter")
}
