package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/failpoint"
)

// programVolume is named by what it holds, so that daemons of other versions
// on the same engine have another.
func (d *Driver) programVolume() string {
	sum := sha256.Sum256(d.opts.Runner)
	return "sandkasten-runner-" + d.opts.Node + "-" + hex.EncodeToString(sum[:6])
}

// provideProgram makes the volume with the runner's program, if the engine has
// none, and returns its name. It is written before it has its place in a
// container of ours, and is read-only there. image is any image that the
// engine has.
func (d *Driver) provideProgram(ctx context.Context, image string) (string, error) {
	name := d.programVolume()
	done := d.loads.DoChan(name, func() (any, error) {
		ctx, cancel := call(ctx)
		defer cancel()
		return nil, d.fillProgram(ctx, name, image)
	})
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case r := <-done:
		return name, r.Err
	}
}

func (d *Driver) fillProgram(ctx context.Context, name, image string) error {
	d.mu.Lock()
	filled := d.filled
	d.mu.Unlock()
	_, err := d.engine.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	if err == nil && filled {
		return nil
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return d.unavailable(err)
	}
	if err := d.copyProgram(ctx, name, image); err != nil {
		return fmt.Errorf("bring the runner into the engine: %w", d.unavailable(err))
	}
	d.mu.Lock()
	d.filled = true
	d.mu.Unlock()
	return nil
}

// copyProgram writes the program by way of a container that is never started.
func (d *Driver) copyProgram(ctx context.Context, name, image string) (err error) {
	labels := map[string]string{labelNode: d.opts.Node, labelProgram: "1"}
	if _, err := d.engine.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: labels}); err != nil {
		return err
	}
	helper := "sandkasten-" + d.opts.Node + "-helper-" + strings.ToLower(rand.Text())
	_, err = d.engine.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:   helper,
		Config: &container.Config{Image: image, Entrypoint: []string{program}, Labels: labels},
		HostConfig: &container.HostConfig{
			NetworkMode: "none",
			Mounts:      []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: programDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}},
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		_, removeErr := d.engine.ContainerRemove(ctx, helper, client.ContainerRemoveOptions{Force: true})
		err = errors.Join(err, removeErr)
	}()
	if err := failpoint.Hit("docker.program.created"); err != nil {
		return err
	}
	there, err := d.engine.ContainerStatPath(ctx, helper, client.ContainerStatPathOptions{Path: program})
	if err == nil && there.Stat.Size == int64(len(d.opts.Runner)) {
		return nil // an earlier daemon's, and whole
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return err
	}
	archive, err := programArchive(d.opts.Runner)
	if err != nil {
		return err
	}
	_, err = d.engine.CopyToContainer(ctx, helper, client.CopyToContainerOptions{DestinationPath: programDir, Content: archive})
	return err
}

func programArchive(runner []byte) (*bytes.Buffer, error) {
	archive := new(bytes.Buffer)
	w := tar.NewWriter(archive)
	head := &tar.Header{Name: programFile, Mode: 0o555, Size: int64(len(runner)), ModTime: time.Unix(0, 0)}
	if err := w.WriteHeader(head); err != nil {
		return nil, err
	}
	if _, err := w.Write(runner); err != nil {
		return nil, err
	}
	return archive, w.Close()
}

// sweepHelpers removes the containers that copyProgram left when it was killed.
func (d *Driver) sweepHelpers(ctx context.Context) error {
	left, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: d.own(labelProgram)})
	if err != nil {
		return d.unavailable(err)
	}
	var errs []error
	for _, c := range left.Items {
		_, err := d.engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true})
		if err != nil && !cerrdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweepPrograms removes the volumes with runners of other versions of this
// daemon that no container has any more.
func (d *Driver) sweepPrograms(ctx context.Context) error {
	all, err := d.engine.VolumeList(ctx, client.VolumeListOptions{Filters: d.own(labelProgram)})
	if err != nil {
		return d.unavailable(err)
	}
	var errs []error
	for _, v := range all.Items {
		if v.Name == d.programVolume() {
			continue
		}
		_, err := d.engine.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{})
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) { // a conflict: it is in use
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
