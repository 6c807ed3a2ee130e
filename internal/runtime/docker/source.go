package docker

import (
	"context"
	"errors"
	"fmt"
	"io"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// SourceName implements runtime.ImageSource.
func (d *Driver) SourceName() string { return "Docker engine" }

// FindImage implements runtime.ImageSource.
func (d *Driver) FindImage(ctx context.Context, name string) (runtime.SourceImage, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	got, err := d.engine.ImageInspect(ctx, name)
	if err != nil && !cerrdefs.IsNotFound(err) {
		return runtime.SourceImage{}, d.unavailable(err)
	}
	if err != nil || got.Config != nil && got.Config.Labels[labelNode] != "" {
		return runtime.SourceImage{}, errdefs.New(errdefs.NotFound, "the Docker engine has no image %q", name)
	}
	own := runtime.SourceImage{ID: got.ID}
	if got.Config != nil {
		own.Env, own.WorkingDir, own.User = got.Config.Env, got.Config.WorkingDir, got.Config.User
	}
	return own, nil
}

// PullImage implements runtime.ImageSource.
func (d *Driver) PullImage(ctx context.Context, name, credentials string, progress func(phase string, done, total int64)) error {
	report, err := d.engine.ImagePull(ctx, name, client.ImagePullOptions{RegistryAuth: credentials})
	if err != nil {
		return d.explainPull(name, err)
	}
	layers := map[string][2]int64{} // done and total bytes, by layer
	for line, err := range report.JSONMessages(ctx) {
		switch {
		case err != nil:
			return d.explainPull(name, err)
		case line.Error != nil:
			return d.explainPull(name, line.Error)
		case line.Progress != nil && line.Status == "Downloading":
			layers[line.ID] = [2]int64{line.Progress.Current, line.Progress.Total}
			var done, total int64
			for _, l := range layers {
				done, total = done+l[0], total+l[1]
			}
			progress("the engine downloads", done, total)
		}
	}
	return ctx.Err()
}

func (d *Driver) explainPull(name string, err error) error {
	if unavailable := d.unavailable(err); errdefs.Is(unavailable, errdefs.Unavailable) {
		return unavailable
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return errdefs.Wrap(err, errdefs.NotFound, "no image %q here, and the Docker engine cannot pull it: %s", name, err)
}

// ExportImage implements runtime.ImageSource.
func (d *Driver) ExportImage(ctx context.Context, id string) (io.ReadCloser, error) {
	creating, cancel := callContext(ctx)
	defer cancel()
	name := d.helperName()
	_, err := d.engine.ContainerCreate(creating, client.ContainerCreateOptions{
		Name: name,
		// It is never started.
		Config:     &container.Config{Image: id, Entrypoint: []string{program}, Labels: map[string]string{labelNode: d.opts.Node, labelProgram: "1"}},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		return nil, fmt.Errorf("open the image %s: %w", id, d.unavailable(err))
	}
	archive, err := d.engine.ContainerExport(ctx, name, client.ContainerExportOptions{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("export the image %s: %w", id, d.unavailable(err)), d.removeHelper(ctx, name))
	}
	return &exported{archive, func() error { return d.removeHelper(ctx, name) }}, nil
}

func (d *Driver) removeHelper(ctx context.Context, name string) error {
	ctx, cancel := callContext(ctx)
	defer cancel()
	_, err := d.engine.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true})
	return err
}

// exported is an archive whose container goes with it.
type exported struct {
	io.ReadCloser

	remove func() error
}

// Close closes the archive and removes the container.
func (e *exported) Close() error { return errors.Join(e.ReadCloser.Close(), e.remove()) }
