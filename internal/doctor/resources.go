package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// These checks are about what the host has, and has left.

const mib = 1 << 20

// What a session takes; docs/density.md has what was measured of idle ones.
const (
	idleMemory        = 3 * mib
	tasksPerSession   = 16 // processes and threads: 11 when idle, the rest for what it runs
	filesPerSession   = 64 // of the whole host: 40 when idle
	daemonPerSession  = 4  // descriptors of the daemon: 1 when idle
	daemonDescriptors = 1024
)

// Every sandbox writes into a sized ext4 image of its own.
func diskLimits(h Host) Finding {
	if !h.exists("dev/loop-control") {
		return fail("no loop devices", "modprobe loop, and write loop into /etc/modules-load.d/sandkasten.conf").by("modprobe loop")
	}
	if !h.hasTool("mkfs.ext4") {
		return fail("no mkfs.ext4", "apt-get install e2fsprogs").by("apt-get install e2fsprogs")
	}
	return fine("a sized ext4 image per sandbox")
}

// forks says what a fork costs.
func forks(h Host) Finding {
	switch left, err := h.Space(h.existing()); {
	case h.Pool && !h.hasTool("mkfs.xfs"):
		return fail("disk.pool_mb is set, and there is no mkfs.xfs", "apt-get install xfsprogs, or set disk.pool_mb to 0").by("apt-get install xfsprogs")
	case h.Pool:
		return fine("disks are in a pool, and a fork copies no data")
	case err == nil && left.Shares:
		return fine("the file system of data_dir shares data between files, and a fork copies none")
	}
	return fine("a fork copies what its session has written; disk.pool_mb makes forks that share it")
}

