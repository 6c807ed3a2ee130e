package ops

import (
	"time"
)

// ExecRequest is one command for a session's shell.
type ExecRequest struct {
	ID      string // of the exec, as its client has chosen it; "" takes a new one
	Command string // up to protocol.MaxCommand bytes, no NUL
	Shell   string // DefaultShell or "" is the default shell
	Stdin   []byte
	Timeout time.Duration // 0 takes the default; more than the maximum is refused

	Cwd string            // where the shell goes first, as by cd: relative paths begin where it is
	Env map[string]string // for this command alone

	OpenStdin bool // stdin stays open behind Stdin, for WriteStdin
	Leaving   Leaving

	// OutputFile, if not empty, is a path as WriteFile takes it. The file gets
	// all that the command writes, beside what is kept of it.
	OutputFile string
}

// Leaving is what becomes of a command whose client goes away before its end.
type Leaving bool

// The kinds. The zero value lets it go on.
const (
	GoOn Leaving = false
	Kill Leaving = true
)

// ProcessRequest is one program, run without a shell.
type ProcessRequest struct {
	ID         string            // as in ExecRequest
	Args       []string          // the program, looked up in PATH, and its arguments
	Env        map[string]string // added to the session's
	Cwd        string            // "" is the workspace; relative paths begin there
	User       string            // "" is the sandbox's own: a name or number, with :group if wanted
	Stdin      []byte
	OpenStdin  bool          // stdin stays open behind Stdin, for WriteStdin; a terminal's always does
	Timeout    time.Duration // 0 takes the default, or none in the background
	Terminal   *TerminalSize // nil has three pipes instead
	Merged     bool          // one output instead of two
	Leaving    Leaving       // of one that is not in the background
	OutputFile string        // as in ExecRequest
}

// TerminalSize is in characters.
type TerminalSize struct{ Rows, Cols uint16 }

// TerminalRequest opens an interactive terminal.
type TerminalRequest struct {
	Command []string // none is a login shell
	Term    string   // the client's kind of terminal, like xterm-256color
	Size    TerminalSize
}

// ReadRequest is for a part of an exec's output.
type ReadRequest struct {
	Offset   int64         // of the first byte in all that the exec wrote
	MaxBytes int64         // 0 is all that is kept
	Wait     time.Duration // for the first byte or the end
}
