package accounts

import (
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Quota is how much a user may have, where that differs from what the configuration
// gives to all: nil leaves it at that, and 0 is no limit. The names in JSON are those
// of the API, and of what is stored.
type Quota struct {
	Sessions       *int     `json:"max_sessions,omitempty"`
	Running        *int     `json:"max_running_sessions,omitempty"`
	CPU            *float64 `json:"cpu,omitempty"`
	MemoryMB       *int64   `json:"memory_mb,omitempty"`
	DiskMB         *int64   `json:"disk_mb,omitempty"`
	Workspaces     *int     `json:"max_workspaces,omitempty"`
	SnapshotMB     *int64   `json:"snapshot_mb,omitempty"`
	NetworkMB      *int64   `json:"network_mb_per_month,omitempty"`
	SessionSeconds *int64   `json:"session_seconds_per_month,omitempty"`

	Images  *int   `json:"max_images,omitempty"` // that the user made, by Rights.Images
	ImageMB *int64 `json:"image_mb,omitempty"`
}

// What a user who may make images may have of them where the quota does not say.
const (
	DefaultImages  = 10
	DefaultImageMB = 20 << 10
)

// ImageRoom returns how many images the user may have, and of how many bytes together, each
// 0 for no limit.
func (q Quota) ImageRoom() (count int, bytes int64) {
	count, bytes = DefaultImages, DefaultImageMB
	set(&count, q.Images)
	set(&bytes, q.ImageMB)
	return count, bytes << 20
}

// What a quota may be at most. The API's document says the same.
const (
	MaxQuotaSessions = 30_000
	MaxQuotaCount    = 1 << 20 // of workspaces
	MaxQuotaCPU      = 100_000
	MaxQuotaMB       = 1 << 30
	MaxQuotaSeconds  = 1 << 33 // what a time.Duration can be
)

// check refuses what no quota may be.
func (q Quota) check() error {
	whole := func(n *int64) float64 {
		if n == nil {
			return 0
		}
		return float64(*n)
	}
	count := func(n *int) float64 {
		if n == nil {
			return 0
		}
		return float64(*n)
	}
	cores := 0.0
	if q.CPU != nil {
		cores = *q.CPU
	}
	for _, one := range []struct {
		name        string
		value, most float64
	}{
		{"max_sessions", count(q.Sessions), MaxQuotaSessions},
		{"max_running_sessions", count(q.Running), MaxQuotaSessions},
		{"cpu", cores, MaxQuotaCPU},
		{"memory_mb", whole(q.MemoryMB), MaxQuotaMB},
		{"disk_mb", whole(q.DiskMB), MaxQuotaMB},
		{"max_workspaces", count(q.Workspaces), MaxQuotaCount},
		{"snapshot_mb", whole(q.SnapshotMB), MaxQuotaMB},
		{"network_mb_per_month", whole(q.NetworkMB), MaxQuotaMB},
		{"session_seconds_per_month", whole(q.SessionSeconds), MaxQuotaSeconds},
		{"max_images", count(q.Images), MaxQuotaCount},
		{"image_mb", whole(q.ImageMB), MaxQuotaMB},
	} {
		if !(one.value >= 0 && one.value <= one.most) { // also what is no number
			return errdefs.Invalid("quota."+one.name, "must be from 0, which is no limit, to %.0f", one.most)
		}
	}
	return nil
}

// over returns general with what q says otherwise.
func (q Quota) over(general auth.Quota) auth.Quota {
	set(&general.Sessions, q.Sessions)
	set(&general.Running, q.Running)
	set(&general.CPU, q.CPU)
	set(&general.MemoryMB, q.MemoryMB)
	set(&general.DiskMB, q.DiskMB)
	set(&general.Workspaces, q.Workspaces)
	if q.SnapshotMB != nil {
		general.SnapshotBytes = *q.SnapshotMB << 20
	}
	if q.NetworkMB != nil {
		general.NetworkBytes = *q.NetworkMB << 20
	}
	if q.SessionSeconds != nil {
		general.SessionTime = time.Duration(*q.SessionSeconds) * time.Second
	}
	return general
}

// Quotas are general but for users who have a quota of their own.
func (a *Accounts) Quotas(general auth.Quotas) auth.Quotas { return quotas{a, general} }

type quotas struct {
	accounts *Accounts
	general  auth.Quotas
}

// QuotaOf implements auth.Quotas.
func (q quotas) QuotaOf(p auth.Principal) auth.Quota {
	general := q.general.QuotaOf(p)
	q.accounts.mu.RLock()
	defer q.accounts.mu.RUnlock()
	u := q.accounts.users[p.Quota]
	if u == nil {
		return general
	}
	return u.Quota.over(general)
}

// CheckSees refuses an owner of whom p may not know, as one that never was. Admins
// know users and the owners of the configuration.
func (a *Accounts) CheckSees(p auth.Principal, owner string) error {
	c, err := a.callerOf(p)
	if err != nil {
		return err
	}
	if owner == p.Owner || c.admin && a.opts.Reserved(owner) {
		return nil
	}
	_, err = a.find(c, owner)
	return err
}

// Change is what becomes of a part of a quota: nothing if it is not Set, else the
// value, nil being what the configuration gives to all.
type Change[T any] struct {
	Set   bool
	Value *T
}

func (c Change[T]) apply(to **T) {
	if c.Set {
		*to = c.Value
	}
}

// QuotaChange changes a quota.
type QuotaChange struct {
	Sessions, Running         Change[int]
	Workspaces                Change[int]
	CPU                       Change[float64]
	MemoryMB, DiskMB          Change[int64]
	SnapshotMB                Change[int64]
	NetworkMB, SessionSeconds Change[int64]
	Images                    Change[int]
	ImageMB                   Change[int64]
}

// apply changes a quota. A nil change changes nothing.
func (c *QuotaChange) apply(q *Quota) {
	if c == nil {
		return
	}
	c.Sessions.apply(&q.Sessions)
	c.Running.apply(&q.Running)
	c.CPU.apply(&q.CPU)
	c.MemoryMB.apply(&q.MemoryMB)
	c.DiskMB.apply(&q.DiskMB)
	c.Workspaces.apply(&q.Workspaces)
	c.SnapshotMB.apply(&q.SnapshotMB)
	c.NetworkMB.apply(&q.NetworkMB)
	c.SessionSeconds.apply(&q.SessionSeconds)
	c.Images.apply(&q.Images)
	c.ImageMB.apply(&q.ImageMB)
}
