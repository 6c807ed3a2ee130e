package sandkasten

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"strconv"
	"time"
)

// Entry is one file. A sandbox chose its name and target: they may be anything.
type Entry struct {
	Path       string    `json:"path,omitempty"` // of Stat only
	ETag       string    `json:"etag,omitempty"` // of Stat only, of a file: for WriteOptions.IfMatch
	Name       string    `json:"name"`           // of List and Glob with the directories below the one asked for
	Type       string    `json:"type"`           // file, dir, symlink, fifo, socket, device
	Size       int64     `json:"size"`
	Mode       string    `json:"mode"` // permissions, octal
	UID        uint32    `json:"uid"`
	GID        uint32    `json:"gid"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty"` // of a symlink
}

// IsDir tells whether the entry is a directory.
func (e Entry) IsDir() bool { return e.Type == "dir" }

// Files calls the files of a session or a workspace. Its methods may be called
// concurrently.
type Files struct {
	client *Client
	path   string // of the calls, with the slash behind
	user   string // whose rights hold; empty is the sandbox's own
}

// FilesAs gives the calls for files with the rights of a user of the sandbox, a name or
// a number, with :group if wanted. What they make belongs to that user.
func (f *Files) FilesAs(user string) *Files { return &Files{f.client, f.path, user} }

func (f *Files) get(name string) request { return f.as(get(f.path + name)) }

func (f *Files) post(name string, body any) request { return f.as(post(f.path+name, body)) }

func (f *Files) as(r request) request {
	r.set("user", f.user)
	return r
}

// ReadOptions selects a part of a file.
type ReadOptions struct {
	Offset   int64 // where to begin; behind the end there is nothing
	MaxBytes int64 // 0 is all
}

// Read opens a file of any size. The caller closes it. Where the connection breaks
// the reader asks for the rest by itself; ErrConflict if the file has changed since.
func (f *Files) Read(ctx context.Context, path string, o *ReadOptions) (*FileReader, error) {
	options := value(o)
	reader := &FileReader{ctx: ctx, files: f, path: path, next: options.Offset, end: -1, patience: patience{client: f.client}}
	if options.MaxBytes > 0 {
		reader.end = options.Offset + options.MaxBytes
	}
	if err := reader.open(); err != nil {
		return nil, err
	}
	return reader, nil
}

// ReadAll returns the bytes of a file.
func (f *Files) ReadAll(ctx context.Context, path string, o *ReadOptions) ([]byte, error) {
	reader, err := f.Read(ctx, path, o)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(reader)
	return data, errors.Join(err, reader.Close())
}

// FileReader reads a file of a sandbox. It is for one goroutine.
type FileReader struct {
	Size int64       // of the whole file; -1 if it ends before what was asked for
	Mode fs.FileMode // its permissions

	ctx      context.Context // of the call that opened it, which its reads belong to
	files    *Files
	path     string
	next     int64 // offset of the next byte
	end      int64 // offset behind the last one, or -1
	etag     string
	body     io.ReadCloser
	patience patience
}

// open asks for what is not read yet.
func (r *FileReader) open() error {
	req := r.files.get("read")
	req.set("path", r.path)
	req.setFlag("raw", true)
	req.header = http.Header{}
	if r.next > 0 || r.end >= 0 {
		text := fmt.Sprintf("bytes=%d-", r.next)
		if r.end >= 0 {
			text += strconv.FormatInt(r.end-1, 10)
		}
		req.header.Set("Range", text)
	}
	if r.etag != "" {
		req.header.Set("If-Range", r.etag)
	}
	resp, err := r.files.client.open(r.ctx, req)
	var refused *APIError
	if errors.As(err, &refused) && refused.Code == "range_not_satisfiable" { // the file ends before
		r.Size, r.body = -1, http.NoBody
		return nil
	}
	if err != nil {
		return err
	}
	if r.etag != "" && resp.StatusCode != http.StatusPartialContent {
		resp.Body.Close()
		return &APIError{Code: "conflict", Message: r.path + " has changed while it was read"}
	}
	r.body, r.etag = resp.Body, resp.Header.Get("ETag")
	if r.Size, err = strconv.ParseInt(resp.Header.Get("X-File-Size"), 10, 64); err != nil {
		r.Size = -1
	}
	mode, _ := strconv.ParseUint(resp.Header.Get("X-File-Mode"), 8, 32) // 0 if the daemon does not say
	r.Mode = fs.FileMode(mode).Perm()
	return nil
}

