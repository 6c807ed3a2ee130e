// Package snapshots has the handlers of /v1 for snapshots. How one is made and kept
// does not belong here.
package snapshots

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

// Handlers answer the calls. All fields are required.
type Handlers struct {
	Manager *session.Manager
	// Contexts returns how many contexts run in a session of the caller.
	Contexts func(context.Context, session.ID) int
	// Find returns the session of a path.
	Find func(context.Context, contract.SessionPath) (session.ID, error)
}

// Snapshot is the contract's view of a snapshot.
type Snapshot struct {
	ID           string         `json:"id" doc:"26 characters of a-z and 2-7." example:"k5n6p7r2s3t4u5f5q2bz7lq4m3"`
	Owner        string         `json:"owner" doc:"Whose it is. An admin's key sees those of everybody." example:"alice"`
	Name         string         `json:"name,omitempty" example:"before-upgrade"`
	Label        string         `json:"label,omitempty"`
	SessionID    string         `json:"session_id" doc:"What it was made of; perhaps on another host." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	Scope        snapshot.Scope `json:"scope" enum:"workspace,sandbox" example:"workspace"`
	Image        string         `json:"image" doc:"Of the session, as its client wrote it." example:"base"`
	ImageDigest  string         `json:"image_digest" doc:"What that was. The files of scope sandbox lie on it." example:"sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"`
	Cwd          string         `json:"cwd" doc:"Of the default shell then." example:"/workspace"`
	IncludePaths []string       `json:"include_paths,omitempty"`
	ExcludePaths []string       `json:"exclude_paths,omitempty"`
	SizeBytes    int64          `json:"size_bytes" doc:"Of the archive." example:"52428800"`
	FileBytes    int64          `json:"file_bytes" doc:"Of all files in it, holes included." example:"209715200"`
	Files        int64          `json:"files" doc:"Files, directories and links in it." example:"1200"`
	CreatedAt    time.Time      `json:"created_at"`

	DroppedContexts int `json:"dropped_contexts,omitempty" doc:"Contexts of the session that ran as the snapshot was made, which has its files and not their variables. Only in the answer to its creation." example:"1"`
}

// View is a snapshot as it is shown.
func View(s snapshots.Snapshot) Snapshot {
	m := s.Manifest
	return Snapshot{
		ID: s.ID, Owner: s.Owner, Name: s.Name, Label: s.Label, SessionID: m.SessionID, Scope: m.Scope, Image: m.Image, ImageDigest: m.ImageDigest,
		Cwd: m.Cwd, IncludePaths: m.Include, ExcludePaths: m.Exclude, SizeBytes: s.Size, FileBytes: m.Bytes(), Files: m.Entries(),
		CreatedAt: s.CreatedAt.UTC(),
	}
}

// SnapshotRequest is what a client may say of a new snapshot.
type SnapshotRequest struct {
	Name         string         `json:"name,omitempty" maxLength:"64" doc:"Of a-z, A-Z, 0-9, '.', '_' and '-'. Several may have the same." example:"before-upgrade"`
	Label        string         `json:"label,omitempty" maxLength:"256" doc:"The client's own note."`
	Scope        snapshot.Scope `json:"scope,omitempty" enum:"workspace,sandbox" doc:"Defaults to workspace, which is /workspace. sandbox is that and all other changes to the image. The SDKs, the command line and the console ask for sandbox." example:"sandbox"`
	Fallback     snapshot.Scope `json:"fallback,omitempty" enum:"workspace" doc:"With scope sandbox: save the workspace where the driver cannot tell what else was changed; the snapshot's scope says so. Without it that is a 501."`
	IncludePaths []string       `json:"include_paths,omitempty" nullable:"false" maxItems:"256" doc:"Absolute, or from /workspace: only these, and what is below them." example:"[\"src\"]"`
	ExcludePaths []string       `json:"exclude_paths,omitempty" nullable:"false" maxItems:"256" doc:"And not these." example:"[\"node_modules\"]"`
}

// CreateInput is a request for a snapshot.
type CreateInput struct {
	contract.SessionPath
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" pattern:"^[!-~]+$" patternDescription:"visible ASCII characters" doc:"Chosen by the client. A repeated request with the same key and body gives the same snapshot."`
	Body           *SnapshotRequest
}

// Output is one snapshot as the kit wants it.
type Output struct{ Body Snapshot }

