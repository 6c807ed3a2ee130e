package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

const (
	// forkParallel is how many forks are started at once.
	forkParallel = 4
	// forkTime bounds one step that copies what a sandbox has.
	forkTime = 15 * time.Minute
)

// Fork implements runtime.Forker. An image is committed of the root, which the
// forks share. It goes with the last of them. The workspace is copied, by a
// container of our own program. Programs stand still for the image and the first
// copy, of which the others are made. What is written through the API meanwhile
// may be in the one and not in the other.
//
// The way back is Destroy of each fork; a crash leaves the source paused, which
// Resume ends, and perhaps an image without a fork, which Sweep removes.
func (d *Driver) Fork(ctx context.Context, from runtime.ID, branches []runtime.Branch, spec runtime.Spec) (runtime.Forks, error) {
	f, err := d.forkable(ctx, from, branches, spec)
	if err != nil || len(branches) == 0 {
		return runtime.Forks{}, err
	}
	made, err := f.run(ctx, branches)
	if err != nil {
		return runtime.Forks{}, errors.Join(err, f.undo(ctx))
	}
	return runtime.Forks{Sandboxes: made, Copied: f.workspace != ""}, nil
}

// forking is one Fork under way.
type forking struct {
	d         *Driver
	from      runtime.ID
	running   bool
	plan      creation // of all forks
	workspace string   // the volume of the source's own, or ""
	base      string   // the engine's name of the image of the source
	made      []creation
}

// forkable finds the source, and completes the spec with what is its.
func (d *Driver) forkable(ctx context.Context, from runtime.ID, branches []runtime.Branch, spec runtime.Spec) (*forking, error) {
	for _, b := range branches {
		if err := guest.CheckSpec(b.ID, spec); err != nil {
			return nil, err
		}
	}
	if err := d.checkNetwork(spec); err != nil {
		return nil, err
	}
	got, err := d.inspect(ctx, from)
	if err != nil {
		return nil, err
	}
	if got.State.Status == container.StateCreated {
		return nil, d.notRunning(from) // it never has
	}
	if isInMemory(got) {
		return nil, errdefs.New(errdefs.Unimplemented, "the workspace of sandbox %s is in memory and cannot be forked: take a snapshot, and create sessions with that", from)
	}
	readonly := got.HostConfig.ReadonlyRootfs
	disk, asked := d.limits(got).DiskMB, spec.Limits.DiskMB
	if !d.LimitsDisk(readonly) {
		asked = 0
	}
	switch {
	case spec.Image != got.Config.Labels[labelImage]:
		return nil, errdefs.Invalid("image", "must be that of the sandbox that is forked")
	case cmp.Or(asked, disk) != disk:
		return nil, errdefs.Invalid("disk_limit_mb", "must be that of the sandbox that is forked")
	}
	spec.ReadonlyRoot = readonly
	spec.Limits = spec.Limits.Or(d.opts.Defaults)
	spec.Limits.DiskMB = disk
	f := &forking{d: d, from: from, running: got.State.Running, plan: creation{spec: spec}}
	boot, err := bootOf(got.Config)
	if err != nil {
		return nil, fmt.Errorf("read how sandbox %s was made: %w", from, err)
	}
	if f.plan.rootfs, err = d.opts.Images.Rootfs(ctx, spec.Image); err != nil {
		return nil, err
	}
	if f.base, err = d.provideImage(ctx, spec.Image, f.plan.rootfs); err != nil {
		return nil, err
	}
	if f.plan.size, err = d.diskBytes(ctx, spec, f.plan.rootfs); err != nil {
		return nil, err
	}
	if spec.Env == nil { // the source's: the image's and its session's
		f.plan.rootfs.Env = boot.Env.Vars()
		if f.plan.spec.Env, err = d.claimedEnv(ctx, from, got.Config); err != nil {
			return nil, err
		}
	}
	// With the volume, and so the runner, that the source has, for the time at which
	// its list of the image was written: all changes are later.
	f.plan.baseline = boot.Baseline
	f.plan.user, f.plan.userLabel = boot.User, got.Config.Labels[labelUser] // whose the files are
	for _, m := range got.Mounts {
		switch {
		case m.Destination == programDir:
			f.plan.volume = m.Name
		case m.Destination == guest.Workspace && spec.Workspace == "":
			f.workspace, f.plan.apart = m.Name, true
		}
	}
	return f, nil
}

