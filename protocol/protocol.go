// Package protocol is the wire between the daemon and the runner inside a
// sandbox: message types, the frame codec and its limits. Both sides import
// it, so it knows nothing of either. PROTOCOL.md describes it for readers.
//
// The daemon is always the client and the runner is hostile to it: nothing a
// runner sends is ever a path, an id or a size that the daemon acts on.
package protocol

import (
	"cmp"
	"fmt"
)

// The versions that this build speaks, as a daemon and as a runner: all from
// MinVersion to Version. The daemon asks a runner for its own with Ping.
const (
	Version    = 2
	MinVersion = 2
)

// Limits of the wire. A frame beyond them ends the connection.
const (
	MaxHeader    = 256 << 10 // one JSON line
	MaxPayload   = 256 << 10 // the raw bytes behind one line, but for those below
	MaxCommand   = 1 << 20   // an Exec's command, and the stdin of an Exec and a Start
	MaxArguments = 2 << 20   // a Start's arguments, and its environment: as much as the kernel takes of both, with a stack of 8 MiB
	MaxPath      = 4096
	MaxPattern   = 4096 // a glob or a regular expression
)

// Type names a message. The comment says who sends it and what the body is.
type Type string

// A connection carries one operation at a time: the daemon sends a request,
// the runner answers with zero or more Output frames and exactly one final
// frame (marked F), then the daemon may send the next request.
const (
	TypePing    Type = "ping"    // daemon: no body
	TypePong    Type = "pong"    // runner, F: Pong
	TypeExec    Type = "exec"    // daemon: Exec; payload: command, then stdin
	TypeAttach  Type = "attach"  // daemon: Attach
	TypeOutput  Type = "output"  // runner: Output; payload: bytes
	TypeDone    Type = "done"    // runner, F: Record
	TypeCancel  Type = "cancel"  // daemon: Cancel; answer OK
	TypeExecs   Type = "execs"   // daemon: no body
	TypeRecords Type = "records" // runner, F: Records
	TypeRead    Type = "read"    // daemon: Read
	TypeFile    Type = "file"    // runner, F: FileInfo; payload: FileInfo.Bytes bytes, any number
	TypeWrite   Type = "write"   // daemon: Write; payload: Write.Bytes bytes, any number
	TypeList    Type = "list"    // daemon: List
	TypeEntries Type = "entries" // runner, F: Entries
	TypeResize  Type = "resize"  // daemon: Resize

	TypeAccepted Type = "accepted" // runner: no body; the runner has the exec, if it was asked to say so

	TypeStart      Type = "start"       // daemon: Start; payload: arguments, environment, stdin
	TypeStarted    Type = "started"     // runner, F: Record; the answer to a Start in the background
	TypeStdin      Type = "stdin"       // daemon: Stdin; payload: bytes
	TypeTaken      Type = "taken"       // runner, F: Taken
	TypeSignal     Type = "signal"      // daemon: Signal; answer OK
	TypeShells     Type = "shells"      // daemon: no body
	TypeShellList  Type = "shell_list"  // runner, F: ShellList
	TypeCloseShell Type = "close_shell" // daemon: CloseShell; answer OK

	TypeSettle Type = "settle" // daemon: Settle; payload: environment; answer OK

	TypeHold Type = "hold" // daemon: Hold
	TypeHeld Type = "held" // runner, F: Held

	TypePorts    Type = "ports"     // daemon: no body
	TypePortList Type = "port_list" // runner, F: PortList
	TypeDial     Type = "dial"      // daemon: Dial; after OK the connection is the port's

	TypeStat     Type = "stat"     // daemon: Stat
	TypeInfo     Type = "info"     // runner, F: FileInfo
	TypeMkdir    Type = "mkdir"    // daemon: Mkdir; answer OK
	TypeMove     Type = "move"     // daemon: Move; answer OK
	TypeCopy     Type = "copy"     // daemon: Copy; answer OK
	TypeRemove   Type = "remove"   // daemon: Remove; answer OK
	TypeChmod    Type = "chmod"    // daemon: Chmod; answer OK
	TypeGlob     Type = "glob"     // daemon: Glob; answer Entries
	TypeGrep     Type = "grep"     // daemon: Grep
	TypeMatches  Type = "matches"  // runner, F: Matches
	TypeEdit     Type = "edit"     // daemon: Edit; payload: old text, then new text
	TypeEdited   Type = "edited"   // runner, F: Edited; payload: the diff
	TypeWatch    Type = "watch"    // daemon: Watch; ends when the daemon closes the connection
	TypeChange   Type = "change"   // runner: Change
	TypePack     Type = "pack"     // daemon: Pack
	TypeBytes    Type = "bytes"    // runner: payload: the next bytes of a Pack; OK ends them
	TypeUnpack   Type = "unpack"   // daemon: Unpack; payload: the archive; answer Unpacked
	TypeUnpacked Type = "unpacked" // runner, F: Unpacked
	TypeLent     Type = "lent"     // runner: no body; the rest of the answer is a tool's
	TypeOK       Type = "ok"       // runner, F: no body
	TypeError    Type = "error"    // runner, F: Error
)

