package sandkasten

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// The meanings of an [*APIError], for [errors.Is].
var (
	ErrInvalidArgument    = errors.New("invalid argument")    // the request is wrong, or over a limit
	ErrAuthentication     = errors.New("not authenticated")   // no valid key
	ErrPermissionDenied   = errors.New("permission denied")   // this image, path or host is not allowed
	ErrNotFound           = errors.New("not found")           // or it belongs to another key
	ErrConflict           = errors.New("conflict")            // the state does not allow it now
	ErrAlreadyExists      = errors.New("already exists")      // the name is taken; also an ErrConflict
	ErrPreconditionFailed = errors.New("precondition failed") // the file is not the one that IfMatch names; also an ErrConflict
	ErrUnprocessable      = errors.New("unprocessable")       // understood, but impossible
	ErrRateLimit          = errors.New("too many")            // over a limit of rate or number
	ErrUnimplemented      = errors.New("unimplemented")       // this daemon, or its driver, cannot do it
	ErrUnavailable        = errors.New("unavailable")         // not now
	ErrInternal           = errors.New("internal error")      // the daemon's fault; its log has the request's id
	ErrInsufficientSpace  = errors.New("no space is left")    // a disk or quota is full
)

// meanings has the API's codes.
var meanings = map[string][]error{
	"invalid_argument":       {ErrInvalidArgument},
	"method_not_allowed":     {ErrInvalidArgument},
	"length_required":        {ErrInvalidArgument},
	"too_large":              {ErrInvalidArgument},
	"unsupported_media_type": {ErrInvalidArgument},
	"range_not_satisfiable":  {ErrInvalidArgument},
	"headers_too_large":      {ErrInvalidArgument},
	"request_timeout":        {ErrUnavailable},
	"unauthenticated":        {ErrAuthentication},
	"permission_denied":      {ErrPermissionDenied},
	"not_found":              {ErrNotFound},
	"conflict":               {ErrConflict},
	"already_exists":         {ErrAlreadyExists, ErrConflict},
	"precondition_failed":    {ErrPreconditionFailed, ErrConflict},
	"unprocessable":          {ErrUnprocessable},
	"resource_exhausted":     {ErrRateLimit},
	"unimplemented":          {ErrUnimplemented},
	"unavailable":            {ErrUnavailable},
	"internal":               {ErrInternal},
	"insufficient_space":     {ErrInsufficientSpace},
}

// Reason says more than a code, for programs. There may be others in time.
type Reason string

// The reasons.
const (
	ReasonNoSuchFile       Reason = "no_such_file"        // nothing is at the path, or a directory above it is missing
	ReasonFileExists       Reason = "file_exists"         // something is at the path
	ReasonFileChanged      Reason = "file_changed"        // it is not the one that IfMatch names
	ReasonIsADirectory     Reason = "is_a_directory"      // where a file is needed
	ReasonNotADirectory    Reason = "not_a_directory"     // where a directory is needed
	ReasonDirNotEmpty      Reason = "directory_not_empty" // recursive would be needed
	ReasonNotRegular       Reason = "not_a_regular_file"  // a device, pipe, socket or file of the kernel's
	ReasonNoPermission     Reason = "permission_denied"   // the rights of the file do not allow it
	ReasonReadOnly         Reason = "read_only"           // the file system is read-only
	ReasonOutsideWorkspace Reason = "outside_workspace"   // the path leads out of what file requests may reach
	ReasonProgramNotFound  Reason = "program_not_found"   // nothing of that name in PATH, or not at that path
	ReasonNotExecutable    Reason = "not_executable"      // the file is there and is no program, or not for this user
	ReasonNoSuchUser       Reason = "no_such_user"        // neither a number nor a name that the sandbox has
	ReasonTextNotFound     Reason = "text_not_found"      // the text to edit is not in the file
	ReasonTextNotUnique    Reason = "text_not_unique"     // it is there another number of times
	ReasonNoSuchSession    Reason = "no_such_session"     // or it belongs to another key
	ReasonNoSuchImage      Reason = "no_such_image"       // the daemon has none of that name
	ReasonNoSuchWorkspace  Reason = "no_such_workspace"   // or it belongs to another key
	ReasonNoSuchSnapshot   Reason = "no_such_snapshot"    // or it belongs to another key
	ReasonNoSuchSecret     Reason = "no_such_secret"      // or it belongs to another key
	ReasonNoSuchExec       Reason = "no_such_exec"        // or its record is not kept any more
	ReasonNoSuchShell      Reason = "no_such_shell"       // the session has none of that name
	ReasonNoSuchContext    Reason = "no_such_context"     // or it has ended long ago
	ReasonNoSuchRun        Reason = "no_such_run"         // or its context does not keep it any more
	ReasonNoKernel         Reason = "no_kernel"           // the session's image has none for the language
	ReasonQuotaExceeded    Reason = "quota_exceeded"      // of the owner; APIError.Quota says which
)

// APIError is an answer of the daemon that is an error.
type APIError struct {
	Status     int            `json:"-"`    // of HTTP; 0 of an error that came in a stream
	Code       string         `json:"code"` // what is wrong, for programs
	Message    string         `json:"error"`
	Field      string         `json:"field"`      // of the request, if one is at fault
	Reason     Reason         `json:"reason"`     // more than Code says, where there is more to tell apart
	RequestID  string         `json:"request_id"` // names the request in the daemon's log
	RetryAfter time.Duration  `json:"-"`          // when it may be worth another try, if the daemon said so
	Quota      *ExceededQuota `json:"quota"`      // of ReasonQuotaExceeded
}

func (e *APIError) Error() string { return e.Message }

// Is tells whether target is what the error's code means.
func (e *APIError) Is(target error) bool { return slices.Contains(meanings[e.Code], target) }

// ConnectionError means that there was no answer, or that it broke off.
// Requests that may be repeated have been before it is returned.
type ConnectionError struct {
	URL  string // of the daemon
	Op   string // the request's method and path
	Sent bool   // the daemon may have seen it, and done what it asks for
	Err  error
}

func (e *ConnectionError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// newAPIError makes an error of a body, which need not be the daemon's.
func newAPIError(status int, header http.Header, body []byte) *APIError {
	e := &APIError{}
	if json.Unmarshal(body, e) != nil || e.Code == "" {
		*e = APIError{
			Code:    fmt.Sprintf("http_%d", status),
			Message: fmt.Sprintf("HTTP status %d, with an answer that is not Sandkasten's", status),
		}
	}
	e.Status = status
	if e.RequestID == "" {
		e.RequestID = header.Get("X-Request-Id")
	}
	if seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 31); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
