package maintenance

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/snapshot"
	"github.com/sandkasten/sandkasten/internal/store"
)

// Recovered is what has a row again.
type Recovered struct {
	Sessions   []string `json:"sessions"`
	Workspaces []string `json:"workspaces"`
	Snapshots  []string `json:"snapshots"`

	Orchestrated []string `json:"orchestrated"` // sessions of the orchestrator

	Unread []string `json:"unread,omitempty"` // archives that have no row, with the reason

	// disks are the sandboxes without a row in which sessions of the orchestrator ran, by
	// their ids: the newest of each. They have what no snapshot has.
	disks map[string]session.Session
}

// Recover makes rows for what is on the disk and has none: sandboxes and volumes
// of the drivers that can be inspected without being opened, and archives of
// snapshots; a session that is stopped and
// whose sandbox runs becomes running. No daemon may be running. It
// ends no process and removes nothing. What only the database knew is lost: names and
// times of expiry. The owner is whom the sandbox or the archive names, or the argument:
// sandboxes of earlier versions name nobody, nor do workspaces without a sandbox. A
// session of the orchestrator comes back with its newest snapshot.
func Recover(ctx context.Context, cfg config.Config, owner string) (r Recovered, err error) {
	release, err := datadir.Lock(cfg)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, release()) }()
	hosts, err := drivers.InspectHost(cfg)
	if err != nil {
		return r, err
	}
	rows, err := store.Open(ctx, cfg.DBPath)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	known, err := readRows(ctx, cfg)
	if err != nil {
		return r, err
	}
	for _, seen := range hosts {
		volumes, err := recoverWorkspaces(ctx, rows, known, seen, owner, &r)
		if err != nil {
			return r, err
		}
		if err := recoverSessions(ctx, cfg, rows, known, seen, owner, volumes, &r); err != nil {
			return r, err
		}
	}
	if err := recoverSnapshots(ctx, cfg, rows, known, owner, &r); err != nil {
		return r, err
	}
	err = recoverOrchestrated(ctx, cfg, rows, &r)
	return r, err
}

// recoverWorkspaces returns all workspaces by their volumes.
func recoverWorkspaces(ctx context.Context, rows *store.Store, known fsck.Rows, seen runtime.Inspection, owner string, r *Recovered) (map[runtime.WorkspaceID]workspaces.Workspace, error) {
	volumes := map[runtime.WorkspaceID]workspaces.Workspace{}
	for _, w := range known.Workspaces {
		volumes[w.Volume] = w
	}
	owners := map[runtime.WorkspaceID]string{}
	for _, spec := range seen.Specs {
		owners[spec.Workspace] = spec.Owner
	}
	now := time.Now().UTC()
	for volume, size := range seen.WorkspaceMB {
		if _, has := volumes[volume]; has || !seen.Workspaces[volume] {
			continue
		}
		w := workspaces.Workspace{
			Owner: cmp.Or(owners[volume], owner), ID: string(volume), Volume: volume, State: workspaces.WorkspaceReady, SizeMB: size, Labels: map[string]string{}, CreatedAt: now, LastUsed: now,
		}
		if err := rows.AddWorkspace(ctx, w); err != nil {
			return nil, err
		}
		volumes[volume] = w
		r.Workspaces = append(r.Workspaces, w.ID)
	}
	return volumes, nil
}

func recoverSessions(ctx context.Context, cfg config.Config, rows *store.Store, known fsck.Rows, seen runtime.Inspection, owner string, volumes map[runtime.WorkspaceID]workspaces.Workspace, r *Recovered) error {
	names := imageNames(ctx, cfg)
	has := map[runtime.ID]bool{}
	for _, s := range known.Sessions {
		has[s.Sandbox] = true
		if s.State != session.Stopped || !seen.Sandboxes[s.Sandbox].Alive {
			continue
		}
		// It was started after the backup that says otherwise.
		s.State, s.EndReason = session.Running, ""
		if err := rows.Put(ctx, s); err != nil {
			return err
		}
		r.Sessions = append(r.Sessions, string(s.ID))
	}
	for id, status := range seen.Sandboxes {
		spec, whole := seen.Specs[id]
		if has[id] || pool.Owns(id) || !whole || !status.Alive && !status.Startable {
			continue
		}
		s := recoveredSession(cfg, status, spec, owner)
		s.Image = cmp.Or(names[spec.Image], s.Image)
		if w, ok := volumes[spec.Workspace]; ok {
			s.WorkspaceID, s.Owner = w.ID, w.Owner
		}
		if seen.Paused[id] {
			s.State = session.Paused
		}
		if err := rows.Put(ctx, s); err != nil {
			return err
		}
		r.Sessions = append(r.Sessions, string(s.ID))
		if of := s.Labels[orchestrator.LabelSession]; of != "" && s.CreatedAt.After(r.disks[of].CreatedAt) {
			if r.disks == nil {
				r.disks = map[string]session.Session{}
			}
			r.disks[of] = s
		}
	}
	return nil
}

// imageNames are names of the images that there are, by their digests. Sessions come back
// without them, too.
func imageNames(ctx context.Context, cfg config.Config) map[string]string {
	names := map[string]string{}
	store, err := datadir.OpenImages(cfg, nil)
	if err != nil {
		return names
	}
	all, err := store.List(ctx)
	if err != nil {
		return names
	}
	for _, img := range all {
		if len(img.Names) > 0 {
			names[img.Digest] = slices.Min(img.Names)
		}
	}
	return names
}

