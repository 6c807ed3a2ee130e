package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images/extract"
)

// Limits on what an image's own description may ask for.
const (
	maxDocument   = 4 << 20 // bytes of an index, manifest or configuration
	maxLayers     = 128
	maxManifests  = 1024 // in one index
	maxIndexDepth = 2    // an index in an index, no further
)

// blobs is where an OCI image's content comes from. What it returns is not
// trusted: callers verify sizes and digests.
type blobs interface {
	// document opens an index or a manifest, blob a configuration or a layer.
	document(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
	blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
}

// ociImage is a verified manifest and configuration.
type ociImage struct {
	layers  []v1.Descriptor // bottom first
	diffIDs []string
	config  v1.Config
}

// findImage follows root to the manifest for linux/amd64.
func findImage(ctx context.Context, from blobs, root v1.Descriptor) (ociImage, error) {
	d := root
	for depth := 1; d.MediaType.IsIndex(); depth++ {
		if depth > maxIndexDepth {
			return ociImage{}, refusedImage("its indexes are nested more than %d deep", maxIndexDepth)
		}
		data, err := readDocument(ctx, from.document, d)
		if err != nil {
			return ociImage{}, err
		}
		if d, err = choose(data); err != nil {
			return ociImage{}, err
		}
	}
	if !d.MediaType.IsImage() {
		return ociImage{}, refusedImage("%.100q is not the type of an image", d.MediaType)
	}
	return readImage(ctx, from, d)
}

// choose returns the one manifest of an index that is for this platform.
func choose(index []byte) (v1.Descriptor, error) {
	im, err := v1.ParseIndexManifest(bytes.NewReader(index))
	if err != nil {
		return v1.Descriptor{}, refusedImageBy(err, "its index is not valid JSON")
	}
	if len(im.Manifests) > maxManifests {
		return v1.Descriptor{}, refusedImage("its index has more than %d entries", maxManifests)
	}
	if im.MediaType != "" && !im.MediaType.IsIndex() {
		return v1.Descriptor{}, refusedImage("its index calls itself %.100q", im.MediaType)
	}
	var named, unnamed []v1.Descriptor
	for _, d := range im.Manifests {
		switch {
		case !d.MediaType.IsIndex() && !d.MediaType.IsImage(): // a signature, or some other thing beside the image
		case d.Platform == nil:
			unnamed = append(unnamed, d)
		case d.Platform.OS == "linux" && d.Platform.Architecture == "amd64":
			named = append(named, d)
		}
	}
	switch {
	case len(named) > 0:
		return named[0], nil
	case len(unnamed) == 1:
		return unnamed[0], nil
	case len(unnamed) > 1:
		return v1.Descriptor{}, refusedImage("it holds %d images; say which with its tag", len(unnamed))
	}
	return v1.Descriptor{}, refusedImage("it has nothing for linux/amd64")
}

func readImage(ctx context.Context, from blobs, d v1.Descriptor) (ociImage, error) {
	data, err := readDocument(ctx, from.document, d)
	if err != nil {
		return ociImage{}, err
	}
	m, err := v1.ParseManifest(bytes.NewReader(data))
	if err != nil {
		return ociImage{}, refusedImageBy(err, "its manifest is not valid JSON")
	}
	if m.MediaType != "" && m.MediaType != d.MediaType {
		return ociImage{}, refusedImage("its manifest calls itself %.100q", m.MediaType)
	}
	if err := checkManifest(m); err != nil {
		return ociImage{}, err
	}
	data, err = readDocument(ctx, from.blob, m.Config)
	if err != nil {
		return ociImage{}, err
	}
	c, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return ociImage{}, refusedImageBy(err, "its configuration is not valid JSON")
	}
	if c.OS != "linux" || c.Architecture != "amd64" {
		return ociImage{}, refusedImage("it is for %.20q/%.20q, not linux/amd64", c.OS, c.Architecture)
	}
	if len(c.RootFS.DiffIDs) != len(m.Layers) {
		return ociImage{}, refusedImage("it lists %d layers and %d digests for them", len(m.Layers), len(c.RootFS.DiffIDs))
	}
	img := ociImage{layers: m.Layers, config: c.Config}
	for _, id := range c.RootFS.DiffIDs {
		if id.Algorithm != "sha256" {
			return ociImage{}, refusedImage("digest %.100q is not sha256", id)
		}
		img.diffIDs = append(img.diffIDs, id.String())
	}
	return img, nil
}

