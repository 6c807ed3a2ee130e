package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// audited says whether a request gets a line in the audit log: one that changes
// something, or goes into a sandbox. What only looks at lists and states does not, nor who
// listens to what is their own, or asks again and again how it goes: such lines would
// push out all others. What an admin looks into of others always gets one.
func audited(r *http.Request, route Route) bool {
	return !route.Listens && (r.Method != http.MethodGet && r.Method != http.MethodHead || route.Class != Short || route.Acts)
}

// auditBegin writes the line of a request whose answer reaches the client before
// it ends, so that nothing is done for a client that the log does not have.
func (h *handler) auditBegin(rec *recorder, r *http.Request) {
	req := From(r.Context())
	if h.audit == nil || req.outer != nil || !req.audited && req.of.Load() == nil {
		return
	}
	h.audit.Append(r.Context(), auditEntry("answering", rec, r, req, time.Since(req.start)))
}

// auditEnd writes the line of a request that is about to end. Refusals for want of
// what a key may have one too, and those of strangers a sample. What is a part of another
// request has that one's line, but for a refusal.
func (h *handler) auditEnd(rec *recorder, r *http.Request, req *Request, elapsed time.Duration) {
	refused := rec.status == http.StatusUnauthorized || rec.status == http.StatusForbidden
	if h.audit == nil || !refused && req.of.Load() == nil && (!req.audited || req.outer != nil) {
		return
	}
	write := h.audit.Append
	if (refused || req.open) && req.Principal.Owner == "" && !protection.Off(protection.AuditSample) {
		write = h.audit.Refuse
	}
	write(r.Context(), auditEntry("answered", rec, r, req, elapsed))
}

// AuditPart writes the line of one of many sessions that a request does: the line that a
// request for it alone would have, with this request's id.
func AuditPart(ctx context.Context, route, id string, status int, took time.Duration) {
	req := From(ctx)
	entry := audit.Entry{
		Event: "answered", RequestID: req.ID, Owner: req.Principal.Owner, Remote: req.Remote, Route: route,
		Status: status, Took: float64(took.Microseconds()) / 1000,
	}
	if id != "" {
		entry.IDs = map[string]string{"session": clean(id)}
	}
	req.audit.Append(ctx, entry)
}

var pathValue = regexp.MustCompile(`(?:([a-z-]+)s/)?{(\w+)(\.\.\.)?}`)

// idName is what the audit log calls an id of a path: what it is of, as "session" for
// /v1/sessions/{id}, and as Made calls what a request makes.
func idName(of, name string) string {
	if name == "id" || name == "name" {
		return strings.ReplaceAll(cmp.Or(of, name), "-", "_")
	}
	return strings.TrimSuffix(name, "_id")
}

func auditEntry(event string, rec *recorder, r *http.Request, req *Request, elapsed time.Duration) audit.Entry {
	req.mu.Lock()
	ids := maps.Clone(req.made)
	req.mu.Unlock()
	for _, match := range pathValue.FindAllStringSubmatch(r.Pattern, -1) {
		// The rest of a path is a program's in the sandbox, or a file's.
		if value := r.PathValue(match[2]); value != "" && match[3] == "" {
			if ids == nil {
				ids = make(map[string]string)
			}
			name := idName(match[1], match[2])
			ids[name] = strings.TrimSpace(clean(value) + " " + ids[name]) // a fork makes more of what it is of
		}
	}
	route := r.Pattern
	if route == "/" || route == "" {
		route = clean(r.Method) + " (none)"
	}
	of := ""
	if looked := req.of.Load(); looked != nil {
		of = *looked
	}
	return audit.Entry{
		Event: event, RequestID: req.ID, Owner: req.Principal.Owner, Of: of, Remote: req.Remote, Route: route, IDs: ids,
		Status: rec.status, BytesIn: r.ContentLength, BytesOut: rec.bytes, Took: float64(elapsed.Microseconds()) / 1000,
	}
}
