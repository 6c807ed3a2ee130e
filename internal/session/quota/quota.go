// Package quota decides whether the sessions and workspaces of an owner stay within a
// quota. It knows nothing of who asks, and its callers see to it that what there is does
// not change meanwhile.
package quota

import (
	"fmt"
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
	Workspaces  = "max_workspaces"
	Snapshots   = "snapshot_mb"
	Network     = "network_mb_per_month"
	SessionTime = "session_seconds_per_month"
)

// Held is a session that has not ended, as far as quotas go.
type Held struct {
	Limits  runtime.Limits
	Stopped bool // it has files only
}

// Sum is what sessions and workspaces have together.
type Sum struct {
	Sessions, Running int
	CPU               float64
	MemoryMB          int64
	DiskMB            int64 // of both
	Workspaces        int
	WorkspaceMB       int64 // of DiskMB, what workspaces have
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

// Remove takes back what Add added.
func (s *Sum) Remove(h Held) {
	s.Sessions--
	s.DiskMB -= h.Limits.DiskMB
	if !h.Stopped {
		s.Running--
		s.CPU -= h.Limits.CPU
		s.MemoryMB -= h.Limits.MemoryMB
	}
}

// AddWorkspaces adds so many workspaces, which together may have so many MiB.
func (s *Sum) AddWorkspaces(count int, sizeMB int64) {
	s.Workspaces += count
	s.WorkspaceMB += sizeMB
	s.DiskMB += sizeMB
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
		return overDisk(q, there)
	}
	return CheckStart(q, there, one)
}

func overDisk(q auth.Quota, there Sum) error {
	frees := "ask for less, or " + whenOneEnds
	if there.Workspaces > 0 {
		frees = fmt.Sprintf("ask for less, delete a workspace (of %d, which take %d), or %s", there.Workspaces, there.WorkspaceMB, whenOneEnds)
	}
	return over(errdefs.InsufficientSpace, Disk, float64(there.DiskMB), float64(q.DiskMB), frees)
}

// Kept counts the workspaces that there are of owners. Its zero value counts none. It has
// no lock.
type Kept struct {
	all int
	of  map[string]Sum // without sessions
}

// Of is what an owner's workspaces have.
func (k *Kept) Of(owner string) Sum { return k.of[owner] }

// Count changes what an owner has by so many workspaces with so many MiB, which may both
// be negative.
func (k *Kept) Count(owner string, count int, sizeMB int64) {
	sum := k.of[owner]
	sum.AddWorkspaces(count, sizeMB)
	if k.of == nil {
		k.of = make(map[string]Sum)
	}
	if k.of[owner] = sum; sum.Workspaces == 0 {
		delete(k.of, owner)
	}
	k.all += count
}

// Add counts another workspace of an owner, or refuses one that does not fit beside what
// there is. most is how many all owners may have together, 0 being no maximum: of them an
// owner has no more than are left for others then.
func (k *Kept) Add(q auth.Quota, there Sum, owner string, sizeMB int64, most int) error {
	left := most - k.all
	switch {
	case q.Workspaces > 0 && there.Workspaces >= q.Workspaces:
		return over(errdefs.ResourceExhausted, Workspaces, float64(there.Workspaces), float64(q.Workspaces), "delete a workspace")
	case q.DiskMB > 0 && there.DiskMB+sizeMB > q.DiskMB:
		return overDisk(q, there)
	case most > 0 && left <= 0:
		return errdefs.New(errdefs.ResourceExhausted, "the daemon's maximum of %d workspaces (workspace.max_count) is reached; delete one", most)
	case most > 0 && there.Workspaces >= left:
		return errdefs.New(errdefs.ResourceExhausted,
			"the daemon has room for %d more workspaces (workspace.max_count), and no owner has more than are left for the others: delete one of yours, which are %d, or have the maximum raised", left, there.Workspaces)
	}
	k.Count(owner, 1, sizeMB)
	return nil
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
