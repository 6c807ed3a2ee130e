package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/admission/fairqueue"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// Create builds a sandbox. What its steps leave on the host is named by the ID
// or the state file before it is made, or ends with us (prepared), and the way
// back from any of them is Destroy.
func (d *Driver) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	if err := guest.CheckSpec(id, spec); err != nil {
		return nil, err
	}
	if spec.Network.Mode == runtime.NetworkEngine {
		return nil, errdefs.New(errdefs.Unimplemented, "the native driver has no engine whose network a sandbox could have")
	}
	rootfs, err := d.opts.Images.Rootfs(ctx, spec.Image)
	if err != nil {
		return nil, err
	}
	spec.Limits = spec.Limits.Or(d.opts.Defaults)
	if err := d.claim(id); err != nil {
		return nil, err // somebody else's: not ours to destroy
	}
	c := &creation{
		d: d, name: "create", spec: spec, rootfs: rootfs,
		state: state{ID: id, Node: d.opts.Node, Group: string(id), Spec: spec, CreatedAt: time.Now().UTC(), Durable: d.opts.Durable},
		group: d.cgroups.Group(string(id)),
		disk:  newDisk, named: disk.DefaultHostname, first: true,
	}
	if err := c.run(ctx); err != nil {
		return nil, errors.Join(classify(err), c.undo(ctx, d.Destroy))
	}
	c.close()
	return &sandbox{d: d, state: c.state}, nil
}

// undo is the way back from any step: the one that everybody takes.
func (c *creation) undo(ctx context.Context, back func(context.Context, runtime.ID) error) error {
	unused := c.abandon()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
	defer cancel()
	return errors.Join(unused, back(ctx, c.state.ID))
}

// abandon is the part of the way back that no later daemon could take.
func (c *creation) abandon() (err error) {
	if c.runner != nil && c.state.Process.PID == 0 {
		err, c.runner = c.runner.discard(), nil // not the sandbox's yet
	}
	c.close()
	return err
}

// classify gives the errors that a client can do something about their code.
func classify(err error) error {
	if none, ok := errors.AsType[*ids.ExhaustedError](err); ok {
		return errNoIDs(none, err)
	}
	switch {
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		return errdefs.Wrap(err, errdefs.InsufficientSpace, "the host has no space left; remove sessions, workspaces or images")
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EIO):
		return errdefs.Wrap(err, errdefs.Unavailable, "the host cannot hold another sandbox now; try again later")
	}
	return err
}

// creation is one Create or Start under way: what its steps hand on, and
// descriptors that are closed at its end, whether it succeeds or not.
type creation struct {
	d      *Driver
	name   string // of its failpoints: create, start or fork
	spec   runtime.Spec
	rootfs Rootfs
	group  cgroup.Group
	named  string                                        // the hostname that the disk's /etc has
	first  bool                                          // it has no machine id of its own yet
	quiet  bool                                          // see StartQuiet
	disk   func(context.Context, *creation) (int, error) // opens the disk's mount, which is closed at the end

	state    state
	runner   *prepared
	listener int
	opened   []int
}

// close closes what only the creation needed.
func (c *creation) close() {
	sys.Close(c.opened...)
	if c.runner != nil {
		c.runner.close()
	}
}

// own notes fds to be closed at the end.
func (c *creation) own(fds ...int) { c.opened = append(c.opened, fds...) }

// newBoots returns the queue for sandboxes that are made. Each keeps a processor busy until
// it is ready, so more at once would make all of them later. The last place is never of the
// owner who has the others: another's first is made at once, and one whose shell never
// becomes ready holds nobody else up.
func newBoots(processors int) *fairqueue.Queue { return fairqueue.New(processors+1, processors) }

