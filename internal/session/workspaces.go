package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// minWorkspaceMB is room for a file system with its journal and some files.
const minWorkspaceMB = 16

// filesTTL is how long the hidden session behind the file calls of a workspace
// waits for the next call.
const filesTTL = 15 * time.Second

// WorkspaceOptions returns the options of workspaces with every default filled
// in, and whether there are any.
func (m *Manager) WorkspaceOptions() (WorkspaceOptions, bool) {
	return m.opts.Workspaces, m.keeper != nil
}

// CreateWorkspace makes an empty workspace. An id that the owner has already
// gives AlreadyExists.
func (m *Manager) CreateWorkspace(ctx context.Context, req WorkspaceRequest) (WorkspaceUse, error) {
	if err := m.checkReady(); err != nil {
		return WorkspaceUse{}, err
	}
	if err := m.checkWorkspaceRequest(req); err != nil {
		return WorkspaceUse{}, err
	}
	req.ID = cmp.Or(req.ID, newID())
	unlock, err := m.workspaceLocks.lock(ctx, workspaceKey(req.Owner, req.ID))
	if err != nil {
		return WorkspaceUse{}, err
	}
	defer unlock()
	w, err := m.addWorkspace(ctx, req)
	if err != nil {
		return WorkspaceUse{}, err
	}
	return m.measured(ctx, WorkspaceUse{Workspace: w}), nil
}

// GetWorkspace returns one of an owner's workspaces.
func (m *Manager) GetWorkspace(ctx context.Context, owner, id string) (WorkspaceUse, error) {
	w, err := m.findWorkspace(ctx, owner, id)
	if err != nil {
		return WorkspaceUse{}, err
	}
	if w.State != WorkspaceReady {
		return WorkspaceUse{}, errNoWorkspace()
	}
	w.Active = len(m.sessionsOf(owner, id, clients))
	return m.measured(ctx, w), nil
}

// ListWorkspaces returns an owner's workspaces, oldest first; "" is every
// owner.
func (m *Manager) ListWorkspaces(ctx context.Context, owner string) ([]WorkspaceUse, error) {
	if m.keeper == nil {
		return nil, errNoWorkspaces()
	}
	all, err := m.opts.Workspaces.Store.ListWorkspaces(ctx, owner)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(w WorkspaceUse) bool { return w.State != WorkspaceReady })
	active := make(map[string]int)
	for _, e := range m.entries() {
		if s := e.snapshot(); clients(s) {
			active[workspaceKey(s.Owner, s.WorkspaceID)]++
		}
	}
	for i, w := range all {
		w.Active = active[workspaceKey(w.Owner, w.ID)]
		all[i] = m.measured(ctx, w)
	}
	return all, nil
}

// DeleteWorkspace removes a workspace and all that is in it. It refuses one
// that a session has with Conflict.
func (m *Manager) DeleteWorkspace(ctx context.Context, owner, id string) error {
	return m.deleteWorkspace(ctx, owner, id, func() error {
		if n := len(m.sessionsOf(owner, id, clients)); n > 0 {
			return errdefs.New(errdefs.Conflict, "workspace %s is in use by %d sessions; destroy them first, or use force to have them destroyed with it", id, n)
		}
		return nil
	})
}

// ForceDeleteWorkspace ends the sessions that have a workspace and removes it.
func (m *Manager) ForceDeleteWorkspace(ctx context.Context, owner, id string) error {
	return m.deleteWorkspace(ctx, owner, id, func() error { return nil })
}

// deleteWorkspace removes a workspace unless check refuses. From the moment
// that its row says so no session gets it, and a crash is made up for by
// PruneWorkspaces.
func (m *Manager) deleteWorkspace(ctx context.Context, owner, id string, check func() error) error {
	if err := m.checkReady(); err != nil {
		return err
	}
	w, err := m.markDeleting(ctx, owner, id, check)
	if err != nil {
		return err
	}
	return m.removeWorkspace(ctx, w)
}

