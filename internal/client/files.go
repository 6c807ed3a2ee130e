package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Entry is one file. A sandbox chose its name and target: they may be anything.
type Entry struct {
	Path       string    `json:"path,omitempty"` // of Stat only
	Name       string    `json:"name"`
	Type       string    `json:"type"` // file, dir, symlink, fifo, socket, device
	Size       int64     `json:"size"`
	Mode       string    `json:"mode"` // octal
	UID        uint32    `json:"uid"`
	GID        uint32    `json:"gid"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty"` // of a symlink
}

// Content is a file of a sandbox being read. The caller closes it.
type Content struct {
	io.ReadCloser

	Mode fs.FileMode // permission bits
	Size int64       // of what is being read; -1 if the daemon does not say
}

// Read opens a file.
func (c *Client) Read(ctx context.Context, id, path string) (Content, error) {
	resp, err := c.get(ctx, c.filesPath(id, "read", url.Values{"path": {path}, "raw": {"1"}}))
	if err != nil {
		return Content{}, err
	}
	const plain = 0o644 // for a daemon that does not say
	mode, err := strconv.ParseUint(resp.Header.Get("X-File-Mode"), 8, 32)
	if err != nil {
		mode = plain
	}
	return Content{resp.Body, fs.FileMode(mode).Perm(), resp.ContentLength}, nil
}

// WriteOptions says how a file is written.
type WriteOptions struct {
	Mode   fs.FileMode // permission bits; 0 is the daemon's default
	Create bool        // refuse to replace
	Append bool        // add to the end
}

// Write streams the next size bytes of content into the file at path, and
// closes content.
func (c *Client) Write(ctx context.Context, id, path string, o WriteOptions, size int64, content io.ReadCloser) error {
	query := url.Values{"path": {path}}
	if o.Mode != 0 {
		query.Set("mode", octal(o.Mode))
	}
	setFlag(query, "create", o.Create)
	setFlag(query, "append", o.Append)
	return c.put(ctx, c.filesPath(id, "raw", query), size, content, nil)
}

// ListRequest asks for a directory.
type ListRequest struct {
	Path   string
	Depth  int    // 0 is 1; -1 is all
	Cursor string // Listing.NextCursor of the page before
}

// Listing is a page of a directory.
type Listing struct {
	Path       string  `json:"path"`
	Entries    []Entry `json:"entries"`
	Truncated  bool    `json:"truncated"`
	NextCursor string  `json:"next_cursor,omitempty"`
}

// List returns a directory's entries, sorted by name.
func (c *Client) List(ctx context.Context, id string, r ListRequest) (Listing, error) {
	query := url.Values{"path": {r.Path}, "limit": {"10000"}}
	if r.Depth != 0 {
		query.Set("depth", strconv.Itoa(r.Depth))
	}
	if r.Cursor != "" {
		query.Set("cursor", r.Cursor)
	}
	var list Listing
	err := c.call(ctx, http.MethodGet, c.filesPath(id, "list", query), nil, &list)
	return list, err
}

// Stat describes the file at path, or where a link there leads with follow.
func (c *Client) Stat(ctx context.Context, id, path string, follow bool) (Entry, error) {
	query := url.Values{"path": {path}}
	setFlag(query, "follow", follow)
	var e Entry
	err := c.call(ctx, http.MethodGet, c.filesPath(id, "stat", query), nil, &e)
	return e, err
}

// MkdirRequest makes a directory.
type MkdirRequest struct {
	Path    string `json:"path"`
	Mode    string `json:"mode,omitempty"` // octal
	Parents bool   `json:"parents,omitempty"`
}

// Mkdir makes a directory.
func (c *Client) Mkdir(ctx context.Context, id string, r MkdirRequest) error {
	return c.call(ctx, http.MethodPost, c.filesPath(id, "mkdir", nil), r, nil)
}

// MoveRequest renames a file or directory.
type MoveRequest struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Overwrite bool   `json:"overwrite,omitempty"`
}

