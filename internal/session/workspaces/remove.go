package workspaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
)

// RemoveAll ends the sessions that have workspaces of the principal's owner, and removes all
// of these: also what is being made or removed. It goes on where one cannot be removed,
// until ctx is done; what is left is its caller's to remove again.
func (w *Workspaces) RemoveAll(ctx context.Context, p auth.Principal) error {
	return w.keeper.removeAll(ctx, p.Owner)
}

// Delete removes a workspace and all that is in it. It refuses one that a session
// has with Conflict.
func (w *Workspaces) Delete(ctx context.Context, p auth.Principal, id string) error {
	return w.keeper.deleteUnused(ctx, p.Owner, id)
}

// ForceDelete ends the sessions that have a workspace and removes it.
func (w *Workspaces) ForceDelete(ctx context.Context, p auth.Principal, id string) error {
	return w.keeper.deleteWorkspace(ctx, p.Owner, id, func() error { return nil })
}

func (k *Keeper) deleteUnused(ctx context.Context, owner, id string) error {
	return k.deleteWorkspace(ctx, owner, id, func() error {
		if n := k.users(owner, id, clients); n > 0 {
			return errdefs.New(errdefs.Conflict, "workspace %s is in use by %d sessions; destroy them first, or use force to have them destroyed with it", id, n)
		}
		return nil
	})
}

// deleteWorkspace removes a workspace unless check refuses. From the moment
// that its row says so no session gets it, and a crash is made up for by
// Prune.
func (k *Keeper) deleteWorkspace(ctx context.Context, owner, id string, check func() error) error {
	if err := k.sessions.CheckReady(); err != nil {
		return err
	}
	w, err := k.markDeleting(ctx, owner, id, check)
	if err != nil {
		return err
	}
	return k.removeWorkspace(ctx, w)
}

func (k *Keeper) markDeleting(ctx context.Context, owner, id string, check func() error) (Workspace, error) {
	unlock, err := k.lock(ctx, workspaceKey(owner, id))
	if err != nil {
		return Workspace{}, err
	}
	defer unlock()
	w, err := k.find(ctx, owner, id)
	if err != nil || w.State == WorkspaceDeleting {
		return w.Workspace, err
	}
	if err := check(); err != nil {
		return w.Workspace, err
	}
	w.State = WorkspaceDeleting
	err = k.opts.Store.PutWorkspace(context.WithoutCancel(ctx), w.Workspace)
	return w.Workspace, errors.Join(err, failpoint.Hit("workspace.deleting"))
}

// removeWorkspace ends what still has a workspace that is being deleted, and
// removes its files and its row. It does not stop when ctx is done.
func (k *Keeper) removeWorkspace(ctx context.Context, w Workspace) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.removeTimeout)
	defer cancel()
	unlock, err := k.lock(ctx, "remove/"+string(w.Volume))
	if err != nil {
		return err
	}
	defer unlock()
	// Whoever was here before us may be through, and the id another's by now.
	if now, err := k.find(ctx, w.Owner, w.ID); errdefs.Is(err, errdefs.NotFound) || err == nil && now.Volume != w.Volume {
		return nil
	}
	err = k.sessions.EndUsers(ctx, w.Owner, w.ID)
	if err == nil {
		err = k.volumes.DestroyWorkspace(ctx, w.Volume)
	}
	if err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "workspace %s is not removed completely yet; the daemon goes on trying", w.ID)
	}
	if err := failpoint.Hit("workspace.removed"); err != nil {
		return err
	}
	return k.deleteRow(ctx, w)
}

// removeAtOnce bounds the workspaces of one owner that are removed at the same time.
const removeAtOnce = 8

// removeAll is RemoveAll.
func (k *Keeper) removeAll(ctx context.Context, owner string) error {
	if k.volumes == nil {
		return nil
	}
	if err := k.sessions.CheckReady(); err != nil {
		return err
	}
	all, err := k.opts.Store.WorkspacesOf(ctx, owner)
	if err != nil {
		return err
	}
	var removing errgroup.Group
	removing.SetLimit(removeAtOnce)
	failed := make([]error, len(all))
	for i, w := range all {
		removing.Go(func() error {
			if failed[i] = ctx.Err(); failed[i] == nil {
				failed[i] = k.deleteWorkspace(ctx, owner, w.ID, func() error { return nil })
			}
			return nil
		})
	}
	_ = removing.Wait() // its functions say in failed what went wrong
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil || errdefs.Is(err, errdefs.NotFound) })
	if n := len(failed); n > 0 {
		return fmt.Errorf("remove %d of %d workspaces: %w", n, len(all), failed[0]) // the others' are most often the same
	}
	return nil
}

// Unmake removes the workspace that was made for a session that could
// not be, unless others have come to use it. The session's lock must be free:
// whoever is removing the workspace already may be waiting for it.
func (k *Keeper) Unmake(ctx context.Context, u User) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.removeTimeout)
	defer cancel()
	err := k.deleteUnused(ctx, u.Owner, u.WorkspaceID)
	if errdefs.Is(err, errdefs.Conflict) || errdefs.Is(err, errdefs.NotFound) {
		return nil
	}
	return err
}

// Prune goes on with removals that did not finish, and removes
// workspaces whose making did not, and those that no session has used for the
// time of Retention. It says how many are gone.
func (k *Keeper) Prune(ctx context.Context) (removed int, err error) {
	if k.volumes == nil {
		return 0, nil
	}
	all, err := k.opts.Store.AllWorkspaces(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, w := range all {
		keep := k.opts.Retention
		switch {
		case w.State == WorkspaceDeleting:
			err = k.removeWorkspace(ctx, w.Workspace)
		case w.State == WorkspaceCreating, keep > 0 && time.Since(w.LastUsed) >= keep:
			err = k.expireWorkspace(ctx, w.Workspace)
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
func (k *Keeper) expireWorkspace(ctx context.Context, seen Workspace) error {
	return k.deleteWorkspace(ctx, seen.Owner, seen.ID, func() error {
		w, err := k.find(ctx, seen.Owner, seen.ID)
		if err == nil && (k.users(w.Owner, w.ID, everybody) > 0 || w.State != seen.State || w.LastUsed.After(seen.LastUsed)) {
			return errdefs.New(errdefs.Conflict, "workspace %s is in use", w.ID)
		}
		return err
	})
}
