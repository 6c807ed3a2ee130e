package mcp

import (
	"context"
	"io"
	"io/fs"
	"mime"
	"path"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
)

// ofTools is what artifacts that tools publish have in place of a session of the
// orchestrator's: their sandboxes are none of these.
const ofTools = "agent-tools"

// files are the caller's artifacts, as a store for tools. A file's key is the id of its
// artifact, so that what the orchestrator's API has exported can be staged, and what
// tools publish can be downloaded there.
type files struct{ kept *artifacts.Service }

// Open implements tools.FileStore.
func (f files) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	a, err := f.kept.Get(ctx, api.Caller(ctx), key)
	if errdefs.Is(err, errdefs.NotFound) {
		return nil, 0, &fs.PathError{Op: "open", Path: key, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, 0, err
	}
	content, err := f.kept.Open(ctx, a)
	return content, a.Size, err
}

// Put implements tools.FileStore.
func (f files) Put(ctx context.Context, key, name string, content io.Reader) (stored string, size int64, err error) {
	if key != "" {
		return "", 0, &tools.InputError{Message: "the file_key is chosen here; leave it out"}
	}
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	a := artifacts.Artifact{Owner: api.Caller(ctx).Owner, SessionID: ofTools, StoragePath: name, Filename: path.Base(name), ContentType: kind}
	// How large it is is known when it has been read, which is bounded.
	a, err = f.kept.Export(ctx, a, orchestrator.NewID(), 0, content)
	return a.ID, a.Size, err
}
