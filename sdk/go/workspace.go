package sandkasten

import (
	"context"
	"time"
)

// WorkspaceInfo is a workspace as the daemon told it.
type WorkspaceInfo struct {
	ID                 string            `json:"id"`
	Labels             map[string]string `json:"labels,omitempty"`
	SizeMB             int64             `json:"size_mb"`    // what its files may take
	SizeBytes          int64             `json:"size_bytes"` // what they take
	SessionCount       int               `json:"session_count"`
	ActiveSessionCount int               `json:"active_session_count"`
	CreatedAt          time.Time         `json:"created_at"`
	LastUsedAt         time.Time         `json:"last_used_at"`
}

// WorkspaceOptions is what a new workspace may be given.
type WorkspaceOptions struct {
	ID     string            `json:"id,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	SizeMB int64             `json:"size_mb,omitempty"`
}

// Workspace is a /workspace that outlives sessions, with its files.
type Workspace struct {
	Files // a path that is not absolute starts at the workspace's root

	ID   string
	Info WorkspaceInfo // as it was when the Workspace was made; only the ID if [Client.Workspace] did
}

// CreateWorkspace makes an empty workspace; ErrAlreadyExists if the key has one of
// that id.
func (c *Client) CreateWorkspace(ctx context.Context, o *WorkspaceOptions) (*Workspace, error) {
	var info WorkspaceInfo
	if err := c.call(ctx, post("/v1/workspaces", value(o)), &info); err != nil {
		return nil, err
	}
	return c.workspace(info), nil
}

// Workspace returns a workspace by its id without asking the daemon for it.
func (c *Client) Workspace(id string) *Workspace { return c.workspace(WorkspaceInfo{ID: id}) }

// GetWorkspace returns a workspace that is there.
func (c *Client) GetWorkspace(ctx context.Context, id string) (*Workspace, error) {
	var info WorkspaceInfo
	if err := c.call(ctx, get(workspacePath(id)), &info); err != nil {
		return nil, err
	}
	return c.workspace(info), nil
}

// ListWorkspaces returns the key's workspaces, oldest first.
func (c *Client) ListWorkspaces(ctx context.Context) ([]*Workspace, error) {
	var answer struct {
		Workspaces []WorkspaceInfo `json:"workspaces"`
	}
	if err := c.call(ctx, get("/v1/workspaces"), &answer); err != nil {
		return nil, err
	}
	list := make([]*Workspace, len(answer.Workspaces))
	for i, info := range answer.Workspaces {
		list[i] = c.workspace(info)
	}
	return list, nil
}

// DeleteWorkspaceOptions says what becomes of the sessions that have a workspace.
type DeleteWorkspaceOptions struct {
	Force bool // destroy them; otherwise they are an ErrConflict
}

// DeleteWorkspace removes a workspace with all that is in it.
func (c *Client) DeleteWorkspace(ctx context.Context, id string, o *DeleteWorkspaceOptions) error {
	r := remove(workspacePath(id))
	r.setFlag("force", value(o).Force)
	return c.call(ctx, r, nil)
}

func (c *Client) workspace(info WorkspaceInfo) *Workspace {
	return &Workspace{Files: Files{client: c, path: workspacePath(info.ID) + "/fs/"}, ID: info.ID, Info: info}
}

func workspacePath(id string) string { return "/v1/workspaces/" + segment(id) }
