package docker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/flatten"
)

// diskLimit is what an engine can limit of what a container writes.
type diskLimit int

const (
	diskUnknown   diskLimit = iota
	diskUnlimited           // nothing
	diskOfChanges           // what the container adds to its image
	diskOfAll               // that and what the image has
)

// sizeOption is the engine's name for a limit of a container's root.
const sizeOption = "size"

// LimitsDisk reports whether DiskMB of a Spec's limits holds, as far as the
// engine has been asked, which is when it first answers. Under a read-only root all
// that can be written is the workspace. In memory that has a size; as a volume it has
// none.
func (d *Driver) LimitsDisk(readonlyRoot bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if readonlyRoot {
		return d.opts.Memory
	}
	return d.disk > diskUnlimited
}

// look learns what the engine can do, if that is not known. It returns
// Unavailable if it does not answer.
func (d *Driver) look(ctx context.Context) error {
	d.mu.Lock()
	known := d.disk != diskUnknown
	d.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	got, err := d.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return d.unavailable(err)
	}
	return d.learnDisk(ctx, got.Info)
}

// learnDisk finds out by a container that is never started what the engine can
// limit. What it says of itself does not tell whether its file system has quotas.
func (d *Driver) learnDisk(ctx context.Context, info system.Info) error {
	can := diskUnlimited
	switch info.Driver {
	case "overlay2":
		for _, s := range info.DriverStatus {
			if s == [2]string{"Backing Filesystem", "xfs"} {
				can = diskOfChanges
			}
		}
	case "btrfs", "zfs":
		can = diskOfAll
	}
	if can != diskUnlimited {
		works, err := d.tryDisk(ctx)
		if err != nil {
			return err
		}
		if !works {
			can = diskUnlimited
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.disk = can
	return nil
}

// tryDisk reports whether the engine takes a container with a limit. That is of
// an empty image that no store has: if it is left behind, Sweep removes it.
func (d *Driver) tryDisk(ctx context.Context) (bool, error) {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(rand.Text())))
	name := d.imageName(digest)
	if err := d.loadImage(ctx, name, digest, Rootfs{}, nil); err != nil {
		return false, err
	}
	helper := d.helperName()
	_, refused := d.engine.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:       helper,
		Config:     &container.Config{Image: name, Entrypoint: []string{program}, Labels: map[string]string{labelNode: d.opts.Node, labelProgram: "1"}},
		HostConfig: &container.HostConfig{NetworkMode: "none", StorageOpt: map[string]string{sizeOption: "1073741824"}},
	})
	if refused == nil {
		if _, err := d.engine.ContainerRemove(ctx, helper, client.ContainerRemoveOptions{Force: true}); err != nil {
			return false, d.unavailable(err)
		}
	} else {
		d.opts.Log.DebugContext(ctx, "the engine cannot limit disks", "err", refused)
	}
	return refused == nil, d.removeImage(ctx, name, client.ImageRemoveOptions{})
}

// limitsFor completes l for a sandbox, as far as it holds.
func (d *Driver) limitsFor(l runtime.Limits, readonlyRoot bool) runtime.Limits {
	l = l.Or(d.opts.Defaults)
	if !d.LimitsDisk(readonlyRoot) {
		l.DiskMB = 0
	}
	return l
}

// diskBytes is the size that the root of a container gets of spec, whose limits
// are complete, or 0.
func (d *Driver) diskBytes(ctx context.Context, spec runtime.Spec, rootfs Rootfs) (int64, error) {
	d.mu.Lock()
	can, image := d.disk, d.sizes[spec.Image]
	d.mu.Unlock()
	size := spec.Limits.DiskMB << 20
	if spec.ReadonlyRoot { // then the limit is that of a workspace in memory
		return 0, nil
	}
	if size == 0 || can != diskOfAll {
		return size, nil
	}
	if image == 0 {
		var err error
		if image, err = flatten.Size(ctx, rootfs.Layers); err != nil {
			return 0, err
		}
		d.mu.Lock()
		d.sizes[spec.Image] = image
		d.mu.Unlock()
	}
	return image + size, nil
}

// storageOptions is what an engine is told of the size of a root.
func storageOptions(bytes int64) map[string]string {
	if bytes == 0 {
		return nil
	}
	return map[string]string{sizeOption: strconv.FormatInt(bytes, 10)}
}
