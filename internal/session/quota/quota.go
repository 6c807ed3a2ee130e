// Package quota decides whether the sessions of an owner stay within a quota. It
// knows nothing of who asks, and its callers see to it that the sessions do not change
// meanwhile.
package quota

import (
	"math"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// The names of quotas in the API.
const (
	Sessions    = "max_sessions"
	Running     = "max_running_sessions"
	CPU         = "cpu"
	Memory      = "memory_mb"
	Disk        = "disk_mb"
	Snapshots   = "snapshot_mb"
	Network     = "network_mb_per_month"
	SessionTime = "session_seconds_per_month"
)

// Held is a session that has not ended, as far as quotas go.
type Held struct {
	Limits  runtime.Limits
	Stopped bool // it has files only
}

// Sum is what sessions have together.
type Sum struct {
	Sessions, Running int
	CPU               float64
	MemoryMB, DiskMB  int64
}

// Add adds a session.
func (s *Sum) Add(h Held) {
	s.Sessions++
	s.DiskMB += h.Limits.DiskMB
	if !h.Stopped {
		s.Running++
		s.CPU += h.Limits.CPU
		s.MemoryMB += h.Limits.MemoryMB
	}
}

const (
	whenOneEnds  = "one of the sessions has to end"
	whenOneStops = "one of the sessions has to stop or end"
)

// CheckCreate refuses another session, one, that does not fit beside what there is.
func CheckCreate(q auth.Quota, there Sum, one Held) error {
	if q.Sessions > 0 && there.Sessions >= q.Sessions {
		return over(errdefs.ResourceExhausted, Sessions, float64(there.Sessions), float64(q.Sessions), whenOneEnds)
	}
	if q.DiskMB > 0 && there.DiskMB+one.Limits.DiskMB > q.DiskMB {
		return over(errdefs.InsufficientSpace, Disk, float64(there.DiskMB), float64(q.DiskMB), "ask for less, or "+whenOneEnds)
	}
	return CheckStart(q, there, one)
}

// CheckStart refuses a session that is to run beside what there is.
func CheckStart(q auth.Quota, there Sum, one Held) error {
	switch {
	case q.Running > 0 && there.Running >= q.Running:
		return over(errdefs.ResourceExhausted, Running, float64(there.Running), float64(q.Running), whenOneStops)
	case q.CPU > 0 && millicores(there.CPU+one.Limits.CPU) > millicores(q.CPU):
		return over(errdefs.ResourceExhausted, CPU, there.CPU, q.CPU, "ask for less, or "+whenOneStops)
	case q.MemoryMB > 0 && there.MemoryMB+one.Limits.MemoryMB > q.MemoryMB:
		return over(errdefs.ResourceExhausted, Memory, float64(there.MemoryMB), float64(q.MemoryMB), "ask for less, or "+whenOneStops)
	}
	return nil
}

// millicores are whole: three times 0.4 cores are 1.2, and not a little more.
func millicores(cores float64) float64 { return math.Round(cores * 1000) }

func over(code errdefs.Code, name string, used, limit float64, frees string) error {
	return errdefs.OverQuota(code, errdefs.Quota{Name: name, Used: used, Limit: limit}, frees)
}