func checkManifest(m *v1.Manifest) error {
	if len(m.Layers) == 0 || len(m.Layers) > maxLayers {
		return refusedImage("it has %d layers; 1 to %d are allowed", len(m.Layers), maxLayers)
	}
	if !m.Config.MediaType.IsConfig() {
		return refusedImage("%.100q is not the type of an image's configuration", m.Config.MediaType)
	}
	for _, l := range m.Layers {
		switch l.MediaType {
		case types.OCILayer, types.OCILayerZStd, types.OCIUncompressedLayer, types.DockerLayer, types.DockerUncompressedLayer:
		default:
			return refusedImage("%.100q is not the type of a layer that can be used", l.MediaType)
		}
		// A layer elsewhere would let the image choose whom this host talks to.
		if len(l.URLs) > 0 {
			return refusedImage("a layer is kept elsewhere, under an URL of its own")
		}
	}
	return nil
}

// readDocument returns a small blob whose size and digest are right.
func readDocument(ctx context.Context, open func(context.Context, v1.Descriptor) (io.ReadCloser, error), d v1.Descriptor) ([]byte, error) {
	if d.Size > maxDocument {
		return nil, errdefs.New(errdefs.TooLarge, "the image is refused: one of its documents is over %d bytes", maxDocument)
	}
	v, err := openVerified(ctx, open, d)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(v)
	return data, errors.Join(err, v.Close())
}

// verified reads a blob and ends with an error instead of EOF unless its size
// and digest were as announced.
type verified struct {
	io.Closer
	r    io.Reader
	want v1.Descriptor
	sum  hash.Hash
	n    int64
}

func openVerified(ctx context.Context, open func(context.Context, v1.Descriptor) (io.ReadCloser, error), d v1.Descriptor) (*verified, error) {
	if d.Digest.Algorithm != "sha256" || d.Size < 0 {
		return nil, refusedImage("digest %.100q is not sha256", d.Digest)
	}
	r, err := open(ctx, d)
	if err != nil {
		return nil, err
	}
	// One byte more than announced tells too long from right.
	return &verified{Closer: r, r: io.LimitReader(r, d.Size+1), want: d, sum: sha256.New()}, nil
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.n += int64(n)
	v.sum.Write(p[:n])
	if v.n > v.want.Size {
		return n, refusedImage("%s is longer than announced", v.want.Digest)
	}
	// Some sources check by themselves and end with an error of their own.
	ended := errors.Is(err, io.EOF) || (err != nil && v.n == v.want.Size)
	if ended && (v.n != v.want.Size || hex.EncodeToString(v.sum.Sum(nil)) != v.want.Digest.Hex) {
		return n, refusedImage("%s has other content than announced", v.want.Digest)
	}
	return n, err
}

// rest reads to the end, so that everything was verified. A decoder may stop
// before padding.
func (v *verified) rest() error {
	_, err := io.Copy(io.Discard, v)
	return err
}

// importImage stores an OCI image under name. Layers that the store has are
// not read.
func (s *Store) importImage(ctx context.Context, t *transaction, name string, img ociImage, from blobs, c config, report ProgressFunc) (Image, error) {
	var below []Layer // top first
	for i, d := range img.layers {
		l, err := s.findLayer(img.diffIDs[i], below)
		if errors.Is(err, fs.ErrNotExist) {
			phase := fmt.Sprintf("layer %d of %d", i+1, len(img.layers))
			l, err = t.addVerified(ctx, from, d, img.diffIDs[i], below, newMeter(nil, phase, d.Size, report))
		}
		if err != nil {
			return Image{}, err
		}
		below = append([]Layer{l}, below...)
	}
	c.layers = below
	c.env, c.workingDir, c.user = img.config.Env, img.config.WorkingDir, img.config.User
	return t.commit(ctx, name, c)
}

func (t *transaction) addVerified(ctx context.Context, from blobs, d v1.Descriptor, diffID string, below []Layer, m *meter) (Layer, error) {
	if d.Size > t.s.limits.Bytes {
		return Layer{}, errdefs.New(errdefs.TooLarge, "the image is refused: a layer is over %d bytes", t.s.limits.Bytes)
	}
	v, err := openVerified(ctx, from.blob, d)
	if err != nil {
		return Layer{}, err
	}
	m.r = v
	unpacked, err := t.unpack(ctx, m, extract.Layer, below)
	if err == nil {
		err = v.rest()
	}
	if err := errors.Join(err, v.Close()); err != nil {
		return Layer{}, err
	}
	if got := unpacked.info.DiffID; got != diffID {
		return Layer{}, refusedImage("a layer unpacks to %s instead of %s", got, diffID)
	}
	return t.keep(ctx, unpacked)
}

func refusedImage(format string, args ...any) error {
	return errdefs.New(errdefs.Unprocessable, "the image is refused: %s", fmt.Sprintf(format, args...))
}

func refusedImageBy(cause error, format string, args ...any) error {
	return errdefs.Wrap(cause, errdefs.Unprocessable, "the image is refused: %s", fmt.Sprintf(format, args...))
}