// Move renames a file or directory.
func (c *Client) Move(ctx context.Context, id string, r MoveRequest) error {
	return c.call(ctx, http.MethodPost, c.filesPath(id, "move", nil), r, nil)
}

// CopyRequest copies a file or directory.
type CopyRequest struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Recursive bool   `json:"recursive,omitempty"`
	Overwrite bool   `json:"overwrite,omitempty"`
}

// Copy copies a file or directory inside.
func (c *Client) Copy(ctx context.Context, id string, r CopyRequest) error {
	return c.call(ctx, http.MethodPost, c.filesPath(id, "copy", nil), r, nil)
}

// RemoveRequest removes a file or directory.
type RemoveRequest struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive,omitempty"`
}

// Remove removes a file or directory.
func (c *Client) Remove(ctx context.Context, id string, r RemoveRequest) error {
	return c.call(ctx, http.MethodPost, c.filesPath(id, "delete", nil), r, nil)
}

// ChmodRequest sets a mode.
type ChmodRequest struct {
	Path      string `json:"path"`
	Mode      string `json:"mode"` // octal
	Recursive bool   `json:"recursive,omitempty"`
}

// Chmod sets the mode of a file, or of all in a directory.
func (c *Client) Chmod(ctx context.Context, id string, r ChmodRequest) error {
	return c.call(ctx, http.MethodPost, c.filesPath(id, "chmod", nil), r, nil)
}

// EditRequest replaces text in a file.
type EditRequest struct {
	Path  string `json:"path"`
	Old   string `json:"old"`
	New   string `json:"new"`
	Count int    `json:"count,omitempty"` // 0 is once or more
}

// Edited is what an edit did.
type Edited struct {
	Replaced      int    `json:"replaced"`
	Diff          string `json:"diff"`
	DiffTruncated bool   `json:"diff_truncated"`
}

// Edit replaces text in a file.
func (c *Client) Edit(ctx context.Context, id string, r EditRequest) (Edited, error) {
	var done Edited
	err := c.call(ctx, http.MethodPost, c.filesPath(id, "edit", nil), r, &done)
	return done, err
}

// Pack opens a directory as an archive (tar, tar.gz, tar.zst, zip). The caller
// closes it.
func (c *Client) Pack(ctx context.Context, id, path, format string) (io.ReadCloser, error) {
	resp, err := c.get(ctx, c.filesPath(id, "archive", url.Values{"path": {path}, "format": {format}}))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Unpacked is what an archive had in it.
type Unpacked struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Unpack extracts an archive, the next size bytes of archive, into a directory,
// and closes archive.
func (c *Client) Unpack(ctx context.Context, id, path, format string, size int64, archive io.ReadCloser) (Unpacked, error) {
	var done Unpacked
	err := c.put(ctx, c.filesPath(id, "archive", url.Values{"path": {path}, "format": {format}}), size, archive, &done)
	return done, err
}

// get opens an answer of any size. The caller closes its body.
func (c *Client) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return c.send(req)
}

// put sends the next size bytes of content, which it closes, as a body.
func (c *Client) put(ctx context.Context, path string, size int64, content io.ReadCloser, out any) error {
	req, err := c.request(ctx, http.MethodPut, path, nil)
	if err != nil {
		return errors.Join(err, content.Close())
	}
	req.Body, req.ContentLength = content, size
	if size == 0 { // or it would be taken for unknown
		if err := content.Close(); err != nil {
			return err
		}
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	return c.finish(req, out)
}

// filesPath is of the files of a session, or of a workspace.
func (c *Client) filesPath(id, what string, query url.Values) string {
	path := "/v1/" + c.owners + "/" + url.PathEscape(id) + "/fs/" + what
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

func setFlag(query url.Values, name string, set bool) {
	if set {
		query.Set(name, "true")
	}
}

func octal(mode fs.FileMode) string { return fmt.Sprintf("%04o", mode.Perm()) }
