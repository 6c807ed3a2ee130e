package sandkasten

import (
	"context"
	"encoding/json"
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

// ExceededQuota is the quota of an APIError with the reason ReasonQuotaExceeded.
type ExceededQuota struct {
	Name    string     `json:"name"` // as in Quota's JSON
	Used    float64    `json:"used"`
	Limit   float64    `json:"limit"`
	FreesAt *time.Time `json:"frees_at"` // nil if that takes an end of sessions, or less to keep
}
