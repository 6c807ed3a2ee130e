package docker

import (
	"context"
	"errors"
	"fmt"
	"iter"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// workspaceVolume names the volume of a workspace. One of a sandbox's own has
// no name, and ends with its container.
func (d *Driver) workspaceVolume(id runtime.WorkspaceID) string {
	if id == "" {
		return ""
	}
	return "sandkasten-" + d.opts.Node + "-workspace-" + string(id)
}

// CreateWorkspace implements runtime.WorkspaceKeeper. The engine's volumes have
// no size: sizeMB is not enforced.
func (d *Driver) CreateWorkspace(ctx context.Context, id runtime.WorkspaceID, _ int64) error {
	switch err := d.checkWorkspace(ctx, id); {
	case err == nil:
		return errdefs.New(errdefs.AlreadyExists, "workspace %s exists", id)
	case !errdefs.Is(err, errdefs.NotFound):
		return err
	}
	ctx, cancel := callContext(ctx)
	defer cancel()
	_, err := d.engine.VolumeCreate(ctx, client.VolumeCreateOptions{
		Name:   d.workspaceVolume(id),
		Labels: map[string]string{labelNode: d.opts.Node, labelWorkspace: string(id)},
	})
	if err != nil {
		return fmt.Errorf("create the volume of workspace %s: %w", id, d.unavailable(err))
	}
	return nil
}

// checkWorkspace returns NotFound if there is no such workspace. The engine
// makes a volume of whatever name a container asks for; one of those has no
// label.
func (d *Driver) checkWorkspace(ctx context.Context, id runtime.WorkspaceID) error {
	if id == "" {
		return nil
	}
	got, err := d.engine.VolumeInspect(ctx, d.workspaceVolume(id), client.VolumeInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(err) || err == nil && got.Volume.Labels[labelWorkspace] != string(id):
		return errdefs.New(errdefs.NotFound, "workspace %s does not exist", id)
	case err != nil:
		return d.unavailable(err)
	}
	return nil
}

// DestroyWorkspace implements runtime.WorkspaceKeeper.
func (d *Driver) DestroyWorkspace(ctx context.Context, id runtime.WorkspaceID) error {
	ctx, cancel := callContext(ctx)
	defer cancel()
	err := d.removeVolume(ctx, d.workspaceVolume(id))
	switch {
	case err == nil:
		return nil
	case cerrdefs.IsConflict(err):
		return errdefs.Wrap(err, errdefs.Conflict, "workspace %s is in use", id)
	}
	return fmt.Errorf("remove the volume of workspace %s: %w", id, d.unavailable(err))
}

// removeVolume removes a volume, if there is one of that name. The engine's
// error is a conflict while a container has it.
func (d *Driver) removeVolume(ctx context.Context, name string) error {
	_, err := d.engine.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Workspaces implements runtime.WorkspaceKeeper.
func (d *Driver) Workspaces(ctx context.Context) iter.Seq2[runtime.WorkspaceID, error] {
	return func(yield func(runtime.WorkspaceID, error) bool) {
		got, err := d.engine.VolumeList(ctx, client.VolumeListOptions{Filters: d.own(labelWorkspace)})
		if err != nil {
			yield("", d.unavailable(err))
			return
		}
		for _, v := range got.Items {
			if !yield(runtime.WorkspaceID(v.Labels[labelWorkspace]), nil) {
				return
			}
		}
	}
}

// WorkspaceBytes implements runtime.WorkspaceKeeper. The engine counts all of
// its volumes for it, which takes as long as there are files in them.
func (d *Driver) WorkspaceBytes(ctx context.Context, id runtime.WorkspaceID) (int64, error) {
	if err := d.checkWorkspace(ctx, id); err != nil {
		return 0, err
	}
	got, err := d.engine.DiskUsage(ctx, client.DiskUsageOptions{Volumes: true, Verbose: true})
	if err != nil {
		return 0, d.unavailable(err)
	}
	for _, v := range got.Volumes.Items {
		if v.Name == d.workspaceVolume(id) && v.UsageData != nil {
			return v.UsageData.Size, nil
		}
	}
	return 0, errors.New("the engine does not count the bytes of its volumes")
}
