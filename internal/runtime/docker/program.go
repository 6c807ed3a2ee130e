package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
// none, and returns its name. image is any image that the engine has.
func (d *Driver) provideProgram(ctx context.Context, image string) (string, error) {
	name := d.programVolume()
	return name, d.provideFile(ctx, image, volumeFile{
		name: programFile, mode: 0o555, size: int64(len(d.opts.Runner)),
		content: func(context.Context) ([]byte, error) { return d.opts.Runner, nil },
	})
}

// volumeFile is a file in the volume with the runner.
type volumeFile struct {
	name    string
	mode    int64
	size    int64                                 // 0 is not known
	content func(context.Context) ([]byte, error) // asked for if there is none yet
}

// provideFile puts a file into the volume with the runner, which it makes if
// the engine has none. It is written before it has its place in a container of
// ours, and is read-only there.
func (d *Driver) provideFile(ctx context.Context, image string, f volumeFile) error {
	done := d.loads.DoChan(d.programVolume()+"/"+f.name, func() (any, error) {
		ctx, cancel := callContext(ctx)
		defer cancel()
		return nil, d.fillVolume(ctx, image, f)
	})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case r := <-done:
		return r.Err
	}
}

func (d *Driver) fillVolume(ctx context.Context, image string, f volumeFile) error {
	_, err := d.engine.VolumeInspect(ctx, d.programVolume(), client.VolumeInspectOptions{})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return d.unavailable(err)
	}
	d.mu.Lock()
	if err != nil { // somebody has removed it
		clear(d.filled)
	}
	filled := d.filled[f.name]
	d.mu.Unlock()
	if filled {
		return nil
	}
	if err := d.copyFile(ctx, image, f); err != nil {
		return fmt.Errorf("bring the file %s into the engine: %w", f.name, d.unavailable(err))
	}
	d.mu.Lock()
	d.filled[f.name] = true
	d.mu.Unlock()
	return nil
}

// written is the time of a file that was written to its end: the engine sets it
// after the content.
var written = time.Unix(0, 0)

// copyFile writes the file by way of a container that is never started.
func (d *Driver) copyFile(ctx context.Context, image string, f volumeFile) (err error) {
	name, labels := d.programVolume(), map[string]string{labelNode: d.opts.Node, labelProgram: "1"}
	if _, err := d.engine.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: labels}); err != nil {
		return err
	}
	helper := d.helperName()
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
	there, err := d.engine.ContainerStatPath(ctx, helper, client.ContainerStatPathOptions{Path: programDir + "/" + f.name})
	if err == nil && there.Stat.Mtime.Equal(written) && (f.size == 0 || there.Stat.Size == f.size) {
		return nil // an earlier daemon's
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return err
	}
	content, err := f.content(ctx)
	if err != nil {
		return err
	}
	archive, err := fileArchive(f, content)
	if err != nil {
		return err
	}
	_, err = d.engine.CopyToContainer(ctx, helper, client.CopyToContainerOptions{DestinationPath: programDir, Content: archive})
	return err
}

func fileArchive(f volumeFile, content []byte) (*bytes.Buffer, error) {
	archive := new(bytes.Buffer)
	w := tar.NewWriter(archive)
	head := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(content)), ModTime: written}
	if err := w.WriteHeader(head); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	return archive, w.Close()
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
		if err := d.removeVolume(ctx, v.Name); !cerrdefs.IsConflict(err) { // a conflict: it is in use
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
