package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Codes that only HTTP knows; the others are those of errdefs.
const (
	codeMethodNotAllowed errdefs.Code = "method_not_allowed"
	codeMediaType        errdefs.Code = "unsupported_media_type"
	codeTimeout          errdefs.Code = "request_timeout"
	codeLength           errdefs.Code = "length_required"
	codeHeaders          errdefs.Code = "headers_too_large"
	codeClientGone       errdefs.Code = "client_gone"
	codeRange            errdefs.Code = "range_not_satisfiable"

	// BadGateway and GatewayTimeout are for answers that a server in a sandbox
	// should have given.
	BadGateway     errdefs.Code = "bad_gateway"
	GatewayTimeout errdefs.Code = "gateway_timeout"
)

// retryAfter is what a client is told to wait before it tries again, where nothing is
// known of it.
const retryAfter = "1"

// longestRetryAfter bounds what a client is told to wait: a quota can be raised before
// it frees.
const longestRetryAfter = 24 * time.Hour

// ErrorBody is every error's body.
type ErrorBody struct {
	Error     string         `json:"error" doc:"What is wrong and what to do about it, for people." example:"ttl_seconds must be at least 1"`
	Code      errdefs.Code   `json:"code" doc:"What is wrong, for programs. The values stay." example:"invalid_argument"`
	Field     string         `json:"field,omitempty" doc:"The request field or parameter at fault, if one is." example:"ttl_seconds"`
	Reason    errdefs.Reason `json:"reason,omitempty" doc:"More than code says, for programs, where there is more to tell apart: of files and programs in the sandbox, and of what was not found. The values stay." example:"no_such_file"`
	Quota     *QuotaBody     `json:"quota,omitempty" doc:"Of reason quota_exceeded: which."`
	RequestID string         `json:"request_id,omitempty" doc:"Names this request in the daemon's log; also in the X-Request-Id header. Left out of 401, which is the same for everybody." example:"5YXTKD3NPQZJH3LYXAFXCLMPGE"`

	Method  string `json:"-"` // of the request, for dialects that say it
	NoToken bool   `json:"-"` // the request showed a cookie without its token
	Keyless bool   `json:"-"` // the request showed no key at all, for dialects that tell this from a wrong one
}

// QuotaBody is a quota that does not suffice.
type QuotaBody struct {
	Name    string     `json:"name" doc:"As in the quota of a user." example:"session_seconds_per_month"`
	Used    float64    `json:"used" example:"36000"`
	Limit   float64    `json:"limit" example:"36000"`
	FreesAt *time.Time `json:"frees_at,omitempty" doc:"When it is free again. Left out where that takes an end of sessions or the removal of something." example:"2026-12-01T00:00:00Z"`
}

func quotaBody(q *errdefs.Quota) *QuotaBody {
	if q == nil {
		return nil
	}
	body := &QuotaBody{Name: q.Name, Used: q.Used, Limit: q.Limit}
	if !q.FreesAt.IsZero() {
		body.FreesAt = &q.FreesAt
	}
	return body
}

var statuses = map[errdefs.Code]int{
	errdefs.InvalidArgument:    http.StatusBadRequest,
	errdefs.Unauthenticated:    http.StatusUnauthorized,
	errdefs.PermissionDenied:   http.StatusForbidden,
	errdefs.NotFound:           http.StatusNotFound,
	codeMethodNotAllowed:       http.StatusMethodNotAllowed,
	codeTimeout:                http.StatusRequestTimeout,
	codeLength:                 http.StatusLengthRequired,
	codeRange:                  http.StatusRequestedRangeNotSatisfiable,
	codeHeaders:                http.StatusRequestHeaderFieldsTooLarge,
	errdefs.AlreadyExists:      http.StatusConflict,
	errdefs.Conflict:           http.StatusConflict,
	errdefs.PreconditionFailed: http.StatusPreconditionFailed,
	errdefs.TooLarge:           http.StatusRequestEntityTooLarge,
	codeMediaType:              http.StatusUnsupportedMediaType,
	errdefs.Unprocessable:      http.StatusUnprocessableEntity,
	errdefs.ResourceExhausted:  http.StatusTooManyRequests,
	errdefs.Internal:           http.StatusInternalServerError,
	errdefs.Unimplemented:      http.StatusNotImplemented,
	errdefs.Unavailable:        http.StatusServiceUnavailable,
	BadGateway:                 http.StatusBadGateway,
	GatewayTimeout:             http.StatusGatewayTimeout,
	errdefs.InsufficientSpace:  http.StatusInsufficientStorage,
	codeClientGone:             statusClientGone,
}

// statusClientGone is what is logged, audited and counted of a request whose client left
// before its answer: nobody gets it, and it is no fault of the daemon's. The number is
// nginx's.
const statusClientGone = 499

