package v1

import (
	"cmp"
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/api/v1/networks"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
)

// Session is the contract's view of a session.
type Session struct {
	ID             session.ID        `json:"id" doc:"26 characters of a-z and 2-7." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	Name           string            `json:"name,omitempty" doc:"That it was given at create. It may stand wherever a path has the session's id." example:"build-7"`
	Owner          string            `json:"owner,omitempty" doc:"Whose it is. Absent if the daemon needs no keys." example:"alice"`
	Image          string            `json:"image" example:"base"`
	ImageDigest    string            `json:"image_digest,omitempty" doc:"What the image's name meant when the session was created."`
	Driver         string            `json:"driver" doc:"What made its sandbox." example:"native"`
	Status         session.State     `json:"status" enum:"creating,running,paused,stopping,stopped,starting,destroyed,expired,crashed,failed" example:"running"`
	EndReason      string            `json:"end_reason,omitempty" doc:"Why it ended, stopped or was paused, for people."`
	BootID         string            `json:"boot_id,omitempty" doc:"Changes when the session is stopped and started: its processes and shells are others then." example:"k5n6p7r2s3t4u5f5q2bz7lq4m3"`
	ForkedFrom     session.ID        `json:"forked_from,omitempty" doc:"The session whose files it began with; absent if it is no fork."`
	Cwd            string            `json:"cwd" doc:"Of the default shell, after its last command." example:"/workspace"`
	WorkspaceID    string            `json:"workspace_id,omitempty" doc:"Of the workspace that outlives the session; absent if it has none."`
	Hostname       string            `json:"hostname,omitempty" example:"sandbox"`
	Labels         map[string]string `json:"labels,omitempty"`
	Limits         Limits            `json:"limits"`
	NetworkMode    string            `json:"network_mode" doc:"The mode of network." example:"none"`
	Network        networks.Network  `json:"network" doc:"What it may reach."`
	ReadonlyRootfs bool              `json:"readonly_rootfs"`
	FileScope      session.FileScope `json:"file_scope,omitempty" enum:"workspace,sandbox" doc:"What the calls for files reach: /workspace, or any path in the sandbox. Absent where it did not ask: then it is what the configuration says for its key." example:"workspace"`
	TTLSeconds     int64             `json:"ttl_seconds" doc:"Idle time after which on_expiry happens, also when it is paused. A stopped session has stopped_retention_seconds." example:"1800"`
	OnExpiry       session.OnExpiry  `json:"on_expiry,omitempty" enum:"stop,destroy" doc:"What happens to it after ttl_seconds: stop keeps its files for stopped_retention_seconds. It is destroy where a stop would not keep them, whatever was asked for." example:"stop"`
	Lifetime       int64             `json:"lifetime_seconds,omitempty" doc:"Age at which it expires, active, stopped or not; absent if there is none." example:"604800"`
	Retention      int64             `json:"stopped_retention_seconds" doc:"How long it is kept when it is stopped, from the stop on and up to lifetime_seconds. expires_at of a stopped session tells." example:"604800"`
	OnIdle         session.OnIdle    `json:"on_idle" enum:"pause,stop,destroy" doc:"What happens to it after idle_timeout_seconds." example:"destroy"`
	IdleTimeout    int64             `json:"idle_timeout_seconds,omitempty" doc:"Idle time after which on_idle happens; absent if only ttl_seconds counts." example:"300"`
	AutoResume     bool              `json:"auto_resume" doc:"A request that needs its programs wakes it when it is paused." example:"true"`
	CreatedAt      time.Time         `json:"created_at"`
	ExpiresAt      time.Time         `json:"expires_at" doc:"When it expires, or is stopped as on_expiry says, if nothing happens. Activity moves it, up to the maximum lifetime." example:"2026-11-21T09:30:00Z"`
	LastActivity   time.Time         `json:"last_activity"`
	EndedAt        *time.Time        `json:"ended_at,omitempty"`

	Usage  *SessionUsage `json:"usage,omitempty" doc:"In a list with usage: what it used a few seconds ago. Absent without processes, and where it is not known yet."`
	Cursor string        `json:"cursor,omitempty" doc:"In a list with limit: after of the page that begins behind this session." example:"eyJvIjoiY3JlYXRlZCJ9"`
}

// Limits bounds a session's sandbox.
type Limits struct {
	CPU      float64 `json:"cpu,omitempty" doc:"Cores; 1.5 is one and a half. 0 is the default, here as in the others." minimum:"0" maximum:"1024" example:"1"`
	MemoryMB int64   `json:"memory_mb,omitempty" minimum:"0" maximum:"16777216" example:"512"`
	Pids     int64   `json:"pids,omitempty" doc:"Processes and threads." minimum:"0" maximum:"4194304" example:"256"`
	DiskMB   int64   `json:"disk_mb,omitempty" doc:"All that the sandbox writes, but for a workspace that outlives it." minimum:"0" maximum:"1073741824" example:"2048"`
}

// networkMode is a mode as it is shown, never "".
func networkMode(m network.Mode) string { return string(cmp.Or(m, network.None)) }

func view(s session.Session) Session {
	v := Session{
		ID: s.ID, Name: s.Name, Owner: s.Owner, Driver: s.Driver(), Image: s.Image, ImageDigest: s.ImageDigest, Status: s.State, EndReason: s.EndReason,
		Cwd: s.Cwd, WorkspaceID: s.WorkspaceID, Hostname: s.Hostname, Labels: s.Labels,
		Limits:      Limits{CPU: s.Limits.CPU, MemoryMB: s.Limits.MemoryMB, Pids: s.Limits.Pids, DiskMB: s.Limits.DiskMB},
		NetworkMode: networkMode(s.NetworkPolicy.Mode), Network: networks.View(s.NetworkPolicy), ReadonlyRootfs: s.ReadonlyRoot, FileScope: s.FileScope,
		ForkedFrom: s.ForkedFrom, BootID: s.BootID, OnIdle: s.OnIdle, OnExpiry: s.OnExpiry, AutoResume: s.AutoResume,
		TTLSeconds: int64(s.TTL / time.Second), Lifetime: int64(s.MaxLifetime / time.Second), Retention: int64(s.Retention / time.Second), IdleTimeout: int64(s.IdleTimeout / time.Second),
		CreatedAt: s.CreatedAt.UTC(), ExpiresAt: s.ExpiresAt().UTC(), LastActivity: s.LastActivity.UTC(),
	}
	if !s.EndedAt.IsZero() {
		ended := s.EndedAt.UTC()
		v.EndedAt = &ended
	}
	return v
}

// What the parts of this surface share.
type (
	// SessionPath is what every route of one session takes.
	SessionPath = contract.SessionPath
	// OK is the answer where there is nothing to say.
	OK       = contract.OK
	okOutput = contract.OKOutput
)

// find returns the id that a path has. Whose the session is, and whether there is
// one, the core says to whoever uses the id.
func (s *surface) find(_ context.Context, in SessionPath) (session.ID, error) {
	if !isID(in.ID) {
		return "", session.ErrNoSession()
	}
	return session.ID(in.ID), nil
}

// findKnown is find, and refuses a session that the caller may not look into before
// the handler has other objections.
func (s *surface) findKnown(ctx context.Context, in SessionPath) (session.ID, error) {
	id, err := s.find(ctx, in)
	if err == nil {
		_, err = s.manager.Sessions.Enter(ctx, api.Caller(ctx), id)
	}
	return id, err
}

func (s *surface) get(ctx context.Context, in SessionPath) (session.Session, error) {
	id, err := s.find(ctx, in)
	if err != nil {
		return session.Session{}, err
	}
	return s.manager.Sessions.Get(ctx, api.Caller(ctx), id)
}

// isID reports whether s is the id of anything here. What is not is refused
// before it is used for anything.
func isID(s string) bool {
	if len(s) != 26 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

type createInput struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" pattern:"^[!-~]+$" patternDescription:"visible ASCII characters" doc:"Chosen by the client. A repeated request with the same key and body gives the same session."`
	Body           *CreateRequest
}

