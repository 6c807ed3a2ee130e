package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Snapshot is one snapshot as the daemon tells it.
type Snapshot struct {
	ID           string    `json:"id"`
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
}

// SnapshotRequest is what a new snapshot may be given. Zero values take
// everything in the workspace.
type SnapshotRequest struct {
	Name         string   `json:"name,omitempty"`
	Label        string   `json:"label,omitempty"`
	Scope        string   `json:"scope,omitempty"`
	IncludePaths []string `json:"include_paths,omitempty"`
	ExcludePaths []string `json:"exclude_paths,omitempty"`
}

// SnapshotFilter selects snapshots. Its zero value selects all.
type SnapshotFilter struct {
	SessionID string
	Name      string
}

// CreateSnapshot saves the files of a session.
func (c *Client) CreateSnapshot(ctx context.Context, session string, req SnapshotRequest) (Snapshot, error) {
	var s Snapshot
	err := c.call(ctx, http.MethodPost, sessionPath(session, "/snapshots"), req, &s)
	return s, err
}

// Snapshots lists snapshots, oldest first.
func (c *Client) Snapshots(ctx context.Context, f SnapshotFilter) ([]Snapshot, error) {
	query := url.Values{}
	if f.SessionID != "" {
		query.Set("session_id", f.SessionID)
	}
	if f.Name != "" {
		query.Set("name", f.Name)
	}
	var list struct {
		Snapshots []Snapshot `json:"snapshots"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/snapshots?"+query.Encode(), nil, &list)
	return list.Snapshots, err
}

// Snapshot returns one snapshot.
func (c *Client) Snapshot(ctx context.Context, id string) (Snapshot, error) {
	var s Snapshot
	err := c.call(ctx, http.MethodGet, snapshotPath(id), nil, &s)
	return s, err
}

// DeleteSnapshot removes a snapshot.
func (c *Client) DeleteSnapshot(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, snapshotPath(id), nil, nil)
}

// DownloadSnapshot opens the archive of a snapshot. The caller closes it.
func (c *Client) DownloadSnapshot(ctx context.Context, id string) (io.ReadCloser, error) {
	resp, err := c.get(ctx, snapshotPath(id)+"/download")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// UploadSnapshot makes a snapshot of an archive of size bytes, which it closes.
func (c *Client) UploadSnapshot(ctx context.Context, name, label string, size int64, archive io.ReadCloser) (Snapshot, error) {
	var s Snapshot
	query := url.Values{"name": {name}, "label": {label}}
	req, err := c.request(ctx, http.MethodPost, "/v1/snapshots?"+query.Encode(), nil)
	if err != nil {
		return s, errors.Join(err, archive.Close())
	}
	req.Body, req.ContentLength = archive, size
	req.Header.Set("Content-Type", "application/x-tar")
	return s, c.finish(req, &s)
}

func snapshotPath(id string) string { return "/v1/snapshots/" + url.PathEscape(id) }
