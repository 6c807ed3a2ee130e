package linux

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/inspect"
)

// Inspect looks at all that the driver of a data directory has on this host, by
// Options.DataDir and RunDir alone. It changes nothing and takes nothing, so it
// may run beside the daemon, whose process is given; 0 is none. What is just
// being made or removed then looks like a difference: look twice.
func Inspect(opts Options, daemon int) (runtime.Inspection, error) {
	d := &Driver{opts: opts, sandboxes: filepath.Join(opts.DataDir, "sandboxes")}
	d.opts.RunDir = cmp.Or(opts.RunDir, defaultRunDir)
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return runtime.Inspection{}, err
	}
	if d.bootID, err = readBootID(); err != nil {
		return runtime.Inspection{}, err
	}
	if d.cgroups, err = cgroup.Look(string(mountinfo), "sandkasten/"+nodeName(opts.DataDir)); err != nil {
		return runtime.Inspection{}, err
	}
	s, err := d.scene(daemon)
	if err != nil {
		return runtime.Inspection{}, err
	}
	s.Mounts = inspect.MountsBelow(string(mountinfo), opts.DataDir, s.Loops)
	return s.Inspection(), nil
}

// scene is all that there is now.
func (d *Driver) scene(daemon int) (inspect.Scene, error) {
	s, err := inspect.Look(d.cgroups, d.opts.DataDir, filepath.Join(d.opts.RunDir, "ids"), daemon)
	if err != nil {
		return s, err
	}
	names, err := inspect.Names(d.sandboxes) // last: what is made meanwhile has a record
	for _, id := range names {
		b, badly := d.record(runtime.ID(id))
		err = errors.Join(err, badly)
		s.Sandboxes = append(s.Sandboxes, b)
	}
	return s, err
}

// record is what a sandbox's directory says of it.
func (d *Driver) record(id runtime.ID) (inspect.Sandbox, error) {
	s, err := d.readState(id)
	none := errors.Is(err, fs.ErrNotExist)
	b := inspect.Sandbox{ID: id, Group: s.groupName(), DiskPath: filepath.Join(d.dir(id), diskFile), Claimed: none, Unknown: err != nil && !none}
	if err == nil {
		b.Made, b.Spec = s.CreatedAt, s.Spec
		b.IDs, b.Runner = int(s.IDs), inspect.Process{PID: s.Process.PID, Start: s.Process.StartTime}
		b.Alive, b.Kept = s.Process.alive(d.bootID), s.Stopped || s.Durable
	}
	// Of one in the pool it is the link.
	b.Disk, err = inspect.FileOf(b.DiskPath)
	return b, err
}

// endStrays ends the runners that no sandbox has, and detaches the loop devices
// that nothing should use. The runners that process daemon has made are no strays.
func (d *Driver) endStrays(ctx context.Context, daemon int) error {
	s, err := d.scene(daemon)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	var errs []error
	for _, p := range s.StrayRunners() {
		d.opts.Log.WarnContext(ctx, "end a runner that no sandbox has", "process", p.PID)
		errs = append(errs, d.endRunner(ctx, process{BootID: d.bootID, PID: p.PID, StartTime: p.Start}))
	}
	for _, l := range s.StrayLoops() {
		d.opts.Log.WarnContext(ctx, "detach a loop device that nothing should use", "device", l.Number, "file", l.Path)
		errs = append(errs, disk.Detach(disk.Loop{Number: l.Number, Device: l.File.Device, Inode: l.File.Inode}))
	}
	return errors.Join(errs...)
}