// Read reads the file's next bytes.
func (r *FileReader) Read(p []byte) (int, error) {
	for {
		n, err := r.body.Read(p)
		r.next += int64(n)
		if n > 0 {
			r.patience.progress()
			return n, nil // the error comes again
		}
		if err == nil || errors.Is(err, io.EOF) {
			return 0, err
		}
		if err := r.resume(err); err != nil {
			return 0, err
		}
	}
}

func (r *FileReader) resume(err error) error {
	err = r.files.client.broken(r.ctx, r.files.get("read"), err)
	if r.etag == "" { // whether the rest belongs to what was read cannot be known
		return err
	}
	if err := r.patience.resume(r.ctx, err); err != nil {
		return err
	}
	r.body.Close()
	return r.open()
}

// Close ends the reading.
func (r *FileReader) Close() error { return r.body.Close() }

// WriteOptions says how a file is written.
type WriteOptions struct {
	Mode   fs.FileMode // permissions; 0 is the daemon's default
	Create bool        // ErrAlreadyExists instead of replacing a file
	Append bool        // add to the end, which is not atomic
	Size   int64       // of the content, if it is neither a buffer nor can seek

	ModifiedAt time.Time // the time that the file gets; zero is now

	// IfMatch, an ETag of Stat or of an earlier write, replaces the file only if it is
	// still that one, else ErrPreconditionFailed; "*" is any file that is there.
	IfMatch string
	NewETag *string // gets, with IfMatch, the ETag of what was written
}

// Write replaces or makes a file, and the directories above it, atomically. The
// content is read from where it is to its end, and not closed.
func (f *Files) Write(ctx context.Context, path string, content io.Reader, o *WriteOptions) error {
	options := value(o)
	r, err := f.upload("raw", path, content, options.Size)
	if err != nil {
		return err
	}
	r.set("mode", octal(options.Mode))
	r.setFlag("create", options.Create)
	r.setFlag("append", options.Append)
	if !options.ModifiedAt.IsZero() {
		r.set("modified_at", options.ModifiedAt.UTC().Format(time.RFC3339Nano))
	}
	if options.IfMatch != "" {
		r.header = http.Header{"If-Match": {options.IfMatch}}
	}
	var written struct {
		ETag string `json:"etag"`
	}
	err = f.client.call(ctx, r, &written)
	if err == nil && options.NewETag != nil {
		*options.NewETag = written.ETag
	}
	return err
}

// upload is a request that sends content, of so many bytes if that is not zero.
func (f *Files) upload(what, path string, content io.Reader, size int64) (request, error) {
	body, err := newSource("application/octet-stream", content, size)
	r := f.as(request{method: http.MethodPut, path: f.path + what, body: body})
	r.set("path", path)
	return r, err
}

// octal is a mode as the API has it; bits that are no permissions are its to refuse.
func octal(mode fs.FileMode) string {
	if mode == 0 {
		return ""
	}
	return fmt.Sprintf("%04o", uint32(mode))
}

// ListOptions says how deep a listing goes.
type ListOptions struct {
	Depth int // 0 and 1 are the directory, 2 also what is in those in it; -1 is everything below
}

// List gives what is in a directory by name, page by page. An error is the last of
// the iteration.
func (f *Files) List(ctx context.Context, path string, o *ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r := f.get("list")
		r.set("path", path)
		r.setNumber("depth", int64(value(o).Depth))
		for {
			var page struct {
				Entries   []Entry `json:"entries"`
				Truncated bool    `json:"truncated"`
				Next      string  `json:"next_cursor"`
			}
			if err := f.client.call(ctx, r, &page); err != nil {
				yield(Entry{}, err)
				return
			}
			for _, entry := range page.Entries {
				if !yield(entry, nil) {
					return
				}
			}
			if !page.Truncated || page.Next == "" {
				return
			}
			r.set("cursor", page.Next)
		}
	}
}

// StatOptions says what is described.
type StatOptions struct {
	Follow bool // where a link leads, not the link
}