// Create saves the files of a session.
func (h *Handlers) Create(ctx context.Context, in *CreateInput) (*Output, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	req := snapshots.Request{IdempotencyKey: in.IdempotencyKey}
	if b := in.Body; b != nil {
		req.Name, req.Label, req.Scope, req.Fallback, req.Include, req.Exclude = b.Name, b.Label, b.Scope, b.Fallback, b.IncludePaths, b.ExcludePaths
	}
	dropped := h.Contexts(ctx, id)
	made, err := h.Manager.Snapshots.Create(ctx, api.Caller(ctx), string(id), req)
	if err != nil {
		return nil, err
	}
	api.Made(ctx, "snapshot", made.ID)
	shown := View(made)
	shown.DroppedContexts = dropped
	return &Output{shown}, nil
}

// ListInput selects snapshots.
type ListInput struct {
	SessionID string `query:"session_id" maxLength:"64" doc:"Only those of this session."`
	Name      string `query:"name" maxLength:"64" doc:"Only those of this name."`
}

// Snapshots is a list of them.
type Snapshots struct {
	Snapshots     []Snapshot `json:"snapshots" nullable:"false"`
	TotalBytes    int64      `json:"total_bytes" doc:"What all archives of the key take, also of snapshots that are not in this list because they are not asked for, or are being made or removed." example:"157286400"`
	MaxTotalBytes int64      `json:"max_total_bytes" doc:"What they may take (snapshots.max_total_mb). 0 is no maximum." example:"68719476736"`
}

// ListOutput is a list as the kit wants it.
type ListOutput struct{ Body Snapshots }

// List answers with the snapshots of a key.
func (h *Handlers) List(ctx context.Context, in *ListInput) (*ListOutput, error) {
	p := api.Caller(ctx)
	of, err := h.Manager.Sessions.Find(p, in.SessionID)
	if err != nil {
		return nil, err
	}
	all, err := h.Manager.Snapshots.List(ctx, p, snapshots.Filter{SessionID: string(of), Name: in.Name})
	if err != nil {
		return nil, err
	}
	total, most, err := h.Manager.Snapshots.Usage(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &ListOutput{Snapshots{make([]Snapshot, 0, len(all)), total, most}}
	for _, one := range all {
		out.Body.Snapshots = append(out.Body.Snapshots, View(one))
	}
	return out, nil
}

// Path is what every route of one snapshot takes.
type Path struct {
	ID string `path:"id" doc:"The snapshot's id." example:"k5n6p7r2s3t4u5f5q2bz7lq4m3"`
}

// Get answers with one.
func (h *Handlers) Get(ctx context.Context, in *Path) (*Output, error) {
	found, err := h.Manager.Snapshots.Get(ctx, api.Caller(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &Output{View(found)}, nil
}

// Delete removes one.
func (h *Handlers) Delete(ctx context.Context, in *Path) (*contract.OKOutput, error) {
	if err := h.Manager.Snapshots.Delete(ctx, api.Caller(ctx), in.ID); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}

// Download answers with an archive.
func (h *Handlers) Download(ctx context.Context, in *Path) (*kit.Stream, error) {
	p := api.Caller(ctx)
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		found, archive, err := h.Manager.Snapshots.Open(r.Context(), p, in.ID)
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		w.Header().Set("Content-Type", files.ArchiveTypes["tar"])
		w.Header().Set("Content-Length", strconv.FormatInt(found.Size, 10))
		files.Download(w, r, "snapshot-"+found.ID+".tar", archive)
	}), nil
}

// UploadInput is what is said of an archive.
type UploadInput struct {
	Name  string `query:"name" maxLength:"64" doc:"As in the request that makes a snapshot."`
	Label string `query:"label" maxLength:"256"`
}

// Upload makes a snapshot of the request's body.
func (h *Handlers) Upload(ctx context.Context, in *UploadInput) (*kit.Stream, error) {
	p := api.Caller(ctx)
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		var made snapshots.Snapshot
		err := files.TakeBody(w, r, func(size int64, body io.Reader) (err error) {
			if body, err = refuseJSON(body); err != nil {
				return err
			}
			made, err = h.Manager.Snapshots.Upload(r.Context(), p, snapshots.UploadRequest{Name: in.Name, Label: in.Label, Size: size}, body)
			return err
		})
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		api.Made(r.Context(), "snapshot", made.ID)
		api.WriteJSON(w, r, http.StatusCreated, View(made))
	}), nil
}

// refuseJSON returns a body with all its bytes, or an error if it is JSON: then somebody
// means to make a snapshot of a session.
func refuseJSON(body io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(body)
	if first, err := buffered.Peek(1); err == nil && first[0] == '{' {
		return nil, errdefs.New(errdefs.Unprocessable, "this takes the archive of a snapshot, and the body is JSON: POST /v1/sessions/ID/snapshots makes a snapshot of a session")
	}
	return buffered, nil
}
