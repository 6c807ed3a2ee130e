package ops

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

// find finds a session for an operation on files, the hidden ones behind the
// files of workspaces included: they are reached through session.Sessions.OfWorkspace.
func (f *Files) find(ctx context.Context, p auth.Principal, id string) (Session, error) {
	return f.sessions.Living(ctx, p.With(auth.ScopeHelpers), id)
}

// Read opens a file of the session, at most r.MaxBytes of it from r.Offset
// on; 0 is all. The caller closes the reader, within the life of ctx.
func (f *Files) Read(ctx context.Context, p auth.Principal, id string, r protocol.Read) (protocol.FileInfo, io.ReadCloser, error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return protocol.FileInfo{}, nil, err
	}
	if r.Offset < 0 {
		return protocol.FileInfo{}, nil, errdefs.Invalid("offset", "must not be negative")
	}
	if r.MaxBytes < 0 {
		return protocol.FileInfo{}, nil, errdefs.Invalid("max_bytes", "must not be negative")
	}
	name, err := filePath(s, "path", r.Path)
	if err != nil {
		return protocol.FileInfo{}, nil, err
	}
	r.Path, r.AllowOutside = inside(name), s.Now().AllFiles
	var info protocol.FileInfo
	content, err := f.stream(ctx, s, r.User, func(runner *runnerclient.Client) (content io.ReadCloser, err error) {
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
func (f *Files) Write(ctx context.Context, p auth.Principal, id string, w protocol.Write, size int64, content io.Reader) (none protocol.FileInfo, err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return none, err
	}
	if size < 0 {
		return none, errdefs.Invalid("size", "must not be negative")
	}
	if size > f.maxBytes {
		return none, errdefs.New(errdefs.TooLarge, "the file has %d bytes; the maximum is %d", size, f.maxBytes)
	}
	if w.Create && w.Append {
		return none, errdefs.Invalid("append", "must not be set together with create: a file is either new or there already")
	}
	if err := check.Mode(w.Mode); err != nil {
		return none, err
	}
	if w.Path, err = runnerPath(s, "path", w.Path); err != nil {
		return none, err
	}
	w.AllowOutside = s.Now().AllFiles
	return answerOf(ctx, f, s, w.User, func(runner *runnerclient.Client) (protocol.FileInfo, error) {
		if w.Tag {
			return runner.WriteTagged(ctx, w, size, content)
		}
		return none, runner.Write(ctx, w, size, content)
	})
}

// Stat describes a file.
func (f *Files) Stat(ctx context.Context, p auth.Principal, id string, r protocol.Stat) (protocol.FileInfo, error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return protocol.FileInfo{}, err
	}
	name, err := filePath(s, "path", r.Path)
	if err != nil {
		return protocol.FileInfo{}, err
	}
	r.Path, r.AllowOutside = inside(name), s.Now().AllFiles
	info, err := answerOf(ctx, f, s, r.User, func(runner *runnerclient.Client) (protocol.FileInfo, error) { return runner.Stat(ctx, r) })
	info.Name = name
	return info, err
}

// stream begins an operation whose answer is read bit by bit. It is use of the
// session until the reader is closed, which the caller must.
func (f *Files) stream(ctx context.Context, s Session, user string, open func(*runnerclient.Client) (io.ReadCloser, error)) (io.ReadCloser, error) {
	if err := check.User(user); err != nil {
		return nil, err
	}
	runner, end, err := f.begin(ctx, s)
	if err != nil {
		return nil, err
	}
	content, err := open(runner)
	if err != nil {
		end()
		return nil, s.Lost(ctx, err)
	}
	return &openFile{ReadCloser: content, end: end}, nil
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
func (f *Files) on(ctx context.Context, s Session, user string, do func(*runnerclient.Client) error) error {
	if err := check.User(user); err != nil {
		return err
	}
	runner, end, err := f.begin(ctx, s)
	if err != nil {
		return err
	}
	defer end()
	if err := do(runner); err != nil {
		return s.Lost(ctx, err)
	}
	return nil
}

// answerOf is on for an operation with an answer.
func answerOf[T any](ctx context.Context, f *Files, s Session, user string, do func(*runnerclient.Client) (T, error)) (answer T, err error) {
	err = f.on(ctx, s, user, func(runner *runnerclient.Client) (err error) {
		answer, err = do(runner)
		return err
	})
	return answer, err
}

// directory is runnerPath for what is a directory, which a slash at the end
// may say.
func directory(s Session, name string) (string, error) {
	if name != "/" {
		name = strings.TrimSuffix(name, "/")
	}
	return runnerPath(s, "path", name)
}

// runnerPath is the path that the runner is asked for.
func runnerPath(s Session, field, name string) (string, error) {
	name, err := filePath(s, field, name)
	return inside(name), err
}

// filePath makes a path of the request field absolute and clean, within what the
// calls for files reach of a session.
func filePath(s Session, field, name string) (string, error) {
	return check.Path(field, name, s.Now().AllFiles)
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
func removable(s Session, field, name string) (string, error) {
	name, err := filePath(s, field, name)
	if err != nil {
		return "", err
	}
	if name == check.WorkspaceDir || name == "/" {
		return "", errdefs.Invalid(field, "must be something below %s: that itself stays", name)
	}
	return inside(name), nil
}
