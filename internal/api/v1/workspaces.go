package v1

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// Workspace is the contract's view of a workspace.
type Workspace struct {
	ID                 string            `json:"id" example:"project"`
	Labels             map[string]string `json:"labels,omitempty"`
	SizeMB             int64             `json:"size_mb" doc:"What its files may take." example:"1024"`
	SizeBytes          int64             `json:"size_bytes" doc:"What its files take." example:"52428800"`
	SessionCount       int               `json:"session_count" doc:"Sessions that have or had it, as far as they are still known." example:"3"`
	ActiveSessionCount int               `json:"active_session_count" doc:"Sessions that have it now." example:"1"`
	CreatedAt          time.Time         `json:"created_at"`
	LastUsedAt         time.Time         `json:"last_used_at" doc:"The last start or end of a session with it; now, while one has it."`
}

func viewWorkspace(w workspaces.WorkspaceUse) Workspace {
	return Workspace{
		ID: w.ID, Labels: w.Labels, SizeMB: w.SizeMB, SizeBytes: w.Bytes, SessionCount: w.Sessions, ActiveSessionCount: w.Active,
		CreatedAt: w.CreatedAt.UTC(), LastUsedAt: w.LastUsed.UTC(),
	}
}

// WorkspaceRequest is what a client may say of a new workspace.
type WorkspaceRequest struct {
	ID     string            `json:"id,omitempty" minLength:"1" maxLength:"64" doc:"Of a-z, A-Z, 0-9, '.', '_' and '-'. Without one the daemon makes one up." example:"project"`
	Labels map[string]string `json:"labels,omitempty" maxProperties:"64" doc:"The client's own notes." example:"{\"task\":\"42\"}"`
	SizeMB int64             `json:"size_mb,omitempty" minimum:"1" maximum:"1073741824" doc:"What its files may take." example:"1024"`
}

type createWorkspaceInput struct{ Body *WorkspaceRequest }

type workspaceOutput struct{ Body Workspace }

func (s *surface) createWorkspace(ctx context.Context, in *createWorkspaceInput) (*workspaceOutput, error) {
	var req workspaces.WorkspaceRequest
	if in.Body != nil {
		req.ID, req.Labels, req.SizeMB = in.Body.ID, in.Body.Labels, in.Body.SizeMB
	}
	made, err := s.manager.Workspaces.Create(ctx, api.Caller(ctx), req)
	if err != nil {
		return nil, err
	}
	api.Made(ctx, "workspace", made.ID)
	return &workspaceOutput{viewWorkspace(made)}, nil
}

// Workspaces is a list of them.
type Workspaces struct {
	Workspaces []Workspace `json:"workspaces" nullable:"false"`
}

type workspacesOutput struct{ Body Workspaces }

func (s *surface) listWorkspaces(ctx context.Context, _ *struct{}) (*workspacesOutput, error) {
	all, err := s.manager.Workspaces.List(ctx, api.Caller(ctx))
	if err != nil {
		return nil, err
	}
	out := &workspacesOutput{Workspaces{make([]Workspace, 0, len(all))}}
	for _, w := range all {
		out.Body.Workspaces = append(out.Body.Workspaces, viewWorkspace(w))
	}
	return out, nil
}

// WorkspacePath is what every route of one workspace takes.
type WorkspacePath struct {
	ID string `path:"id" doc:"The workspace's id." example:"project"`
}

func (s *surface) getWorkspace(ctx context.Context, in *WorkspacePath) (*workspaceOutput, error) {
	found, err := s.manager.Workspaces.Get(ctx, api.Caller(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &workspaceOutput{viewWorkspace(found)}, nil
}

type deleteWorkspaceInput struct {
	WorkspacePath
	Force bool `query:"force" doc:"Destroy the sessions that have it, too."`
}

func (s *surface) deleteWorkspace(ctx context.Context, in *deleteWorkspaceInput) (*okOutput, error) {
	remove := s.manager.Workspaces.Delete
	if in.Force {
		remove = s.manager.Workspaces.ForceDelete
	}
	if err := remove(ctx, api.Caller(ctx), in.ID); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}

// findWorkspaceFiles returns the session through which the files of a workspace
// that the caller may use are reached.
func (s *surface) findWorkspaceFiles(ctx context.Context, in SessionPath) (session.ID, error) {
	return s.manager.Sessions.OfWorkspace(ctx, api.Caller(ctx), in.ID)
}