func (m *Manager) markDeleting(ctx context.Context, owner, id string, check func() error) (Workspace, error) {
	unlock, err := m.workspaceLocks.lock(ctx, workspaceKey(owner, id))
	if err != nil {
		return Workspace{}, err
	}
	defer unlock()
	w, err := m.findWorkspace(ctx, owner, id)
	if err != nil || w.State == WorkspaceDeleting {
		return w.Workspace, err
	}
	if err := check(); err != nil {
		return w.Workspace, err
	}
	w.State = WorkspaceDeleting
	err = m.opts.Workspaces.Store.PutWorkspace(context.WithoutCancel(ctx), w.Workspace)
	return w.Workspace, errors.Join(err, failpoint.Hit("workspace.deleting"))
}

// removeWorkspace ends what still has a workspace that is being deleted, and
// removes its files and its row. It does not stop when ctx is done.
func (m *Manager) removeWorkspace(ctx context.Context, w Workspace) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.DestroyTimeout)
	defer cancel()
	unlock, err := m.workspaceLocks.lock(ctx, "remove/"+string(w.Volume))
	if err != nil {
		return err
	}
	defer unlock()
	// Whoever was here before us may be through, and the id another's by now.
	if now, err := m.findWorkspace(ctx, w.Owner, w.ID); errdefs.Is(err, errdefs.NotFound) || err == nil && now.Volume != w.Volume {
		return nil
	}
	err = m.endSessionsOf(ctx, w)
	if err == nil {
		err = m.keeper.DestroyWorkspace(ctx, w.Volume)
	}
	if err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "workspace %s is not removed completely yet; the daemon goes on trying", w.ID)
	}
	if err := failpoint.Hit("workspace.removed"); err != nil {
		return err
	}
	return m.opts.Workspaces.Store.DeleteWorkspace(ctx, w)
}

// unmakeWorkspace removes the workspace that was made for a session that could
// not be, unless others have come to use it. The session's lock must be free:
// whoever is removing the workspace already may be waiting for it.
func (m *Manager) unmakeWorkspace(ctx context.Context, s Session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.DestroyTimeout)
	defer cancel()
	err := m.DeleteWorkspace(ctx, s.Owner, s.WorkspaceID)
	if errdefs.Is(err, errdefs.Conflict) || errdefs.Is(err, errdefs.NotFound) {
		return nil
	}
	return err
}

func (m *Manager) endSessionsOf(ctx context.Context, w Workspace) error {
	var errs []error
	for _, id := range m.sessionsOf(w.Owner, w.ID, everybody) {
		errs = append(errs, m.Destroy(ctx, id))
	}
	return errors.Join(errs...)
}

