// Package protocol is the wire between the daemon and the runner inside a
// sandbox: message types, the frame codec and its limits. Both sides import
// it, so it knows nothing of either. PROTOCOL.md describes it for readers.
//
// The daemon is always the client and the runner is hostile to it: nothing a
// runner sends is ever a path, an id or a size that the daemon acts on.
package protocol

import "fmt"

// Version is what a runner of this build speaks. The daemon asks with Ping.
const Version = 1

// Limits of the wire. A frame beyond them ends the connection.
const (
	MaxHeader  = 256 << 10 // one JSON line
	MaxPayload = 256 << 10 // the raw bytes behind one line, but for the two below
	MaxCommand = 1 << 20   // an Exec's command, and its stdin
	MaxPath    = 4096
)

// Type names a message. The comment says who sends it and what the body is.
type Type string

// A connection carries one operation at a time: the daemon sends a request,
// the runner answers with zero or more Output frames and exactly one final
// frame (marked F), then the daemon may send the next request.
const (
	TypePing     Type = "ping"     // daemon: no body
	TypePong     Type = "pong"     // runner, F: Pong
	TypeExec     Type = "exec"     // daemon: Exec; payload: command, then stdin
	TypeAttach   Type = "attach"   // daemon: Attach
	TypeOutput   Type = "output"   // runner: Output; payload: bytes
	TypeDone     Type = "done"     // runner, F: Record
	TypeCancel   Type = "cancel"   // daemon: Cancel; answer OK
	TypeExecs    Type = "execs"    // daemon: no body
	TypeRecords  Type = "records"  // runner, F: Records
	TypeRead     Type = "read"     // daemon: Read
	TypeFile     Type = "file"     // runner, F: FileInfo; payload: FileInfo.Bytes bytes, any number
	TypeWrite    Type = "write"    // daemon: Write; payload: Write.Bytes bytes, any number
	TypeList     Type = "list"     // daemon: List
	TypeEntries  Type = "entries"  // runner, F: Entries
	TypeTerminal Type = "terminal" // daemon: Terminal; both sides then send the next four
	TypeData     Type = "data"     // both: payload: terminal bytes
	TypeResize   Type = "resize"   // daemon: Resize
	TypeExit     Type = "exit"     // runner, F: Record
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

// Pong answers Ping.
type Pong struct {
	Version int `json:"version"`
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
}

// Output announces bytes of an exec's combined output. Offset is the position
// of the first one in all that the command wrote: it never repeats, and where
// it jumps the bytes between were dropped from the replay buffer.
type Output struct {
	Offset int64 `json:"offset"`
}

// Attach replays an exec's output from Offset on and follows it to its end.
type Attach struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
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
}

// Records lists execs, oldest first.
type Records struct {
	Execs []Record `json:"execs"`
}

// Read asks for a file, at most MaxBytes from Offset (0 is to the end).
// Relative paths here and below start at the workspace. Paths that lead out of
// it, also by a symlink, are refused unless AllowOutside is set.
type Read struct {
	Path     string `json:"path"`
	Offset   int64  `json:"offset"`
	MaxBytes int64  `json:"max_bytes"`

	AllowOutside bool `json:"allow_outside,omitempty"`
}

// FileInfo describes a file; as an answer to Read its frame carries the bytes.
type FileInfo struct {
	Name      string `json:"name"` // the path asked for, or the entry's name in a listing
	Type      string `json:"type"` // file, dir, symlink, other
	Size      int64  `json:"size"`
	Mode      uint32 `json:"mode"`
	ModTimeMS int64  `json:"mod_time_ms"`
	Target    string `json:"target,omitempty"` // of a symlink
}

// Write replaces or makes a file, atomically, with the payload. Missing
// parent directories are made. Mode 0 is 0644, or the file's present mode.
type Write struct {
	Path string `json:"path"`
	Mode uint32 `json:"mode"`

	AllowOutside bool `json:"allow_outside,omitempty"`
}

// List asks for a directory's entries, at most Max.
type List struct {
	Path string `json:"path"`
	Max  int    `json:"max"`

	AllowOutside bool `json:"allow_outside,omitempty"`
}

// Entries answers List, sorted by name.
type Entries struct {
	Entries   []FileInfo `json:"entries"`
	Truncated bool       `json:"truncated"`
}

// Terminal starts a login shell (or Command) on a new PTY.
type Terminal struct {
	ID      string            `json:"id"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"` // TERM and the like
	Rows    uint16            `json:"rows"`
	Cols    uint16            `json:"cols"`
}

// Resize tells a terminal its new size.
type Resize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Error is a refused or failed operation, on the wire and in the runner. Code
// is one of errdefs' codes; anything else is treated as internal. Message is
// for the client: what to do, nothing internal.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The codes of package errdefs that a runner uses. They are repeated here, as
// strings, because the inside of a sandbox imports nothing of the daemon's.
const (
	CodeInvalid       = "invalid_argument"
	CodeDenied        = "permission_denied"
	CodeNotFound      = "not_found"
	CodeExists        = "already_exists"
	CodeTooLarge      = "too_large"
	CodeUnprocessable = "unprocessable"
	CodeExhausted     = "resource_exhausted"
	CodeInternal      = "internal"
	CodeUnavailable   = "unavailable"
	CodeNoSpace       = "insufficient_space"
)

// Refuse returns an Error.
func Refuse(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }
