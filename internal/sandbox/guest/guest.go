// Package guest is what programs find in a sandbox whatever driver made it:
// their environment, where the workspace is, and what /proc does not show. It
// is also what no driver makes, and how a runner is told of its session.
package guest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Workspace is where a session's files are.
const Workspace = "/workspace"

// Hostname is the name of a sandbox that was given none.
const Hostname = "sandbox"

// MaskedFiles must not be seen: host-wide facts, counts of what others do, and
// switches. What does not exist on a host, or only root may touch, needs no mask: in a
// sandbox nobody is the host's root.
var MaskedFiles = slices.Concat(
	proc(`allocinfo apm bootconfig buddyinfo cgroups cmdline config.gz consoles crypto devices diskstats dma execdomains fb
		interrupts iomem ioports kallsyms kcore key-users keys kmsg kpagecgroup kpagecount kpageflags latency_stats
		lock_stat lockdep lockdep_chains lockdep_stats locks mdstat misc modules mtrr pagetypeinfo partitions sched_debug
		schedstat slabinfo softirqs swaps sysrq-trigger timer_list timer_stats vmallocinfo vmcore vmstat zoneinfo`),
	// Settings may be read; these are counts of what the whole host does, or name its parts.
	proc(`sys/fs/aio-nr sys/fs/dentry-state sys/fs/file-nr sys/fs/inode-nr sys/fs/inode-state sys/fs/nfs/nlm_grace_period
		sys/kernel/hung_task_detect_count sys/kernel/pty/nr sys/kernel/random/entropy_avail sys/kernel/tainted sys/vm/numa_stat`),
)

// MaskedDirs must not be seen either.
var MaskedDirs = proc(`acpi asound bus device-tree driver dynamic_debug fs ide irq mpt pressure scsi spl sys/dev sys/fs/quota
	sys/sunrpc tty/driver xen`)

// proc are paths below /proc.
func proc(names string) []string {
	paths := strings.Fields(names)
	for i, name := range paths {
		paths[i] = "/proc/" + name
	}
	return paths
}

// ReadonlyPaths may be read but not written, whoever asks.
var ReadonlyPaths = []string{"/proc/sys"}

// Environment lays a session's variables over its image's ("NAME=value"), sorted.
// HOME, USER and SHELL are there whatever the image says.
func Environment(image []string, session map[string]string, shell string) []string {
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": shell, "LANG": "C.UTF-8",
	}
	if protection.Off(protection.EnvironmentWall) {
		image = append(os.Environ(), image...)
	}
	for _, kv := range image {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	maps.Copy(env, session)
	return Variables(env)
}

// Variables is env as a sorted list.
func Variables(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// NewMachineID makes one as in machine-id(5).
func NewMachineID() string {
	var random [16]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(random[:])
}

// NewBootID makes one as the kernel does: a random UUID.
func NewBootID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails, as above
	id[6], id[8] = id[6]&0xf|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// Limits is what a sandbox has of which neither its Spec nor the driver's
// options say more.
var Limits = runtime.Limits{CPU: 1, MemoryMB: 512, Pids: 512, DiskMB: 2048}

// CheckSpec refuses names that are none, and what no driver can do.
func CheckSpec(id runtime.ID, spec runtime.Spec) error {
	if id == "" || strings.ContainsAny(string(id), "/.") {
		return errdefs.Invalid("id", "must be a plain name")
	}
	if !slices.Contains([]runtime.SeccompMode{"", runtime.SeccompStrict, runtime.SeccompMVP, runtime.SeccompOff}, spec.Seccomp) {
		return errdefs.Invalid("seccomp", "must be strict, mvp or off, not %q", spec.Seccomp)
	}
	return spec.Network.Validate()
}