// PruneWorkspaces goes on with removals that did not finish, and removes
// workspaces whose making did not, and those that no session has used for the
// time of Retention. It says how many are gone.
func (m *Manager) PruneWorkspaces(ctx context.Context) (removed int, err error) {
	if m.keeper == nil {
		return 0, nil
	}
	all, err := m.opts.Workspaces.Store.ListWorkspaces(ctx, "")
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, w := range all {
		keep := m.opts.Workspaces.Retention
		switch {
		case w.State == WorkspaceDeleting:
			err = m.removeWorkspace(ctx, w.Workspace)
		case w.State == WorkspaceCreating, keep > 0 && time.Since(w.LastUsed) >= keep:
			err = m.expireWorkspace(ctx, w.Workspace)
		default:
			continue
		}
		if err == nil {
			removed++
		} else if !errdefs.Is(err, errdefs.Conflict) { // in use, after all
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}

// expireWorkspace removes a workspace if nothing has become of it since it was
// seen.
func (m *Manager) expireWorkspace(ctx context.Context, seen Workspace) error {
	return m.deleteWorkspace(ctx, seen.Owner, seen.ID, func() error {
		w, err := m.findWorkspace(ctx, seen.Owner, seen.ID)
		if err == nil && (len(m.sessionsOf(w.Owner, w.ID, everybody)) > 0 || w.State != seen.State || w.LastUsed.After(seen.LastUsed)) {
			return errdefs.New(errdefs.Conflict, "workspace %s is in use", w.ID)
		}
		return err
	})
}

// WorkspaceFiles returns a session through which a workspace's files can be
// reached. It is nobody's: hidden, counted like any other, and it expires by
// itself soon after its last use.
func (m *Manager) WorkspaceFiles(ctx context.Context, owner, id string) (ID, error) {
	if err := m.checkReady(); err != nil {
		return "", err
	}
	switch w, err := m.findWorkspace(ctx, owner, id); {
	case err != nil:
		return "", err
	case w.State != WorkspaceReady:
		return "", errNoWorkspace()
	}
	unlock, err := m.workspaceLocks.lock(ctx, "files/"+workspaceKey(owner, id))
	if err != nil {
		return "", err
	}
	defer unlock()
	for _, found := range m.sessionsOf(owner, id, helpers) {
		if e := m.entry(found); e != nil {
			if end, err := e.begin(); err == nil { // its time begins anew
				end()
				return found, nil
			}
		}
	}
	s, err := m.Create(ctx, CreateRequest{
		Owner: owner, WorkspaceID: id, TTL: min(filesTTL, m.opts.Maxima.TTL), helper: true,
	})
	return s.ID, err
}

// attachable returns the workspace that s is to have, for the driver. One that
// does not exist is made, and made says so.
func (m *Manager) attachable(ctx context.Context, s Session) (volume runtime.WorkspaceID, made bool, err error) {
	if s.WorkspaceID == "" {
		return "", false, nil
	}
	unlock, err := m.workspaceLocks.lock(ctx, workspaceKey(s.Owner, s.WorkspaceID))
	if err != nil {
		return "", false, err
	}
	defer unlock()
	found, err := m.findWorkspace(ctx, s.Owner, s.WorkspaceID)
	w := found.Workspace
	switch {
	case errdefs.Is(err, errdefs.NotFound) && !s.Helper:
		w, err = m.addWorkspace(ctx, WorkspaceRequest{Owner: s.Owner, ID: s.WorkspaceID})
		return w.Volume, err == nil, err
	case err != nil:
		return "", false, err
	case w.State == WorkspaceDeleting:
		return "", false, errdefs.New(errdefs.Conflict, "workspace %s is being removed; try again later", w.ID)
	case w.State == WorkspaceCreating:
		err = m.makeVolume(ctx, &w)
	}
	if err != nil {
		return "", false, err
	}
	return w.Volume, false, m.touchWorkspace(ctx, w)
}

// addWorkspace makes a workspace that does not exist. The caller has its lock.
func (m *Manager) addWorkspace(ctx context.Context, req WorkspaceRequest) (Workspace, error) {
	now := clock()
	w := Workspace{
		Owner: req.Owner, ID: req.ID, Volume: runtime.WorkspaceID(newID()), State: WorkspaceCreating,
		SizeMB: cmp.Or(req.SizeMB, m.opts.Workspaces.DefaultSizeMB), Labels: req.Labels, CreatedAt: now, LastUsed: now,
	}
	rows := m.opts.Workspaces.Store
	if err := rows.AddWorkspace(context.WithoutCancel(ctx), w, m.opts.Workspaces.MaxCount); err != nil {
		return w, err
	}
	err := failpoint.Hit("workspace.row")
	if err == nil {
		err = m.makeVolume(ctx, &w)
	}
	if err == nil {
		return w, nil
	}
	// Nobody was told of it. A row that stays all the same says that it was not
	// made, which the next session to ask for it or the reaper makes up for.
	ctx = context.WithoutCancel(ctx)
	if undone := m.keeper.DestroyWorkspace(ctx, w.Volume); undone != nil {
		return w, errors.Join(err, undone)
	}
	return w, errors.Join(err, rows.DeleteWorkspace(ctx, w))
}

// makeVolume has the driver make w's files, if a crash did not come between
// that and the row.
func (m *Manager) makeVolume(ctx context.Context, w *Workspace) error {
	err := m.keeper.CreateWorkspace(ctx, w.Volume, w.SizeMB)
	if err != nil && !errdefs.Is(err, errdefs.AlreadyExists) {
		return err
	}
	if err := failpoint.Hit("workspace.files"); err != nil {
		return err
	}
	w.State = WorkspaceReady
	return m.opts.Workspaces.Store.PutWorkspace(context.WithoutCancel(ctx), *w)
}

// touchWorkspace notes that w is used now. The caller has its lock.
func (m *Manager) touchWorkspace(ctx context.Context, w Workspace) error {
	w.LastUsed = clock()
	return m.opts.Workspaces.Store.PutWorkspace(context.WithoutCancel(ctx), w)
}

// left notes the end of a session's use of its workspace.
func (m *Manager) left(ctx context.Context, s Session) {
	if s.WorkspaceID == "" || m.keeper == nil {
		return
	}
	unlock, err := m.workspaceLocks.lock(ctx, workspaceKey(s.Owner, s.WorkspaceID))
	if err == nil {
		defer unlock()
		var w WorkspaceUse
		if w, err = m.findWorkspace(ctx, s.Owner, s.WorkspaceID); err == nil {
			err = m.touchWorkspace(ctx, w.Workspace)
		}
	}
	if err != nil && !errdefs.Is(err, errdefs.NotFound) {
		m.log.WarnContext(ctx, "cannot note when a workspace was used last", "workspace", s.WorkspaceID, "err", err)
	}
}

// findWorkspace returns a row, also of a workspace that is not ready.
func (m *Manager) findWorkspace(ctx context.Context, owner, id string) (WorkspaceUse, error) {
	if m.keeper == nil {
		return WorkspaceUse{}, errNoWorkspaces()
	}
	if !isWorkspaceID(id) {
		return WorkspaceUse{}, errNoWorkspace()
	}
	return m.opts.Workspaces.Store.GetWorkspace(ctx, owner, id)
}

// measured fills in what only the driver knows of a workspace's use.
func (m *Manager) measured(ctx context.Context, w WorkspaceUse) WorkspaceUse {
	if w.Active > 0 {
		w.LastUsed = clock()
	}
	var err error
	if w.Bytes, err = m.keeper.WorkspaceBytes(ctx, w.Volume); err != nil {
		m.log.WarnContext(ctx, "cannot tell what a workspace takes", "workspace", w.ID, "volume", w.Volume, "err", err)
	}
	return w
}

// who has a workspace.
type who func(Session) bool

func clients(s Session) bool { return !s.Helper }
func helpers(s Session) bool { return s.Helper }
func everybody(Session) bool { return true }

// sessionsOf returns the sessions that have a workspace, or are about to.
func (m *Manager) sessionsOf(owner, id string, who who) []ID {
	var found []ID
	for _, e := range m.entries() {
		if s := e.snapshot(); s.Owner == owner && s.WorkspaceID == id && who(s) {
			found = append(found, s.ID)
		}
	}
	return found
}

func workspaceKey(owner, id string) string { return owner + "/" + id }

func errNoWorkspace() error {
	return errdefs.New(errdefs.NotFound, "no such workspace; GET /v1/workspaces lists those that there are")
}

func errNoWorkspaces() error {
	return errdefs.New(errdefs.Unimplemented, "this daemon has no workspaces that outlive sessions: they need workspace.enabled in its configuration, and a driver that has them")
}

func (m *Manager) checkWorkspaceRequest(req WorkspaceRequest) error {
	most := m.opts.Workspaces.MaxSizeMB
	switch {
	case m.keeper == nil:
		return errNoWorkspaces()
	case req.ID != "" && !isWorkspaceID(req.ID):
		return errdefs.Invalid("id", workspaceIDRule)
	case req.SizeMB != 0 && (req.SizeMB < minWorkspaceMB || req.SizeMB > most):
		return errdefs.Invalid("size_mb", "must be between %d and %d", minWorkspaceMB, most)
	}
	return checkLabels(req.Labels)
}

const workspaceIDRule = "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'"

func isWorkspaceID(id string) bool { return isName(id) && id != "." && id != ".." }

// checkVolumes warns of files that no row names. They are never removed: a
// session database that was lost or replaced must not take them along.
func (m *Manager) checkVolumes(ctx context.Context) error {
	if m.keeper == nil {
		return nil
	}
	all, err := m.opts.Workspaces.Store.ListWorkspaces(ctx, "")
	if err != nil {
		return err
	}
	known := make(map[runtime.WorkspaceID]bool)
	for _, w := range all {
		known[w.Volume] = true
	}
	for volume, err := range m.keeper.Workspaces(ctx) {
		if err != nil {
			return err
		}
		if !known[volume] {
			m.log.WarnContext(ctx, "the driver has a workspace that is not in the database; it is left alone", "volume", volume)
		}
	}
	return nil
}
