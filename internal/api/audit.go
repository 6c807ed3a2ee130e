package api

import (
	"context"
	"maps"
	"net/http"
	"regexp"
	"time"

	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// audited says whether a request gets a line in the audit log: one that changes
// something, or goes into a sandbox. What only looks at lists and states does not.
func audited(r *http.Request, route Route) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead || route.Class != Short || route.Acts
}

// auditBegin writes the line of a request whose answer reaches the client before
// it ends, so that nothing is done for a client that the log does not have.
func (h *handler) auditBegin(rec *recorder, r *http.Request) {
	req := From(r.Context())
	if h.audit == nil || !req.audited || req.outer != nil {
		return
	}
	h.audit.Append(r.Context(), auditEntry("answering", rec, r, req, time.Since(req.start)))
}

// auditEnd writes the line of a request that is about to end. Refusals for want of
// what a key may have one too, and those of strangers a sample. What is a part of another
// request has that one's line, but for a refusal.
func (h *handler) auditEnd(rec *recorder, r *http.Request, req *Request, elapsed time.Duration) {
	refused := rec.status == http.StatusUnauthorized || rec.status == http.StatusForbidden
	if h.audit == nil || !refused && (!req.audited || req.outer != nil) {
		return
	}
	write := h.audit.Append
	if (refused || req.open) && req.Principal.Owner == "" && !protection.Off(protection.AuditSample) {
		write = h.audit.Refuse
	}
	write(r.Context(), auditEntry("answered", rec, r, req, elapsed))
}

// AuditPart writes the line of one of many things that a request does: the line that a
// request for it alone would have, with this request's id.
func AuditPart(ctx context.Context, route, id string, status int, took time.Duration) {
	req := From(ctx)
	entry := audit.Entry{
		Event: "answered", RequestID: req.ID, Owner: req.Principal.Owner, Remote: req.Remote, Route: route,
		Status: status, Took: float64(took.Microseconds()) / 1000,
	}
	if id != "" {
		entry.IDs = map[string]string{"id": clean(id)}
	}
	req.audit.Append(ctx, entry)
}

var pathValue = regexp.MustCompile(`{(\w+)(\.\.\.)?}`)

func auditEntry(event string, rec *recorder, r *http.Request, req *Request, elapsed time.Duration) audit.Entry {
	req.mu.Lock()
	ids := maps.Clone(req.made)
	req.mu.Unlock()
	for _, match := range pathValue.FindAllStringSubmatch(r.Pattern, -1) {
		// The rest of a path is a program's in the sandbox, or a file's.
		if value := r.PathValue(match[1]); value != "" && match[2] == "" {
			if ids == nil {
				ids = make(map[string]string)
			}
			ids[match[1]] = clean(value)
		}
	}
	route := r.Pattern
	if route == "/" || route == "" {
		route = clean(r.Method) + " (none)"
	}
	return audit.Entry{
		Event: event, RequestID: req.ID, Owner: req.Principal.Owner, Remote: req.Remote, Route: route, IDs: ids,
		Status: rec.status, BytesIn: r.ContentLength, BytesOut: rec.bytes, Took: float64(elapsed.Microseconds()) / 1000,
	}
}
