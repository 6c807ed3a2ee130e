package v1

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

type auditInput struct {
	Before  int64  `query:"before" minimum:"0" doc:"Only entries with a lower number: next_before of the page before."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many at most."`
	Since   string `query:"since" maxLength:"40" doc:"Only entries from this time on, as in RFC 3339." example:"2026-11-21T09:00:00Z"`
	Until   string `query:"until" maxLength:"40" doc:"Only entries before this time." example:"2026-11-22T09:00:00Z"`
	Owner   string `query:"owner" maxLength:"64" doc:"Whose key it was."`
	Session string `query:"session" maxLength:"64" doc:"The id of a session that it was about."`
	Route   string `query:"route" maxLength:"200" doc:"The route, as entries have it." example:"POST /v1/sessions"`
	Changes bool   `query:"changes" doc:"Only those that change something or run a program: nothing that only looks, listens or asks again."`
	Failed  bool   `query:"failed" doc:"Only those with a status of 400 and more."`
}

// AuditEntry is what a client did.
type AuditEntry struct {
	Seq       int64             `json:"seq" doc:"Its number in the log." example:"1042"`
	Time      time.Time         `json:"time"`
	Event     string            `json:"event" doc:"answered; answering: a long answer has begun; refused: requests without a line of their own; recovered: follows a line that a crash cut." example:"answered"`
	Requests  int64             `json:"requests,omitempty" doc:"Of refused: how many."`
	RequestID string            `json:"request_id,omitempty"`
	Owner     string            `json:"owner,omitempty" doc:"Of the key; not there without a valid one." example:"alice"`
	Of        string            `json:"of,omitempty" doc:"Whose it is that an admin looked into, or whose key it made." example:"alice"`
	Remote    string            `json:"remote,omitempty" doc:"The client's address." example:"127.0.0.1:40000"`
	Route     string            `json:"route,omitempty" example:"POST /v1/sessions"`
	IDs       map[string]string `json:"ids,omitempty" doc:"Those in the path and what was made, each by what it is of: session, exec, snapshot, workspace, user, key." example:"{\"session\":\"f5q2bz7lq4m3k5n6p7r2s3t4u5\"}"`
	Status    int               `json:"status,omitempty" example:"201"`
	BytesIn   int64             `json:"bytes_in" doc:"Of the body; -1 if the client did not say." example:"2"`
	BytesOut  int64             `json:"bytes_out" example:"900"`
	TookMS    float64           `json:"took_ms" example:"1.5"`
}

// AuditPage is entries of the audit log, the newest first.
type AuditPage struct {
	Entries    []AuditEntry `json:"entries"`
	NextBefore int64        `json:"next_before,omitempty" doc:"before of the next page. Not there where nothing is left. A page may be empty and not the last: one request reads a part of a long log."`
}

type auditOutput struct{ Body AuditPage }

// auditRoutes are those of the log of what clients did.
func (s *surface) auditRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/audit", Scope: api.Key, Class: api.Long, Turn: true, Listens: true,
		Doc: kit.Doc{
			ID: "list-audit", Summary: "List what clients did", Errors: []int{403, 501},
			Description: "Entries of the audit log, the newest first: an admin's key sees all, others those of its own owner, and what an admin looked into of theirs. Who listens to events or asks how something goes has no entry. They have no commands, contents, environments or keys. They are not verified: sandkasten audit verify does that on the host.",
		},
	}, s.listAudit)
}

func (s *surface) listAudit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	if s.opts.Audit == nil {
		return nil, errdefs.New(errdefs.Unimplemented, "this daemon keeps no audit log: see audit.enabled")
	}
	since, err := timeOf("since", in.Since)
	if err != nil {
		return nil, err
	}
	until, err := timeOf("until", in.Until)
	if err != nil {
		return nil, err
	}
	query := audit.Query{Before: in.Before, Since: since, Until: until, Owner: in.Owner, ID: in.Session, Route: in.Route, Changes: in.Changes, Failed: in.Failed, Limit: in.Limit}
	if err := s.ownEntries(api.Caller(ctx), &query); err != nil {
		return nil, err
	}
	found, err := s.opts.Audit.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	page := AuditPage{Entries: make([]AuditEntry, 0, len(found.Records)), NextBefore: found.Next}
	for _, r := range found.Records {
		page.Entries = append(page.Entries, AuditEntry{
			Seq: r.Seq, Time: r.Time, Event: r.Event, Requests: r.Requests, RequestID: r.RequestID, Owner: r.Owner, Of: r.Of, Remote: r.Remote,
			Route: r.Route, IDs: r.IDs, Status: r.Status, BytesIn: r.BytesIn, BytesOut: r.BytesOut, TookMS: r.Took,
		})
	}
	return &auditOutput{page}, nil
}

// ownEntries narrows a query to what p may see: without the whole daemon's scope that
// is what p's owner did, and a user no more than since the user is there, since another
// may have had the name before.
func (s *surface) ownEntries(p auth.Principal, q *audit.Query) error {
	if p.Has(auth.ScopeDaemon) {
		return nil
	}
	var since time.Time
	if s.opts.Accounts != nil {
		if u, ok := s.opts.Accounts.Known(p.Owner); ok {
			since = u.CreatedAt
		}
	}
	if !q.Only(p.Owner, since) {
		return errdefs.New(errdefs.PermissionDenied, "only an admin's key sees what others did; leave owner out")
	}
	return nil
}

// timeOf reads a time of a query; an empty one is none.
func timeOf(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, errdefs.Invalid(field, "must be a time such as 2026-11-21T09:00:00Z; in an address + is %%2B")
	}
	return at, nil
}