func dataDir(h Host) Finding {
	const others = 0o077
	info, err := os.Stat(h.DataDir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fine(h.DataDir + " will be made")
	case err != nil:
		return fail(err.Error(), "choose another data_dir")
	case !info.IsDir():
		return fail(h.DataDir+" is not a directory", "choose another data_dir")
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != h.UID {
		return fail(fmt.Sprintf("%s belongs to user %d", h.DataDir, owner.Uid), fmt.Sprintf("chown %d %s", h.UID, h.DataDir)).by(fmt.Sprintf("chown %d %s", h.UID, quote(h.DataDir)))
	}
	if info.Mode().Perm()&others != 0 {
		return warn(fmt.Sprintf("%s is open to others (mode %04o)", h.DataDir, info.Mode().Perm()), "chmod 0700 "+h.DataDir).by("chmod 0700 " + quote(h.DataDir))
	}
	return fine(h.DataDir)
}

// foreign are the file systems of other systems and of networks: 9p and drvfs
// are how WSL shows Windows' disks.
var foreign = []string{"9p", "drvfs", "virtiofs", "ntfs", "ntfs3", "fuseblk", "vfat", "exfat", "msdos", "nfs", "nfs4", "cifs", "smb3"}

// fileSystem refuses to keep data where files have no owners, modes or locks of
// Linux: the sandboxes' disks, the key and the database need them.
func fileSystem(h Host) Finding {
	kind, err := h.mounted(h.existing())
	switch {
	case err != nil:
		return warn("unknown: "+err.Error(), "mount /proc")
	case slices.Contains(foreign, kind):
		return fail(fmt.Sprintf("%s is on %s, without the owners, modes and locks of Linux", h.DataDir, kind),
			"set data_dir to a directory on a disk of this system, as /var/lib/sandkasten on ext4; in WSL anything but /mnt/c and its like")
	}
	return fine(kind)
}

// mounted is the type of the file system that a directory is on.
func (h Host) mounted(dir string) (kind string, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	text, err := h.text("proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	longest := -1
	for line := range strings.Lines(text) {
		mount, filesystem, _ := strings.Cut(line, " - ")
		fields, types := strings.Fields(mount), strings.Fields(filesystem)
		if len(fields) < 5 || len(types) == 0 {
			continue
		}
		// Of two at one place the later covers the other.
		point := strings.TrimSuffix(unescape.Replace(fields[4]), "/")
		if strings.HasPrefix(dir+"/", point+"/") && len(point) >= longest {
			longest, kind = len(point), types[0]
		}
	}
	if longest < 0 {
		return "", fmt.Errorf("no mount of %s in /proc/self/mountinfo", dir)
	}
	return kind, nil
}

// unescape makes a path of what mountinfo shows of it.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// existing is the data directory, or what will hold it.
func (h Host) existing() string {
	dir := h.DataDir
	for dir != "/" && dir != "." {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// freeSpace looks at the data directory, or at what will hold it.
func freeSpace(h Host) Finding {
	const (
		lowBytes   = 2 << 30
		emptyBytes = 256 << 20
		lowInodes  = 100_000
	)
	dir := h.existing()
	left, err := h.Space(dir)
	if err != nil {
		return warn("unknown: "+err.Error(), "")
	}
	found := fmt.Sprintf("%d MiB in %s", left.Bytes/mib, dir)
	mend := "free some, or move data_dir to a larger disk"
	switch {
	case left.Bytes < emptyBytes:
		return Finding{Status: Fail, Found: found, Mend: mend, Creates: true}
	case left.Bytes < lowBytes:
		return warn(found, mend)
	case left.Inodes > 0 && left.Inodes < lowInodes: // btrfs counts none and says 0
		return warn(fmt.Sprintf("%d files more in %s", left.Inodes, dir), mend)
	}
	return fine(found)
}

// memory is for sessions that do nothing: how much others need nobody knows.
func memory(h Host) Finding {
	total, ok := h.field("proc/meminfo", "MemTotal:")
	kib, err := strconv.ParseInt(strings.TrimSuffix(total, " kB"), 10, 64)
	if !ok || err != nil {
		return warn("unknown", "mount /proc")
	}
	found := fmt.Sprintf("%d MiB", kib>>10)
	if needed := int64(h.MaxSessions) * idleMemory; kib<<10 < needed {
		return warn(fmt.Sprintf("%s, for up to %d sessions, which take %d MiB when they do nothing", found, h.MaxSessions, needed/mib), "add memory, or lower max_sessions")
	}
	return fine(found)
}

func openFiles(h Host) Finding {
	limits, ok := h.field("proc/self/limits", "Max open files")
	fields := strings.Fields(limits)
	if !ok || len(fields) < 2 {
		return warn("unknown limit", "mount /proc")
	}
	hard, err := strconv.Atoi(fields[1])
	if err != nil { // "unlimited"
		return fine(fields[1])
	}
	if needed := daemonPerSession*h.MaxSessions + daemonDescriptors; hard < needed {
		return warn(fmt.Sprintf("at most %d, for up to %d sessions", hard, h.MaxSessions), fmt.Sprintf("ulimit -Hn %d (systemd: LimitNOFILE=), or lower max_sessions", needed))
	}
	return fine(fmt.Sprintf("at most %d", hard))
}

func openFilesOfAll(h Host) Finding {
	return enough(h, "fs.file-max", int64(h.MaxSessions)*filesPerSession)
}

func processes(h Host) Finding {
	return enough(h, "kernel.pid_max", int64(h.MaxSessions)*tasksPerSession)
}

func threads(h Host) Finding {
	return enough(h, "kernel.threads-max", int64(h.MaxSessions)*tasksPerSession)
}

// terminals are a matter of sessions that open one: shells have none. The
// kernel keeps some of them back for the host's own programs.
func terminals(h Host) Finding {
	const name = "kernel.pty.max"
	n, absent, err := h.setting(name)
	reserve, _, reserveErr := h.setting("kernel.pty.reserve")
	if err != nil || absent || reserveErr != nil {
		return warn("cannot read "+name, "mount /proc/sys")
	}
	if n-reserve < int64(h.MaxSessions) {
		return tooLow(h, name, n, int64(h.MaxSessions)+reserve)
	}
	return fine(fmt.Sprintf("%s is %d, of which sandboxes may have %d", name, n, n-reserve))
}

// userIDs are the one limit that no setting of the host raises.
func userIDs(h Host) Finding {
	switch {
	case h.MaxIDs == 0:
		return fine("not counted")
	case h.MaxIDs < h.MaxSessions:
		return warn(fmt.Sprintf("for %d sandboxes, for up to %d sessions", h.MaxIDs, h.MaxSessions), "lower max_sessions, or share the load among hosts")
	}
	return fine(fmt.Sprintf("for %d sandboxes", h.MaxIDs))
}

// enough compares a setting with what all sessions need of it.
func enough(h Host, name string, needed int64) Finding {
	n, absent, err := h.setting(name)
	switch {
	case err != nil || absent:
		return warn("cannot read "+name, "mount /proc/sys")
	case n < needed:
		return tooLow(h, name, n, needed)
	}
	return fine(fmt.Sprintf("%s is %d", name, n))
}

// tooLow says that a setting is too low for all sessions, and how to raise it
// for now and for good.
func tooLow(h Host, name string, n, needed int64) Finding {
	return warn(fmt.Sprintf("%s is %d, for up to %d sessions", name, n, h.MaxSessions),
		fmt.Sprintf("sysctl -w %[1]s=%[2]d and write %[1]s=%[2]d into /etc/sysctl.d/sandkasten.conf, or lower max_sessions", name, needed)).by(fmt.Sprintf("sysctl -w %s=%d", name, needed))
}

// protectedLinks are about the host's own users, not about sandboxes.
func protectedLinks(h Host) Finding {
	var open []string
	for _, name := range []string{"fs.protected_symlinks", "fs.protected_hardlinks"} {
		if n, absent, err := h.setting(name); err == nil && !absent && n == 0 {
			open = append(open, name)
		}
	}
	if len(open) > 0 {
		command := "sysctl -w " + strings.Join(open, "=1 ") + "=1"
		return warn(strings.Join(open, " and ")+" off", command+": it protects the host's own programs").by(command)
	}
	return fine("protected")
}

func swap(h Host) Finding {
	table, err := h.text("proc/swaps")
	if err == nil && strings.Count(table, "\n") > 0 {
		return warn("on: what sandboxes hold in memory may reach the disk", "swapoff -a, or encrypt the swap").by("swapoff -a")
	}
	return fine("off")
}

func memoryMerging(h Host) Finding {
	if n, err := h.number("sys/kernel/mm/ksm/run"); err == nil && n == 1 {
		return warn("on: a sandbox can guess pages of another", "echo 2 > /sys/kernel/mm/ksm/run").by("echo 2 > /sys/kernel/mm/ksm/run")
	}
	return fine("off")
}

func hyperThreads(h Host) Finding {
	if n, err := h.number("sys/devices/system/cpu/smt/active"); err == nil && n == 1 {
		return warn("on: sandboxes of strangers share cores", "boot with nosmt if sandboxes do not trust each other")
	}
	return fine("off")
}

func clock(h Host) Finding {
	unsynced, err := h.ClockUnsynced()
	switch {
	case err != nil:
		return warn("unknown: "+err.Error(), "")
	case unsynced:
		return warn("not synchronised", "run a time service: expiry is kept as wall-clock time")
	}
	return fine("synchronised")
}

// memoryToDisk says what no host can do so far; see decision 15.
func memoryToDisk(h Host) Finding {
	found := "not available: a paused session keeps its memory in RAM"
	if h.hasTool("criu") {
		found += "; criu is here, but cannot bring our sandboxes back"
	}
	return fine(found)
}

func imageBuild(h Host) Finding {
	if !h.hasTool("mmdebstrap") {
		return warn("no mmdebstrap: `sandkasten image build` cannot work", "apt-get install mmdebstrap; `image import` and `image pull` work without it").by("apt-get install mmdebstrap")
	}
	return fine("mmdebstrap")
}
