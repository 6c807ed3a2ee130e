package api

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	failed error // to set a deadline: the connection is gone

	leaving func() // is called once before anything goes to the client while its handler runs
	left    bool
	asked   http.Header // of the request, which nobody needs then: a stream may go on for hours
}

// kept is how much of an answer net/http keeps until its handler has returned.
const kept = 2048

func (rec *recorder) leave() {
	if !rec.left {
		rec.left = true
		clear(rec.asked)
		rec.leaving()
	}
}

// WriteHeader gives the client WriteTimeout for the answer that begins. One
// that takes longer to write sets deadlines of its own as it goes.
func (rec *recorder) WriteHeader(status int) {
	// 1xx answers come before the one that counts, but for the switch to a
	// WebSocket, after which there is no other.
	if rec.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		rec.status = status
		if c, ok := rec.ResponseWriter.(deadlines); ok {
			rec.failed = c.SetWriteDeadline(time.Now().Add(WriteTimeout))
		}
	}
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(p []byte) (int, error) {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	if rec.bytes+int64(len(p)) > kept {
		rec.leave()
	}
	n, err := rec.ResponseWriter.Write(p)
	rec.bytes += int64(n)
	return n, err
}

// deadlines is what net/http's own response has.
type deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// begin sets the deadlines of a request. What the last one on this connection
// left would end the answer of the next. A body that nobody asked for is read
// by net/http itself before it answers, so it has one from the start; who
// reads a body ends or moves it.
func (rec *recorder) begin(r *http.Request) {
	c, ok := rec.ResponseWriter.(deadlines)
	if !ok {
		return
	}
	rec.failed = c.SetWriteDeadline(time.Time{})
	if r.ContentLength != 0 {
		rec.failed = errors.Join(rec.failed, c.SetReadDeadline(time.Now().Add(BodyTimeout)))
	}
}

// FlushError sends what was written.
func (rec *recorder) FlushError() error {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	rec.leave()
	return http.NewResponseController(rec.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController set deadlines.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// Hijack hands the connection to a WebSocket.
func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(rec.ResponseWriter).Hijack()
	if err == nil && rec.status == 0 {
		rec.status = http.StatusSwitchingProtocols // written by who has the connection now
		rec.leave()
	}
	return conn, buffered, err
}

// finish answers a request whose handler panicked, counts it and logs it.
func (h *handler) finish(rec *recorder, r *http.Request, panicked any) {
	req := From(r.Context())
	aborted := false
	if panicked != nil {
		aborted = rec.status != 0 // too late for an error: the client must see a broken answer
		if err, ok := panicked.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			h.log.Error("handler panicked", "request_id", req.ID, "panic", clean(fmt.Sprint(panicked)), "stack", string(debug.Stack()))
			if !aborted {
				WriteError(rec, r, errdefs.New(errdefs.Internal, "internal error; the daemon's log has the details under this request's id"))
			}
		} else {
			aborted = true
		}
	}
	req.end()
	elapsed := time.Since(req.start)
	if req.outer == nil {
		h.answers.count(rec.status, req.Foreign)
		h.metrics.observe(r, rec.status, elapsed)
	}
	req.span.Answered(r.Pattern, rec.status, req.ID)
	h.logAccess(rec, r, req, elapsed)
	h.auditEnd(rec, r, req, elapsed)
	if aborted {
		panic(http.ErrAbortHandler) // net/http closes the connection and says nothing
	}
}

// logAccess writes the request's one line. What a client chose is cleaned of
// control characters; keys, bodies and query strings are never in it.
func (h *handler) logAccess(rec *recorder, r *http.Request, req *Request, elapsed time.Duration) {
	level := accessLevel(rec.status, req)
	if !h.log.Enabled(r.Context(), level) || level <= slog.LevelInfo && !h.worthLogging(r, req) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", req.ID),
		slog.String("method", clean(r.Method)),
		slog.String("path", clean(cmp.Or(req.path, r.URL.Path))),
		slog.Int("status", rec.status),
		slog.Int64("bytes", rec.bytes),
		slog.Float64("took_ms", float64(elapsed.Microseconds())/1000),
		slog.String("remote", req.Remote),
	}
	if req.Principal.Owner != "" {
		attrs = append(attrs, slog.String("owner", req.Principal.Owner))
	}
	if protection.Off(protection.LogSecrets) {
		attrs = append(attrs, slog.Any("header", r.Header))
	}
	if cause := errors.Join(req.cause, rec.failed); cause != nil {
		attrs = append(attrs, slog.String("error", clean(cause.Error())))
	}
	h.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// accessLevel is how much a request's line matters. A daemon at work has thousands of them,
// so at the usual level there are those that an operator does something about: what the
// daemon failed at, what the host is short of, and who tries keys.
func accessLevel(status int, req *Request) slog.Level {
	switch {
	case isFailure(status) && !req.Foreign:
		return slog.LevelError
	case status == http.StatusServiceUnavailable && !req.Foreign, status == http.StatusInsufficientStorage, status == http.StatusUnauthorized && !req.keyless:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// isFailure reports whether a status is that of a fault of the daemon's, and not of what
// it, its driver or its host cannot do.
func isFailure(status int) bool {
	switch status {
	case http.StatusNotImplemented, http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		return false
	}
	return status >= http.StatusInternalServerError
}

// worthLogging says whether a request gets its line: those of strangers, who need
// no key to make them, are sampled, or they would push out all others' lines.
func (h *handler) worthLogging(r *http.Request, req *Request) bool {
	if h.keys == nil || req.Principal.Owner != "" || protection.Off(protection.AuditSample) {
		return true
	}
	if left := h.strangers.Left(); left > 0 {
		h.log.InfoContext(r.Context(), "requests without a valid key that have no line", "requests", left)
	}
	return h.strangers.Take(req.Remote)
}

// ofOperator reports whether a request is one of those that programs make every
// few seconds to see whether the daemon is well.
func ofOperator(r *http.Request) bool {
	p := r.URL.Path
	return r.Method == http.MethodGet && (p == "/healthz" || p == "/readyz" || p == "/metrics")
}

// clean makes s harmless in a log: no control characters, and no more than a
// line can hold.
func clean(s string) string {
	const most = 512
	if protection.Off(protection.LogFields) {
		return s
	}
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s), "?")
}
