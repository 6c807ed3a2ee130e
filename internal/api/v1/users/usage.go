package users

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/usage"
)

// Quota is how much an owner may have. What is left out is not the owner's own, or no
// limit; 0 is no limit.
type Quota struct {
	Sessions       *int     `json:"max_sessions,omitempty" doc:"Sessions that have not ended, stopped ones included." example:"50"`
	Running        *int     `json:"max_running_sessions,omitempty" doc:"Of these, sessions that are not stopped." example:"10"`
	CPU            *float64 `json:"cpu,omitempty" doc:"Cores of the sessions that are not stopped, together." example:"16"`
	MemoryMB       *int64   `json:"memory_mb,omitempty" doc:"MiB of memory of the sessions that are not stopped, together." example:"32768"`
	DiskMB         *int64   `json:"disk_mb,omitempty" doc:"MiB of disk of all sessions and workspaces together." example:"102400"`
	Workspaces     *int     `json:"max_workspaces,omitempty" doc:"Workspaces." example:"100"`
	SnapshotMB     *int64   `json:"snapshot_mb,omitempty" doc:"MiB of the archives of all snapshots together." example:"20480"`
	NetworkMB      *int64   `json:"network_mb_per_month,omitempty" doc:"MiB that the networks of sessions carry in a calendar month of UTC, in both directions together." example:"10240"`
	SessionSeconds *int64   `json:"session_seconds_per_month,omitempty" doc:"Seconds that sessions live in a calendar month of UTC, all together." example:"720000"`

	Images  *int   `json:"max_images,omitempty" doc:"Of a user who may make images: their names." example:"10"`
	ImageMB *int64 `json:"image_mb,omitempty" doc:"MiB of these images together. The one that goes beyond it is the last." example:"20480"`
}

// QuotaRequest changes a quota. What is left out stays, and null goes back to what the
// configuration gives to all.
type QuotaRequest struct {
	Sessions       kit.Change[int]     `json:"max_sessions,omitempty" minimum:"0" maximum:"30000" doc:"Sessions that have not ended, stopped ones included. 0 is no limit, and null the limit of the configuration." example:"50"`
	Running        kit.Change[int]     `json:"max_running_sessions,omitempty" minimum:"0" maximum:"30000" doc:"Of these, sessions that are not stopped. 0 is no limit, and null the limit of the configuration." example:"10"`
	CPU            kit.Change[float64] `json:"cpu,omitempty" minimum:"0" maximum:"100000" doc:"Cores of the sessions that are not stopped, together. 0 is no limit, and null the limit of the configuration." example:"16"`
	MemoryMB       kit.Change[int64]   `json:"memory_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"MiB of memory of the sessions that are not stopped, together. 0 is no limit, and null the limit of the configuration." example:"32768"`
	DiskMB         kit.Change[int64]   `json:"disk_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"MiB of disk of all sessions and workspaces together. 0 is no limit, and null the limit of the configuration." example:"102400"`
	Workspaces     kit.Change[int]     `json:"max_workspaces,omitempty" minimum:"0" maximum:"1048576" doc:"Workspaces. 0 is no limit beside the owner's part of what the daemon may have, and null the limit of the configuration." example:"100"`
	SnapshotMB     kit.Change[int64]   `json:"snapshot_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"MiB of the archives of all snapshots together. 0 is no limit, and null the limit of the configuration." example:"20480"`
	NetworkMB      kit.Change[int64]   `json:"network_mb_per_month,omitempty" minimum:"0" maximum:"1073741824" doc:"MiB that the networks of sessions carry in a calendar month of UTC, in both directions together. 0 is no limit, and null the limit of the configuration." example:"10240"`
	SessionSeconds kit.Change[int64]   `json:"session_seconds_per_month,omitempty" minimum:"0" maximum:"8589934592" doc:"Seconds that sessions live in a calendar month of UTC, all together. 0 is no limit, and null the limit of the configuration." example:"720000"`

	Images  kit.Change[int]   `json:"max_images,omitempty" minimum:"0" maximum:"1048576" doc:"Names of images that a user made who may make some. 0 is no limit, and null 10." example:"10"`
	ImageMB kit.Change[int64] `json:"image_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"MiB of these images together. 0 is no limit, and null 20480." example:"20480"`
}

func (q *QuotaRequest) change() *accounts.QuotaChange {
	if q == nil {
		return nil
	}
	return &accounts.QuotaChange{
		Sessions: accounts.Change[int](q.Sessions), Running: accounts.Change[int](q.Running), CPU: accounts.Change[float64](q.CPU),
		MemoryMB: accounts.Change[int64](q.MemoryMB), DiskMB: accounts.Change[int64](q.DiskMB), Workspaces: accounts.Change[int](q.Workspaces), SnapshotMB: accounts.Change[int64](q.SnapshotMB),
		NetworkMB: accounts.Change[int64](q.NetworkMB), SessionSeconds: accounts.Change[int64](q.SessionSeconds),
		Images: accounts.Change[int](q.Images), ImageMB: accounts.Change[int64](q.ImageMB),
	}
}

// viewQuota is nil for a user without an own quota.
func viewQuota(q accounts.Quota) *Quota {
	if q == (accounts.Quota{}) {
		return nil
	}
	view := Quota(q)
	return &view
}