// Frame is one message: a JSON line {"type","body","bytes"} and, where bytes
// is not zero, that many raw bytes behind the newline.
type Frame struct {
	Type  Type  `json:"type"`
	Body  any   `json:"body,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
}

// Pong answers Ping with the versions that the runner speaks.
type Pong struct {
	Version int `json:"version"`       // the newest
	Min     int `json:"min,omitempty"` // the oldest; a runner that does not know the field speaks one
}

// Agree returns the newest version that both the runner and this build speak,
// and whether there is one.
func (p Pong) Agree() (version int, ok bool) {
	version = min(p.Version, Version)
	return version, version >= max(cmp.Or(p.Min, p.Version), MinVersion)
}

// Cause says how an exec ended. There is exactly one end.
type Cause string

// The causes.
const (
	CauseExited      Cause = "exited"       // by itself, with ExitCode
	CauseSignaled    Cause = "signaled"     // by a signal that nobody here sent; ExitCode is 128+signal
	CauseTimeout     Cause = "timeout"      // its time was up and its process tree was killed
	CauseOOMKilled   Cause = "oom_killed"   // the sandbox's memory limit
	CauseShellExited Cause = "shell_exited" // it ended or replaced the shell itself
	CauseCanceled    Cause = "canceled"     // by Cancel
	CauseSandboxGone Cause = "sandbox_gone" // set by the daemon: the runner died under it
)

// Exec runs Command (the first CommandBytes of the payload; the rest is
// stdin) in a shell. Execs of one shell run one after another.
type Exec struct {
	ID           string `json:"id"`    // chosen by the daemon, unique in the sandbox
	Shell        string `json:"shell"` // "" is the default shell
	CommandBytes int64  `json:"command_bytes"`
	TimeoutMS    int64  `json:"timeout_ms"` // from its start; 0 is none
	GraceMS      int64  `json:"grace_ms"`   // between TERM and KILL after a timeout
	OutputLimit  int64  `json:"output_limit"`

	// OutputFile, if set, gets all of the output, beside what is kept for
	// replay. It is a path as in Write, made or replaced when the exec starts.
	// An exec whose file cannot be made does not start.
	OutputFile   string `json:"output_file,omitempty"`
	AllowOutside bool   `json:"allow_outside,omitempty"` // for OutputFile

	Accept bool `json:"accept,omitempty"` // send Accepted when the exec can be attached to, before its output

	OpenStdin bool `json:"open_stdin,omitempty"` // stdin is a pipe that stays open for Stdin
}

// Start runs a program without a shell. The first ArgvBytes of the payload are
// its arguments, each followed by a zero byte, the program's name first; the
// next EnvBytes are variables in the same form, NAME=VALUE, that are added to
// the session's; the rest is stdin. Without arguments it is a login shell.
type Start struct {
	ID        string `json:"id"` // as in Exec
	ArgvBytes int64  `json:"argv_bytes"`
	EnvBytes  int64  `json:"env_bytes,omitempty"`
	Cwd       string `json:"cwd,omitempty"`  // "" is the workspace; relative ones begin there
	User      string `json:"user,omitempty"` // "" is the sandbox's own: a name or uid, with :group or :gid if wanted

	Merge bool `json:"merge,omitempty"` // one pipe for both outputs, so that they come in the order in which they were written

	TTY  bool   `json:"tty,omitempty"` // one terminal instead of three pipes
	Rows uint16 `json:"rows,omitempty"`
	Cols uint16 `json:"cols,omitempty"`

	OpenStdin  bool `json:"open_stdin,omitempty"` // stdin stays open for Stdin; a terminal's always does
	Background bool `json:"background,omitempty"` // answer with Started at once
	Accept     bool `json:"accept,omitempty"`     // as in Exec, of a program that is not in the background

	TimeoutMS   int64 `json:"timeout_ms"`          // as in Exec
	GraceMS     int64 `json:"grace_ms"`            // as in Exec
	HangupMS    int64 `json:"hangup_ms,omitempty"` // a terminal that nobody is attached to for so long is hung up; 0 is never
	OutputLimit int64 `json:"output_limit"`        // as in Exec

	OutputFile   string `json:"output_file,omitempty"` // as in Exec
	AllowOutside bool   `json:"allow_outside,omitempty"`
}

// Stdin hands bytes to a program or a shell's command whose stdin is open. Taken
// tells how many it took within WaitMS; the rest was not delivered.
type Stdin struct {
	ID     string `json:"id"`
	Close  bool   `json:"close,omitempty"` // end of file behind the bytes, once all are taken
	WaitMS int64  `json:"wait_ms"`
}

// Taken answers Stdin.
type Taken struct {
	Bytes  int64 `json:"bytes"`
	Closed bool  `json:"closed,omitempty"` // by this Stdin
}

// Signal sends a signal to the process group of a program, to the foreground
// job of its terminal, or to what a shell's command started.
type Signal struct {
	ID     string `json:"id"`
	Signal int    `json:"signal"`
}

// ShellInfo is a shell.
type ShellInfo struct {
	Name      string `json:"name"` // "" is the default shell
	PID       int    `json:"pid"`  // inside the sandbox; 0 while there is no process
	Exec      string `json:"exec,omitempty"`
	Queued    int    `json:"queued"` // execs that wait
	Cwd       string `json:"cwd"`
	Restarts  int    `json:"restarts"` // how often its process was replaced
	CreatedMS int64  `json:"created_unix_ms"`
	Jobs      []Job  `json:"jobs,omitempty"` // what its commands have left running; of all shells at most MaxJobs
}

// MaxJobs is how many jobs a list of shells has.
const MaxJobs = 256

// Job is a process in the background of a shell.
type Job struct {
	PID   int    `json:"pid"`
	Name  string `json:"name"`  // as it calls itself
	Usage Usage  `json:"usage"` // with all that it started
}

// ShellList answers Shells, by name.
type ShellList struct {
	Shells []ShellInfo `json:"shells"`
}

// CloseShell ends a shell, its execs as cancelled, and everything that it
// started. The next exec that names it gets a new one.
type CloseShell struct {
	Name string `json:"name"`
}

// Settle gives a sandbox that was made before it was known for whom to its
// session. Nothing may have been run in it before, and it is done once. The
// payload is variables as in a Start, which are added to the environment of
// all that is run from then on, shells too.
type Settle struct {
	Hostname  string `json:"hostname,omitempty"`   // "" keeps the one it has
	HostsFile string `json:"hosts_file,omitempty"` // content of /etc/hosts, with a Hostname
	Moved     bool   `json:"moved,omitempty"`      // another directory is at the workspace's path now
}

// Hold says whether programs may be started: with On none is from the answer on,
// and what is to start one waits. Without On it only asks.
type Hold struct {
	On *bool `json:"on,omitempty"`
}

// Held answers Hold: how it is now.
type Held struct {
	On bool `json:"on"`
}

// Port is a port on which something inside the sandbox listens.
type Port struct {
	Port     int    `json:"port"`
	Address  string `json:"address"` // an IP address; 0.0.0.0 or :: is any
	Loopback bool   `json:"loopback"`
}

// PortList answers Ports, by number.
type PortList struct {
	Ports []Port `json:"ports"`
}

// Dial connects to a TCP port of the sandbox's own loopback. After OK the
// connection carries that one's bytes, both ways, until either side closes.
type Dial struct {
	Port int `json:"port"`
}

// Output announces bytes of an exec's combined output. Offset is the position
// of the first one in all that the command wrote: it never repeats, and where
// it jumps the bytes between were dropped from the replay buffer.
type Output struct {
	Offset int64  `json:"offset"`
	Stream Stream `json:"stream,omitempty"`
}

// Stream says where bytes of an output come from. All streams of an exec share
// one sequence of offsets, in the order in which their bytes were read.
type Stream string

// The streams.
const (
	StreamOutput Stream = ""       // of a shell or a terminal: one for everything
	StreamStdout Stream = "stdout" // of a program
	StreamStderr Stream = "stderr"
)

// Attach replays an exec's output from Offset on and follows it to its end.
// With Poll it does not follow: the answer has what there is, at most MaxBytes
// of it, and comes when there is anything at all or WaitMS have passed. Its
// Done then has a record that may not have ended, or of an exec that has ended
// though there is more to read: as long as a poll has output, another may.
type Attach struct {
	ID       string `json:"id"`
	Offset   int64  `json:"offset"`
	Poll     bool   `json:"poll,omitempty"`
	MaxBytes int64  `json:"max_bytes,omitempty"` // with Poll; 0 is all that is kept
	WaitMS   int64  `json:"wait_ms,omitempty"`   // with Poll
}

// Cancel ends a running exec the way a timeout does.
type Cancel struct {
	ID string `json:"id"`
}

// State of a Record.
type State string

// The states of an exec.
const (
	StateQueued  State = "queued"
	StateRunning State = "running"
	StateEnded   State = "ended"
)

// Record is everything known of one exec. It stays readable for a bounded
// time after the end.
type Record struct {
	ID             string `json:"id"`
	Shell          string `json:"shell"`
	Command        string `json:"command"` // the first 256 bytes, for people
	State          State  `json:"state"`
	ExitCode       int    `json:"exit_code"`
	Cause          Cause  `json:"cause,omitempty"`
	Signal         int    `json:"signal,omitempty"`
	Cwd            string `json:"cwd"`
	OutputBytes    int64  `json:"output_bytes"` // all that the command wrote
	DroppedBytes   int64  `json:"dropped_bytes"`
	ShellRestarted bool   `json:"shell_restarted,omitempty"`
	StartedUnixMS  int64  `json:"started_unix_ms"`
	DurationUS     int64  `json:"duration_us"`

	Kind       Kind   `json:"kind,omitempty"`
	PID        int    `json:"pid,omitempty"` // of a program, inside the sandbox
	TTY        bool   `json:"tty,omitempty"`
	OutputFile string `json:"output_file,omitempty"`
	Usage      *Usage `json:"usage,omitempty"` // of a program and what it started

	// OOMKills, in Records and of a program that runs, counts the processes of the
	// sandbox that its memory limit killed since the program began.
	OOMKills int64 `json:"oom_kills,omitempty"`

	// DiskFull says that the file system of the root or of the workspace had no
	// room left, in bytes or in files, when the exec ended with a code other than
	// 0. It need not be why.
	DiskFull bool `json:"disk_full,omitempty"`

	// OutputFileError says why OutputFile lacks some of the output: the disk was
	// full, for instance. It is known at the end.
	OutputFileError string `json:"output_file_error,omitempty"`
}

// Kind says what an exec runs.
type Kind string

// The kinds.
const (
	KindShell   Kind = ""        // a command in a shell
	KindProcess Kind = "process" // a program of its own
)

// Usage is what a program and its descendants take, or took until the end.
type Usage struct {
	CPUUS       int64 `json:"cpu_us"`
	MemoryBytes int64 `json:"memory_bytes"` // resident now; after the end the most that one of them had, the runner before its exec included
	Processes   int   `json:"processes"`    // now
}

// Records lists execs, oldest first.
type Records struct {
	Execs     []Record `json:"execs"`
	Truncated bool     `json:"truncated,omitempty"` // the oldest do not fit into a header
}

// Resize tells a terminal its new size.
type Resize struct {
	ID   string `json:"id,omitempty"` // of the program
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Error is a refused or failed operation, on the wire and in the runner. Code
// is one of errdefs' codes; anything else is treated as internal. Message is
// for the client: what to do, nothing internal.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`  // of the operation, if one is at fault
	Reason  string `json:"reason,omitempty"` // one of errdefs' reasons, where Code does not tell enough
}

