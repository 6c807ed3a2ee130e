package client

import (
	"context"
	"net/http"
	"time"
)

// Session is one session as the daemon tells it.
type Session struct {
	ID           string            `json:"id"`
	Image        string            `json:"image"`
	ImageDigest  string            `json:"image_digest,omitempty"`
	Driver       string            `json:"driver"`
	Status       string            `json:"status"`
	EndReason    string            `json:"end_reason,omitempty"`
	Cwd          string            `json:"cwd"`
	WorkspaceID  string            `json:"workspace_id,omitempty"`
	Hostname     string            `json:"hostname,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Limits       Limits            `json:"limits"`
	TTLSeconds   int64             `json:"ttl_seconds"`
	Lifetime     int64             `json:"lifetime_seconds,omitempty"`
	OnIdle       string            `json:"on_idle"`
	IdleTimeout  int64             `json:"idle_timeout_seconds,omitempty"`
	AutoResume   bool              `json:"auto_resume"`
	ForkedFrom   string            `json:"forked_from,omitempty"`
	BootID       string            `json:"boot_id,omitempty"` // another one after each start
	CreatedAt    time.Time         `json:"created_at"`
	ExpiresAt    time.Time         `json:"expires_at"`
	LastActivity time.Time         `json:"last_activity"`
}

// Limits bounds a session's sandbox. Zero fields take the daemon's defaults.
type Limits struct {
	CPU      float64 `json:"cpu,omitempty"` // cores
	MemoryMB int64   `json:"memory_mb,omitempty"`
	Pids     int64   `json:"pids,omitempty"`
	DiskMB   int64   `json:"disk_mb,omitempty"`
}

// CreateRequest is what a new session may be given. Zero values take the
// daemon's defaults.
type CreateRequest struct {
	Image       string            `json:"image,omitempty"`
	Driver      string            `json:"driver,omitempty"`
	WorkspaceID string            `json:"workspace_id,omitempty"`
	RestoreID   string            `json:"restore_snapshot_id,omitempty"` // a snapshot to begin with
	Limits      Limits            `json:"limits,omitzero"`
	Env         map[string]string `json:"env,omitempty"`
	Hostname    string            `json:"hostname,omitempty"`
	UpdateRequest
}

// UpdateRequest is what can be changed of a session. Zero values leave what
// there is.
type UpdateRequest struct {
	TTLSeconds      int64             `json:"ttl_seconds,omitempty"`      // idle time after which it ends
	LifetimeSeconds int64             `json:"lifetime_seconds,omitempty"` // age at which it ends
	OnIdle          string            `json:"on_idle,omitempty"`          // pause, stop or destroy
	IdleTimeout     int64             `json:"idle_timeout_seconds,omitempty"`
	AutoResume      *bool             `json:"auto_resume,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"` // instead of all that there are
}

// Stats is what a session uses and may use.
type Stats struct {
	MemoryBytes  int64   `json:"memory_bytes"`
	MemoryPeak   int64   `json:"memory_peak"`
	MemoryLimit  int64   `json:"memory_limit"`
	CPUUsageUsec int64   `json:"cpu_usage_usec"`
	CPULimit     float64 `json:"cpu_limit"`
	Pids         int64   `json:"pids"`
	PidsLimit    int64   `json:"pids_limit"`
	DiskBytes    int64   `json:"disk_bytes"`
	DiskLimit    int64   `json:"disk_limit"`
	Files        int64   `json:"files"`
	FilesLimit   int64   `json:"files_limit"`
	OOMKills     int64   `json:"oom_kills"`

	WorkspaceBytes int64 `json:"workspace_bytes,omitempty"` // of one that outlives the session
	WorkspaceLimit int64 `json:"workspace_limit,omitempty"`
}

// Create makes a session and returns when it runs.
func (c *Client) Create(ctx context.Context, req CreateRequest) (Session, error) {
	var s Session
	err := c.call(ctx, http.MethodPost, "/v1/sessions", req, &s)
	return s, err
}

// Which sessions a list has.
type Which string

// The lists. Ended sessions are known for a while.
const (
	Living        Which = ""
	LivingOrEnded Which = "?include_ended=true"
)

// Sessions lists sessions, oldest first.
func (c *Client) Sessions(ctx context.Context, which Which) ([]Session, error) {
	var list []Session
	err := c.call(ctx, http.MethodGet, "/v1/sessions"+string(which), nil, &list)
	return list, err
}

// Session returns one session.
func (c *Client) Session(ctx context.Context, id string) (Session, error) {
	var s Session
	err := c.call(ctx, http.MethodGet, sessionPath(id), nil, &s)
	return s, err
}

// Delete ends a session. Ending one that has ended is not an error.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, sessionPath(id), nil, nil)
}

// Stats returns a session's use of its limits.
func (c *Client) Stats(ctx context.Context, id string) (Stats, error) {
	var s Stats
	err := c.call(ctx, http.MethodGet, sessionPath(id, "/stats"), nil, &s)
	return s, err
}
