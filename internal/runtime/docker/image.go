package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/sandbox/flatten"
)

func (d *Driver) imageName(digest string) string {
	return "sandkasten-" + d.opts.Node + ":" + strings.TrimPrefix(digest, "sha256:")
}

// provideImage brings an image of ours into the engine, if that has not got it,
// and returns the engine's name for it.
func (d *Driver) provideImage(ctx context.Context, digest string, rootfs Rootfs) (string, error) {
	return d.provideImageAloud(ctx, digest, rootfs, nil)
}

// provideImageAloud tells progress, which may be nil, how many bytes it has
// loaded, if it is the one that does.
func (d *Driver) provideImageAloud(ctx context.Context, digest string, rootfs Rootfs, progress func(bytes int64)) (string, error) {
	name := d.imageName(digest)
	_, err := d.engine.ImageInspect(ctx, name)
	if err == nil {
		return name, nil
	}
	if !cerrdefs.IsNotFound(err) {
		return "", d.unavailable(err)
	}
	done := d.loads.DoChan(name, func() (any, error) {
		// Whoever comes meanwhile waits for it; and the next one has it anyway.
		return nil, d.loadImage(context.WithoutCancel(ctx), name, digest, rootfs, progress)
	})
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case r := <-done:
		return name, r.Err
	}
}

// Load brings an image of the store into the engine, with all else that its
// first session would have to wait for. Progress may be nil. It hears how many
// bytes of the archive the engine has taken, and nothing if it has the image.
func (d *Driver) Load(ctx context.Context, digest string, progress func(bytes int64)) error {
	rootfs, err := d.opts.Images.Rootfs(ctx, digest)
	if err != nil {
		return err
	}
	image, err := d.provideImageAloud(ctx, digest, rootfs, progress)
	if err != nil {
		return err
	}
	if _, err := d.provideProgram(ctx, image); err != nil {
		return err
	}
	_, err = d.provideBaseline(ctx, image, rootfs)
	return err
}

// counted tells how much of a stream was read.
type counted struct {
	io.Reader
	bytes int64
	tell  func(bytes int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes += int64(n)
	c.tell(c.bytes)
	return n, err
}

func (d *Driver) loadImage(ctx context.Context, name, digest string, rootfs Rootfs, progress func(bytes int64)) error {
	d.opts.Log.InfoContext(ctx, "loading an image into the engine", "digest", digest)
	if progress == nil {
		progress = func(int64) {}
	}
	archive, w := io.Pipe()
	go func() { w.CloseWithError(flatten.Write(ctx, w, rootfs.Layers)) }()
	source := &counted{Reader: archive, tell: progress}
	got, err := d.engine.ImageImport(ctx, client.ImageImportSource{Source: source, SourceName: "-"}, name, client.ImageImportOptions{
		Message: "from the image store of Sandkasten",
		Changes: []string{"LABEL " + labelNode + "=" + d.opts.Node + " " + labelImage + "=" + digest},
	})
	if err == nil {
		err = errors.Join(progressError(got), got.Close())
	}
	if err = errors.Join(err, archive.Close()); err != nil {
		return fmt.Errorf("load image %s into the engine: %w", digest, d.unavailable(err))
	}
	return nil
}

// sweepImages removes from the engine the images that our store has no more. One
// that a container has stays, until a later start.
func (d *Driver) sweepImages(ctx context.Context) error {
	all, err := d.engine.ImageList(ctx, client.ImageListOptions{Filters: d.own(labelImage)})
	if err != nil {
		return d.unavailable(err)
	}
	var errs []error
	for _, image := range all.Items {
		digest := image.Labels[labelImage]
		if _, err := d.opts.Images.Rootfs(ctx, digest); !errdefs.Is(err, errdefs.NotFound) {
			continue
		}
		errs = append(errs, d.removeImage(ctx, d.imageName(digest), client.ImageRemoveOptions{}))
	}
	return errors.Join(errs...)
}

// removeImage removes an image from the engine, if there is one of that name and
// no container has it.
func (d *Driver) removeImage(ctx context.Context, name string, o client.ImageRemoveOptions) error {
	_, err := d.engine.ImageRemove(ctx, name, o)
	if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
		return fmt.Errorf("remove the image %s: %w", name, d.unavailable(err))
	}
	return nil
}

// progressError reads the engine's report to its end: an error comes as a part
// of it.
func progressError(report io.Reader) error {
	for in := json.NewDecoder(report); ; {
		var line struct {
			Error string `json:"error"`
		}
		switch err := in.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return errors.New(line.Error)
		}
	}
}
