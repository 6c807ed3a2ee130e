package linux

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/inspect"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// Inspect looks at all that the driver of a data directory has on this host, by
// Options.DataDir, Node and LeaseDir alone. It changes nothing and takes nothing, so it
// may run beside the daemon, whose process is given; 0 is none. What is just
// being made or removed then looks like a difference: look twice.
func Inspect(opts Options, daemon int) (runtime.Inspection, error) {
	d := &Driver{opts: opts, sandboxes: filepath.Join(opts.DataDir, "sandboxes")}
	d.opts.Node = cmp.Or(opts.Node, nodeOfPath(opts.DataDir))
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return runtime.Inspection{}, err
	}
	if d.bootID, err = readBootID(); err != nil {
		return runtime.Inspection{}, err
	}
	if d.cgroups, err = cgroup.Look(string(mountinfo), groupsOf(d.opts.Node)); err != nil {
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
	s, err := inspect.Look(d.cgroups, d.opts.Node, d.opts.DataDir, d.leaseDir(), daemon)
	if err != nil {
		return s, err
	}
	names, err := inspect.Names(d.sandboxes) // last: what is made meanwhile has a record
	for _, id := range names {
		b, badly := d.record(runtime.ID(id))
		err = errors.Join(err, badly)
		s.Sandboxes = append(s.Sandboxes, b)
	}
	return s, errors.Join(err, d.examineGroups(&s))
}

// examineGroups compares the control groups with what their sandboxes are to have.
func (d *Driver) examineGroups(s *inspect.Scene) error {
	var errs []error
	for i := range s.Groups {
		g := &s.Groups[i]
		at := slices.IndexFunc(s.Sandboxes, func(b inspect.Sandbox) bool { return b.Alive && b.Group == g.Name })
		if at < 0 {
			continue // it is a stray, or is being made
		}
		b := s.Sandboxes[at]
		var err error
		g.Changed, err = d.cgroups.Group(b.Group).Deviations(groupLimits(b.Spec.Limits))
		errs = append(errs, err)
		g.Foreign = inspect.Foreign("/proc", g.PIDs, b.IDs, ids.Size)
	}
	return errors.Join(errs...)
}

// record is what a sandbox's directory says of it.
func (d *Driver) record(id runtime.ID) (inspect.Sandbox, error) {
	s, err := d.readState(id)
	none := errors.Is(err, fs.ErrNotExist)
	b := inspect.Sandbox{ID: id, Group: s.groupName(), DiskPath: filepath.Join(d.dir(id), diskFile), Claimed: none, Unknown: err != nil && !none}
	if err == nil {
		b.Made, b.Spec = s.CreatedAt, s.Spec
		b.IDs, b.Runner = int(s.IDs), inspect.Process{PID: s.Process.PID, Start: s.Process.StartTime}
		b.Alive, b.Kept = s.Process.alive(d.bootID), s.kept(d.bootID)
		b.CutOff = b.Alive && !d.reachable(id)
	}
	// Of one in the pool it is the link.
	b.Disk, err = inspect.FileOf(b.DiskPath)
	return b, err
}

// endStrays ends the runners that no sandbox has, detaches the loop devices that
// nothing should use, and gives sandboxes back what they were made with. The
// runners that process daemon has made are no strays.
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
	for _, l := range s.TwinLoops() { // in vain for the one that is mounted
		d.opts.Log.WarnContext(ctx, "detach one of two loop devices on a file, unless it is in use", "device", l.Number, "file", l.Path)
		errs = append(errs, disk.Detach(disk.Loop{Number: l.Number, Device: l.File.Device, Inode: l.File.Inode}))
	}
	return errors.Join(append(errs, d.mendSandboxes(ctx, s))...)
}

// mendSandboxes repairs what somebody on the host has done to living sandboxes.
func (d *Driver) mendSandboxes(ctx context.Context, s inspect.Scene) error {
	var errs []error
	owners := map[string]inspect.Sandbox{}
	for _, b := range s.Sandboxes {
		owners[b.Group] = b
	}
	for _, g := range s.Groups {
		if len(g.Changed) > 0 {
			d.opts.Log.WarnContext(ctx, "set the limits of a sandbox again", "group", g.Name, "found", g.Changed)
			errs = append(errs, d.cgroups.Group(g.Name).Limit(groupLimits(owners[g.Name].Spec.Limits)))
		}
		for _, pid := range g.Foreign {
			d.opts.Log.WarnContext(ctx, "move a process of the host out of a sandbox's control group", "group", g.Name, "process", pid)
			errs = append(errs, d.cgroups.Expel(pid))
		}
	}
	return errors.Join(errs...)
}

// resumeRunner lets a runner go on that a signal has stopped: nothing else would,
// and its session could not be used.
func (d *Driver) resumeRunner(id runtime.ID, p process) {
	pidfd, err := p.pidfd(d.bootID)
	if err != nil || pidfd < 0 {
		return // it has ended meanwhile
	}
	defer sys.Close(pidfd)
	d.opts.Log.Warn("let a runner go on that a signal had stopped", "sandbox", id, "process", p.PID)
	if err := unix.PidfdSendSignal(pidfd, unix.SIGCONT, nil, 0); err != nil {
		d.opts.Log.Error("let a stopped runner go on", "sandbox", id, "err", err)
	}
}
