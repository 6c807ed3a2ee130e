package session

import (
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

// CreateRequest is what a client may choose. Zero values take the defaults of
// Options; values beyond its maxima are refused with InvalidArgument.
type CreateRequest struct {
	Image          string
	TTL            time.Duration
	WorkspaceID    string // made if the owner has none of this id
	Limits         runtime.Limits
	Network        runtime.NetworkMode
	ReadonlyRoot   *bool
	Env            map[string]string
	Hostname       string
	Labels         map[string]string
	Owner          string
	IdempotencyKey string

	helper bool // see Session.Helper
}

// ExecRequest is one command for a session's shell.
type ExecRequest struct {
	Command string // up to protocol.MaxCommand bytes, no NUL
	Shell   string // "" is the default shell
	Stdin   []byte
	Timeout time.Duration // 0 takes the default; more than the maximum is refused

	// Started, if set, is told the exec's id before the command is sent, so
	// that a client whose stream breaks can attach to it.
	Started func(execID string)
}

// ExecResult is the record of an exec, ended or not.
type ExecResult = protocol.Record

// TerminalRequest opens an interactive terminal.
type TerminalRequest struct {
	Command    []string
	Term       string
	Rows, Cols uint16
}
