package workspaces

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/keylock"
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

// Sessions is what workspaces need of the sessions that use them.
type Sessions interface {
	CheckReady() error                                    // refuses changes before the sessions are known
	Users() iter.Seq[User]                                // of all sessions that have not ended
	EndUsers(ctx context.Context, owner, id string) error // ends the sessions that have a workspace
	NewID() string                                        // never the same one twice

	// Keep counts another workspace of an owner, or refuses one over the owner's quota or the
	// owner's part of most, which is of all owners together; 0 is no maximum.
	Keep(ctx context.Context, owner string, sizeMB int64, most int) error
	// Count counts workspaces without a check: those that are there, or no more.
	Count(owner string, count int, sizeMB int64)
}

// Keeper makes and removes workspaces, and says who may have them. Its methods
// are for the core, which knows whose they are; clients have its Service. They may
// be called concurrently.
type Keeper struct {
	opts          WorkspaceOptions
	sessions      Sessions
	volumes       runtime.WorkspaceKeeper // nil without workspaces
	removeTimeout time.Duration
	log           *slog.Logger

	// locks are held while a workspace is made, marked for removal or handed to
	// a new session, and who has one of those waits for no session's lock. The
	// one of a removal is the other way round: it waits for sessions' locks, and
	// nobody waits for it who has one.
	locks *keylock.Locks
}

// New returns what there is of workspaces: nothing without a store or a driver
// that has volumes, which may be nil.
func New(o WorkspaceOptions, volumes runtime.WorkspaceKeeper, sessions Sessions, removeTimeout time.Duration, log *slog.Logger) *Keeper {
	k := &Keeper{opts: o.withDefaults(), sessions: sessions, removeTimeout: removeTimeout, log: log, locks: keylock.New()}
	if o.Store != nil {
		k.volumes = volumes
	}
	return k
}

// lock waits for a lock. Whoever gets it calls unlock.
func (k *Keeper) lock(ctx context.Context, key string) (unlock func(), err error) {
	if unlock, err = k.locks.Acquire(ctx, key); err != nil {
		return nil, errdefs.Wrap(err, errdefs.Unavailable, "it is busy; try again")
	}
	return unlock, nil
}

// Service is what clients may do with the workspaces of k.
func (k *Keeper) Service() *Workspaces { return &Workspaces{k} }

// Workspaces is what clients do with workspaces. Each principal knows those of
// its owner; to every other one they do not exist.
type Workspaces struct{ keeper *Keeper }

// Options returns the options of workspaces with every default filled in, and
// whether there are any.
func (w *Workspaces) Options() (WorkspaceOptions, bool) { return w.keeper.Options() }

// Enabled reports whether there can be any.
func (w *Workspaces) Enabled() bool { return w.keeper.Enabled() }

// Enabled is Workspaces.Enabled.
func (k *Keeper) Enabled() bool { return k.volumes != nil }

// Options is Workspaces.Options.
func (k *Keeper) Options() (WorkspaceOptions, bool) { return k.opts, k.volumes != nil }

// Create makes an empty workspace. An id that the owner has already gives
// AlreadyExists.
func (w *Workspaces) Create(ctx context.Context, p auth.Principal, req WorkspaceRequest) (WorkspaceUse, error) {
	k := w.keeper
	if err := k.sessions.CheckReady(); err != nil {
		return WorkspaceUse{}, err
	}
	if err := k.checkWorkspaceRequest(req); err != nil {
		return WorkspaceUse{}, err
	}
	req.ID = cmp.Or(req.ID, k.sessions.NewID())
	unlock, err := k.lock(ctx, workspaceKey(p.Owner, req.ID))
	if err != nil {
		return WorkspaceUse{}, err
	}
	defer unlock()
	made, err := k.addWorkspace(ctx, p.Owner, req)
	if err != nil {
		return WorkspaceUse{}, err
	}
	return k.measured(ctx, WorkspaceUse{Workspace: made}), nil
}

// Get returns one workspace.
func (w *Workspaces) Get(ctx context.Context, p auth.Principal, id string) (WorkspaceUse, error) {
	return w.keeper.Get(ctx, p.Owner, id)
}

// Get returns one of an owner's workspaces.
func (k *Keeper) Get(ctx context.Context, owner, id string) (WorkspaceUse, error) {
	w, err := k.find(ctx, owner, id)
	if err != nil {
		return WorkspaceUse{}, err
	}
	if w.State != WorkspaceReady {
		return WorkspaceUse{}, errNoWorkspace()
	}
	w.Active = k.users(owner, id, clients)
	return k.measured(ctx, w), nil
}

