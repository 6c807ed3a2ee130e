// Package workspaces keeps the file trees that outlive sessions: their rows, the
// driver's files for them, and the rule that neither is removed while a session
// has one. What sessions are is not its business.
package workspaces

import (
	"cmp"
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Workspace is a file tree that sessions of one owner have at /workspace, and
// that outlives them. Its truth is its row in the store; the files are the
// driver's.
type Workspace struct {
	Owner     string
	ID        string              // as the client names it, among the owner's
	Volume    runtime.WorkspaceID // as the driver does: never used twice
	State     WorkspaceState
	SizeMB    int64
	Labels    map[string]string
	CreatedAt time.Time
	LastUsed  time.Time // the last start or end of a session with it
}

// WorkspaceState says whether the driver has a workspace. The row comes first
// and goes last, so that a crash leaves no files that nobody knows of.
type WorkspaceState string

// The states, in their order.
const (
	WorkspaceCreating WorkspaceState = "creating"
	WorkspaceReady    WorkspaceState = "ready"
	WorkspaceDeleting WorkspaceState = "deleting" // its sessions are ended and its files removed
)

// WorkspaceUse is a workspace with what is known of its use.
type WorkspaceUse struct {
	Workspace

	Sessions int   // that the store still knows, ended ones included
	Active   int   // that have not ended
	Bytes    int64 // of its size
}

// WorkspaceRequest is what a client may choose of a workspace. Zero values take
// the defaults of WorkspaceOptions.
type WorkspaceRequest struct {
	ID     string // "" takes a new one
	SizeMB int64
	Labels map[string]string
}

// WorkspaceOptions configures workspaces. Without a Store, or with a driver
// that is no runtime.WorkspaceKeeper, there are none: what needs one is refused
// with Unimplemented.
type WorkspaceOptions struct {
	Store            WorkspaceStore
	PersistByDefault bool          // a session that names no workspace gets a new one
	DefaultSizeMB    int64         // 1024, or MaxSizeMB
	MaxSizeMB        int64         // 10240, or DefaultSizeMB
	MaxCount         int           // of all owners together, of which one has no more than are left for others; 0 is no maximum
	Retention        time.Duration // of a workspace that no session uses; 0 is for ever
}

// WorkspaceStore remembers workspaces. As with Store, what it has written
// survives a crash from the moment the method returns.
type WorkspaceStore interface {
	// AddWorkspace inserts a workspace. It returns AlreadyExists if the owner
	// has one of that id.
	AddWorkspace(ctx context.Context, w Workspace) error
	// PutWorkspace changes the state and LastUsed of a workspace that exists.
	PutWorkspace(ctx context.Context, w Workspace) error
	// GetWorkspace returns NotFound if the owner has none of that id. Of the use
	// it knows Sessions.
	GetWorkspace(ctx context.Context, owner, id string) (WorkspaceUse, error)
	// WorkspacesOf returns an owner's workspaces as GetWorkspace does, oldest
	// first.
	WorkspacesOf(ctx context.Context, owner string) ([]WorkspaceUse, error)
	// AllWorkspaces is WorkspacesOf of all owners.
	AllWorkspaces(ctx context.Context) ([]WorkspaceUse, error)
	// DeleteWorkspace forgets a workspace, by its Volume: one that has its id by
	// now stays. An unknown one is not an error.
	DeleteWorkspace(ctx context.Context, w Workspace) error
}

func (w WorkspaceOptions) withDefaults() WorkspaceOptions {
	w.MaxSizeMB = cmp.Or(w.MaxSizeMB, max(10240, w.DefaultSizeMB))
	w.DefaultSizeMB = cmp.Or(w.DefaultSizeMB, min(1024, w.MaxSizeMB))
	return w
}
