package session

import (
	"context"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// workspace is where relative paths start.
const workspace = "/workspace"

// maxListed bounds the entries of one listing.
const maxListed = 10_000

// maxComponent bounds a name between two slashes, as file systems do.
const maxComponent = 255

// ReadFile opens a file of the session, at most max bytes of it from offset
// on; max 0 is all. The caller closes the reader, within the life of ctx.
func (m *Manager) ReadFile(ctx context.Context, id ID, name string, offset, max int64) (protocol.FileInfo, io.ReadCloser, error) {
	if offset < 0 {
		return protocol.FileInfo{}, nil, errdefs.Invalid("offset", "must not be negative")
	}
	if max < 0 {
		return protocol.FileInfo{}, nil, errdefs.Invalid("max_bytes", "must not be negative")
	}
	name, err := m.filePath(name)
	if err != nil {
		return protocol.FileInfo{}, nil, err
	}
	e, end, err := m.use(ctx, id)
	if err != nil {
		return protocol.FileInfo{}, nil, err
	}
	info, content, err := e.box().client.Read(ctx, protocol.Read{
		Path: inside(name), Offset: offset, MaxBytes: max, AllowOutside: m.opts.FilesOutsideWorkspace,
	})
	if err != nil {
		end()
		return protocol.FileInfo{}, nil, m.lost(ctx, e, err)
	}
	info.Name = name
	return info, &reading{ReadCloser: content, end: end}, nil
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

// WriteFile replaces or makes a file with exactly size bytes of r, and its
// parent directories. It is atomic: when it fails the file is as before. Mode
// 0 is 0644, or the mode that the file has.
func (m *Manager) WriteFile(ctx context.Context, id ID, name string, mode uint32, size int64, r io.Reader) error {
	if size < 0 {
		return errdefs.Invalid("size", "must not be negative")
	}
	if size > m.opts.Maxima.FileBytes {
		return errdefs.New(errdefs.TooLarge, "the file has %d bytes; the maximum is %d", size, m.opts.Maxima.FileBytes)
	}
	if mode > 0o7777 {
		return errdefs.Invalid("mode", "must be at most 07777")
	}
	name, err := m.filePath(name)
	if err != nil {
		return err
	}
	e, end, err := m.use(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	w := protocol.Write{Path: inside(name), Mode: mode, AllowOutside: m.opts.FilesOutsideWorkspace}
	if err := e.box().client.Write(ctx, w, size, r); err != nil {
		return m.lost(ctx, e, err)
	}
	return nil
}

// ListFiles returns a directory's entries, sorted by name, and whether there
// were more than it lists.
func (m *Manager) ListFiles(ctx context.Context, id ID, name string) (files []protocol.FileInfo, truncated bool, err error) {
	if name != "/" {
		name = strings.TrimSuffix(name, "/")
	}
	name, err = m.filePath(name)
	if err != nil {
		return nil, false, err
	}
	e, end, err := m.use(ctx, id)
	if err != nil {
		return nil, false, err
	}
	defer end()
	list, err := e.box().client.List(ctx, protocol.List{
		Path: inside(name), Max: maxListed, AllowOutside: m.opts.FilesOutsideWorkspace,
	})
	if err != nil {
		return nil, false, m.lost(ctx, e, err)
	}
	return list.Entries, list.Truncated, nil
}

// filePath makes name absolute and clean, once and for all. It refuses what is
// no path and, by its spelling, what leaves the workspace; the runner refuses
// what leaves it by a symlink.
func (m *Manager) filePath(name string) (string, error) {
	switch {
	case name == "":
		return "", errdefs.Invalid("path", "must not be empty")
	case strings.ContainsRune(name, 0):
		return "", errdefs.Invalid("path", "must not contain a NUL byte")
	case !utf8.ValidString(name):
		return "", errdefs.Invalid("path", "must be valid UTF-8")
	case name != "/" && strings.HasSuffix(name, "/"):
		return "", errdefs.Invalid("path", "must not end in a slash")
	}
	if !path.IsAbs(name) {
		name = workspace + "/" + name
	}
	if len(name) > protocol.MaxPath {
		return "", errdefs.Invalid("path", "must be at most %d bytes", protocol.MaxPath)
	}
	for component := range strings.SplitSeq(name, "/") {
		if len(component) > maxComponent {
			return "", errdefs.Invalid("path", "must not have a component of more than %d bytes", maxComponent)
		}
	}
	name = path.Clean(name)
	if !m.opts.FilesOutsideWorkspace && name != workspace && !strings.HasPrefix(name, workspace+"/") {
		return "", errdefs.Invalid("path", "must be inside %s; relative paths start there", workspace)
	}
	return name, nil
}

// inside is name as the runner is asked for it. It knows where its workspace
// is; absolute paths are for what is elsewhere.
func inside(name string) string {
	if name == workspace {
		return "."
	}
	return strings.TrimPrefix(name, workspace+"/")
}
