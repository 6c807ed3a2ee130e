package workspaces

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/check"
)

// minWorkspaceMB is room for a file system with its journal and some files.
const minWorkspaceMB = 16

// User is a session that has a workspace, or is about to.
type User struct {
	Owner       string
	WorkspaceID string // "" is none
	Helper      bool   // hidden: it serves the workspace's files
}

// Host is what workspaces need of the sessions that use them.
type Host struct {
	Keeper        runtime.WorkspaceKeeper // nil if the driver has no workspaces
	Ready         func() error            // refuses changes before the sessions are known
	Users         func() iter.Seq[User]   // of all sessions that have not ended
	EndUsers      func(ctx context.Context, owner, id string) error
	NewID         func() string // never the same one twice
	RemoveTimeout time.Duration
	Log           *slog.Logger
}

// Workspaces makes and removes workspaces, and says who may have them. Its
// methods may be called concurrently.
type Workspaces struct {
	opts   WorkspaceOptions
	host   Host
	keeper runtime.WorkspaceKeeper // nil without workspaces

	// locks are held while a workspace is made, marked for removal or handed to
	// a new session, and who has one of those waits for no session's lock. The
	// one of a removal is the other way round: it waits for sessions' locks, and
	// nobody waits for it who has one.
	locks keyLock
}

// New returns what there is of workspaces: nothing without a store or a keeper.
func New(o WorkspaceOptions, h Host) *Workspaces {
	m := &Workspaces{opts: o.withDefaults(), host: h}
	if o.Store != nil {
		m.keeper = h.Keeper
	}
	return m
}

// WorkspaceOptions returns the options of workspaces with every default filled
// in, and whether there are any.
func (m *Workspaces) WorkspaceOptions() (WorkspaceOptions, bool) {
	return m.opts, m.keeper != nil
}

// HasWorkspaces reports whether there can be any.
func (m *Workspaces) HasWorkspaces() bool { return m.keeper != nil }

// CreateWorkspace makes an empty workspace. An id that the owner has already
// gives AlreadyExists.
func (m *Workspaces) CreateWorkspace(ctx context.Context, req WorkspaceRequest) (WorkspaceUse, error) {
	if err := m.host.Ready(); err != nil {
		return WorkspaceUse{}, err
	}
	if err := m.checkWorkspaceRequest(req); err != nil {
		return WorkspaceUse{}, err
	}
	req.ID = cmp.Or(req.ID, m.host.NewID())
	unlock, err := m.locks.lock(ctx, workspaceKey(req.Owner, req.ID))
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
func (m *Workspaces) GetWorkspace(ctx context.Context, owner, id string) (WorkspaceUse, error) {
	w, err := m.find(ctx, owner, id)
	if err != nil {
		return WorkspaceUse{}, err
	}
	if w.State != WorkspaceReady {
		return WorkspaceUse{}, errNoWorkspace()
	}
	w.Active = m.users(owner, id, clients)
	return m.measured(ctx, w), nil
}

// ListWorkspaces returns an owner's workspaces, oldest first; "" is every
// owner.
func (m *Workspaces) ListWorkspaces(ctx context.Context, owner string) ([]WorkspaceUse, error) {
	if m.keeper == nil {
		return nil, errNoWorkspaces()
	}
	all, err := m.opts.Store.ListWorkspaces(ctx, owner)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(w WorkspaceUse) bool { return w.State != WorkspaceReady })
	active := make(map[string]int)
	for u := range m.host.Users() {
		if clients(u) {
			active[workspaceKey(u.Owner, u.WorkspaceID)]++
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
func (m *Workspaces) DeleteWorkspace(ctx context.Context, owner, id string) error {
	return m.deleteWorkspace(ctx, owner, id, func() error {
		if n := m.users(owner, id, clients); n > 0 {
			return errdefs.New(errdefs.Conflict, "workspace %s is in use by %d sessions; destroy them first, or use force to have them destroyed with it", id, n)
		}
		return nil
	})
}

// ForceDeleteWorkspace ends the sessions that have a workspace and removes it.
func (m *Workspaces) ForceDeleteWorkspace(ctx context.Context, owner, id string) error {
	return m.deleteWorkspace(ctx, owner, id, func() error { return nil })
}

// deleteWorkspace removes a workspace unless check refuses. From the moment
// that its row says so no session gets it, and a crash is made up for by
// PruneWorkspaces.
func (m *Workspaces) deleteWorkspace(ctx context.Context, owner, id string, check func() error) error {
	if err := m.host.Ready(); err != nil {
		return err
	}
	w, err := m.markDeleting(ctx, owner, id, check)
	if err != nil {
		return err
	}
	return m.removeWorkspace(ctx, w)
}

func (m *Workspaces) markDeleting(ctx context.Context, owner, id string, check func() error) (Workspace, error) {
	unlock, err := m.locks.lock(ctx, workspaceKey(owner, id))
	if err != nil {
		return Workspace{}, err
	}
	defer unlock()
	w, err := m.find(ctx, owner, id)
	if err != nil || w.State == WorkspaceDeleting {
		return w.Workspace, err
	}
	if err := check(); err != nil {
		return w.Workspace, err
	}
	w.State = WorkspaceDeleting
	err = m.opts.Store.PutWorkspace(context.WithoutCancel(ctx), w.Workspace)
	return w.Workspace, errors.Join(err, failpoint.Hit("workspace.deleting"))
}

// removeWorkspace ends what still has a workspace that is being deleted, and
// removes its files and its row. It does not stop when ctx is done.
func (m *Workspaces) removeWorkspace(ctx context.Context, w Workspace) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.host.RemoveTimeout)
	defer cancel()
	unlock, err := m.locks.lock(ctx, "remove/"+string(w.Volume))
	if err != nil {
		return err
	}
	defer unlock()
	// Whoever was here before us may be through, and the id another's by now.
	if now, err := m.find(ctx, w.Owner, w.ID); errdefs.Is(err, errdefs.NotFound) || err == nil && now.Volume != w.Volume {
		return nil
	}
	err = m.host.EndUsers(ctx, w.Owner, w.ID)
	if err == nil {
		err = m.keeper.DestroyWorkspace(ctx, w.Volume)
	}
	if err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "workspace %s is not removed completely yet; the daemon goes on trying", w.ID)
	}
	if err := failpoint.Hit("workspace.removed"); err != nil {
		return err
	}
	return m.opts.Store.DeleteWorkspace(ctx, w)
}

