package linux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

var _ runtime.Forker = (*Driver)(nil)

// forkParallel is how many forks are booted at once: as many as there are
// runners ready for it.
const forkParallel = readyRunners

// Fork copies a sandbox's disk once for each of ids, and boots them as Create
// would. Only the first copy is of a disk that is in use, and only for that the
// programs stand still. What it leaves on the host is named by ids, so the way
// back is Destroy of each; a crash leaves the source frozen, which Resume ends.
func (d *Driver) Fork(ctx context.Context, from runtime.ID, branches []runtime.Branch, spec runtime.Spec) (runtime.Forks, error) {
	s, rootfs, err := d.forkable(ctx, from, branches, &spec)
	if err != nil {
		return runtime.Forks{}, err
	}
	f := &forking{d: d, from: s, spec: spec, rootfs: rootfs}
	made, err := f.run(ctx, branches)
	if err != nil {
		return runtime.Forks{}, errors.Join(classify(err), f.undo(ctx))
	}
	return runtime.Forks{Sandboxes: made, Copied: f.copied}, nil
}

// forkable finds the source and completes the spec with what is its.
func (d *Driver) forkable(ctx context.Context, from runtime.ID, branches []runtime.Branch, spec *runtime.Spec) (*state, Rootfs, error) {
	for _, b := range branches {
		if err := guest.CheckSpec(b.ID, *spec); err != nil {
			return nil, Rootfs{}, err
		}
	}
	s, err := d.known(from)
	if err != nil {
		return nil, Rootfs{}, err
	}
	if !s.Stopped && !s.Process.alive(d.bootID) {
		return nil, Rootfs{}, errdefs.New(errdefs.NotFound, "sandbox %s is not running", from)
	}
	spec.Limits.DiskMB = cmp.Or(spec.Limits.DiskMB, s.Spec.Limits.DiskMB)
	switch {
	case spec.Image != s.Spec.Image:
		return nil, Rootfs{}, errdefs.Invalid("image", "must be that of the sandbox that is forked")
	case spec.Limits.DiskMB != s.Spec.Limits.DiskMB:
		return nil, Rootfs{}, errdefs.Invalid("disk_limit_mb", "must be that of the sandbox that is forked")
	}
	spec.ReadonlyRoot = s.Spec.ReadonlyRoot
	if spec.Env == nil {
		spec.Env = s.Spec.Env
	}
	spec.Limits = spec.Limits.Or(d.opts.Defaults)
	rootfs, err := d.opts.Images.Rootfs(ctx, spec.Image)
	return s, rootfs, err
}

// forking is one Fork under way.
type forking struct {
	d       *Driver
	from    *state
	spec    runtime.Spec
	rootfs  Rootfs
	claimed []runtime.ID // ours to destroy
	copied  bool
}

func (f *forking) run(ctx context.Context, branches []runtime.Branch) ([]runtime.Sandbox, error) {
	for _, b := range branches {
		if err := f.d.claim(b.ID); err != nil {
			return nil, err // somebody else's
		}
		f.claimed = append(f.claimed, b.ID)
	}
	if err := f.copyDisks(ctx); err != nil {
		return nil, fmt.Errorf("copy the disk of sandbox %s: %w", f.from.ID, err)
	}
	made := make([]runtime.Sandbox, len(branches))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(forkParallel)
	for i, b := range branches {
		all.Go(func() (err error) {
			made[i], err = f.boot(ctx, b)
			return err
		})
	}
	return made, all.Wait()
}

// copyDisks gives every fork its disk: the first as it is at one moment, and
// the others as copies of that.
func (f *forking) copyDisks(ctx context.Context) error {
	if len(f.claimed) == 0 {
		return nil
	}
	first, err := f.d.placeDisk(f.claimed[0])
	if err != nil {
		return err
	}
	if err := f.room(0)(forkBytes); err != nil {
		return err
	}
	if err := f.takeMoment(ctx, first); err != nil {
		return err
	}
	for i, id := range f.claimed {
		if i > 0 {
			path, err := f.d.placeDisk(id)
			if err != nil {
				return err
			}
			if _, err := disk.Clone(ctx, first, path, f.room(i)); err != nil {
				return err
			}
		}
		if f.from.Durable {
			if err := f.d.syncImage(id); err != nil {
				return err
			}
		}
	}
	return failpoint.Hit("linux.fork.disks")
}