// Status is the HTTP status of an error with code.
func Status(code errdefs.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// MediaType is the error for a body of another type than the route takes.
func MediaType(want string) error {
	return errdefs.New(codeMediaType, "Content-Type must be %s", want)
}

// MethodNotAllowed is the error for a method that a path does not take.
func MethodNotAllowed(method string) error {
	return errdefs.New(codeMethodNotAllowed, "this path does not take %s; see the Allow header", clean(method))
}

// LengthRequired is the error for a body whose length was not sent.
func LengthRequired() error {
	return errdefs.New(codeLength, "Content-Length is needed: send the body with its length, not in chunks")
}

// BadRange is the error for a Range header that cannot be answered.
func BadRange(format string, args ...any) error {
	return errdefs.New(codeRange, format, args...)
}

// Describe returns the body for err and the status that goes with it, and
// keeps err for the request's line in the log.
func Describe(ctx context.Context, err error) (ErrorBody, int) {
	Failed(ctx, err)
	return Problem(ctx, err)
}

// Problem is Describe of an error that is a part of an answer and no failure of the
// request.
func Problem(ctx context.Context, err error) (ErrorBody, int) {
	if hasEnded(ctx) {
		err = errUnauthenticated(err)
	} else if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errdefs.Wrap(err, codeClientGone, "the client has left")
	}
	err = classify(err)
	code := errdefs.CodeOf(err)
	if _, known := statuses[code]; !known {
		code = errdefs.Internal
	}
	body := ErrorBody{Error: errdefs.MessageOf(err), Code: code, RequestID: From(ctx).ID, Method: From(ctx).method, Keyless: From(ctx).keyless, NoToken: errors.Is(err, errNoToken)}
	if e, ok := errors.AsType[*errdefs.Error](err); ok {
		body.Field, body.Reason, body.Quota = e.Field, e.Reason, quotaBody(e.Quota)
		if hint := hints[e.Reason]; hint != "" {
			body.Error += "; " + hint
		}
	}
	if code == errdefs.Unauthenticated {
		body.RequestID = ""
	}
	return body, Status(code)
}

// classify gives a code to the errors of net/http and of contexts, and to what the
// host is short of, wherever it was short.
func classify(err error) error {
	if errdefs.CodeOf(err) == errdefs.Internal {
		switch {
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			return errdefs.Wrap(err, errdefs.Unavailable, "the daemon has no file descriptor left; try again, and close connections that you do not use")
		case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EAGAIN):
			return errdefs.Wrap(err, errdefs.Unavailable, "the host is short of memory or processes; try again")
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return errdefs.Wrap(err, errdefs.InsufficientSpace, "the daemon's disk is full")
		}
	}
	if _, ok := errors.AsType[*errdefs.Error](err); ok {
		return err
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errdefs.Wrap(err, errdefs.TooLarge, "the request body is over its limit of %d bytes", e.Limit)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errdefs.Wrap(err, codeTimeout, "the request body did not arrive in time; send it again")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return errdefs.Wrap(err, errdefs.Unavailable, "the request was given up; try again")
	}
	return err
}

// errorHeader sets the headers that go with an error's status.
func errorHeader(header http.Header, status int) {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		header.Set("Retry-After", retryAfter)
	case http.StatusUnauthorized:
		if header.Get("WWW-Authenticate") == "" {
			header.Set("WWW-Authenticate", "Bearer")
		}
	}
}

// Dialect is the form that a surface gives to errors. It may choose another status.
type Dialect func(e ErrorBody, status int) (body any, as int)

// ErrorForm is err in the dialect of the request's surface, with its status.
func ErrorForm(ctx context.Context, err error) (body any, status int) {
	plain, status := Describe(ctx, err)
	if dialect := From(ctx).dialect; dialect != nil {
		return dialect(plain, status)
	}
	return plain, status
}

// WriteError answers a request with err, in the dialect of its surface.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	body, status := ErrorForm(r.Context(), err)
	if req := From(r.Context()); status == http.StatusTooManyRequests && req.Principal != (auth.Principal{}) {
		EndTurn(r.Context())
		req.refusals.pace(r.Context(), req.Principal.Owner)
	}
	errorHeader(w.Header(), status)
	if wait := pauseAfter(r, err); wait > 0 && status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
	WriteJSON(w, r, status, body)
}

// pauseAfter is how long it takes until the request of err may succeed; 0 is not known.
func pauseAfter(r *http.Request, err error) time.Duration {
	if e, ok := errors.AsType[*errdefs.Error](err); ok && e.Quota != nil && !e.Quota.FreesAt.IsZero() {
		return min(time.Until(e.Quota.FreesAt), longestRetryAfter)
	}
	return From(r.Context()).RetryAfter
}

// WriteJSON answers a request with status and v, and ends its turn before the client takes
// that. That the client is gone is no error of ours.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	EndTurn(r.Context())
	if err != nil {
		Failed(r.Context(), err)
		http.Error(w, `{"error":"internal error","code":"internal"}`, http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	if _, err := w.Write(buf.Bytes()); err != nil {
		Failed(r.Context(), err)
	}
}