// recoveredSession is what a sandbox says of its session.
func recoveredSession(cfg config.Config, status runtime.Status, spec runtime.Spec, owner string) session.Session {
	now := time.Now().UTC()
	state := session.Stopped
	if status.Alive {
		state = session.Running
	}
	labels := map[string]string{}
	maps.Copy(labels, spec.Labels)
	labels["recovered"] = now.Format(time.RFC3339)
	name, reason := "", ""
	if state == session.Stopped {
		reason = "it was recovered without the database"
	}
	if of := labels[orchestrator.LabelSession]; of != "" {
		name = orchestrator.CoreName(of)
	}
	return session.Session{
		ID: session.ID(status.ID), Name: name, Sandbox: status.ID, Image: spec.Image, ImageDigest: spec.Image, State: state, EndReason: reason,
		BootID: strings.ToLower(rand.Text()), Cwd: "/workspace", Hostname: spec.Hostname, Limits: spec.Limits,
		Network: spec.Network, ReadonlyRoot: spec.ReadonlyRoot, Labels: labels, Owner: cmp.Or(spec.Owner, owner),
		CreatedAt: status.CreatedAt, LastActivity: now, TTL: cfg.MaxSessionTTL, OnIdle: session.OnIdleDestroy, OnExpiry: session.OnExpiryDestroy, ByHand: true, AutoResume: true,
	}
}

// recoverSnapshots reads the beginning of each archive, which is its manifest.
func recoverSnapshots(ctx context.Context, cfg config.Config, rows *store.Store, known fsck.Rows, owner string, r *Recovered) error {
	sizes, err := listBlobs(ctx, cfg)
	if err != nil || len(sizes) == 0 {
		return err
	}
	for _, s := range known.Snapshots {
		delete(sizes, s.Key())
	}
	blobs, err := datadir.OpenBlobs(cfg)
	if err != nil {
		return err
	}
	for key, size := range sizes {
		if !fsck.IsSnapshot(key) {
			continue
		}
		m, err := readManifest(ctx, blobs, key)
		if err != nil && ctx.Err() == nil {
			r.Unread = append(r.Unread, fmt.Sprintf("%s: %v", key, err)) // it keeps nothing else back
			continue
		}
		if err != nil {
			return err
		}
		if m.Key != key {
			m.ID = key // which is the whole name of what has no other
		}
		s := snapshots.Snapshot{ID: m.ID, Name: orchestrator.SessionOfArchive(key), Owner: cmp.Or(m.Owner, owner), State: snapshots.Ready, Size: size, Manifest: m, CreatedAt: m.CreatedAt}
		if err := rows.AddSnapshot(ctx, s, 0); err != nil {
			return err
		}
		r.Snapshots = append(r.Snapshots, key)
	}
	return nil
}

// recoverOrchestrated makes rows of the orchestrator's sessions that have snapshots or a
// sandbox. They have ended, and begin anew with their newest snapshot, or unsaved with the
// disk that is there: also those whose row is of before, as in a backup. What clients of
// the others asked for but the image is lost.
func recoverOrchestrated(ctx context.Context, cfg config.Config, rows *store.Store, r *Recovered) error {
	all, err := rows.AllSnapshots(ctx) // oldest first
	if err != nil {
		return err
	}
	found := map[string]orchestrator.Session{}
	newer := map[string]bool{} // whether the newest snapshot of a session had no row
	o := cfg.Orchestrator
	ended := orchestrator.Session{Mode: cmp.Or(o.DefaultMode, cfg.Driver), IdleTimeout: o.IdleTimeout, MaxLifetime: o.MaxLifetime, Status: orchestrator.Terminated}
	for _, s := range all {
		if id := orchestrator.SessionOfArchive(s.Key()); id != "" && s.State == snapshots.Ready {
			x := ended
			x.ID, x.Owner, x.Image, x.LatestSnapshot, x.CreatedAt = id, s.Owner, s.Manifest.Image, s.ID, s.CreatedAt
			found[id] = x
			newer[id] = slices.Contains(r.Snapshots, s.Key())
		}
	}
	for id, disk := range r.disks {
		if _, has := found[id]; !has {
			x := ended
			x.ID, x.Owner, x.Image, x.CreatedAt = id, disk.Owner, disk.Image, disk.CreatedAt
			found[id] = x
		}
	}
	now := time.Now().UTC()
	for id, x := range found {
		disk, unsaved := r.disks[id]
		known, err := rows.GetOrchestrated(ctx, id)
		if err == nil {
			unsaved = unsaved && known.Owner == disk.Owner
			if newer[id] && known.Owner == x.Owner {
				known.LatestSnapshot = x.LatestSnapshot
			} else if !unsaved {
				continue
			}
			x = known
		} else if !errdefs.Is(err, errdefs.NotFound) {
			return err
		}
		if unsaved {
			x.Status, x.Core, x.UnsavedSince = orchestrator.Terminated, disk.ID, now
		}
		x.UpdatedAt = now
		if err := rows.PutOrchestrated(ctx, x); err != nil {
			return err
		}
		r.Orchestrated = append(r.Orchestrated, id)
	}
	return nil
}

func readManifest(ctx context.Context, blobs blob.Store, key string) (m snapshot.Manifest, err error) {
	archive, err := blobs.Open(ctx, key, 0)
	if err != nil {
		return m, err
	}
	defer func(c io.Closer) { err = errors.Join(err, c.Close()) }(archive)
	in, err := snapshot.NewReader(archive)
	if err != nil {
		return m, err
	}
	return in.Manifest, nil
}