// Stat describes a file of any kind.
func (f *Files) Stat(ctx context.Context, path string, o *StatOptions) (Entry, error) {
	r := f.get("stat")
	r.set("path", path)
	r.setFlag("follow", value(o).Follow)
	var entry Entry
	err := f.client.call(ctx, r, &entry)
	return entry, err
}

// Exists reports whether there is something at path, for those who may look there. A
// link counts, wherever it leads.
func (f *Files) Exists(ctx context.Context, path string) (bool, error) {
	_, err := f.Stat(ctx, path, nil)
	var refused *APIError
	if errors.As(err, &refused) && (refused.Reason == ReasonNoSuchFile || refused.Reason == ReasonNotADirectory) {
		return false, nil
	}
	return err == nil, err
}

// EditOptions says how often the old text must be there.
type EditOptions struct {
	Count int `json:"count,omitempty"` // 0 is once or more
}

// Edited is what an edit did.
type Edited struct {
	Replaced      int    `json:"replaced"`
	Diff          string `json:"diff"`
	DiffTruncated bool   `json:"diff_truncated"`
}

// Edit replaces a text wherever it is in a file, atomically. ErrUnprocessable, and
// nothing changes, if it is not there as often as it must be.
func (f *Files) Edit(ctx context.Context, path, old, replacement string, o *EditOptions) (Edited, error) {
	body := struct {
		Path string `json:"path"`
		Old  string `json:"old"`
		New  string `json:"new"`
		EditOptions
	}{path, old, replacement, value(o)}
	var done Edited
	err := f.client.call(ctx, f.post("edit", body), &done)
	return done, err
}

// MakeDirOptions says how a directory is made.
type MakeDirOptions struct {
	Mode    fs.FileMode // permissions; 0 is the daemon's default
	Parents bool        // it may be there, and those above it are made
}

// MakeDir makes a directory.
func (f *Files) MakeDir(ctx context.Context, path string, o *MakeDirOptions) error {
	body := struct {
		Path    string `json:"path"`
		Mode    string `json:"mode,omitempty"`
		Parents bool   `json:"parents,omitempty"`
	}{path, octal(value(o).Mode), value(o).Parents}
	return f.change(ctx, "mkdir", body)
}

// MoveOptions says what becomes of a file that is in the way.
type MoveOptions struct {
	Overwrite bool // replace it; otherwise it is an ErrAlreadyExists
}

// Move renames a file or directory in one step. To is the new path itself.
func (f *Files) Move(ctx context.Context, from, to string, o *MoveOptions) error {
	return f.change(ctx, "move", fromTo{from, to, CopyOptions{Overwrite: value(o).Overwrite}})
}

// CopyOptions says what is copied.
type CopyOptions struct {
	Overwrite bool `json:"overwrite,omitempty"` // replace a file that is in the way
	Recursive bool `json:"recursive,omitempty"` // a directory with all that is in it
}

// Copy copies a file or directory inside. To is the new path itself.
func (f *Files) Copy(ctx context.Context, from, to string, o *CopyOptions) error {
	return f.change(ctx, "copy", fromTo{from, to, value(o)})
}

type fromTo struct {
	From string `json:"from"`
	To   string `json:"to"`
	CopyOptions
}

// RemoveOptions says what is removed.
type RemoveOptions struct {
	Recursive bool `json:"recursive,omitempty"` // a directory with all that is in it
}

// Remove removes a file, a link itself, or an empty directory.
func (f *Files) Remove(ctx context.Context, path string, o *RemoveOptions) error {
	body := struct {
		Path string `json:"path"`
		RemoveOptions
	}{path, value(o)}
	return f.change(ctx, "delete", body)
}

// ChmodOptions says whose permissions are set.
type ChmodOptions struct {
	Recursive bool `json:"recursive,omitempty"` // also of all that is in the directory
}

// Chmod sets the permissions of a file.
func (f *Files) Chmod(ctx context.Context, path string, mode fs.FileMode, o *ChmodOptions) error {
	body := struct {
		Path string `json:"path"`
		Mode string `json:"mode"`
		ChmodOptions
	}{path, fmt.Sprintf("%04o", uint32(mode)), value(o)}
	return f.change(ctx, "chmod", body)
}

func (f *Files) change(ctx context.Context, name string, body any) error {
	return f.client.call(ctx, f.post(name, body), nil)
}
