package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
)

// Content is a file of a sandbox being read. The caller closes it.
type Content struct {
	io.ReadCloser

	Mode fs.FileMode // permission bits
}

// Read opens a file.
func (c *Client) Read(ctx context.Context, id, path string) (Content, error) {
	query := url.Values{"path": {path}, "raw": {"1"}}
	req, err := c.request(ctx, http.MethodGet, c.filesPath(id, "read?", query.Encode()), nil)
	if err != nil {
		return Content{}, err
	}
	resp, err := c.send(req)
	if err != nil {
		return Content{}, err
	}
	const plain = 0o644 // for a daemon that does not say
	mode, err := strconv.ParseUint(resp.Header.Get("X-File-Mode"), 8, 32)
	if err != nil {
		mode = plain
	}
	return Content{resp.Body, fs.FileMode(mode).Perm()}, nil
}

// Entry is one name in a directory. A sandbox chose the name: it may be
// anything.
type Entry struct {
	Name string `json:"name"`
	Type string `json:"type"` // file, dir, symlink, other
	Size int64  `json:"size"`
}

// List returns a directory's entries, sorted by name, and whether there are
// more.
func (c *Client) List(ctx context.Context, id, path string) (entries []Entry, truncated bool, err error) {
	var list struct {
		Entries   []Entry `json:"entries"`
		Truncated bool    `json:"truncated"`
	}
	query := url.Values{"path": {path}}
	err = c.call(ctx, http.MethodGet, c.filesPath(id, "list?", query.Encode()), nil, &list)
	return list.Entries, list.Truncated, err
}

// MaxWrite is the most that Write takes; Upload takes more.
const MaxWrite = 16 << 20

// Write makes or replaces a file and gives it mode's permission bits.
func (c *Client) Write(ctx context.Context, id, path string, mode fs.FileMode, content []byte) error {
	body := struct {
		Path   string `json:"path"`
		Base64 string `json:"content_base64"`
		Mode   string `json:"mode"`
	}{path, base64.StdEncoding.EncodeToString(content), fmt.Sprintf("%04o", mode.Perm())}
	return c.call(ctx, http.MethodPost, c.filesPath(id, "write"), body, nil)
}

// Upload streams content into the file at path. A file that exists keeps its
// mode; a new one has 0644.
func (c *Client) Upload(ctx context.Context, id, path string, content io.Reader) error {
	reader, writer := io.Pipe()
	form := multipart.NewWriter(writer)
	sent := make(chan error, 1)
	go func() {
		err := writeForm(form, path, content)
		sent <- err
		writer.CloseWithError(err) // nil is the end of the body
	}()
	err := c.upload(ctx, id, form.FormDataContentType(), reader)
	// This ends the goroutine, if it has not ended: a write to a closed pipe
	// fails. A content that blocks for ever is the caller's to end.
	closeErr := reader.Close()
	if sendErr := <-sent; sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) {
		return fmt.Errorf("upload %s: %w", path, sendErr) // the reason why the request broke off
	}
	return errors.Join(err, closeErr)
}

func (c *Client) upload(ctx context.Context, id, contentType string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+c.filesPath(id, "upload"), body)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	req.Header.Set("Content-Type", contentType)
	c.authorize(req.Header)
	return c.finish(req, nil)
}

func writeForm(form *multipart.Writer, path string, content io.Reader) error {
	if err := form.WriteField("path", path); err != nil {
		return err
	}
	part, err := form.CreateFormFile("file", "content") // path has the name
	if err != nil {
		return err
	}
	if _, err := io.Copy(part, content); err != nil {
		return err
	}
	return form.Close()
}