// forkBytes is what a fork takes that shares its data, until it is used.
const forkBytes = 1 << 20

// room refuses to fill what disks are in with copies of so many bytes each,
// after the first made of the forks have theirs.
func (f *forking) room(made int) disk.Room {
	return func(bytes int64) error {
		n := int64(len(f.claimed) - made)
		left, err := f.d.diskSpace()
		if err != nil {
			return err
		}
		if reserve := f.d.opts.ReserveMB << 20; n*bytes > left-reserve {
			return errdefs.New(errdefs.InsufficientSpace,
				"%d more forks take %d MiB; there are %d left for disks, and admission.disk_reserve_mb keeps %d free; destroy sessions, fork fewer at once, or have the operator set disk.pool_mb, with which forks share what they have",
				n, n*bytes>>20, left>>20, reserve>>20)
		}
		return nil
	}
}

// takeMoment copies the source's disk to path, as it is at one moment.
func (f *forking) takeMoment(ctx context.Context, path string) (err error) {
	from := f.d.diskPath(f.from.ID)
	if f.from.Stopped {
		f.copied, err = disk.Clone(ctx, from, path, f.room(0))
		return err
	}
	fd := f.d.openDisk(f.from.ID, f.from)
	if fd < 0 {
		return errdefs.New(errdefs.Unavailable, "sandbox %s has just ended, or its disk cannot be reached; try again", f.from.ID)
	}
	defer sys.Close(fd)
	// Most of what is to be written out is so before anybody has to wait.
	if err := syncDisk(f.from.ID, fd); err != nil {
		return err
	}
	thaw, err := f.freeze(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, thaw()) }()
	if err := failpoint.Hit("linux.fork.frozen"); err != nil {
		return err
	}
	f.copied, err = disk.Snapshot(ctx, fd, from, path, f.room(0))
	if errors.Is(err, disk.ErrBusy) {
		return errdefs.Wrap(err, errdefs.Unavailable, "the session's files are being written through the API without a pause; try again when that is done")
	}
	return errors.Join(err, failpoint.Hit("linux.fork.copied"))
}

// freeze stops the source's programs unless they stand still already.
func (f *forking) freeze(ctx context.Context) (thaw func() error, err error) {
	group := f.d.group(f.from)
	paused, err := group.Freezing()
	if err != nil || paused {
		return func() error { return nil }, err
	}
	if err := freeze(ctx, group); err != nil {
		return nil, err
	}
	return func() error { return group.Freeze(false) }, nil
}

// boot starts one fork on its disk.
func (f *forking) boot(ctx context.Context, b runtime.Branch) (runtime.Sandbox, error) {
	spec := f.spec
	spec.Hostname = b.Hostname
	c := &creation{
		d: f.d, name: "fork", spec: spec, rootfs: f.rootfs, first: true,
		state: state{ID: b.ID, Node: f.d.opts.Node, Group: string(b.ID), Spec: spec, CreatedAt: time.Now().UTC(), Durable: f.from.Durable},
		group: f.d.cgroups.Group(string(b.ID)),
		disk:  keptDisk, named: hostnameOf(f.from.Spec),
	}
	if err := c.run(ctx); err != nil {
		return nil, errors.Join(err, c.abandon())
	}
	c.close()
	return &sandbox{d: f.d, state: c.state}, nil
}

// undo removes what was made of the forks.
func (f *forking) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
	defer cancel()
	var errs []error
	for _, id := range f.claimed {
		errs = append(errs, f.d.Destroy(ctx, id))
	}
	return errors.Join(errs...)
}