// CreateRequest is what a client may say of a new session. Everything has a
// default.
type CreateRequest struct {
	Name           string                   `json:"name,omitempty" minLength:"1" maxLength:"64" doc:"What the session is called: unique among the key's sessions that have not ended, 409 otherwise. 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', begun by a letter or digit." example:"build-7"`
	Image          string                   `json:"image,omitempty" minLength:"1" maxLength:"512" doc:"The name of an image of this daemon." example:"base"`
	Driver         string                   `json:"driver,omitempty" minLength:"1" maxLength:"32" doc:"What makes the sandbox: one of the drivers at /v1/info. Only the first of them has workspaces." example:"native"`
	WorkspaceID    string                   `json:"workspace_id,omitempty" minLength:"1" maxLength:"64" doc:"A workspace that outlives the session, at /workspace. It is made if this key has none of that id. Without it /workspace ends with the session, unless the daemon is configured otherwise." example:"project"`
	RestoreID      string                   `json:"restore_snapshot_id,omitempty" minLength:"1" maxLength:"64" doc:"A snapshot, by its id, the beginning of that or its name, with whose files the session begins, and with whose image unless there is one in the request. With changes to the root (scope sandbox) it fits no other image. A workspace_id beside it must be new." example:"k5n6p7r2s3t4u5f5q2bz7lq4m3"`
	Limits                                  // cpu, memory_mb, pids and disk_mb at the top
	Nested         *Limits                  `json:"limits,omitempty" doc:"The same four as at the top, for those who like them together. Not both."`
	NetworkMode    string                   `json:"network_mode,omitempty" minLength:"1" maxLength:"32" doc:"none, allow, internet or full: short for a network that has only this mode. Beside network it has to be the same." example:"none"`
	Network        *networks.NetworkRequest `json:"network,omitempty" doc:"What the sandbox may reach. Without it what the configuration says for the image, which is nothing unless the operator has set it otherwise."`
	ReadonlyRootfs *bool                    `json:"readonly_rootfs,omitempty" doc:"Only /workspace, /tmp and the like can be written."`
	FileScope      session.FileScope        `json:"file_scope,omitempty" enum:"workspace,sandbox" doc:"What the calls for files reach: /workspace, or any path in the sandbox, like /tmp and home directories. Without it what the configuration says for this key." example:"sandbox"`
	Env            map[string]string        `json:"env,omitempty" maxProperties:"256" doc:"Variables for every process. Never shown again." example:"{\"LANG\":\"C.UTF-8\"}"`
	Hostname       string                   `json:"hostname,omitempty" minLength:"1" maxLength:"63" example:"sandbox"`
	Labels         map[string]string        `json:"labels,omitempty" maxProperties:"64" doc:"The client's own notes." example:"{\"task\":\"42\"}"`
	Policy
}

