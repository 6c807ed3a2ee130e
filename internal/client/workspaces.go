package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Workspace is one workspace as the daemon tells it.
type Workspace struct {
	ID                 string            `json:"id"`
	Labels             map[string]string `json:"labels,omitempty"`
	SizeMB             int64             `json:"size_mb"`    // what its files may take
	SizeBytes          int64             `json:"size_bytes"` // what they take
	SessionCount       int               `json:"session_count"`
	ActiveSessionCount int               `json:"active_session_count"`
	CreatedAt          time.Time         `json:"created_at"`
	LastUsedAt         time.Time         `json:"last_used_at"`
}

// WorkspaceRequest is what a new workspace may be given. Zero values take the
// daemon's defaults, and a new id.
type WorkspaceRequest struct {
	ID     string            `json:"id,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	SizeMB int64             `json:"size_mb,omitempty"`
}

// OfWorkspaces returns a client whose calls for files take ids of workspaces
// where c's take ids of sessions. It needs no Close of its own.
func (c *Client) OfWorkspaces() *Client {
	other := *c
	other.owners = "workspaces"
	return &other
}

// CreateWorkspace makes an empty workspace.
func (c *Client) CreateWorkspace(ctx context.Context, req WorkspaceRequest) (Workspace, error) {
	var w Workspace
	err := c.call(ctx, http.MethodPost, "/v1/workspaces", req, &w)
	return w, err
}

// Workspaces lists workspaces, oldest first.
func (c *Client) Workspaces(ctx context.Context) ([]Workspace, error) {
	var list struct {
		Workspaces []Workspace `json:"workspaces"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/workspaces", nil, &list)
	return list.Workspaces, err
}

// Workspace returns one workspace.
func (c *Client) Workspace(ctx context.Context, id string) (Workspace, error) {
	var w Workspace
	err := c.call(ctx, http.MethodGet, workspacePath(id), nil, &w)
	return w, err
}

// Removal says what becomes of the sessions that have a workspace.
type Removal string

// The removals.
const (
	Unused Removal = ""            // there must be none
	Forced Removal = "?force=true" // they end
)

// DeleteWorkspace removes a workspace and all that is in it.
func (c *Client) DeleteWorkspace(ctx context.Context, id string, how Removal) error {
	return c.call(ctx, http.MethodDelete, workspacePath(id)+string(how), nil, nil)
}

func workspacePath(id string) string { return "/v1/workspaces/" + url.PathEscape(id) }
