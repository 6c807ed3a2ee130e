// Package sources publishes as events what the parts of a daemon tell of themselves:
// the rows of workspaces and snapshots when they are written, image jobs, the pool and
// accounts. Sessions, and what runs in them, publish for themselves.
package sources

import (
	"context"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// Workspaces is a store that publishes what it has written.
func Workspaces(rows workspaces.WorkspaceStore, hub *events.Hub) workspaces.WorkspaceStore {
	return workspaceRows{rows, hub}
}

type workspaceRows struct {
	workspaces.WorkspaceStore

	hub *events.Hub
}

// PutWorkspace implements workspaces.WorkspaceStore.
func (r workspaceRows) PutWorkspace(ctx context.Context, w workspaces.Workspace) error {
	if err := r.WorkspaceStore.PutWorkspace(ctx, w); err != nil {
		return err
	}
	e := events.Event{Type: events.WorkspaceChanged, Owner: w.Owner, Data: w, Size: 512}
	for key, value := range w.Labels {
		e.Size += len(key) + len(value)
	}
	switch w.State {
	case workspaces.WorkspaceReady:
		r.hub.Publish(e)
	case workspaces.WorkspaceDeleting: // from here on nobody sees it
		e.Type, e.Data = events.WorkspaceDeleted, events.Gone{ID: w.ID}
		r.hub.Publish(e)
	}
	return nil
}

// Snapshots is a store that publishes what it has written.
func Snapshots(rows snapshots.Store, hub *events.Hub) snapshots.Store { return snapshotRows{rows, hub} }

type snapshotRows struct {
	snapshots.Store

	hub *events.Hub
}

// PutSnapshot implements snapshots.Store.
func (r snapshotRows) PutSnapshot(ctx context.Context, s snapshots.Snapshot) error {
	if err := r.Store.PutSnapshot(ctx, s); err != nil {
		return err
	}
	e := events.Event{Type: events.SnapshotCreated, Owner: s.Owner, Session: s.Manifest.SessionID}
	switch s.State {
	case snapshots.Ready:
		s.IdempotencyKey, s.RequestHash = "", ""
		e.Data, e.Size = s, 1024+len(s.Label)
		for _, path := range append(s.Manifest.Include, s.Manifest.Exclude...) {
			e.Size += len(path)
		}
		r.hub.Publish(e)
	case snapshots.Deleting: // from here on nobody sees it
		e.Type, e.Data = events.SnapshotDeleted, events.Gone{ID: s.ID}
		r.hub.Publish(e)
	}
	return nil
}

// progressEvery is the time between two events of one job that is only further.
const progressEvery = 500 * time.Millisecond

// ImageJobs returns what jobs.Manager tells of its jobs to.
func ImageJobs(hub *events.Hub) func(jobs.Job) {
	type seen struct {
		state jobs.State
		at    time.Time
	}
	last := make(map[string]seen) // of jobs that have not ended
	var mu sync.Mutex
	return func(job jobs.Job) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		before := last[job.ID]
		if before.state == job.State && now.Sub(before.at) < progressEvery {
			return
		}
		last[job.ID] = seen{job.State, now}
		if job.Ended() {
			delete(last, job.ID)
		}
		hub.Publish(events.Event{Type: events.ImageJob, Time: now, Data: job, Size: 512 + len(job.Name)})
	}
}

// poolEvery is the time between two events of the pool.
const poolEvery = time.Second

// Pool returns what a pool tells its changes to. They are published with what status
// says then, at most once in a second.
func Pool(hub *events.Hub, status func() pool.Status) func() {
	var mu sync.Mutex
	waits := false
	var last time.Time
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if waits {
			return
		}
		waits = true
		time.AfterFunc(max(poolEvery-time.Since(last), 0), func() { // the pool is locked now
			mu.Lock()
			waits, last = false, time.Now()
			mu.Unlock()
			st := status()
			hub.Publish(events.Event{Type: events.PoolChanged, Data: st, Size: 256 * len(st.Images)})
		})
	}
}

// Account is the Data of events.AccountChanged.
type Account struct{ User, KeyID string }

// Accounts returns what accounts tell their changes to.
func Accounts(hub *events.Hub) func(user, keyID string) {
	return func(user, keyID string) {
		hub.Publish(events.Event{Type: events.AccountChanged, Data: Account{user, keyID}, Size: len(user) + len(keyID)})
	}
}