// UnmakeWorkspace removes the workspace that was made for a session that could
// not be, unless others have come to use it. The session's lock must be free:
// whoever is removing the workspace already may be waiting for it.
func (m *Workspaces) UnmakeWorkspace(ctx context.Context, u User) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.host.RemoveTimeout)
	defer cancel()
	err := m.DeleteWorkspace(ctx, u.Owner, u.WorkspaceID)
	if errdefs.Is(err, errdefs.Conflict) || errdefs.Is(err, errdefs.NotFound) {
		return nil
	}
	return err
}

// PruneWorkspaces goes on with removals that did not finish, and removes
// workspaces whose making did not, and those that no session has used for the
// time of Retention. It says how many are gone.
func (m *Workspaces) PruneWorkspaces(ctx context.Context) (removed int, err error) {
	if m.keeper == nil {
		return 0, nil
	}
	all, err := m.opts.Store.ListWorkspaces(ctx, "")
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, w := range all {
		keep := m.opts.Retention
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
func (m *Workspaces) expireWorkspace(ctx context.Context, seen Workspace) error {
	return m.deleteWorkspace(ctx, seen.Owner, seen.ID, func() error {
		w, err := m.find(ctx, seen.Owner, seen.ID)
		if err == nil && (m.users(w.Owner, w.ID, everybody) > 0 || w.State != seen.State || w.LastUsed.After(seen.LastUsed)) {
			return errdefs.New(errdefs.Conflict, "workspace %s is in use", w.ID)
		}
		return err
	})
}

// LockFiles keeps others from making another session for the files of a
// workspace that is there, until unlock is called.
func (m *Workspaces) LockFiles(ctx context.Context, owner, id string) (unlock func(), err error) {
	switch w, err := m.find(ctx, owner, id); {
	case err != nil:
		return nil, err
	case w.State != WorkspaceReady:
		return nil, errNoWorkspace()
	}
	return m.locks.lock(ctx, "files/"+workspaceKey(owner, id))
}

// Attachable returns the workspace that u is to have, for the driver. One that
// does not exist is made, and made says so.
func (m *Workspaces) Attachable(ctx context.Context, u User) (volume runtime.WorkspaceID, made bool, err error) {
	if u.WorkspaceID == "" {
		return "", false, nil
	}
	unlock, err := m.locks.lock(ctx, workspaceKey(u.Owner, u.WorkspaceID))
	if err != nil {
		return "", false, err
	}
	defer unlock()
	found, err := m.find(ctx, u.Owner, u.WorkspaceID)
	w := found.Workspace
	switch {
	case errdefs.Is(err, errdefs.NotFound) && !u.Helper:
		w, err = m.addWorkspace(ctx, WorkspaceRequest{Owner: u.Owner, ID: u.WorkspaceID})
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
func (m *Workspaces) addWorkspace(ctx context.Context, req WorkspaceRequest) (Workspace, error) {
	now := time.Now().UTC()
	w := Workspace{
		Owner: req.Owner, ID: req.ID, Volume: runtime.WorkspaceID(m.host.NewID()), State: WorkspaceCreating,
		SizeMB: cmp.Or(req.SizeMB, m.opts.DefaultSizeMB), Labels: req.Labels, CreatedAt: now, LastUsed: now,
	}
	rows := m.opts.Store
	if err := rows.AddWorkspace(context.WithoutCancel(ctx), w, m.opts.MaxCount); err != nil {
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
func (m *Workspaces) makeVolume(ctx context.Context, w *Workspace) error {
	err := m.keeper.CreateWorkspace(ctx, w.Volume, w.SizeMB)
	if err != nil && !errdefs.Is(err, errdefs.AlreadyExists) {
		return err
	}
	if err := failpoint.Hit("workspace.files"); err != nil {
		return err
	}
	w.State = WorkspaceReady
	return m.opts.Store.PutWorkspace(context.WithoutCancel(ctx), *w)
}

// touchWorkspace notes that w is used now. The caller has its lock.
func (m *Workspaces) touchWorkspace(ctx context.Context, w Workspace) error {
	w.LastUsed = time.Now().UTC()
	return m.opts.Store.PutWorkspace(context.WithoutCancel(ctx), w)
}

// Left notes the end of a session's use of its workspace.
func (m *Workspaces) Left(ctx context.Context, u User) {
	if u.WorkspaceID == "" || m.keeper == nil {
		return
	}
	unlock, err := m.locks.lock(ctx, workspaceKey(u.Owner, u.WorkspaceID))
	if err == nil {
		defer unlock()
		var w WorkspaceUse
		if w, err = m.find(ctx, u.Owner, u.WorkspaceID); err == nil {
			err = m.touchWorkspace(ctx, w.Workspace)
		}
	}
	if err != nil && !errdefs.Is(err, errdefs.NotFound) {
		m.host.Log.WarnContext(ctx, "cannot note when a workspace was used last", "workspace", u.WorkspaceID, "err", err)
	}
}

// find returns a row, also of a workspace that is not ready.
func (m *Workspaces) find(ctx context.Context, owner, id string) (WorkspaceUse, error) {
	if m.keeper == nil {
		return WorkspaceUse{}, errNoWorkspaces()
	}
	if !IsID(id) {
		return WorkspaceUse{}, errNoWorkspace()
	}
	return m.opts.Store.GetWorkspace(ctx, owner, id)
}

// measured fills in what only the driver knows of a workspace's use.
func (m *Workspaces) measured(ctx context.Context, w WorkspaceUse) WorkspaceUse {
	if w.Active > 0 {
		w.LastUsed = time.Now().UTC()
	}
	var err error
	if w.Bytes, err = m.keeper.WorkspaceBytes(ctx, w.Volume); err != nil {
		m.host.Log.WarnContext(ctx, "cannot tell what a workspace takes", "workspace", w.ID, "volume", w.Volume, "err", err)
	}
	return w
}

// who has a workspace.
type who func(User) bool

func clients(u User) bool { return !u.Helper }
func everybody(User) bool { return true }

// users counts the sessions that have a workspace, or are about to.
func (m *Workspaces) users(owner, id string, who who) (n int) {
	for u := range m.host.Users() {
		if u.Owner == owner && u.WorkspaceID == id && who(u) {
			n++
		}
	}
	return n
}

func workspaceKey(owner, id string) string { return owner + "/" + id }

func errNoWorkspace() error {
	return errdefs.New(errdefs.NotFound, "no such workspace; GET /v1/workspaces lists those that there are").Because(errdefs.NoSuchWorkspace)
}

func errNoWorkspaces() error {
	return errdefs.New(errdefs.Unimplemented, "this daemon has no workspaces that outlive sessions: they need workspace.enabled in its configuration, and a driver that has them")
}

func (m *Workspaces) checkWorkspaceRequest(req WorkspaceRequest) error {
	most := m.opts.MaxSizeMB
	switch {
	case m.keeper == nil:
		return errNoWorkspaces()
	case req.ID != "" && !IsID(req.ID):
		return errdefs.Invalid("id", IDRule)
	case req.SizeMB != 0 && (req.SizeMB < minWorkspaceMB || req.SizeMB > most):
		return errdefs.Invalid("size_mb", "must be between %d and %d", minWorkspaceMB, most)
	}
	return check.Labels(req.Labels)
}

// IDRule says what IsID accepts.
const IDRule = "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'"

// IsID reports whether id may be a workspace's.
func IsID(id string) bool { return check.IsName(id) && id != "." && id != ".." }

// CheckVolumes warns of files that no row names. They are never removed: a
// session database that was lost or replaced must not take them along.
func (m *Workspaces) CheckVolumes(ctx context.Context) error {
	if m.keeper == nil {
		return nil
	}
	all, err := m.opts.Store.ListWorkspaces(ctx, "")
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
			m.host.Log.WarnContext(ctx, "the driver has a workspace that is not in the database; it is left alone", "volume", volume)
		}
	}
	return nil
}