// run takes the steps in order, when it is the owner's turn. The crash tests stop the daemon
// after each.
func (c *creation) run(ctx context.Context) error {
	defer c.d.restock()
	if err := c.d.boots.Enter(ctx, c.spec.Owner); err != nil {
		return err
	}
	defer c.d.boots.Leave(c.spec.Owner)
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"claimed", func(context.Context) error { return nil }},
		{"prepared", c.takeRunner},
		{"state", c.writeState},
		{"cgroups", c.makeGroup},
		{"socket", c.listen},
		{"booted", c.sendBoot},
		{"ready", c.awaitReady},
	} {
		if err := errors.Join(step.do(ctx), failpoint.Hit("linux."+c.name+"."+step.name)); err != nil {
			return fmt.Errorf("sandbox %s, step %q: %w", c.state.ID, step.name, err)
		}
	}
	return nil
}

func (c *creation) takeRunner(ctx context.Context) (err error) {
	c.runner, err = c.d.take(ctx)
	return err
}

// writeState makes the runner the sandbox's: from here on Destroy ends it.
func (c *creation) writeState(context.Context) error {
	s := c.state
	s.IDs, s.Process, s.Stopped = c.runner.ids, c.runner.process, false
	if err := c.d.writeState(s); err != nil {
		return err
	}
	c.state = s
	return nil
}

func (c *creation) makeGroup(context.Context) error {
	// What the runner acts as on files: the sandbox's root, who has no way to this one.
	return c.group.Create(groupLimits(c.spec.Limits), int(c.state.IDs))
}

func groupLimits(l runtime.Limits) cgroup.Limits {
	return cgroup.Limits{
		Memory: protection.Wider(protection.MemoryLimit, l.MemoryMB<<20, 8), CPU: protection.Wider(protection.CPULimit, l.CPU, 4), Pids: protection.Wider(protection.PidsLimit, l.Pids, 4),
	}
}

// newDisk gives the prepared disk its name, or makes one of another size.
func newDisk(ctx context.Context, c *creation) (int, error) {
	if c.spec.Limits.DiskMB != c.d.opts.Defaults.DiskMB {
		made, err := c.d.disks.Make(ctx, c.spec.Limits.DiskMB<<20)
		if err != nil {
			return -1, err
		}
		c.runner.disk.Close()
		c.runner.disk = made
	}
	path, err := c.d.placeDisk(c.state.ID)
	if err != nil {
		return -1, err
	}
	if err := c.runner.disk.Keep(path); err != nil || !c.state.Durable {
		return c.runner.disk.Mount, err
	}
	return c.runner.disk.Mount, c.d.syncImage(c.state.ID)
}

// workspace mounts the workspace, with the ids that this sandbox knows.
func (c *creation) workspace(ctx context.Context, userns int) (int, error) {
	volume, err := c.d.attachWorkspace(ctx, c.spec.Workspace)
	if err != nil {
		return -1, err
	}
	c.own(volume)
	return volume, errors.Join(
		idmap(volume, userns, 0),
		c.runner.disk.Note(c.d.diskPath(c.state.ID)), // for openDisk
		failpoint.Hit("linux."+c.name+".attached"),
	)
}

// awaitReady makes the first connection meanwhile. The runner accepts it as
// soon as it is ready.
func (c *creation) awaitReady(ctx context.Context) error {
	conn, err := c.d.dial(ctx, c.state.ID)
	if err != nil {
		return err
	}
	if err := stage.AwaitReady(c.runner.control); err != nil {
		return errors.Join(err, conn.Close())
	}
	c.d.parked.put(c.state.ID, conn)
	c.d.views.track(&c.state, c.group, time.Now())
	return nil
}

// listen makes the socket that operations come in by. The path is in a
// directory that only root can reach; the sandbox gets the descriptor alone.
func (c *creation) listen(context.Context) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	c.own(fd)
	c.listener = fd
	addr, done, err := c.d.socketAddr(c.state.ID)
	if err != nil {
		return err
	}
	defer done()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: addr}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	return os.NewSyscallError("listen", unix.Listen(fd, 128))
}

