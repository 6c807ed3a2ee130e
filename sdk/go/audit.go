package sandkasten

import (
	"context"
	"strconv"
	"time"
)

// AuditEntry is what a client of the daemon did. It has no commands, contents,
// environments or keys.
type AuditEntry struct {
	Seq       int64             `json:"seq"` // its number in the log
	Time      time.Time         `json:"time"`
	Event     string            `json:"event"`              // answered, answering, refused, recovered
	Requests  int64             `json:"requests,omitempty"` // of refused: how many
	RequestID string            `json:"request_id,omitempty"`
	Owner     string            `json:"owner,omitempty"` // of the key; empty without a valid one
	Of        string            `json:"of,omitempty"`    // whose it is that an admin looked into
	Remote    string            `json:"remote,omitempty"`
	Route     string            `json:"route,omitempty"` // such as POST /v1/sessions
	IDs       map[string]string `json:"ids,omitempty"`   // in the path, and what was made
	Status    int               `json:"status,omitempty"`
	BytesIn   int64             `json:"bytes_in"` // of the body; -1 if the client did not say
	BytesOut  int64             `json:"bytes_out"`
	TookMS    float64           `json:"took_ms"`
}

// AuditOptions select entries. What is empty selects all.
type AuditOptions struct {
	Before       int64     // lower numbers: AuditPage.NextBefore of the page before
	Limit        int       // at most 1000; 100 if it is 0
	Since, Until time.Time // from the one until before the other
	Owner        string
	Session      string // the id of one that it was about
	Route        string
	Failed       bool // a status of 400 and more
	Changes      bool // nothing that only looks, listens or asks again
}

// AuditPage is entries of the audit log, the newest first. NextBefore is Before of the
// next page, and 0 where nothing is left. A page may be empty and not the last.
type AuditPage struct {
	Entries    []AuditEntry `json:"entries"`
	NextBefore int64        `json:"next_before,omitempty"`
}

// ListAudit returns what clients did. Others than admins are told of what they did
// themselves, and of what an admin looked into of theirs.
func (c *Client) ListAudit(ctx context.Context, o *AuditOptions) (AuditPage, error) {
	options := value(o)
	r := get("/v1/audit")
	if options.Before > 0 {
		r.set("before", strconv.FormatInt(options.Before, 10))
	}
	if options.Limit > 0 {
		r.set("limit", strconv.Itoa(options.Limit))
	}
	for name, at := range map[string]time.Time{"since": options.Since, "until": options.Until} {
		if !at.IsZero() {
			r.set(name, at.Format(time.RFC3339Nano))
		}
	}
	r.set("owner", options.Owner)
	r.set("session", options.Session)
	r.set("route", options.Route)
	r.setFlag("failed", options.Failed)
	r.setFlag("changes", options.Changes)
	var page AuditPage
	err := c.call(ctx, r, &page)
	return page, err
}