// limits is what holds for an owner, without what is no limit.
func limits(q auth.Quota) Quota {
	return Quota{
		Sessions: limit(q.Sessions), Running: limit(q.Running), CPU: limit(q.CPU), MemoryMB: limit(q.MemoryMB), DiskMB: limit(q.DiskMB),
		Workspaces: limit(q.Workspaces), SnapshotMB: limit(q.SnapshotBytes >> 20), NetworkMB: limit(q.NetworkBytes >> 20), SessionSeconds: limit(int64(q.SessionTime / time.Second)),
	}
}

func limit[T int | int64 | float64](n T) *T {
	if n == 0 {
		return nil
	}
	return &n
}

// OwnerUsage is what an owner used in a month, and has and may have now.
type OwnerUsage struct {
	Owner   string    `json:"owner" example:"alice"`
	Month   string    `json:"month" doc:"Of UTC." example:"2026-11"`
	FreesAt time.Time `json:"frees_at" doc:"When the month ends, and what it has is free again." example:"2026-12-01T00:00:00Z"`

	SessionSeconds    float64 `json:"session_seconds" doc:"That sessions lived, all together: from their create or start to their end or stop, also while they were paused." example:"5321.7"`
	CPUSeconds        float64 `json:"cpu_seconds" doc:"Processor time of sessions, as it was seen a minute ago at most." example:"310.2"`
	SentBytes         int64   `json:"sent_bytes" doc:"By the networks of sessions." example:"1048576"`
	ReceivedBytes     int64   `json:"received_bytes" example:"73400320"`
	SessionsCreated   int64   `json:"sessions_created" doc:"That came to run." example:"17"`
	SnapshotPeakBytes int64   `json:"snapshot_peak_bytes" doc:"The most that archives of snapshots had at once." example:"52428800"`

	Now   UsageNow `json:"now" doc:"What there is at the moment, whatever the month."`
	Quota Quota    `json:"quota" doc:"What holds for the owner now. What is left out has no limit."`
}

// UsageNow is what an owner has.
type UsageNow struct {
	Sessions        int     `json:"sessions" doc:"That have not ended." example:"3"`
	RunningSessions int     `json:"running_sessions" doc:"Of these, that are not stopped." example:"2"`
	CPU             float64 `json:"cpu" doc:"Cores of those that are not stopped." example:"2"`
	MemoryMB        int64   `json:"memory_mb" doc:"Of those that are not stopped." example:"1024"`
	DiskMB          int64   `json:"disk_mb" doc:"That sessions and workspaces may write." example:"6144"`
	Workspaces      int     `json:"workspaces" example:"2"`
	WorkspaceMB     int64   `json:"workspace_mb" doc:"Of disk_mb, what workspaces have." example:"2048"`
	SnapshotBytes   int64   `json:"snapshot_bytes" example:"52428800"`
}

func viewUsage(r usage.Report) OwnerUsage {
	return OwnerUsage{
		Owner: r.Owner, Month: string(r.Month), FreesAt: r.Month.End(),
		SessionSeconds: seconds(r.SessionTime), CPUSeconds: seconds(r.CPUTime), SentBytes: r.Sent, ReceivedBytes: r.Received,
		SessionsCreated: r.Sessions, SnapshotPeakBytes: r.SnapshotPeak,
		Now: UsageNow{
			Sessions: r.Now.Sessions, RunningSessions: r.Now.Running, CPU: r.Now.CPU, MemoryMB: r.Now.MemoryMB, DiskMB: r.Now.DiskMB,
			Workspaces: r.Now.Workspaces, WorkspaceMB: r.Now.WorkspaceMB, SnapshotBytes: r.SnapshotBytes,
		},
		Quota: limits(r.Quota),
	}
}

// seconds has milliseconds and no more.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

type (
	// MyUsageInput is that of MyUsage.
	MyUsageInput struct {
		Month string `query:"month" maxLength:"7" doc:"A month of UTC, as 2026-11: the current one if it is left out." example:"2026-11"`
	}
	// UsageInput is that of Usage.
	UsageInput struct {
		Path
		MyUsageInput
	}
	// UsageOutput is what was used.
	UsageOutput struct{ Body OwnerUsage }
)

// MyUsage says what the owner of the request's key uses.
func (h *Handlers) MyUsage(ctx context.Context, in *MyUsageInput) (*UsageOutput, error) {
	return h.usageOf(ctx, api.Caller(ctx).Owner, in.Month)
}

// Usage says what an owner uses.
func (h *Handlers) Usage(ctx context.Context, in *UsageInput) (*UsageOutput, error) {
	if err := h.checkEnabled(); err != nil {
		return nil, err
	}
	if err := h.Accounts.CheckSees(api.Caller(ctx), in.Name); err != nil {
		return nil, err
	}
	return h.usageOf(ctx, in.Name, in.Month)
}

func (h *Handlers) usageOf(ctx context.Context, owner, text string) (*UsageOutput, error) {
	if h.Meter == nil {
		return nil, errNotMetered()
	}
	month, err := usage.ParseMonth(text, time.Now())
	if err != nil {
		return nil, err
	}
	report, err := h.Meter.Report(ctx, owner, month)
	if err != nil {
		return nil, err
	}
	return &UsageOutput{viewUsage(report)}, nil
}