// List returns the principal's workspaces, oldest first.
func (w *Workspaces) List(ctx context.Context, p auth.Principal) ([]WorkspaceUse, error) {
	k := w.keeper
	if k.volumes == nil {
		return nil, errNoWorkspaces()
	}
	all, err := k.rowsOf(ctx, p)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(w WorkspaceUse) bool { return w.State != WorkspaceReady })
	active := make(map[string]int)
	for u := range k.sessions.Users() {
		if clients(u) {
			active[workspaceKey(u.Owner, u.WorkspaceID)]++
		}
	}
	for i, w := range all {
		w.Active = active[workspaceKey(w.Owner, w.ID)]
		all[i] = k.measured(ctx, w)
	}
	return all, nil
}

func (k *Keeper) rowsOf(ctx context.Context, p auth.Principal) ([]WorkspaceUse, error) {
	if p.Has(auth.ScopeEveryOwner) {
		return k.opts.Store.AllWorkspaces(ctx)
	}
	return k.opts.Store.WorkspacesOf(ctx, p.Owner)
}

// LockFiles keeps others from making another session for the files of a
// workspace that is there, until unlock is called.
func (k *Keeper) LockFiles(ctx context.Context, owner, id string) (unlock func(), err error) {
	switch w, err := k.find(ctx, owner, id); {
	case err != nil:
		return nil, err
	case w.State != WorkspaceReady:
		return nil, errNoWorkspace()
	}
	return k.lock(ctx, "files/"+workspaceKey(owner, id))
}

// Attachable returns the workspace that u is to have, for the driver. One that
// does not exist is made, and made says so.
func (k *Keeper) Attachable(ctx context.Context, u User) (volume runtime.WorkspaceID, made bool, err error) {
	if u.WorkspaceID == "" {
		return "", false, nil
	}
	unlock, err := k.lock(ctx, workspaceKey(u.Owner, u.WorkspaceID))
	if err != nil {
		return "", false, err
	}
	defer unlock()
	found, err := k.find(ctx, u.Owner, u.WorkspaceID)
	w := found.Workspace
	switch {
	case errdefs.Is(err, errdefs.NotFound) && !u.Helper:
		w, err = k.addWorkspace(ctx, u.Owner, WorkspaceRequest{ID: u.WorkspaceID})
		return w.Volume, err == nil, err
	case err != nil:
		return "", false, err
	case w.State == WorkspaceDeleting:
		return "", false, errRemoved(w.ID)
	case w.State == WorkspaceCreating:
		err = k.makeVolume(ctx, &w)
	}
	if err != nil {
		return "", false, err
	}
	return w.Volume, false, k.touchWorkspace(ctx, w)
}

// errRemoved is for who wants a workspace of an id whose last one is not gone yet.
func errRemoved(id string) error {
	return errdefs.New(errdefs.Unavailable, "workspace %s is being removed; try again", id)
}

// addWorkspace makes a workspace that does not exist. The caller has its lock.
func (k *Keeper) addWorkspace(ctx context.Context, owner string, req WorkspaceRequest) (Workspace, error) {
	now := time.Now().UTC()
	w := Workspace{
		Owner: owner, ID: req.ID, Volume: runtime.WorkspaceID(k.sessions.NewID()), State: WorkspaceCreating,
		SizeMB: cmp.Or(req.SizeMB, k.opts.DefaultSizeMB), Labels: req.Labels, CreatedAt: now, LastUsed: now,
	}
	if err := k.addRow(ctx, w); err != nil {
		return w, err
	}
	err := failpoint.Hit("workspace.row")
	if err == nil {
		err = k.makeVolume(ctx, &w)
	}
	if err == nil {
		return w, nil
	}
	// No client knows of it. A row that stays all the same says that it was not
	// made, which the next session to ask for it or the reaper makes up for.
	ctx = context.WithoutCancel(ctx)
	if undone := k.volumes.DestroyWorkspace(ctx, w.Volume); undone != nil {
		return w, errors.Join(err, undone)
	}
	return w, errors.Join(err, k.deleteRow(ctx, w))
}

// addRow writes the row of a workspace that does not exist, if there is room for it.
func (k *Keeper) addRow(ctx context.Context, w Workspace) error {
	if found, err := k.find(ctx, w.Owner, w.ID); err == nil && found.State == WorkspaceDeleting {
		return errRemoved(w.ID)
	} else if err == nil {
		return errdefs.New(errdefs.AlreadyExists, "there is a workspace %s already", w.ID) // which takes no room
	}
	if err := k.sessions.Keep(ctx, w.Owner, w.SizeMB, k.opts.MaxCount); err != nil {
		return err
	}
	err := k.opts.Store.AddWorkspace(context.WithoutCancel(ctx), w)
	if err != nil {
		k.sessions.Count(w.Owner, -1, -w.SizeMB)
	}
	return err
}

