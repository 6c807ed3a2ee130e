package sandkasten

import (
	"context"
	"net/http"
	"time"
)

// Limits bounds a session's sandbox.
type Limits struct {
	CPU      float64 `json:"cpu,omitempty"` // cores
	MemoryMB int64   `json:"memory_mb,omitempty"`
	Pids     int64   `json:"pids,omitempty"`
	DiskMB   int64   `json:"disk_mb,omitempty"`
}

// SessionInfo is a session as the daemon told it.
type SessionInfo struct {
	ID                 string            `json:"id"`
	Name               string            `json:"name,omitempty"`
	Owner              string            `json:"owner,omitempty"`
	Image              string            `json:"image"`
	ImageDigest        string            `json:"image_digest,omitempty"`
	Driver             string            `json:"driver"`
	Status             string            `json:"status"` // running, paused, stopped, destroyed, ...
	EndReason          string            `json:"end_reason,omitempty"`
	Cwd                string            `json:"cwd"` // of the default shell
	WorkspaceID        string            `json:"workspace_id,omitempty"`
	Hostname           string            `json:"hostname,omitempty"`
	Labels             map[string]string `json:"labels,omitempty"`
	Limits             Limits            `json:"limits"`
	NetworkMode        string            `json:"network_mode"` // of Network
	Network            NetworkPolicy     `json:"network"`
	ReadonlyRootfs     bool              `json:"readonly_rootfs"`
	FileScope          string            `json:"file_scope,omitempty"` // empty is what the configuration says
	TTLSeconds         int64             `json:"ttl_seconds"`
	OnExpiry           string            `json:"on_expiry,omitempty"` // after TTLSeconds: stop or destroy
	LifetimeSeconds    int64             `json:"lifetime_seconds,omitempty"`
	RetentionSeconds   int64             `json:"stopped_retention_seconds"` // how long it is kept when it is stopped
	OnIdle             string            `json:"on_idle"`                   // pause, stop or destroy
	IdleTimeoutSeconds int64             `json:"idle_timeout_seconds,omitempty"`
	AutoResume         bool              `json:"auto_resume"`
	ForkedFrom         string            `json:"forked_from,omitempty"`
	BootID             string            `json:"boot_id,omitempty"` // another one after each start
	CreatedAt          time.Time         `json:"created_at"`
	ExpiresAt          time.Time         `json:"expires_at"`
	LastActivity       time.Time         `json:"last_activity"`
	EndedAt            time.Time         `json:"ended_at,omitzero"`

	Usage  *SessionUsage `json:"usage,omitempty"`  // in a list with usage
	Cursor string        `json:"cursor,omitempty"` // in a list with a limit: After of the page behind it
}

// UpdateOptions is what can be changed of a session.
type UpdateOptions struct {
	TTL         time.Duration     `json:"-"`                     // without use, after which OnExpiry happens; whole seconds
	OnExpiry    string            `json:"on_expiry,omitempty"`   // stop, which keeps its files for a while, or destroy
	Lifetime    time.Duration     `json:"-"`                     // from its creation to its end; whole seconds
	OnIdle      string            `json:"on_idle,omitempty"`     // pause, stop or destroy
	IdleTimeout time.Duration     `json:"-"`                     // until OnIdle; whole seconds
	AutoResume  *bool             `json:"auto_resume,omitempty"` // a call to a paused or stopped session wakes it
	Labels      map[string]string `json:"labels,omitempty"`      // instead of all that there are
}

