// Package errdefs is the closed list of what can go wrong for a caller. An
// error here has two readers and two texts: the client learns what to do (the
// message), the log learns why (the cause). A surface maps codes to its own
// dialect in one place; nothing below a surface knows HTTP.
package errdefs

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Code classifies an error for programs. The values are part of the API.
type Code string

// The codes, each with the HTTP status that /v1 gives it.
const (
	InvalidArgument    Code = "invalid_argument"    // 400: the request is wrong; the message names the field
	Unauthenticated    Code = "unauthenticated"     // 401: no key, or not a valid one
	PermissionDenied   Code = "permission_denied"   // 403: a valid key that may not do this
	NotFound           Code = "not_found"           // 404: no such thing, or not the caller's
	AlreadyExists      Code = "already_exists"      // 409: the name is taken
	Conflict           Code = "conflict"            // 409: the state does not allow it now
	PreconditionFailed Code = "precondition_failed" // 412: what the request may replace is another by now
	TooLarge           Code = "too_large"           // 413: over a size limit that the message names
	Unprocessable      Code = "unprocessable"       // 422: well-formed, but cannot be done with this content
	ResourceExhausted  Code = "resource_exhausted"  // 429: over a rate or count limit
	Internal           Code = "internal"            // 500: our fault; the message says nothing of it
	Unimplemented      Code = "unimplemented"       // 501: this driver or build cannot do it
	Unavailable        Code = "unavailable"         // 503: try again later
	InsufficientSpace  Code = "insufficient_space"  // 507: a disk or quota is full
)

// Reason says more than a Code, where a program would have to match the message
// otherwise. Most errors have none. The values are part of the API.
type Reason string

// The reasons. Those of files and programs are as the sandbox's kernel sees it for the user in it.
const (
	NoSuchFile       Reason = "no_such_file"        // nothing is at the path, or a directory above it is missing
	FileExists       Reason = "file_exists"         // something is at the path
	FileChanged      Reason = "file_changed"        // it is not the one that If-Match names
	IsADirectory     Reason = "is_a_directory"      // where a file is needed
	NotADirectory    Reason = "not_a_directory"     // where a directory is needed
	DirNotEmpty      Reason = "directory_not_empty" // recursive would be needed
	NotRegular       Reason = "not_a_regular_file"  // a device, pipe, socket or file of the kernel's
	NoPermission     Reason = "permission_denied"   // the rights of the file do not allow it
	ReadOnlyFS       Reason = "read_only"           // the file system is read-only
	OutsideWorkspace Reason = "outside_workspace"   // the path leads out of what file requests may reach
	ProgramNotFound  Reason = "program_not_found"   // nothing of that name in PATH, or not at that path
	NotExecutable    Reason = "not_executable"      // the file is there and is no program, or not for this user
	NoSuchUser       Reason = "no_such_user"        // neither a number nor a name that the sandbox has
	TextNotFound     Reason = "text_not_found"      // the text to edit is not in the file
	TextNotUnique    Reason = "text_not_unique"     // it is there another number of times
	NoSuchSession    Reason = "no_such_session"     // or it belongs to another key
	NoSuchImage      Reason = "no_such_image"       // the daemon has none of that name
	NoSuchWorkspace  Reason = "no_such_workspace"   // or it belongs to another key
	NoSuchSnapshot   Reason = "no_such_snapshot"    // or it belongs to another key
	NoSuchSecret     Reason = "no_such_secret"      // or it belongs to another key
	NoSuchExec       Reason = "no_such_exec"        // or its record is not kept any more
	NoSuchShell      Reason = "no_such_shell"       // the session has none of that name
	NoSuchContext    Reason = "no_such_context"     // or its record is not kept any more
	NoSuchRun        Reason = "no_such_run"         // or its context does not keep it any more
	NoKernel         Reason = "no_kernel"           // the image has none for the language
	QuotaExceeded    Reason = "quota_exceeded"      // of the owner; quota says which
)

// Reasons are all reasons, in the order of the document.
var Reasons = []Reason{
	NoSuchFile, FileExists, FileChanged, IsADirectory, NotADirectory, DirNotEmpty, NotRegular, NoPermission, ReadOnlyFS, OutsideWorkspace,
	ProgramNotFound, NotExecutable, NoSuchUser, TextNotFound, TextNotUnique,
	NoSuchSession, NoSuchImage, NoSuchWorkspace, NoSuchSnapshot, NoSuchSecret, NoSuchExec, NoSuchShell, NoSuchContext, NoSuchRun, NoKernel,
	QuotaExceeded,
}

// ErrDiskShort is the cause of a refusal for want of disk on the host, where its code does
// not say so.
var ErrDiskShort = errors.New("the host's disk is short")

// Error carries a code, a text that is safe to show to the client, and an
// optional cause for the log.
type Error struct {
	Code    Code
	Message string // shown to the client: what to do, no internals
	Field   string // the request field at fault, if one is
	Reason  Reason // for programs, where Code does not tell enough
	Quota   *Quota // of QuotaExceeded
	Cause   error  // shown to the operator only
}

// ErrBeingRemoved is the cause of a refusal of a name whose last session is being
// removed: the name is free when that is done.
var ErrBeingRemoved = errors.New("what has the name is being removed")

// Quota is an owner's that is used up, or does not suffice.
type Quota struct {
	Name    string // as "max_sessions"
	Used    float64
	Limit   float64
	FreesAt time.Time // zero if that is not a matter of time
}

// OverQuota refuses what would exceed a quota. The message ends with
// how it frees, or when.
func OverQuota(code Code, q Quota, frees string) *Error {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	err := New(code, "the quota %s does not suffice: %s of %s are used; %s", q.Name, number(q.Used), number(q.Limit), frees)
	return err.OfQuota(q)
}

// Error is the operator's text: the message and its cause.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.Cause.Error()
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

// Because adds the reason.
func (e *Error) Because(reason Reason) *Error {
	e.Reason = reason
	return e
}

// OfQuota adds the quota that does not suffice, and the reason that says so.
func (e *Error) OfQuota(q Quota) *Error {
	e.Reason, e.Quota = QuotaExceeded, &q
	return e
}

// New returns an error whose text the client may read.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap is New with a cause that only the log sees.
func Wrap(cause error, code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// Invalid is an InvalidArgument that names the field at fault. The message
// reads on from the field: Invalid("ttl_seconds", "must be at least 1").
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: InvalidArgument, Field: field, Message: field + " " + fmt.Sprintf(format, args...)}
}

// OfField names the request field at fault, if err is an Error that names none.
func OfField(name string, err error) error {
	if known, ok := errors.AsType[*Error](err); ok && known.Field == "" {
		named := *known
		named.Field = name
		return &named
	}
	return err
}

// OverLimit refuses a field of more than limit bytes.
func OverLimit(field string, limit int64) *Error {
	err := New(TooLarge, "%s must be at most %d bytes", field, limit)
	err.Field = field
	return err
}

// CodeOf returns the code of the outermost Error in err's chain, and Internal
// for any other error.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// Is reports whether err carries code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }

// MessageOf returns the text for the client: of an Error its message, of
// anything else a sentence that gives nothing away.
func MessageOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return "internal error; the daemon's log has the details under this request's id"
}
