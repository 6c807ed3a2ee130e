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
	"github.com/sandkasten/sandkasten/internal/runtime/docker/flatten"
)

func (d *Driver) imageName(digest string) string {
	return "sandkasten-" + d.opts.Node + ":" + strings.TrimPrefix(digest, "sha256:")
}

// provideImage brings an image of ours into the engine, if that has not got it,
// and returns the engine's name for it.
func (d *Driver) provideImage(ctx context.Context, digest string, rootfs Rootfs) (string, error) {
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
		return nil, d.loadImage(context.WithoutCancel(ctx), name, digest, rootfs)
	})
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case r := <-done:
		return name, r.Err
	}
}

func (d *Driver) loadImage(ctx context.Context, name, digest string, rootfs Rootfs) error {
	d.opts.Log.InfoContext(ctx, "loading an image into the engine", "digest", digest)
	archive, w := io.Pipe()
	go func() { w.CloseWithError(flatten.Write(ctx, w, rootfs.Layers)) }()
	got, err := d.engine.ImageImport(ctx, client.ImageImportSource{Source: archive, SourceName: "-"}, name, client.ImageImportOptions{
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