// CreateOptions is what a new session may be given.
type CreateOptions struct {
	TTL         time.Duration     `json:"-"` // as of UpdateOptions, with what follows
	OnExpiry    string            `json:"on_expiry,omitempty"`
	Lifetime    time.Duration     `json:"-"`
	OnIdle      string            `json:"on_idle,omitempty"`
	IdleTimeout time.Duration     `json:"-"`
	AutoResume  *bool             `json:"auto_resume,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`

	CPU      float64 `json:"cpu,omitempty"` // as of Limits, with what follows
	MemoryMB int64   `json:"memory_mb,omitempty"`
	Pids     int64   `json:"pids,omitempty"`
	DiskMB   int64   `json:"disk_mb,omitempty"`

	Name              string            `json:"name,omitempty"` // unique among the key's sessions that have not ended
	Image             string            `json:"image,omitempty"`
	Driver            string            `json:"driver,omitempty"`              // one of DaemonInfo's Drivers
	WorkspaceID       string            `json:"workspace_id,omitempty"`        // made if it is missing; outlives the session
	RestoreSnapshotID string            `json:"restore_snapshot_id,omitempty"` // a snapshot to begin with
	Env               map[string]string `json:"env,omitempty"`
	Hostname          string            `json:"hostname,omitempty"`
	NetworkMode       string            `json:"network_mode,omitempty"` // short for a Network that has only this mode
	Network           *NetworkPolicy    `json:"network,omitempty"`      // nil is the configuration's
	ReadonlyRootfs    *bool             `json:"readonly_rootfs,omitempty"`
	FileScope         string            `json:"file_scope,omitempty"` // what file calls reach: workspace, or sandbox for any path

	// IdempotencyKey makes calls with the same key and options give the same
	// session. Each call has one of its own otherwise.
	IdempotencyKey string `json:"-"`
}

// ForkOptions is what forks have otherwise than their session.
type ForkOptions struct {
	TTL         time.Duration     `json:"-"` // as of UpdateOptions, with what follows
	OnExpiry    string            `json:"on_expiry,omitempty"`
	Lifetime    time.Duration     `json:"-"`
	OnIdle      string            `json:"on_idle,omitempty"`
	IdleTimeout time.Duration     `json:"-"`
	AutoResume  *bool             `json:"auto_resume,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`

	CPU      float64 `json:"cpu,omitempty"` // as of Limits, with what follows
	MemoryMB int64   `json:"memory_mb,omitempty"`
	Pids     int64   `json:"pids,omitempty"`
	DiskMB   int64   `json:"disk_mb,omitempty"`

	Env      map[string]string `json:"env,omitempty"`
	Hostname string            `json:"hostname,omitempty"`

	IdempotencyKey string `json:"-"` // as of CreateOptions
}

// Times of the API, in seconds; those of options are durations.
type times struct {
	TTLSeconds         int64 `json:"ttl_seconds,omitempty"`
	LifetimeSeconds    int64 `json:"lifetime_seconds,omitempty"`
	IdleTimeoutSeconds int64 `json:"idle_timeout_seconds,omitempty"`
}

func newTimes(ttl, lifetime, idleTimeout time.Duration) times {
	return times{seconds(ttl), seconds(lifetime), seconds(idleTimeout)}
}

// seconds rounds up, so that what is more than nothing stays more than nothing.
func seconds(d time.Duration) int64 {
	if d > 0 {
		d += time.Second - 1
	}
	return int64(d / time.Second)
}

// Session calls one session of a daemon. Its methods may be called concurrently.
type Session struct {
	Files // of the sandbox; a path that is not absolute starts at /workspace

	ID   string
	Info SessionInfo // as it was when the Session was made; only the ID if [Client.Session] did

	client *Client
	path   string
}

// CreateSession makes a session and returns when it can run commands. Each call
// makes one, also if it has to be sent more than once. The caller ends it with
// Destroy. Otherwise it ends when nobody has used it for its TTL, or is stopped with
// its files if it has a name or OnExpiry says so.
func (c *Client) CreateSession(ctx context.Context, o *CreateOptions) (*Session, error) {
	options := value(o)
	if options.Network != nil {
		policy := options.Network.asked()
		options.Network = &policy
	}
	body := struct {
		CreateOptions
		times
	}{options, newTimes(options.TTL, options.Lifetime, options.IdleTimeout)}
	var info SessionInfo
	if err := c.call(ctx, postOnce("/v1/sessions", options.IdempotencyKey, body), &info); err != nil {
		return nil, err
	}
	return c.session(info), nil
}

// Session returns a session by its id without asking the daemon for it: whether
// it is there shows with the first call.
func (c *Client) Session(id string) *Session { return c.session(SessionInfo{ID: id}) }

// GetSession returns a session that is there, or ended not long ago.
func (c *Client) GetSession(ctx context.Context, id string) (*Session, error) {
	info, err := c.Session(id).Refresh(ctx)
	if err != nil {
		return nil, err
	}
	return c.session(info), nil
}

