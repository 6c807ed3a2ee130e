package coverage

// DockerSections are those of the list whose cases are run on a Docker engine as
// well, which is case D02.
const DockerSections = "KPRESNW"

// OnDocker says what a case does otherwise there, where it does: what containers
// have in another way, and what is weaker in them. The test of such a case asks
// where it is.
var OnDocker = map[string]string{
	"K08": "an x32 call ends the thread that makes it, where natively it does not exist",
	"K10": "without the limit of the disk, which the engine of the battery does not have: R04",
	"K16": "the relay holds what the runner holds",
	"K19": "without the user namespace, which is the engine's to give (`userns-remap`)",
	"K23": "without becoming the runner's user, which is root there",
	"N01": "one thread of the runner can be signalled by root, and blocks all signals",
	"N02": "for programs that are not root: root is the runner's user, and can lower its limits and priority, by which its own session stops answering",
	"N04": "the name of the runner's socket is seen, which hangs up on whoever connects",
	"P01": "without `/sys/fs/cgroup`: P05",
	"P03": "root may open files that other rights are needed to write: none of them takes a write",
	"P04": "`/dev/mqueue` is there, of the container's own",
	"P05": "the container's own control group can be read; nothing of it can be written",
	"P06": "the runner is the same user, and seen: its descriptors are counted, not followed, and it can be put first in line for want of memory",
	"P12": "mounts say where the engine keeps its files, and the boot id is the host's",
	"P15": "not at all: `/proc/meminfo`, `/proc/stat`, `/proc/cpuinfo` and `/proc/loadavg` are the host's",
	"R02": "without the count of what was killed, which an engine does not tell",
	"R03": "`/tmp` and `/run` are on the disk, unless the root is read-only; files in `/dev` are as many as the memory takes",
	"R04": "no limit holds where the engine has no quotas, and a session that asks for one is refused with 501; where it has them: `TestEngineDisk` in `internal/runtime/docker`",
	"R05": "as R04; nothing limits the number of files",
	"R06": "less comes through the relay",
	"R07": "what the kernel counts per user, as `fs.inotify.max_user_instances`, all containers share with the host's user of the same number, unless the engine remaps users: one session can take all until it ends",
	"R08": "terminals are the host's (`kernel.pty.max`), and one session can take all: others are refused theirs with 503 until it ends",
	"R11": "without the peak of the memory, which an engine does not tell with cgroup v2",
	"R14": "as R04",
	"R16": "not at all: `fs.file-max` is a setting of the engine's host",
	"R18": "nothing: what sockets hold is counted where the engine uses cgroup v2, and with cgroup v1 bounded by the host's `tcp_mem` and `udp_mem` alone",
	"R19": "nothing: unread answers of netlink are bounded by open files alone",
	"W10": "without IPv6, of which there is not even loopback",
}
