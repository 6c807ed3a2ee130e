package session

import (
	"context"
	"io"
	"strings"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// reach finds a session for an operation on files, the hidden ones behind the
// files of workspaces included: they are reached through OfWorkspace.
func (c *Files) reach(ctx context.Context, p auth.Principal, id ID) (*entry, error) {
	return c.living(ctx, p.With(auth.ScopeHelpers), id)
}

// Read opens a file of the session, at most r.MaxBytes of it from r.Offset
// on; 0 is all. The caller closes the reader, within the life of ctx.
func (c *Files) Read(ctx context.Context, p auth.Principal, id ID, r protocol.Read) (protocol.FileInfo, io.ReadCloser, error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return protocol.FileInfo{}, nil, err
	}
	if r.Offset < 0 {
		return protocol.FileInfo{}, nil, errdefs.Invalid("offset", "must not be negative")
	}
	if r.MaxBytes < 0 {
		return protocol.FileInfo{}, nil, errdefs.Invalid("max_bytes", "must not be negative")
	}
	name, err := c.filePath(e, "path", r.Path)
	if err != nil {
		return protocol.FileInfo{}, nil, err
	}
	r.Path, r.AllowOutside = inside(name), c.reachesAll(e)
	var info protocol.FileInfo
	content, err := c.stream(ctx, e, r.User, func(runner *runnerclient.Client) (content io.ReadCloser, err error) {
		info, content, err = runner.Read(ctx, r)
		return content, err
	})
	info.Name = name
	return info, content, err
}

// Write replaces or makes a file with exactly size bytes of content, and
// its parent directories. It is atomic: when it fails the file is as before.
// With w.Append it adds to a file instead, which is not. An error of content
// is returned as it is. With w.Tag the file is described as it was written.
func (c *Files) Write(ctx context.Context, p auth.Principal, id ID, w protocol.Write, size int64, content io.Reader) (none protocol.FileInfo, err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return none, err
	}
	if size < 0 {
		return none, errdefs.Invalid("size", "must not be negative")
	}
	if size > c.opts.Maxima.FileBytes {
		return none, errdefs.New(errdefs.TooLarge, "the file has %d bytes; the maximum is %d", size, c.opts.Maxima.FileBytes)
	}
	if w.Create && w.Append {
		return none, errdefs.Invalid("append", "must not be set together with create: a file is either new or there already")
	}
	if err := check.Mode(w.Mode); err != nil {
		return none, err
	}
	if w.Path, err = c.runnerPath(e, "path", w.Path); err != nil {
		return none, err
	}
	w.AllowOutside = c.reachesAll(e)
	return answerOf(ctx, c, e, w.User, func(runner *runnerclient.Client) (protocol.FileInfo, error) {
		if w.Tag {
			return runner.WriteTagged(ctx, w, size, content)
		}
		return none, runner.Write(ctx, w, size, content)
	})
}

// Stat describes a file.
func (c *Files) Stat(ctx context.Context, p auth.Principal, id ID, s protocol.Stat) (protocol.FileInfo, error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return protocol.FileInfo{}, err
	}
	name, err := c.filePath(e, "path", s.Path)
	if err != nil {
		return protocol.FileInfo{}, err
	}
	s.Path, s.AllowOutside = inside(name), c.reachesAll(e)
	info, err := answerOf(ctx, c, e, s.User, func(runner *runnerclient.Client) (protocol.FileInfo, error) { return runner.Stat(ctx, s) })
	info.Name = name
	return info, err
}

// stream begins an operation whose answer is read bit by bit. It is use of the
// session until the reader is closed, which the caller must.
func (c *Files) stream(ctx context.Context, e *entry, user string, open func(*runnerclient.Client) (io.ReadCloser, error)) (io.ReadCloser, error) {
	if err := check.User(user); err != nil {
		return nil, err
	}
	use, err := c.beginFile(ctx, e)
	if err != nil {
		return nil, err
	}
	content, err := open(use.client)
	if err != nil {
		use.end()
		return nil, use.lost(ctx, err)
	}
	return &openFile{ReadCloser: content, end: use.end}, nil
}

// openFile is a file being read, which is use of the session until it is closed.
type openFile struct {
	io.ReadCloser
	end func()
}

func (r *openFile) Close() error {
	defer r.end()
	return r.ReadCloser.Close()
}

// on does one operation on the files of a session.
func (c *Files) on(ctx context.Context, e *entry, user string, do func(*runnerclient.Client) error) error {
	if err := check.User(user); err != nil {
		return err
	}
	use, err := c.beginFile(ctx, e)
	if err != nil {
		return err
	}
	defer use.end()
	if err := do(use.client); err != nil {
		return use.lost(ctx, err)
	}
	return nil
}

// answerOf is on for an operation with an answer.
func answerOf[T any](ctx context.Context, c *Files, e *entry, user string, do func(*runnerclient.Client) (T, error)) (answer T, err error) {
	err = c.on(ctx, e, user, func(runner *runnerclient.Client) (err error) {
		answer, err = do(runner)
		return err
	})
	return answer, err
}

// directory is runnerPath for what is a directory, which a slash at the end
// may say.
func (c *core) directory(e *entry, name string) (string, error) {
	if name != "/" {
		name = strings.TrimSuffix(name, "/")
	}
	return c.runnerPath(e, "path", name)
}

// runnerPath is the path that the runner is asked for.
func (c *core) runnerPath(e *entry, field, name string) (string, error) {
	name, err := c.filePath(e, field, name)
	return inside(name), err
}

// filePath makes a path of the request field absolute and clean, within what the
// calls for files reach of a session.
func (c *core) filePath(e *entry, field, name string) (string, error) {
	return check.Path(field, name, c.reachesAll(e))
}

// inside is name as the runner is asked for it. It knows where its workspace
// is; absolute paths are for what is elsewhere.
func inside(name string) string {
	if name == check.WorkspaceDir {
		return "."
	}
	return strings.TrimPrefix(name, check.WorkspaceDir+"/")
}

// removable is runnerPath for what is to be moved or removed, which the
// workspace itself and the root cannot be.
func (c *core) removable(e *entry, field, name string) (string, error) {
	name, err := c.filePath(e, field, name)
	if err != nil {
		return "", err
	}
	if name == check.WorkspaceDir || name == "/" {
		return "", errdefs.Invalid(field, "must be something below %s: that itself stays", name)
	}
	return inside(name), nil
}