// ListSessionsOptions selects sessions.
type ListSessionsOptions struct {
	IncludeEnded bool   // also those that ended not long ago
	Scope        string // only those of a scope of the key's own, as workflow:run-1

	Status []string // only those with one of these
	Image  string   // its name or digest
	Labels []string // name, or name=value; all of them
	Owner  string
	Mine   bool   // only those of the key's own owner; an admin gets those of all without it
	Search string // in the id, name, image or labels

	Sort  string // created, activity or name; with a minus the other way round
	Limit int    // of a page, at most 1000; 0 is all
	After string // SessionInfo.Cursor of the last session of the page before
	Usage bool   // with SessionInfo.Usage
}

// SessionUsage is what a session used at a time.
type SessionUsage struct {
	MeasuredAt    time.Time `json:"measured_at"`
	CPUUsageUsec  int64     `json:"cpu_usage_usec"` // processor time used up to then
	MemoryBytes   int64     `json:"memory_bytes"`
	DiskBytes     int64     `json:"disk_bytes"`
	Pids          int64     `json:"pids"`
	SentBytes     int64     `json:"sent_bytes,omitempty"`
	ReceivedBytes int64     `json:"received_bytes,omitempty"`
}

// ListSessions returns the key's sessions, oldest first if o has no other order.
func (c *Client) ListSessions(ctx context.Context, o *ListSessionsOptions) ([]*Session, error) {
	r := get("/v1/sessions")
	r.setFlag("include_ended", value(o).IncludeEnded)
	r.set("scope", value(o).Scope)
	r.setAll("status", value(o).Status)
	r.set("image", value(o).Image)
	r.setAll("label", value(o).Labels)
	r.set("owner", value(o).Owner)
	r.setFlag("mine", value(o).Mine)
	r.set("search", value(o).Search)
	r.set("sort", value(o).Sort)
	r.setNumber("limit", int64(value(o).Limit))
	r.set("after", value(o).After)
	r.setFlag("usage", value(o).Usage)
	var infos []SessionInfo
	if err := c.call(ctx, r, &infos); err != nil {
		return nil, err
	}
	return c.sessions(infos), nil
}

func (c *Client) session(info SessionInfo) *Session {
	path := "/v1/sessions/" + segment(info.ID)
	return &Session{Files: Files{client: c, path: path + "/fs/"}, ID: info.ID, Info: info, client: c, path: path}
}

func (c *Client) sessions(infos []SessionInfo) []*Session {
	list := make([]*Session, len(infos))
	for i, info := range infos {
		list[i] = c.session(info)
	}
	return list
}

// Refresh returns the session as it is now.
func (s *Session) Refresh(ctx context.Context) (SessionInfo, error) {
	return s.change(ctx, get(s.path))
}

// Update changes what the options say, and returns the session as it is then.
func (s *Session) Update(ctx context.Context, o *UpdateOptions) (SessionInfo, error) {
	options := value(o)
	body := struct {
		UpdateOptions
		times
	}{options, newTimes(options.TTL, options.Lifetime, options.IdleTimeout)}
	return s.change(ctx, request{method: http.MethodPatch, path: s.path, json: body, safe: true})
}

// Heartbeat counts as use of the session and does nothing else.
func (s *Session) Heartbeat(ctx context.Context) error {
	return s.client.call(ctx, postSame(s.path+"/heartbeat", nil), nil)
}

// PauseOptions says how a session is paused.
type PauseOptions struct {
	Memory string `json:"memory,omitempty"` // where its memory is kept meanwhile
}

// Pause stops the session's programs where they are. Pausing what is paused is no
// error; nor is it with the next three.
func (s *Session) Pause(ctx context.Context, o *PauseOptions) (SessionInfo, error) {
	return s.change(ctx, postSame(s.path+"/pause", value(o)))
}

// Resume lets the programs of a paused session go on.
func (s *Session) Resume(ctx context.Context) (SessionInfo, error) {
	return s.change(ctx, postSame(s.path+"/resume", nil))
}

// Stop ends the session's programs and keeps its files.
func (s *Session) Stop(ctx context.Context) (SessionInfo, error) {
	return s.change(ctx, postSame(s.path+"/stop", nil))
}

// Start boots a stopped session on its files.
func (s *Session) Start(ctx context.Context) (SessionInfo, error) {
	return s.change(ctx, postSame(s.path+"/start", nil))
}

// Destroy ends the session with all that is in it but its workspace. Again is no
// error.
func (s *Session) Destroy(ctx context.Context) error {
	return s.client.call(ctx, remove(s.path), nil)
}

