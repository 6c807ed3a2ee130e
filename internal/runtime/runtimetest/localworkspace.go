package runtimetest

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

var _ runtime.WorkspaceKeeper = (*Local)(nil)

// workspacesDir is beside the sandboxes' directories, under a name that no
// sandbox has.
const workspacesDir = ".workspaces"

func (l *Local) workspaceDir(id runtime.WorkspaceID) string {
	return filepath.Join(l.Dir, workspacesDir, filepath.Base(string(id)))
}

// giveWorkspace puts a workspace where the sandbox's own would be.
func (l *Local) giveWorkspace(s *localSandbox, id runtime.WorkspaceID) error {
	if id == "" {
		return os.Mkdir(s.workspace(), 0o700)
	}
	if _, err := os.Stat(l.workspaceDir(id)); err != nil {
		return errdefs.Wrap(err, errdefs.NotFound, "there is no workspace %s", id)
	}
	return os.Symlink(l.workspaceDir(id), s.workspace())
}

// CreateWorkspace implements runtime.WorkspaceKeeper. Nothing enforces sizeMB.
func (l *Local) CreateWorkspace(_ context.Context, id runtime.WorkspaceID, _ int64) error {
	if err := os.MkdirAll(filepath.Dir(l.workspaceDir(id)), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(l.workspaceDir(id), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return errdefs.New(errdefs.AlreadyExists, "workspace %s exists", id)
	}
	return err
}

// DestroyWorkspace implements runtime.WorkspaceKeeper.
func (l *Local) DestroyWorkspace(ctx context.Context, id runtime.WorkspaceID) error {
	for s, err := range l.List(ctx) {
		if err != nil {
			return err
		}
		if target, err := os.Readlink(l.sandbox(s.ID).workspace()); err == nil && target == l.workspaceDir(id) {
			return errdefs.New(errdefs.Conflict, "workspace %s is in use", id)
		}
	}
	return os.RemoveAll(l.workspaceDir(id))
}

// Workspaces implements runtime.WorkspaceKeeper.
func (l *Local) Workspaces(context.Context) iter.Seq2[runtime.WorkspaceID, error] {
	return func(yield func(runtime.WorkspaceID, error) bool) {
		entries, err := os.ReadDir(filepath.Join(l.Dir, workspacesDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// WorkspaceBytes implements runtime.WorkspaceKeeper.
func (l *Local) WorkspaceBytes(_ context.Context, id runtime.WorkspaceID) (int64, error) {
	var total int64
	err := filepath.WalkDir(l.workspaceDir(id), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errdefs.Wrap(err, errdefs.NotFound, "there is no workspace %s", id)
	}
	return total, err
}