// The codes of package errdefs that a runner uses. They are repeated here, as
// strings, because the inside of a sandbox imports nothing of the daemon's.
const (
	CodeInvalid       = "invalid_argument"
	CodeDenied        = "permission_denied"
	CodeNotFound      = "not_found"
	CodeExists        = "already_exists"
	CodeConflict      = "conflict"
	CodePrecondition  = "precondition_failed"
	CodeTooLarge      = "too_large"
	CodeUnprocessable = "unprocessable"
	CodeExhausted     = "resource_exhausted"
	CodeInternal      = "internal"
	CodeUnavailable   = "unavailable"
	CodeNoSpace       = "insufficient_space"
	CodeUnimplemented = "unimplemented"
)

// The reasons of package errdefs that a runner gives.
const (
	ReasonNoSuchFile       = "no_such_file"
	ReasonFileExists       = "file_exists"
	ReasonFileChanged      = "file_changed"
	ReasonIsADirectory     = "is_a_directory"
	ReasonNotADirectory    = "not_a_directory"
	ReasonDirNotEmpty      = "directory_not_empty"
	ReasonNotRegular       = "not_a_regular_file"
	ReasonNoPermission     = "permission_denied"
	ReasonReadOnlyFS       = "read_only"
	ReasonOutsideWorkspace = "outside_workspace"
	ReasonProgramNotFound  = "program_not_found"
	ReasonNotExecutable    = "not_executable"
	ReasonNoSuchUser       = "no_such_user"
	ReasonTextNotFound     = "text_not_found"
	ReasonTextNotUnique    = "text_not_unique"
	ReasonNoSuchExec       = "no_such_exec"
	ReasonNoSuchShell      = "no_such_shell"
)

// Refuse returns an Error.
func Refuse(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// For names the field at fault, as the API does.
func (e *Error) For(field string) *Error {
	e.Field = field
	return e
}

// Because adds the reason.
func (e *Error) Because(reason string) *Error {
	e.Reason = reason
	return e
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }
