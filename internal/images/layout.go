package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const refNameAnnotation = "org.opencontainers.image.ref.name"

// ImportOCIRequest is an OCI image layout to store.
type ImportOCIRequest struct {
	Name     string
	Dir      string // with index.json and blobs/
	Tag      string // which image of several; empty if there is one
	Progress ProgressFunc
}

// ImportOCI stores the linux/amd64 image of an OCI layout under a name. Every
// size and digest is verified; layers that the store has are not read again.
// On error no image was stored, though finished layers stay for the next try.
// Errors are those of Import, and NotFound for a directory that is no layout.
func (s *Store) ImportOCI(ctx context.Context, req ImportOCIRequest) (Image, error) {
	name, err := parseName(req.Name)
	if err != nil {
		return Image{}, err
	}
	dir, err := os.OpenRoot(req.Dir)
	if err != nil {
		return Image{}, errdefs.Wrap(err, errdefs.NotFound, "%s cannot be opened as an OCI image layout", req.Dir)
	}
	l := &layout{dir: dir}
	img, err := s.importLayout(ctx, l, name, req)
	return img, errors.Join(err, dir.Close())
}

func (s *Store) importLayout(ctx context.Context, l *layout, name string, req ImportOCIRequest) (Image, error) {
	root, err := l.root(req.Tag)
	if err != nil {
		return Image{}, err
	}
	img, err := findImage(ctx, l, root)
	if err != nil {
		return Image{}, err
	}
	source := config{source: "OCI layout " + filepath.Base(req.Dir)}
	return s.transact(func(t *transaction) (Image, error) {
		return s.importImage(ctx, t, name, img, l, source, req.Progress)
	})
}

// layout reads an OCI image layout. Links in it do not lead out of it.
type layout struct {
	dir   *os.Root
	index []byte
}

// root returns the descriptor of index.json, or of the image in it that has
// the tag.
func (l *layout) root(tag string) (v1.Descriptor, error) {
	f, err := l.open("index.json")
	if err != nil {
		return v1.Descriptor{}, err
	}
	l.index, err = io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return v1.Descriptor{}, fmt.Errorf("read index.json: %w", err)
	}
	sum := sha256.Sum256(l.index)
	d := v1.Descriptor{
		MediaType: types.OCIImageIndex,
		Size:      int64(len(l.index)),
		Digest:    v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])},
	}
	if tag == "" || d.Size > maxDocument {
		return d, nil
	}
	im, err := v1.ParseIndexManifest(bytes.NewReader(l.index))
	if err != nil {
		return d, refusedImageBy(err, "its index is not valid JSON")
	}
	for _, m := range im.Manifests {
		if m.Annotations[refNameAnnotation] == tag {
			return m, nil
		}
	}
	return d, errdefs.New(errdefs.NotFound, "the layout has no image with the tag %.100q", tag)
}

func (l *layout) document(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	sum := sha256.Sum256(l.index)
	if d.Digest.Hex == hex.EncodeToString(sum[:]) {
		return io.NopCloser(bytes.NewReader(l.index)), nil
	}
	return l.blob(ctx, d)
}

func (l *layout) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	return l.open("blobs/" + d.Digest.Algorithm + "/" + d.Digest.Hex)
}

func (l *layout) open(name string) (*os.File, error) {
	// A FIFO would make a plain open wait for ever.
	f, err := l.dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errdefs.Wrap(err, errdefs.Unprocessable, "the image is refused: the layout lacks %s", name)
	}
	if err != nil {
		return nil, refusedImageBy(err, "%s in the layout cannot be read", name)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = refusedImage("%s in the layout is not a file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
