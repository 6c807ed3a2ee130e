package sandkasten

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Snapshot is the saved files of a session.
type Snapshot struct {
	ID           string    `json:"id"`
	Owner        string    `json:"owner"` // whose it is
	Name         string    `json:"name,omitempty"`
	Label        string    `json:"label,omitempty"`
	SessionID    string    `json:"session_id"`
	Scope        string    `json:"scope"` // workspace or sandbox
	Image        string    `json:"image"`
	ImageDigest  string    `json:"image_digest"`
	Cwd          string    `json:"cwd"`
	IncludePaths []string  `json:"include_paths,omitempty"`
	ExcludePaths []string  `json:"exclude_paths,omitempty"`
	SizeBytes    int64     `json:"size_bytes"` // of the archive
	FileBytes    int64     `json:"file_bytes"` // of the files in it
	Files        int64     `json:"files"`
	CreatedAt    time.Time `json:"created_at"`

	DroppedContexts int `json:"dropped_contexts,omitempty"` // that ran; only in the answer to its creation
}

// SnapshotOptions is what a new snapshot may be given.
type SnapshotOptions struct {
	Name  string `json:"name,omitempty"`
	Label string `json:"label,omitempty"`

	// Scope is workspace, for /workspace, or sandbox, for that and all other changes to
	// the image. Empty is sandbox or, where the driver cannot tell other changes, workspace:
	// the snapshot's Scope says which.
	Scope        string   `json:"scope,omitempty"`
	Fallback     string   `json:"fallback,omitempty"` // workspace: what to save where Scope sandbox cannot be; else that is ErrUnimplemented
	IncludePaths []string `json:"include_paths,omitempty"`
	ExcludePaths []string `json:"exclude_paths,omitempty"`

	IdempotencyKey string `json:"-"` // as of CreateOptions
}

// Snapshot saves the session's files while it runs, to begin others with them
// (CreateOptions.RestoreSnapshotID): all files, unless the options say less.
func (s *Session) Snapshot(ctx context.Context, o *SnapshotOptions) (Snapshot, error) {
	options := value(o)
	if options.Scope == "" {
		options.Scope, options.Fallback = "sandbox", "workspace"
	}
	var snapshot Snapshot
	err := s.client.call(ctx, postOnce(s.path+"/snapshots", options.IdempotencyKey, options), &snapshot)
	return snapshot, err
}

// ListSnapshotsOptions selects snapshots.
type ListSnapshotsOptions struct {
	SessionID string
	Name      string
}

// ListSnapshots returns the key's snapshots, oldest first.
func (c *Client) ListSnapshots(ctx context.Context, o *ListSnapshotsOptions) ([]Snapshot, error) {
	r := get("/v1/snapshots")
	r.set("session_id", value(o).SessionID)
	r.set("name", value(o).Name)
	var answer struct {
		Snapshots []Snapshot `json:"snapshots"`
	}
	err := c.call(ctx, r, &answer)
	return answer.Snapshots, err
}

// GetSnapshot returns a snapshot.
func (c *Client) GetSnapshot(ctx context.Context, id string) (Snapshot, error) {
	var snapshot Snapshot
	err := c.call(ctx, get(snapshotPath(id)), &snapshot)
	return snapshot, err
}

// DeleteSnapshot removes a snapshot.
func (c *Client) DeleteSnapshot(ctx context.Context, id string) error {
	return c.call(ctx, remove(snapshotPath(id)), nil)
}

// DownloadSnapshot opens the archive of a snapshot. The caller closes it.
func (c *Client) DownloadSnapshot(ctx context.Context, id string) (io.ReadCloser, error) {
	resp, err := c.open(ctx, get(snapshotPath(id)+"/download"))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// UploadSnapshotOptions is what an uploaded snapshot may be given.
type UploadSnapshotOptions struct {
	Name  string
	Label string
	Size  int64 // of the archive, if it is neither a buffer nor can seek
}

// UploadSnapshot makes a snapshot of an archive that DownloadSnapshot gave.
func (c *Client) UploadSnapshot(ctx context.Context, archive io.Reader, o *UploadSnapshotOptions) (Snapshot, error) {
	options := value(o)
	body, err := newSource("application/x-tar", archive, options.Size)
	if err != nil {
		return Snapshot{}, err
	}
	r := request{method: http.MethodPost, path: "/v1/snapshots", body: body}
	r.set("name", options.Name)
	r.set("label", options.Label)
	var snapshot Snapshot
	err = c.call(ctx, r, &snapshot)
	return snapshot, err
}

func snapshotPath(id string) string { return "/v1/snapshots/" + segment(id) }
