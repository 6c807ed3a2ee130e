// Package protection names what protects sandboxes and the daemon, as far as
// test/attack/control takes it away, one protection at a time, to see that the
// attacks notice: those on a daemon and those on the native driver alone. It is the
// only way to take one away, and archtest counts the places. A build without the
// tag "weaken" compiles Off to false and has nothing of it. The environment says
// which protections are off, so the control chooses and the code only says where
// each one is. How a protection works does not belong here.
//
// SANDKASTEN_TEST_WEAKEN holds names, separated by commas. Limits become wider
// and do not vanish. What would open the host to more than the canaries of the
// battery, as the user namespace, is not among them.
package protection

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
	OwnInodes       Protection = "own-inodes" // of device nodes
	RunnerID        Protection = "runner-id"
	ProgramMode     Protection = "programmode"
	RunnerSignals   Protection = "runner-signals"
	EnvironmentWall Protection = "environment"
	NoSuid          Protection = "nosuid" // of the root file system and the disks
	Reaping         Protection = "reaping"
)

// Limits of a sandbox.
const (
	MemoryLimit    Protection = "memory"
	CPULimit       Protection = "cpu"
	PidsLimit      Protection = "pids"
	FileTable      Protection = "file-table" // of the host
	Terminals      Protection = "terminals"
	DiskLimit      Protection = "disk"
	InodeLimit     Protection = "inodes"
	MemoryFiles    Protection = "memory-files" // of /dev/shm
	OutputBound    Protection = "output"
	ArchiveBound   Protection = "archive-limits"
	PackBound      Protection = "pack-limits"
	SnapshotBound  Protection = "snapshot-entries"
	BodyLimit      Protection = "body-limit"
	HeaderTime     Protection = "header-time"
	AnswerHeader   Protection = "answer-header" // of a server inside
	SocketMemory   Protection = "socket-memory" // on cgroup v1
	NetlinkSockets Protection = "netlink"
	Backlog        Protection = "backlog" // of connections that nobody accepts
	ListingBound   Protection = "listing"
)

// What the runner does for execs and files.
const (
	KillTree     Protection = "kill-tree"   // a timeout ends what left the session, too
	KillHard     Protection = "kill-hard"   // KILL after TERM
	KillResume   Protection = "kill-resume" // what is stopped goes on, to see TERM
	SignalCodes  Protection = "signal-codes"
	ShellRestart Protection = "shell-restart"
	ShellQuoting Protection = "shell-quoting"
	ShellStatus  Protection = "shell-status" // which no command has open
	ShellStdin   Protection = "shell-stdin"
	CommandText  Protection = "command-text" // without NUL
	ShellOutput  Protection = "shell-output" // a pipe that no job has
	FilePaths    Protection = "file-paths"
	SpecialFiles Protection = "special-files"
	AtomicWrites Protection = "atomic-writes"
	ArchiveNames Protection = "archive-names"
	ArchivePaths Protection = "archive-paths"
	ArchiveModes Protection = "archive-modes"
	ArchiveLinks Protection = "archive-links"
)

// What the daemon asks of its clients.
const (
	Keys          Protection = "keys"
	Owner         Protection = "owner"
	HostHeader    Protection = "host-header"
	Origin        Protection = "origin"
	CleanPaths    Protection = "clean-paths"
	StrictJSON    Protection = "strict-json"
	RequestSchema Protection = "request-schema" // ranges, lengths and forms of what a request has
	RequestSizes  Protection = "request-sizes"  // of environments and labels
	Names         Protection = "names"
	SameRequest   Protection = "same-request" // of one Idempotency-Key
	Credentials   Protection = "credentials"
	ForeignReply  Protection = "foreign-reply" // of a server inside
	AllowList     Protection = "allow-list"
	SignInWait    Protection = "sign-in-wait"  // after failures
	SignInEnd     Protection = "sign-in-end"   // with a password, a state, or by signing out
	CSRFToken     Protection = "csrf-token"    // beside a cookie
	HeaderCount   Protection = "header-count"  // as they arrive
	OwnPassword   Protection = "own-password"  // is changed by who knows it, or may all that it gives
	Inspect       Protection = "inspect"       // is a right of its own, for admins
	PreviewEnd    Protection = "preview-end"   // with the credential that a preview token was made with
	StreamEnd     Protection = "stream-end"    // with the credential that it was opened with
	CookieRoutes  Protection = "cookie-routes" // that take a cookie: none that leads into a sandbox
	CookieFlags   Protection = "cookie-flags"  // which keep it from scripts and from other sites
	Frames        Protection = "frames"        // of other sites, which show no page of ours
)

// What a sandbox reaches.
const (
	AddressRanges  Protection = "address-ranges" // that are not public
	OwnAddresses   Protection = "own-addresses"  // of the host
	ListedNames    Protection = "listed-names"
	PublicAnswers  Protection = "public-answers" // of name servers
	ServerNames    Protection = "server-names"   // in TLS
	RequestHosts   Protection = "request-hosts"
	MaxConnections Protection = "connections"
	OwnerShare     Protection = "owner-share" // of all connections
	CutOnChange    Protection = "cut-on-change"
	SecretMask     Protection = "secret-mask"  // in what a host repeats
	WebRequests    Protection = "web-requests" // of one sandbox at once, through the daemon's proxy
)

// What the daemon takes from a runner, and what it and the command line say to
// others.
const (
	RunnerRecords Protection = "runner-records"
	RunnerFiles   Protection = "runner-files"
	SandboxGone   Protection = "sandbox-gone" // is told of what ran there
	RawOutput     Protection = "raw-output"   // in base64
	EventLines    Protection = "event-lines"
	FileLength    Protection = "file-length"
	SaveAs        Protection = "save-as"
	NoSniff       Protection = "nosniff"
	TerminalText  Protection = "terminal-text"
	LogFields     Protection = "log-fields"
	LogQuotes     Protection = "log-quotes"
	LogSecrets    Protection = "log-secrets" // of requests
	StoreErrors   Protection = "store-errors"
	AuditSample   Protection = "audit-sample" // of requests without a key
)

// Wider is a limit, which is so many times as wide without its protection.
func Wider[N int | int64 | float64](p Protection, limit, times N) N {
	if Off(p) {
		return limit * times
	}
	return limit
}
