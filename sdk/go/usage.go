package sandkasten

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// Quota is how much an owner may have. Of a user it is what is otherwise than the
// daemon's configuration has it, and 0 is no limit. Of OwnerUsage it is what holds, and
// nil is no limit.
type Quota struct {
	MaxSessions        *int     `json:"max_sessions,omitempty"`         // that have not ended
	MaxRunningSessions *int     `json:"max_running_sessions,omitempty"` // of these, that are not stopped
	CPU                *float64 `json:"cpu,omitempty"`                  // cores of those that are not stopped
	MemoryMB           *int64   `json:"memory_mb,omitempty"`            // of those that are not stopped
	DiskMB             *int64   `json:"disk_mb,omitempty"`              // of all sessions and workspaces
	MaxWorkspaces      *int     `json:"max_workspaces,omitempty"`
	SnapshotMB         *int64   `json:"snapshot_mb,omitempty"`
	NetworkMB          *int64   `json:"network_mb_per_month,omitempty"` // in both directions together
	SessionSeconds     *int64   `json:"session_seconds_per_month,omitempty"`
	MaxImages          *int     `json:"max_images,omitempty"` // that a user made who may make some
	ImageMB            *int64   `json:"image_mb,omitempty"`   // of these together
}

// QuotaUpdate is what to change of a quota. The zero Limit leaves one as it is.
type QuotaUpdate struct {
	MaxSessions        Limit `json:"max_sessions,omitzero"`
	MaxRunningSessions Limit `json:"max_running_sessions,omitzero"`
	CPU                Limit `json:"cpu,omitzero"`
	MemoryMB           Limit `json:"memory_mb,omitzero"`
	DiskMB             Limit `json:"disk_mb,omitzero"`
	MaxWorkspaces      Limit `json:"max_workspaces,omitzero"`
	SnapshotMB         Limit `json:"snapshot_mb,omitzero"`
	NetworkMB          Limit `json:"network_mb_per_month,omitzero"`
	SessionSeconds     Limit `json:"session_seconds_per_month,omitzero"`
	MaxImages          Limit `json:"max_images,omitzero"`
	ImageMB            Limit `json:"image_mb,omitzero"`
}

// Limit is a change of a part of a quota.
type Limit struct {
	set   bool
	value *float64
}

// LimitTo sets a limit. 0 is no limit.
func LimitTo(n float64) Limit { return Limit{true, &n} }

// DefaultLimit goes back to the limit of the daemon's configuration.
func DefaultLimit() Limit { return Limit{set: true} }

// IsZero reports whether the limit stays as it is.
func (l Limit) IsZero() bool { return !l.set }

// MarshalJSON implements json.Marshaler.
func (l Limit) MarshalJSON() ([]byte, error) { return json.Marshal(l.value) }

// OwnerUsage is what an owner used in a month, and has and may have now.
type OwnerUsage struct {
	Owner   string    `json:"owner"`
	Month   string    `json:"month"`    // of UTC, as 2026-11
	FreesAt time.Time `json:"frees_at"` // when the month ends

	SessionSeconds    float64 `json:"session_seconds"` // that sessions lived, all together
	CPUSeconds        float64 `json:"cpu_seconds"`
	SentBytes         int64   `json:"sent_bytes"` // by the networks of sessions
	ReceivedBytes     int64   `json:"received_bytes"`
	SessionsCreated   int64   `json:"sessions_created"`
	SnapshotPeakBytes int64   `json:"snapshot_peak_bytes"`

	Now   UsageNow `json:"now"` // whatever the month
	Quota Quota    `json:"quota"`
}

// UsageNow is what an owner has.
type UsageNow struct {
	Sessions        int     `json:"sessions"` // that have not ended
	RunningSessions int     `json:"running_sessions"`
	CPU             float64 `json:"cpu"`       // cores of those that are not stopped
	MemoryMB        int64   `json:"memory_mb"` // of those that are not stopped
	DiskMB          int64   `json:"disk_mb"`   // of sessions and workspaces
	Workspaces      int     `json:"workspaces"`
	WorkspaceMB     int64   `json:"workspace_mb"` // of DiskMB
	SnapshotBytes   int64   `json:"snapshot_bytes"`
}

// MyUsage returns what the owner of the client's key uses. The month is one of UTC, as
// 2026-11, or the current one if it is empty.
func (c *Client) MyUsage(ctx context.Context, month string) (*OwnerUsage, error) {
	return c.usage(ctx, "/v1/me/usage", month)
}

