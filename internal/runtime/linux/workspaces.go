package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/durable"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

var _ runtime.WorkspaceKeeper = (*Driver)(nil)

// detachTimeout is how long the kernel may take to write out a workspace that
// nobody uses any more.
const detachTimeout = 10 * time.Second

// CreateWorkspace makes a directory with a volume, whole or not at all.
func (d *Driver) CreateWorkspace(ctx context.Context, id runtime.WorkspaceID, sizeMB int64) (err error) {
	if err := checkWorkspace(id); err != nil {
		return err
	}
	made, err := os.MkdirTemp(d.scratch, "workspace-") // emptied at the next start
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(classify(err), os.RemoveAll(made))
		}
	}()
	if err := d.disks.MakeVolume(ctx, filepath.Join(made, diskFile), sizeMB<<20); err != nil {
		return fmt.Errorf("make workspace %s: %w", id, err)
	}
	if err := failpoint.Hit("linux.workspace.made"); err != nil {
		return err
	}
	err = os.Rename(made, d.workspaceDir(id))
	if errors.Is(err, fs.ErrExist) { // of a directory that is not empty, too
		return errdefs.New(errdefs.AlreadyExists, "workspace %s exists already", id)
	}
	if err != nil {
		return err
	}
	if err := failpoint.Hit("linux.workspace.placed"); err != nil {
		return err
	}
	return durable.Sync(d.workspaces)
}

// DestroyWorkspace moves the directory out of the way and deletes it there.
func (d *Driver) DestroyWorkspace(ctx context.Context, id runtime.WorkspaceID) error {
	unlock, err := d.lockWorkspace(ctx, id)
	if errdefs.Is(err, errdefs.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	detaching, cancel := context.WithTimeout(ctx, detachTimeout)
	defer cancel()
	image := filepath.Join(d.workspaceDir(id), diskFile)
	var broken error
	err = awaitDone(detaching, func() (bool, error) {
		var attached bool
		attached, broken = disk.Attached(image)
		return !attached, broken
	}, "a loop device has it")
	switch {
	case errors.Is(broken, fs.ErrNotExist): // somebody took the image away
	case broken != nil:
		return broken
	case err != nil:
		return errdefs.Wrap(err, errdefs.Conflict, "workspace %s is in use", id)
	}
	trash, err := os.MkdirTemp(d.scratch, "workspace-")
	if err != nil {
		return err
	}
	if err := os.Rename(d.workspaceDir(id), filepath.Join(trash, string(id))); err != nil {
		return err
	}
	if err := failpoint.Hit("linux.workspace.gone"); err != nil {
		return err
	}
	return errors.Join(durable.Sync(d.workspaces), os.RemoveAll(trash))
}

// Workspaces yields the directories' names.
func (d *Driver) Workspaces(context.Context) iter.Seq2[runtime.WorkspaceID, error] {
	return func(yield func(runtime.WorkspaceID, error) bool) {
		entries, err := os.ReadDir(d.workspaces)
		if err != nil {
			yield("", err)
			return
		}
		for _, e := range entries {
			if !yield(runtime.WorkspaceID(e.Name()), nil) {
				return
			}
		}
	}
}

// WorkspaceBytes asks the file system.
func (d *Driver) WorkspaceBytes(ctx context.Context, id runtime.WorkspaceID) (int64, error) {
	unlock, err := d.lockWorkspace(ctx, id)
	if err != nil {
		return 0, err
	}
	defer unlock()
	n, err := disk.VolumeBytes(filepath.Join(d.workspaceDir(id), diskFile))
	return n, unusableWorkspace(id, err)
}

// attachWorkspace returns a mount of a workspace's volume, detached.
func (d *Driver) attachWorkspace(ctx context.Context, id runtime.WorkspaceID) (int, error) {
	unlock, err := d.lockWorkspace(ctx, id)
	if err != nil {
		return -1, err
	}
	defer unlock()
	mnt, err := d.disks.OpenVolume(ctx, filepath.Join(d.workspaceDir(id), diskFile))
	return mnt, unusableWorkspace(id, err)
}

// unusableWorkspace gives the errors that last their code: trying again is no help.
func unusableWorkspace(id runtime.WorkspaceID, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errdefs.Wrap(err, errdefs.NotFound, "the files of workspace %s are gone from the host", id)
	case errors.Is(err, disk.ErrDamaged):
		return errdefs.Wrap(err, errdefs.Unavailable, "workspace %s is damaged; the daemon's log tells its operator what to repair", id)
	case errors.Is(err, unix.EBUSY): // mounted read-only since an error, and this mount is not to be
		return errdefs.Wrap(err, errdefs.Unavailable, "workspace %s has failed and can only be read by the sessions that it has; end them, and it is repaired when the next one starts", id)
	}
	return err
}

func (d *Driver) workspaceDir(id runtime.WorkspaceID) string {
	return filepath.Join(d.workspaces, string(id))
}

func checkWorkspace(id runtime.WorkspaceID) error {
	if id == "" || strings.ContainsAny(string(id), "/.") {
		return errdefs.Invalid("workspace", "must be a plain name")
	}
	return nil
}

// lockWorkspace takes the right to attach a workspace or remove it. The lock is
// the kernel's, on the directory: other drivers on it see it, and it ends with
// its holder.
func (d *Driver) lockWorkspace(ctx context.Context, id runtime.WorkspaceID) (unlock func(), err error) {
	if err := checkWorkspace(id); err != nil {
		return nil, err
	}
	absent := errdefs.New(errdefs.NotFound, "there is no workspace %s", id)
	dir, err := sys.Open(unix.AT_FDCWD, d.workspaceDir(id), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absent
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			sys.Close(dir)
		}
	}()
	locked := func() (bool, error) {
		err := unix.Flock(dir, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return false, nil
		}
		return true, os.NewSyscallError("flock", err)
	}
	if err := awaitDone(ctx, locked, "its lock is held"); err != nil {
		return nil, errdefs.Wrap(err, errdefs.Unavailable, "workspace %s is being repaired or removed; try again later", id)
	}
	// Who had the lock before may have moved the directory away to remove it.
	_, err = os.Lstat(d.workspaceDir(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absent // an id is never used twice, so there is no other
	}
	return func() { sys.Close(dir) }, err
}
