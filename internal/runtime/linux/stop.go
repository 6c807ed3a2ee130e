package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/durable"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
)

var _ runtime.QuietStarter = (*Driver)(nil)

// Stop ends a sandbox's processes and keeps its disk. Like Destroy it works
// from disk and finishes what a crash has interrupted.
func (d *Driver) Stop(ctx context.Context, id runtime.ID) error {
	s, err := d.known(id)
	if err != nil || s.Stopped {
		return err
	}
	if !s.kept(d.bootID) {
		return errdefs.New(errdefs.NotFound, "the host restarted, and what sandbox %s wrote is lost", id)
	}
	d.parked.drop(id)
	for _, step := range []struct {
		name string
		do   func(context.Context, runtime.ID) error
	}{
		{"killed", func(ctx context.Context, id runtime.ID) error { return d.kill(ctx, id, s, d.lastSync(ctx, s)) }},
		{"cgroups", func(context.Context, runtime.ID) error { return d.removeGroup(s) }},
		{"disk", d.settleDisk},
		{"state", func(context.Context, runtime.ID) error { return d.writeStopped(*s) }},
	} {
		if err := errors.Join(step.do(ctx, id), failpoint.Hit("linux.stop."+step.name)); err != nil {
			return fmt.Errorf("stop sandbox %s, step %q: %w", id, step.name, err)
		}
	}
	d.ids.Free(s.IDs) // once: the state no longer has them
	return nil
}

// known reads the state of a sandbox that Create was through with.
func (d *Driver) known(id runtime.ID) (*state, error) {
	if err := guest.CheckSpec(id, runtime.Spec{}); err != nil {
		return nil, err
	}
	s, err := d.readState(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errdefs.New(errdefs.NotFound, "sandbox %s does not exist", id)
	}
	return s, err
}

// syncDisk writes out what a disk has not written yet. Unmounting would do the
// same and tell nobody of an error.
func syncDisk(_ runtime.ID, diskDir int) error {
	return os.NewSyscallError("syncfs", unix.Syncfs(diskDir))
}

// lastSync is syncDisk at a stop. What a failed disk has not taken is lost whether or not the
// stop is tried again: the rest is kept.
func (d *Driver) lastSync(ctx context.Context, s *state) func(runtime.ID, int) error {
	return func(id runtime.ID, diskDir int) error {
		err := syncDisk(id, diskDir)
		if errors.Is(err, unix.EIO) {
			d.opts.Log.ErrorContext(ctx, "the disk of a sandbox failed: what it had not written is lost, and the rest is kept", "sandbox", id, "err", err)
			s.Failed, err = true, nil
		}
		return err
	}
}

// settleDisk waits until the disk is unmounted and its image written.
func (d *Driver) settleDisk(ctx context.Context, id runtime.ID) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	path := d.diskPath(id)
	unmounted := func() (bool, error) {
		used, err := disk.Attached(path)
		return !used, err
	}
	switch err := awaitDone(ctx, unmounted, "the disk is still being unmounted; it is tried again later"); {
	case errors.Is(err, fs.ErrNotExist):
		return errdefs.Wrap(err, errdefs.NotFound, "sandbox %s has no disk", id) // Create did not come so far
	case err != nil:
		return err
	}
	return durable.Sync(path)
}

// writeStopped is the last step: what is stopped has no process and no ids.
func (d *Driver) writeStopped(s state) error {
	if err := os.Remove(filepath.Join(d.dir(s.ID), socketFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.Process, s.IDs, s.Stopped = process{}, 0, true
	return d.writeState(s)
}

// Start boots a stopped sandbox on the disk that it has, with a runner and ids
// that are new: the disk does not know ids of the host.
func (d *Driver) Start(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	c, err := d.starting(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.start(ctx)
}

// StartQuiet implements runtime.QuietStarter.
func (d *Driver) StartQuiet(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	c, err := d.starting(ctx, id)
	if err != nil {
		return nil, err
	}
	c.quiet = true
	return c.start(ctx)
}

// starting prepares a start.
func (d *Driver) starting(ctx context.Context, id runtime.ID) (*creation, error) {
	s, err := d.known(id)
	if err != nil {
		return nil, err
	}
	if !s.Stopped {
		return nil, errdefs.New(errdefs.Conflict, "sandbox %s is not stopped", id)
	}
	rootfs, err := d.opts.Images.Rootfs(ctx, s.Spec.Image)
	if err != nil {
		return nil, err
	}
	if s.Group == noGroup { // that was another installation's
		s.Group = string(s.ID)
	}
	return &creation{
		d: d, name: "start", spec: s.Spec, rootfs: rootfs, state: *s,
		group: d.group(s),
		disk:  keptDisk, named: hostnameOf(s.Spec),
	}, nil
}

// start takes the steps of a start, or those back.
func (c *creation) start(ctx context.Context) (runtime.Sandbox, error) {
	if err := c.run(ctx); err != nil {
		return nil, errors.Join(classify(err), c.undo(ctx, c.d.Stop))
	}
	c.close()
	return &sandbox{d: c.d, state: c.state}, nil
}

// keptDisk mounts a disk that has been written to before.
func keptDisk(ctx context.Context, c *creation) (int, error) {
	open := c.d.disks.Open
	if c.state.Failed {
		open = c.d.disks.Repair
	}
	kept, err := open(ctx, c.d.diskPath(c.state.ID))
	switch {
	case errors.Is(err, disk.ErrDamaged):
		return -1, errdefs.Wrap(err, errdefs.Unavailable, "the disk of sandbox %s is damaged; the daemon's log tells its operator what to repair", c.state.ID)
	case err != nil:
		return -1, err
	}
	c.runner.disk.Close()
	c.runner.disk, c.state.Failed = kept, false
	return kept.Mount, nil
}
