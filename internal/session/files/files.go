package session

import (
	"context"
	"io"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// Requests about files are those of the protocol. Their paths are as a client
// wrote them: absolute, or from the workspace. AllowOutside is the manager's to
// set. What is beyond a limit below is refused with InvalidArgument or TooLarge
// before the sandbox hears of it.

// maxFiling bounds the operations on files at once in one session. Each holds a
// connection to the runner, which has 256 for everything.
const maxFiling = 64

// ReadFile opens a file of the session, at most r.MaxBytes of it from r.Offset
// on; 0 is all. The caller closes the reader, within the life of ctx.
func (m *Manager) ReadFile(ctx context.Context, id ID, r protocol.Read) (protocol.FileInfo, io.ReadCloser, error) {
	if r.Offset < 0 {
		return protocol.FileInfo{}, nil, errdefs.Invalid("offset", "must not be negative")
	}
	if r.MaxBytes < 0 {
		return protocol.FileInfo{}, nil, errdefs.Invalid("max_bytes", "must not be negative")
	}
	name, err := m.filePath("path", r.Path)
	if err != nil {
		return protocol.FileInfo{}, nil, err
	}
	r.Path, r.AllowOutside = inside(name), m.opts.FilesOutsideWorkspace
	var info protocol.FileInfo
	content, err := m.stream(ctx, id, func(c *runnerclient.Client) (content io.ReadCloser, err error) {
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
func (m *Manager) WriteFile(ctx context.Context, id ID, w protocol.Write, size int64, content io.Reader) (err error) {
	if size < 0 {
		return errdefs.Invalid("size", "must not be negative")
	}
	if size > m.opts.Maxima.FileBytes {
		return errdefs.New(errdefs.TooLarge, "the file has %d bytes; the maximum is %d", size, m.opts.Maxima.FileBytes)
	}
	if w.Create && w.Append {
		return errdefs.Invalid("append", "must not be set together with create: a file is either new or there already")
	}
	if err := checkMode(w.Mode); err != nil {
		return err
	}
	if w.Path, err = m.runnerPath("path", w.Path); err != nil {
		return err
	}
	w.AllowOutside = m.opts.FilesOutsideWorkspace
	return m.onFiles(ctx, id, func(c *runnerclient.Client) error { return c.Write(ctx, w, size, content) })
}

// StatFile describes a file.
func (m *Manager) StatFile(ctx context.Context, id ID, s protocol.Stat) (protocol.FileInfo, error) {
	name, err := m.filePath("path", s.Path)
	if err != nil {
		return protocol.FileInfo{}, err
	}
	s.Path, s.AllowOutside = inside(name), m.opts.FilesOutsideWorkspace
	var info protocol.FileInfo
	err = m.onFiles(ctx, id, func(c *runnerclient.Client) (err error) {
		info, err = c.Stat(ctx, s)
		return err
	})
	info.Name = name
	return info, err
}

// stream begins an operation whose answer is read bit by bit. It is use of the
// session until the reader is closed, which the caller must.
func (m *Manager) stream(ctx context.Context, id ID, open func(*runnerclient.Client) (io.ReadCloser, error)) (io.ReadCloser, error) {
	e, end, err := m.file(ctx, id)
	if err != nil {
		return nil, err
	}
	content, err := open(e.box().client)
	if err != nil {
		end()
		return nil, m.lost(ctx, e, err)
	}
	return &reading{ReadCloser: content, end: end}, nil
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

// onFiles does one operation on the files of a session.
func (m *Manager) onFiles(ctx context.Context, id ID, do func(*runnerclient.Client) error) error {
	e, end, err := m.file(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	if err := do(e.box().client); err != nil {
		return m.lost(ctx, e, err)
	}
	return nil
}

// file is use for an operation on files, of which a session has only so many
// at once.
func (m *Manager) file(ctx context.Context, id ID) (e *entry, end func(), err error) {
	e, used, err := m.use(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	filed, err := e.beginFiling()
	if err != nil {
		used()
		return nil, nil, err
	}
	return e, func() { filed(); used() }, nil
}

// beginFiling counts one more operation on files, until end is called.
func (e *entry) beginFiling() (end func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.filing == maxFiling {
		return nil, errdefs.New(errdefs.ResourceExhausted, "the session has %d operations on files in progress, which is the limit; wait for one to end", maxFiling)
	}
	e.filing++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.filing--
	}, nil
}

func checkMode(mode uint32) error {
	if mode > 0o7777 {
		return errdefs.Invalid("mode", "must be at most 07777")
	}
	return nil
}

// directory is runnerPath for what is a directory, which a slash at the end
// may say.
func (m *Manager) directory(name string) (string, error) {
	if name != "/" {
		name = strings.TrimSuffix(name, "/")
	}
	return m.runnerPath("path", name)
}

// runnerPath is the path that the runner is asked for.
func (m *Manager) runnerPath(field, name string) (string, error) {
	name, err := m.filePath(field, name)
	return inside(name), err
}