// request gives the manager's request. Numbers are in the schema's range, so
// that no conversion can overflow.
func (in *createInput) request() (session.CreateRequest, error) {
	req := session.CreateRequest{IdempotencyKey: in.IdempotencyKey}
	body := in.Body
	if body == nil {
		return req, nil
	}
	limits := body.Limits
	if body.Nested != nil {
		if limits != (Limits{}) {
			return req, errdefs.Invalid("limits", "must not be there beside cpu, memory_mb, pids or disk_mb")
		}
		limits = *body.Nested
	}
	req.Name, req.Image, req.Driver = body.Name, body.Image, body.Driver
	policy := body.policy()
	req.TTL, req.Lifetime, req.IdleTimeout, req.OnIdle, req.OnExpiry, req.AutoResume = policy.TTL, policy.Lifetime, policy.IdleTimeout, policy.OnIdle, policy.OnExpiry, policy.AutoResume
	req.WorkspaceID = body.WorkspaceID
	req.RestoreSnapshotID = body.RestoreID
	req.Limits = runtime.Limits{CPU: limits.CPU, MemoryMB: limits.MemoryMB, Pids: limits.Pids, DiskMB: limits.DiskMB}
	req.NetworkMode, req.NetworkPolicy = network.Mode(body.NetworkMode), body.Network.Asked()
	req.ReadonlyRoot = body.ReadonlyRootfs
	req.FileScope = body.FileScope
	req.Env = body.Env
	req.Hostname = body.Hostname
	req.Labels = body.Labels
	return req, nil
}