func (s *Session) change(ctx context.Context, r request) (SessionInfo, error) {
	var info SessionInfo
	err := s.client.call(ctx, r, &info)
	return info, err
}

// Forked is what Fork has made.
type Forked struct {
	Sessions []*Session
	Copied   bool // the host had to copy the files, which took time and space

	DroppedContexts int // contexts that ran: forks have neither these nor their variables
}

// Fork makes count sessions that begin with the files of this one, which goes on.
// The caller ends them.
func (s *Session) Fork(ctx context.Context, count int, o *ForkOptions) (Forked, error) {
	options := value(o)
	body := struct {
		Count int `json:"count"`
		ForkOptions
		times
	}{count, options, newTimes(options.TTL, options.Lifetime, options.IdleTimeout)}
	var made struct {
		Sessions        []SessionInfo `json:"sessions"`
		Copied          bool          `json:"copied"`
		DroppedContexts int           `json:"dropped_contexts"`
	}
	if err := s.client.call(ctx, postOnce(s.path+"/fork", options.IdempotencyKey, body), &made); err != nil {
		return Forked{}, err
	}
	return Forked{s.client.sessions(made.Sessions), made.Copied, made.DroppedContexts}, nil
}

// Stats is what a session uses and may use; a limit of 0 is none.
type Stats struct {
	MemoryBytes    int64   `json:"memory_bytes"`
	MemoryPeak     int64   `json:"memory_peak"`
	MemoryLimit    int64   `json:"memory_limit"`
	CPUUsageUsec   int64   `json:"cpu_usage_usec"`
	CPULimit       float64 `json:"cpu_limit"` // cores
	Pids           int64   `json:"pids"`
	PidsLimit      int64   `json:"pids_limit"`
	DiskBytes      int64   `json:"disk_bytes"`
	DiskLimit      int64   `json:"disk_limit"`
	Files          int64   `json:"files"`
	FilesLimit     int64   `json:"files_limit"`
	OOMKills       int64   `json:"oom_kills"`
	WorkspaceBytes int64   `json:"workspace_bytes,omitempty"` // of one that outlives the session
	WorkspaceLimit int64   `json:"workspace_limit,omitempty"`

	Network *NetworkStats `json:"network,omitempty"` // since the session's last start, or the daemon's; nil if it has none
}

// Stats returns the session's use of its limits.
func (s *Session) Stats(ctx context.Context) (Stats, error) {
	var stats Stats
	err := s.client.call(ctx, get(s.path+"/stats"), &stats)
	return stats, err
}

// StatsHistoryOptions selects samples. What is empty selects all.
type StatsHistoryOptions struct {
	Since       time.Time // from then on
	StepSeconds int       // between samples: 10, of the last hour, or 60, of the last day; 0 is the finest since Since
}

// StatsHistory is what a session used over its life, oldest first. Where it did not run
// there is a hole.
type StatsHistory struct {
	StepSeconds int           `json:"step_seconds"`
	Samples     []StatsSample `json:"samples"`
}

// StatsSample is what a session used at a time. Counters begin anew with its start,
// those of the network also with the daemon's.
type StatsSample struct {
	At            time.Time `json:"at"`
	CPUUsageUsec  int64     `json:"cpu_usage_usec"`
	MemoryBytes   int64     `json:"memory_bytes"` // with a step of 60 the most of the minute
	DiskBytes     int64     `json:"disk_bytes"`
	Pids          int64     `json:"pids"`
	SentBytes     int64     `json:"sent_bytes"`
	ReceivedBytes int64     `json:"received_bytes"`
}

// StatsHistory returns what the session used over its life.
func (s *Session) StatsHistory(ctx context.Context, o *StatsHistoryOptions) (StatsHistory, error) {
	var history StatsHistory
	err := s.client.call(ctx, historyRequest(s.path+"/stats/history", o), &history)
	return history, err
}

func historyRequest(path string, o *StatsHistoryOptions) request {
	r := get(path)
	if since := value(o).Since; !since.IsZero() {
		r.set("since", since.Format(time.RFC3339Nano))
	}
	r.setNumber("step", int64(value(o).StepSeconds))
	return r
}

// value is what options say; nil ones say nothing.
func value[T any](o *T) T {
	if o == nil {
		var zero T
		return zero
	}
	return *o
}
