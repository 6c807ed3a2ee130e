// Package files is what a session's manager does about files: it checks a request
// and has the runner do it. How a session is found, and whether it may be used now,
// is the manager's.
package files

import (
	"context"
	"io"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// Files works on the files of sessions, which are told apart by ID. Requests are
// those of the protocol. Their paths are as a client wrote them: absolute, or from
// the workspace. AllowOutside is set here. What is beyond a limit is refused with
// InvalidArgument or TooLarge before the sandbox hears of it.
type Files[ID any] struct{ opts Options[ID] }

// Options says whose files are worked on, and what is allowed. All are required.
type Options[ID any] struct {
	// Begin begins an operation on the files of a session.
	Begin func(context.Context, ID) (Use, error)

	Anywhere func(ID) bool // whether paths may leave the workspace
	MaxBytes int64         // of one file or archive that is written
}

// New returns the Files that o describes.
func New[ID any](o Options[ID]) *Files[ID] { return &Files[ID]{o} }

// Use is an operation in progress.
type Use struct {
	Client *runnerclient.Client
	End    func()            // must be called
	Lost   func(error) error // what an error of Client means for the session
}

// ReadFile opens a file of the session, at most r.MaxBytes of it from r.Offset
// on; 0 is all. The caller closes the reader, within the life of ctx.
func (f *Files[ID]) ReadFile(ctx context.Context, id ID, r protocol.Read) (protocol.FileInfo, io.ReadCloser, error) {
	if r.Offset < 0 {
		return protocol.FileInfo{}, nil, errdefs.Invalid("offset", "must not be negative")
	}
	if r.MaxBytes < 0 {
		return protocol.FileInfo{}, nil, errdefs.Invalid("max_bytes", "must not be negative")
	}
	name, err := f.filePath(id, "path", r.Path)
	if err != nil {
		return protocol.FileInfo{}, nil, err
	}
	r.Path, r.AllowOutside = inside(name), f.opts.Anywhere(id)
	var info protocol.FileInfo
	content, err := f.stream(ctx, id, r.User, func(c *runnerclient.Client) (content io.ReadCloser, err error) {
		info, content, err = c.Read(ctx, r)
		return content, err
	})
	info.Name = name
	return info, content, err
}

// WriteFile replaces or makes a file with exactly size bytes of content, and
// its parent directories. It is atomic: when it fails the file is as before.
// With w.Append it adds to a file instead, which is not. An error of content
// is returned as it is.
func (f *Files[ID]) WriteFile(ctx context.Context, id ID, w protocol.Write, size int64, content io.Reader) (err error) {
	if size < 0 {
		return errdefs.Invalid("size", "must not be negative")
	}
	if size > f.opts.MaxBytes {
		return errdefs.New(errdefs.TooLarge, "the file has %d bytes; the maximum is %d", size, f.opts.MaxBytes)
	}
	if w.Create && w.Append {
		return errdefs.Invalid("append", "must not be set together with create: a file is either new or there already")
	}
	if err := checkMode(w.Mode); err != nil {
		return err
	}
	if w.Path, err = f.RunnerPath(id, "path", w.Path); err != nil {
		return err
	}
	w.AllowOutside = f.opts.Anywhere(id)
	return f.on(ctx, id, w.User, func(c *runnerclient.Client) error { return c.Write(ctx, w, size, content) })
}

// StatFile describes a file.
func (f *Files[ID]) StatFile(ctx context.Context, id ID, s protocol.Stat) (protocol.FileInfo, error) {
	name, err := f.filePath(id, "path", s.Path)
	if err != nil {
		return protocol.FileInfo{}, err
	}
	s.Path, s.AllowOutside = inside(name), f.opts.Anywhere(id)
	var info protocol.FileInfo
	err = f.on(ctx, id, s.User, func(c *runnerclient.Client) (err error) {
		info, err = c.Stat(ctx, s)
		return err
	})
	info.Name = name
	return info, err
}

// stream begins an operation whose answer is read bit by bit. It is use of the
// session until the reader is closed, which the caller must.
func (f *Files[ID]) stream(ctx context.Context, id ID, user string, open func(*runnerclient.Client) (io.ReadCloser, error)) (io.ReadCloser, error) {
	if err := CheckUser(user); err != nil {
		return nil, err
	}
	use, err := f.opts.Begin(ctx, id)
	if err != nil {
		return nil, err
	}
	content, err := open(use.Client)
	if err != nil {
		use.End()
		return nil, use.Lost(err)
	}
	return &reading{ReadCloser: content, end: use.End}, nil
}

// reading is a file being read, which is use of the session until it is closed.
type reading struct {
	io.ReadCloser
	end func()
}

func (r *reading) Close() error {
	defer r.end()
	return r.ReadCloser.Close()
}

// on does one operation on the files of a session.
func (f *Files[ID]) on(ctx context.Context, id ID, user string, do func(*runnerclient.Client) error) error {
	if err := CheckUser(user); err != nil {
		return err
	}
	use, err := f.opts.Begin(ctx, id)
	if err != nil {
		return err
	}
	defer use.End()
	if err := do(use.Client); err != nil {
		return use.Lost(err)
	}
	return nil
}

// CheckUser refuses what can name no user whose rights hold; "" is the sandbox's own.
func CheckUser(user string) error {
	if user != "" && !check.IsUser(user) {
		return errdefs.Invalid("user", "must be a name or a number, like agent, 1000 or 1000:1000")
	}
	return nil
}

func checkMode(mode uint32) error {
	if mode > 0o7777 {
		return errdefs.Invalid("mode", "must be at most 07777")
	}
	return nil
}

// Directory is RunnerPath for what is a directory, which a slash at the end
// may say.
func (f *Files[ID]) Directory(id ID, name string) (string, error) {
	if name != "/" {
		name = strings.TrimSuffix(name, "/")
	}
	return f.RunnerPath(id, "path", name)
}

// RunnerPath is the path that the runner is asked for.
func (f *Files[ID]) RunnerPath(id ID, field, name string) (string, error) {
	name, err := f.filePath(id, field, name)
	return inside(name), err
}
