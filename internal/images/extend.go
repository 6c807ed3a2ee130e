package images

import (
	"context"
	"io"

	"github.com/sandkasten/sandkasten/internal/images/extract"
)

// ExtendRequest is a layer to put on an image.
type ExtendRequest struct {
	Name     string
	Base     string    // the name or digest of a stored image
	Layer    io.Reader // the tar of an OCI layer: plain, gzip or zstd; read to its end unless refused
	Source   string    // where it came from, for people
	Progress ProgressFunc
}

// Extend stores an image that is another one with a layer on top, and gives it
// the name. On error nothing is stored, though a finished layer may stay for
// the next try. The error is NotFound without the base, and else as Import's.
func (s *Store) Extend(ctx context.Context, req ExtendRequest) (Image, error) {
	name, err := parseName(req.Name)
	if err != nil {
		return Image{}, err
	}
	return s.transact(func(t *transaction) (Image, error) { return t.extend(ctx, name, req) })
}

func (t *transaction) extend(ctx context.Context, name string, req ExtendRequest) (Image, error) {
	base, err := t.s.Inspect(ctx, req.Base)
	if err != nil {
		return Image{}, err
	}
	l, err := t.add(ctx, newMeter(req.Layer, "unpack", 0, req.Progress), extract.Layer, base.Layers)
	if err != nil {
		return Image{}, err
	}
	return t.commit(ctx, name, config{
		layers: append([]Layer{l}, base.Layers...), env: base.Env, workingDir: base.WorkingDir, user: base.User, source: req.Source,
	})
}