// bootOf is what the runner of a container is told.
func bootOf(config *container.Config) (boot stage.ContainerBoot, err error) {
	for _, v := range config.Env {
		if text, ok := strings.CutPrefix(v, stage.ContainerBootVar+"="); ok {
			return boot, json.Unmarshal([]byte(text), &boot)
		}
	}
	return boot, errors.New("the container is not one of ours")
}

func (f *forking) run(ctx context.Context, branches []runtime.Branch) ([]runtime.Sandbox, error) {
	if err := f.takeMoment(ctx, branches[0]); err != nil {
		return nil, err
	}
	for _, b := range branches[1:] {
		if err := f.create(ctx, b); err != nil {
			return nil, err
		}
	}
	if err := f.copyFirst(ctx); err != nil {
		return nil, err
	}
	if err := failpoint.Hit("docker.fork.copied"); err != nil {
		return nil, err
	}
	made := make([]runtime.Sandbox, len(f.made))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(forkParallel)
	for i, c := range f.made {
		all.Go(func() error {
			made[i] = &sandbox{d: f.d, id: c.id, limits: c.spec.Limits}
			return f.d.boot(ctx, c.id)
		})
	}
	return made, errors.Join(all.Wait(), failpoint.Hit("docker.fork.ready"))
}

// takeMoment makes the image, and a container for the first fork with a copy of
// the workspace, as both are at one moment.
func (f *forking) takeMoment(ctx context.Context, first runtime.Branch) (err error) {
	thaw, err := f.still(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, thaw()) }()
	if err := failpoint.Hit("docker.fork.still"); err != nil {
		return err
	}
	if err := f.commit(ctx); err != nil {
		return err
	}
	if err := failpoint.Hit("docker.fork.committed"); err != nil {
		return err
	}
	if err := f.create(ctx, first); err != nil {
		return err
	}
	if err := failpoint.Hit("docker.fork.created"); err != nil || f.workspace == "" {
		return err
	}
	to, err := f.workspaceOf(ctx, f.made[0].id)
	if err != nil {
		return err
	}
	return f.copyVolumes(ctx, f.workspace, []string{to})
}

// still stops the source's programs, unless they stand still already.
func (f *forking) still(ctx context.Context) (thaw func() error, err error) {
	source := &sandbox{d: f.d, id: f.from}
	paused := !f.running
	if f.running {
		if paused, err = source.Paused(); err != nil {
			return nil, err
		}
	}
	if paused {
		return func() error { return nil }, nil
	}
	if err := source.Pause(ctx); err != nil {
		return nil, errdefs.Wrap(err, errdefs.Unavailable, "the programs of sandbox %s cannot be made to stand still now; try again", f.from)
	}
	return func() error {
		ctx, cancel := callContext(ctx)
		defer cancel()
		return source.Resume(ctx)
	}, nil
}

// commit makes the image that the forks share. What is the source's own of its
// configuration is not to be found there.
func (f *forking) commit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forkTime)
	defer cancel()
	name := "sandkasten-" + f.d.opts.Node + "-fork:" + strings.ToLower(rand.Text())
	_, err := f.d.engine.ContainerCommit(ctx, f.d.container(f.from), client.ContainerCommitOptions{
		Reference: name,
		NoPause:   true, // which would hold up the runner, too
		Config: &container.Config{
			Env: []string{stage.ContainerBootVar + "="},
			Labels: map[string]string{
				labelNode: f.d.opts.Node, labelFork: name, labelSandbox: "", labelTry: "", labelLimits: "", labelSeccomp: "",
			},
		},
	})
	if err != nil {
		return fmt.Errorf("commit sandbox %s: %w", f.from, f.d.classify(err, f.from))
	}
	f.plan.image, f.plan.fork = name, name
	return nil
}

