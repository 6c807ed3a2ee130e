package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

var _ workspaces.WorkspaceStore = (*Store)(nil)

// workspaceSQL selects what scanWorkspace reads.
const workspaceSQL = `SELECT owner, id, volume, state, size_mb, labels, created_at, last_used,
	(SELECT count(*) FROM sessions s WHERE s.owner = w.owner AND s.workspace_id = w.id AND s.workspace_id <> '' AND NOT s.helper)
	FROM workspaces w`

func scanWorkspace(row row) (workspaces.WorkspaceUse, error) {
	var w workspaces.WorkspaceUse
	var labels string
	var created, used int64
	err := row.Scan(&w.Owner, &w.ID, &w.Volume, &w.State, &w.SizeMB, &labels, &created, &used, &w.Sessions)
	if err != nil {
		return w, err
	}
	if err := json.Unmarshal([]byte(labels), &w.Labels); err != nil {
		return w, fmt.Errorf("decode labels of workspace %s: %w", w.ID, err)
	}
	w.CreatedAt, w.LastUsed = instant(created), instant(used)
	return w, nil
}

// AddWorkspace implements workspaces.WorkspaceStore.
func (s *Store) AddWorkspace(ctx context.Context, w workspaces.Workspace) error {
	labels, err := json.Marshal(w.Labels)
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	_, err = s.write.ExecContext(ctx, `INSERT INTO workspaces (owner, id, volume, state, size_mb, labels, created_at, last_used)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		w.Owner, w.ID, string(w.Volume), string(w.State), w.SizeMB, string(labels), micros(w.CreatedAt), micros(w.LastUsed))
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY {
		return errdefs.Wrap(err, errdefs.AlreadyExists, "there is a workspace %s already", w.ID)
	}
	return wrapChange("write workspace "+w.ID, err)
}

// PutWorkspace implements workspaces.WorkspaceStore.
func (s *Store) PutWorkspace(ctx context.Context, w workspaces.Workspace) error {
	_, err := s.execChange(ctx, "UPDATE workspaces SET state = ?, last_used = max(last_used, ?) WHERE owner = ? AND id = ?",
		string(w.State), micros(w.LastUsed), w.Owner, w.ID)
	if err != nil {
		return wrap("write workspace "+w.ID, err)
	}
	return nil
}

// GetWorkspace implements workspaces.WorkspaceStore.
func (s *Store) GetWorkspace(ctx context.Context, owner, id string) (workspaces.WorkspaceUse, error) {
	w, err := scanWorkspace(s.read.QueryRowContext(ctx, workspaceSQL+" WHERE owner = ? AND id = ?", owner, id))
	if errors.Is(err, sql.ErrNoRows) {
		return w, errdefs.New(errdefs.NotFound, "no such workspace").Because(errdefs.NoSuchWorkspace)
	}
	if err != nil {
		return w, wrap("read a workspace", err)
	}
	return w, nil
}

// WorkspacesOf implements workspaces.WorkspaceStore.
func (s *Store) WorkspacesOf(ctx context.Context, owner string) ([]workspaces.WorkspaceUse, error) {
	return list(ctx, s, "list workspaces", scanWorkspace, workspaceSQL+" WHERE owner = ? ORDER BY created_at, id", owner)
}

// AllWorkspaces implements workspaces.WorkspaceStore.
func (s *Store) AllWorkspaces(ctx context.Context) ([]workspaces.WorkspaceUse, error) {
	return list(ctx, s, "list workspaces", scanWorkspace, workspaceSQL+" ORDER BY created_at, owner, id")
}

// DeleteWorkspace implements workspaces.WorkspaceStore.
func (s *Store) DeleteWorkspace(ctx context.Context, w workspaces.Workspace) error {
	if _, err := s.execChange(ctx, "DELETE FROM workspaces WHERE volume = ?", string(w.Volume)); err != nil {
		return wrap("forget workspace "+w.ID, err)
	}
	return nil
}