// UserUsage is MyUsage of a user, or of an owner of the daemon's configuration, for
// admins.
func (c *Client) UserUsage(ctx context.Context, name, month string) (*OwnerUsage, error) {
	return c.usage(ctx, userPath(name)+"/usage", month)
}

func (c *Client) usage(ctx context.Context, path, month string) (*OwnerUsage, error) {
	r := get(path)
	r.set("month", month)
	var used OwnerUsage
	if err := c.call(ctx, r, &used); err != nil {
		return nil, err
	}
	return &used, nil
}

// OwnersUsage is what all owners use.
type OwnersUsage struct {
	Month  string       `json:"month"`
	Owners []OwnerShare `json:"owners"` // by name
}

// OwnerShare is what one of several owners uses.
type OwnerShare struct {
	OwnerUsage

	MemoryBytes int64 `json:"memory_bytes"` // that the owner's sessions used a few seconds ago
}

// UsageDay is what an owner used on a day.
type UsageDay struct {
	Day             string  `json:"day"` // of UTC, as 2026-11-28
	Owner           string  `json:"owner"`
	SessionSeconds  float64 `json:"session_seconds"` // that sessions lived, all together
	CPUSeconds      float64 `json:"cpu_seconds"`
	MemoryMBSeconds int64   `json:"memory_mb_seconds"` // MiB in use, by the seconds that they were
	SentBytes       int64   `json:"sent_bytes"`
	ReceivedBytes   int64   `json:"received_bytes"`
	SessionsCreated int64   `json:"sessions_created"`
}

// UsageDaysOptions select days and owners.
type UsageDaysOptions struct {
	Since, Until string // days of UTC, as 2026-11-28; the last 30 days if they are empty
	Owner        string // for admins, who get all owners without it
}

// AllUsage returns what all owners use, for admins. The month is as of MyUsage.
func (c *Client) AllUsage(ctx context.Context, month string) (*OwnersUsage, error) {
	r := get("/v1/usage")
	r.set("month", month)
	var used OwnersUsage
	if err := c.call(ctx, r, &used); err != nil {
		return nil, err
	}
	return &used, nil
}

// UsageDays returns what was used by day: by the owner of the client's key, and to an
// admin by all owners.
func (c *Client) UsageDays(ctx context.Context, o *UsageDaysOptions) ([]UsageDay, error) {
	var answer struct {
		Days []UsageDay `json:"days"`
	}
	if err := c.call(ctx, usageDays(o), &answer); err != nil {
		return nil, err
	}
	return answer.Days, nil
}

// UsageCSV is UsageDays as a table, for a spreadsheet.
func (c *Client) UsageCSV(ctx context.Context, o *UsageDaysOptions) (string, error) {
	r := usageDays(o)
	r.set("format", "csv")
	resp, err := c.open(ctx, r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return "", c.broken(ctx, r, err)
	}
	return string(text), nil
}

func usageDays(o *UsageDaysOptions) request {
	options := value(o)
	r := get("/v1/usage/days")
	r.set("since", options.Since)
	r.set("until", options.Until)
	r.set("owner", options.Owner)
	return r
}

// Inspection is that somebody looked into what is the client's, or made a key or set a
// password in its name.
type Inspection struct {
	By        string    `json:"by"`                   // the admin; admin is the daemon's own key
	What      string    `json:"what"`                 // a session, a key, a password, an e-mail address
	SessionID string    `json:"session_id,omitempty"` // of a session
	FirstAt   time.Time `json:"first_at"`             // on that day
	LastAt    time.Time `json:"last_at"`              // to the minute
}

// ListInspections returns who looked into what is the client's, the newest first.
func (c *Client) ListInspections(ctx context.Context) ([]Inspection, error) {
	var answer struct {
		Inspections []Inspection `json:"inspections"`
	}
	if err := c.call(ctx, get("/v1/me/inspections"), &answer); err != nil {
		return nil, err
	}
	return answer.Inspections, nil
}

// ExceededQuota is the quota of an APIError with the reason ReasonQuotaExceeded.
type ExceededQuota struct {
	Name    string     `json:"name"` // as in Quota's JSON
	Used    float64    `json:"used"`
	Limit   float64    `json:"limit"`
	FreesAt *time.Time `json:"frees_at"` // nil if that takes an end of sessions, or less to keep
}