// create makes the container of one fork, which is the claim to its id.
func (f *forking) create(ctx context.Context, b runtime.Branch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := f.plan
	c.id, c.try, c.spec.Hostname = b.ID, strings.ToLower(rand.Text()), b.Hostname
	options, err := f.d.plan(c)
	if err != nil {
		return err
	}
	err = f.d.createContainer(ctx, options)
	if !errdefs.Is(err, errdefs.AlreadyExists) { // somebody else's
		f.made = append(f.made, c)
	}
	return err
}

// copyFirst copies the workspace of the first fork to those of the others.
func (f *forking) copyFirst(ctx context.Context) error {
	if f.workspace == "" || len(f.made) == 1 {
		return nil
	}
	var volumes []string
	for _, c := range f.made {
		volume, err := f.workspaceOf(ctx, c.id)
		if err != nil {
			return err
		}
		volumes = append(volumes, volume)
	}
	return f.copyVolumes(ctx, volumes[0], volumes[1:])
}

// workspaceOf is the volume that the engine has made for a sandbox's own.
func (f *forking) workspaceOf(ctx context.Context, id runtime.ID) (string, error) {
	got, err := f.d.inspect(ctx, id)
	if err != nil {
		return "", err
	}
	for _, m := range got.Mounts {
		if m.Destination == guest.Workspace {
			return m.Name, nil
		}
	}
	return "", fmt.Errorf("sandbox %s has no workspace", id)
}

// copyVolumes copies what is in one volume to others. What is in it is hostile:
// it is read by our own program, in a container that has nothing else and is as
// bounded as a sandbox.
func (f *forking) copyVolumes(ctx context.Context, from string, to []string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, forkTime)
	defer cancel()
	const top = "/.sandkasten-copy/"
	host := f.d.planHost(creation{
		spec:   runtime.Spec{ReadonlyRoot: true, Limits: runtime.Limits{CPU: f.plan.spec.Limits.CPU, MemoryMB: copyMemoryMB, Pids: 1}},
		volume: f.plan.volume,
	}, f.d.profiles[runtime.SeccompStrict])
	volume := func(name, target string) mount.Mount {
		return mount.Mount{Type: mount.TypeVolume, Source: name, Target: target, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}
	}
	source := volume(from, top+"from")
	source.ReadOnly = true
	host.Tmpfs = nil
	host.Mounts = append(host.Mounts[:1], source) // the first has the program
	command := []string{stage.CopyCommand, source.Target}
	for i, name := range to {
		target := volume(name, fmt.Sprintf("%sto-%d", top, i))
		host.Mounts, command = append(host.Mounts, target), append(command, target.Target)
	}
	err = f.d.runHelper(ctx, client.ContainerCreateOptions{
		Name:       f.d.helperName(),
		HostConfig: host,
		Config: &container.Config{
			Image: f.base, User: "0:0", WorkingDir: "/", Entrypoint: []string{program}, Cmd: command,
			Labels: map[string]string{labelNode: f.d.opts.Node, labelProgram: "1"},
		},
	})
	if err != nil {
		return fmt.Errorf("copy the workspace of sandbox %s: %w", f.from, f.d.classify(err, f.from))
	}
	return nil
}

// copyMemoryMB is for the program's buffers and what the kernel keeps of files.
const copyMemoryMB = 128

// undo removes what was made of the forks.
func (f *forking) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	var errs []error
	for _, c := range f.made {
		errs = append(errs, f.d.undo(ctx, c))
	}
	return errors.Join(append(errs, f.d.dropForkImage(ctx, f.plan.fork))...)
}

// dropForkImage removes an image that forks are made of, unless one still is.
// Below it may be those that the source was a fork of.
func (d *Driver) dropForkImage(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	return d.removeImage(ctx, name, client.ImageRemoveOptions{PruneChildren: true})
}

// sweepForks removes the images whose forks are all gone.
func (d *Driver) sweepForks(ctx context.Context) error {
	all, err := d.engine.ImageList(ctx, client.ImageListOptions{Filters: d.own(labelFork)})
	if err != nil {
		return d.unavailable(err)
	}
	var errs []error
	for _, image := range all.Items {
		if image.Labels[labelFork] != "" {
			errs = append(errs, d.dropForkImage(ctx, image.ID))
		}
	}
	return errors.Join(errs...)
}