// deleteRow forgets a workspace, which from then on takes no room. Its caller is the one
// who removes it.
func (k *Keeper) deleteRow(ctx context.Context, w Workspace) error {
	err := k.opts.Store.DeleteWorkspace(ctx, w)
	if err == nil {
		k.sessions.Count(w.Owner, -1, -w.SizeMB)
	}
	return err
}

// Load counts the workspaces that an earlier daemon has left. It is called before anything
// else.
func (k *Keeper) Load(ctx context.Context) error {
	if k.volumes == nil {
		return nil
	}
	all, err := k.opts.Store.AllWorkspaces(ctx)
	for _, w := range all {
		k.sessions.Count(w.Owner, 1, w.SizeMB)
	}
	return err
}

// makeVolume has the driver make w's files, if a crash did not come between
// that and the row.
func (k *Keeper) makeVolume(ctx context.Context, w *Workspace) error {
	err := k.volumes.CreateWorkspace(ctx, w.Volume, w.SizeMB)
	if err != nil && !errdefs.Is(err, errdefs.AlreadyExists) {
		return err
	}
	if err := failpoint.Hit("workspace.files"); err != nil {
		return err
	}
	w.State = WorkspaceReady
	return k.opts.Store.PutWorkspace(context.WithoutCancel(ctx), *w)
}

// touchWorkspace notes that w is used now. The caller has its lock.
func (k *Keeper) touchWorkspace(ctx context.Context, w Workspace) error {
	w.LastUsed = time.Now().UTC()
	return k.opts.Store.PutWorkspace(context.WithoutCancel(ctx), w)
}

// Left notes the end of a session's use of its workspace.
func (k *Keeper) Left(ctx context.Context, u User) {
	if u.WorkspaceID == "" || k.volumes == nil {
		return
	}
	unlock, err := k.lock(ctx, workspaceKey(u.Owner, u.WorkspaceID))
	if err == nil {
		defer unlock()
		var w WorkspaceUse
		if w, err = k.find(ctx, u.Owner, u.WorkspaceID); err == nil {
			err = k.touchWorkspace(ctx, w.Workspace)
		}
	}
	if err != nil && !errdefs.Is(err, errdefs.NotFound) {
		k.log.WarnContext(ctx, "cannot note when a workspace was used last", "workspace", u.WorkspaceID, "err", err)
	}
}

// find returns a row, also of a workspace that is not ready.
func (k *Keeper) find(ctx context.Context, owner, id string) (WorkspaceUse, error) {
	if k.volumes == nil {
		return WorkspaceUse{}, errNoWorkspaces()
	}
	if !IsID(id) {
		return WorkspaceUse{}, errNoWorkspace()
	}
	return k.opts.Store.GetWorkspace(ctx, owner, id)
}

// measured fills in what only the driver knows of a workspace's use.
func (k *Keeper) measured(ctx context.Context, w WorkspaceUse) WorkspaceUse {
	if w.Active > 0 {
		w.LastUsed = time.Now().UTC()
	}
	var err error
	if w.Bytes, err = k.volumes.WorkspaceBytes(ctx, w.Volume); err != nil {
		k.log.WarnContext(ctx, "cannot tell what a workspace takes", "workspace", w.ID, "volume", w.Volume, "err", err)
	}
	return w
}

// who has a workspace.
type who func(User) bool

func clients(u User) bool { return !u.Helper }
func everybody(User) bool { return true }

// users counts the sessions that have a workspace, or are about to.
func (k *Keeper) users(owner, id string, who who) (n int) {
	for u := range k.sessions.Users() {
		if u.Owner == owner && u.WorkspaceID == id && who(u) {
			n++
		}
	}
	return n
}

func workspaceKey(owner, id string) string { return owner + "/" + id }

func errNoWorkspace() error {
	return errdefs.New(errdefs.NotFound, "no such workspace").Because(errdefs.NoSuchWorkspace)
}

func errNoWorkspaces() error {
	return errdefs.New(errdefs.Unimplemented, "this daemon has no workspaces that outlive sessions: they need workspace.enabled in its configuration, and a driver that has them")
}

func (k *Keeper) checkWorkspaceRequest(req WorkspaceRequest) error {
	most := k.opts.MaxSizeMB
	switch {
	case k.volumes == nil:
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
// session database that was lost or replaced must not take them along. Everybody waits for it, so
// the driver has patience to tell of its files.
func (k *Keeper) CheckVolumes(ctx context.Context, patience time.Duration) error {
	if k.volumes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := k.opts.Store.AllWorkspaces(ctx)
	if err != nil {
		return err
	}
	known := make(map[runtime.WorkspaceID]bool)
	for _, w := range all {
		known[w.Volume] = true
	}
	for volume, err := range k.volumes.Workspaces(ctx) {
		if err != nil {
			return err
		}
		if !known[volume] {
			k.log.WarnContext(ctx, "the driver has a workspace that is not in the database; it is left alone", "volume", volume)
		}
	}
	return nil
}