// sendBoot makes what only the host's root can make, and sends it inside.
func (c *creation) sendBoot(ctx context.Context) error {
	userns, err := openUserNS(c.state.Process.PID)
	if err != nil {
		return err
	}
	c.own(userns)
	fds := make([]int, 0, len(c.rootfs.Layers)+10)
	for _, dir := range c.rootfs.Layers {
		fd, err := sys.OpenTree(unix.AT_FDCWD, dir)
		if err != nil {
			return fmt.Errorf("layer %s: %w", dir, err)
		}
		c.own(fd)
		if err := idmap(fd, userns, unix.MOUNT_ATTR_RDONLY); err != nil {
			return fmt.Errorf("layer %s: %w", dir, err)
		}
		fds = append(fds, fd)
	}
	disk, err := c.disk(ctx, c)
	if err != nil {
		return fmt.Errorf("disk: %w", err)
	}
	if err := errors.Join(idmap(disk, userns, 0), failpoint.Hit("linux."+c.name+".disk")); err != nil {
		return fmt.Errorf("disk: %w", err)
	}
	if err := c.fillFacade(); err != nil {
		return fmt.Errorf("files for /proc: %w", err)
	}
	fds = append(fds, disk, c.runner.facade)
	if c.spec.Workspace != "" {
		volume, err := c.workspace(ctx, userns)
		if err != nil {
			return fmt.Errorf("workspace: %w", err)
		}
		fds = append(fds, volume)
	}
	dir, tasks, err := c.group.Workload()
	if err != nil {
		return err
	}
	c.own(append(tasks, dir)...)
	oom, err := c.group.OOMEvents()
	if err != nil {
		return err
	}
	c.own(oom)
	fds = append(append(fds, c.listener, oom, dir), tasks...)
	return stage.Send(c.runner.control, c.boot(len(tasks)), fds)
}

// place chooses the processors that the sandbox begins on; none is all.
func (c *creation) place() []int {
	set := c.d.views.place(c.spec.Limits)
	return slices.DeleteFunc(slices.Clone(c.d.views.host.cpus), func(cpu int) bool { return !set.IsSet(cpu) })
}

// fillFacade writes the files that depend on limits, where these are not the default.
func (c *creation) fillFacade() error {
	was, is := c.d.opts.Defaults, c.spec.Limits
	if was.CPU == is.CPU && was.MemoryMB == is.MemoryMB {
		return nil
	}
	for name, text := range c.d.views.host.blank(is) {
		if err := writeFace(c.runner.facade, name, text); err != nil {
			return err
		}
	}
	return nil
}

func openUserNS(pid int) (int, error) {
	return sys.Open(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/ns/user", unix.O_RDONLY, 0)
}

// idmap shifts the ids of a detached mount into the sandbox's block: what
// belongs to root on disk belongs to the sandbox's root.
func idmap(fd, userns int, attrs uint64) error {
	return sys.MountSetattr(fd, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | writtenInside() | attrs,
		Userns_fd: uint64(userns),
	})
}

// boot is what the runner is told.
func (c *creation) boot(tasks int) *stage.Boot {
	b := &stage.Boot{
		Layers:       len(c.rootfs.Layers),
		Volume:       c.spec.Workspace != "",
		ReadonlyRoot: c.spec.ReadonlyRoot,
		Volatile:     !c.state.Durable,
		Mounts:       planMounts(c.spec),
		Masks:        c.d.masks,
		Faces:        planFaces(),
		Links:        devLinks,
		Hostname:     hostnameOf(c.spec),
		Workspace:    guest.Workspace,
		Env:          stage.NewEnv(guest.Environment(c.rootfs.Env, c.spec.Env, c.rootfs.Shell)),
		Quiet:        c.quiet,
		CPUs:         c.place(),
		TasksFiles:   tasks,
		Landlock:     !protection.Off(protection.Landlock),
		KeepCaps:     protection.Off(protection.Capabilities),
	}
	if b.Hostname != c.named { // else the disk has it, and perhaps the sandbox's own
		b.HostsFile = disk.HostsFile(b.Hostname)
	}
	if c.first {
		b.MachineID = guest.NewMachineID()
	}
	if !protection.Off(protection.Seccomp) {
		f := c.d.filters[c.spec.Seccomp]
		b.RunnerFilter, b.WorkloadFilter, b.NetlinkFilter = f.runner, f.workload, f.netlink
	}
	return b
}