type sessionOutput struct{ Body Session }

func (s *surface) createSession(ctx context.Context, in *createInput) (*sessionOutput, error) {
	req, err := in.request()
	if err == nil {
		req.RestoreSnapshotID, err = s.snapshotID(ctx, "restore_snapshot_id", req.RestoreSnapshotID)
	}
	if err != nil {
		return nil, err
	}
	start := time.Now()
	created, err := s.manager.Sessions.Create(ctx, api.Caller(ctx), req)
	s.metrics.Created(time.Since(start), err)
	if err != nil {
		return nil, err
	}
	api.Made(ctx, "session", string(created.ID))
	return &sessionOutput{view(created)}, nil
}

func (s *surface) getSession(ctx context.Context, in *SessionPath) (*sessionOutput, error) {
	found, err := s.get(ctx, *in)
	if err != nil {
		return nil, err
	}
	return &sessionOutput{view(found)}, nil
}

func (s *surface) destroySession(ctx context.Context, in *SessionPath) (*okOutput, error) {
	id, err := s.find(ctx, *in)
	if err != nil {
		return nil, err
	}
	if err := s.manager.Sessions.Destroy(ctx, api.Caller(ctx), id); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}

// Stats is what a session uses and may use.
type Stats struct {
	MemoryBytes  int64   `json:"memory_bytes" example:"1482752"`
	MemoryPeak   int64   `json:"memory_peak" doc:"The most that memory_bytes ever was." example:"2211840"`
	MemoryLimit  int64   `json:"memory_limit" doc:"In bytes." example:"536870912"`
	CPUUsageUsec int64   `json:"cpu_usage_usec" doc:"Processor time used so far." example:"8123"`
	CPULimit     float64 `json:"cpu_limit" doc:"In cores." example:"1"`
	Pids         int64   `json:"pids" example:"2"`
	PidsLimit    int64   `json:"pids_limit" example:"256"`
	DiskBytes    int64   `json:"disk_bytes" doc:"Of all that it wrote, but for a workspace that outlives it." example:"40960"`
	DiskLimit    int64   `json:"disk_limit" doc:"In bytes." example:"2147483648"`
	Files        int64   `json:"files" doc:"Files and directories on the same disk." example:"38"`
	FilesLimit   int64   `json:"files_limit" example:"131072"`
	OOMKills     int64   `json:"oom_kills" doc:"Processes killed for want of memory."`

	WorkspaceBytes int64 `json:"workspace_bytes,omitempty" doc:"Of a workspace that outlives the session, by whomever they were written."`
	WorkspaceLimit int64 `json:"workspace_limit,omitempty" doc:"In bytes."`

	Network *networks.NetworkStats `json:"network,omitempty" doc:"Since the session's last start, or the daemon's; absent if it has no network."`
}

type statsOutput struct{ Body Stats }

func (s *surface) stats(ctx context.Context, in *SessionPath) (*statsOutput, error) {
	found, err := s.get(ctx, *in)
	if err != nil {
		return nil, err
	}
	st, err := s.manager.Sessions.Stats(ctx, api.Caller(ctx), found.ID)
	if err != nil {
		return nil, err
	}
	out := &statsOutput{Stats{
		MemoryBytes: st.MemoryBytes, MemoryPeak: st.MemoryPeak, MemoryLimit: st.MemoryLimit,
		CPUUsageUsec: st.CPUUsageUsec, CPULimit: st.CPULimit, Pids: st.Pids, PidsLimit: st.PidsLimit,
		DiskBytes: st.DiskBytes, DiskLimit: st.DiskLimit, OOMKills: st.OOMKills,
		Files: st.Files, FilesLimit: st.FilesLimit,
	}}
	if out.Body.Network, err = s.networks.Stats(ctx, found.ID); err != nil {
		return nil, err
	}
	if found.WorkspaceID == "" {
		return out, nil
	}
	w, err := s.manager.Sessions.Workspace(ctx, api.Caller(ctx), found.ID)
	if err != nil {
		return nil, err
	}
	out.Body.WorkspaceBytes, out.Body.WorkspaceLimit = w.Bytes, w.SizeMB<<20
	return out, nil
}
