// Package weaken names the protections that the negative control of the attack
// battery takes away, one at a time, to see that the battery notices. A build
// without the tag "weaken" compiles Off to false and has nothing of it. Which
// protections are off comes from the environment, so the control chooses and
// the code only says where each one is. What a protection consists of does not
// belong here.
//
// SANDKASTEN_TEST_WEAKEN holds names, separated by commas. Limits become wider
// and do not vanish, and what would open the host to more than the canaries of
// the battery, as the user namespace, is not among them.
package weaken

// Protection is one of those that can be off.
type Protection string

// The kernel's surface, and what a process inside may do.
const (
	Seccomp         Protection = "seccomp"
	NoNewPrivs      Protection = "nnp"
	Capabilities    Protection = "caps"
	Landlock        Protection = "landlock"
	CoreLimit       Protection = "corelimit"
	NetworkNS       Protection = "network-ns"
	IPCNS           Protection = "ipc-ns"
	CgroupNS        Protection = "cgroup-ns"
	CloseOnExec     Protection = "close-on-exec"
	MaskedPaths     Protection = "masks"
	Hidepid         Protection = "hidepid"
	Devices         Protection = "devices"
	RunnerID        Protection = "runner-id"
	ProgramMode     Protection = "programmode"
	RunnerSignals   Protection = "runner-signals"
	EnvironmentWall Protection = "environment"
)

// Limits of a sandbox.
const (
	MemoryLimit  Protection = "memory"
	PidsLimit    Protection = "pids"
	DiskLimit    Protection = "disk"
	InodeLimit   Protection = "inodes"
	MemoryFiles  Protection = "memory-files" // of /dev/shm
	OutputBound  Protection = "output"
	ArchiveBound Protection = "archive-limits"
	BodyLimit    Protection = "body-limit"
	HeaderTime   Protection = "header-time"
)

// What the runner does for execs and files.
const (
	KillTree     Protection = "kill-tree" // a timeout ends what left the session, too
	KillHard     Protection = "kill-hard" // KILL after TERM
	ShellRestart Protection = "shell-restart"
	ShellQuoting Protection = "shell-quoting"
	ShellStatus  Protection = "shell-status" // which no command has open
	ShellStdin   Protection = "shell-stdin"
	FilePaths    Protection = "file-paths"
	SpecialFiles Protection = "special-files"
	ArchiveNames Protection = "archive-names"
	ArchivePaths Protection = "archive-paths"
	ArchiveModes Protection = "archive-modes"
	ArchiveLinks Protection = "archive-links"
)

// What the daemon asks of its clients.
const (
	Keys         Protection = "keys"
	Owner        Protection = "owner"
	HostHeader   Protection = "host-header"
	Origin       Protection = "origin"
	StrictJSON   Protection = "strict-json"
	Credentials  Protection = "credentials"
	ForeignReply Protection = "foreign-reply" // of a server inside
	AllowList    Protection = "allow-list"
)
