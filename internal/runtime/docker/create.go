package docker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
)

// callTime bounds one call that changes something in the engine. Such calls
// are not cut off by the caller: the engine would go on with them, and nobody
// would know what it made.
const callTime = time.Minute

// callContext is a context for one of them.
func callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callTime)
}

// Create implements runtime.Driver. The container's name is the claim to the
// id: the engine gives it to one of those who ask at the same time.
func (d *Driver) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	if err := guest.CheckSpec(id, spec); err != nil {
		return nil, err
	}
	if err := d.checkNetwork(spec); err != nil {
		return nil, err
	}
	spec.Limits = d.limitsFor(spec.Limits, spec.ReadonlyRoot)
	c := creation{id: id, try: strings.ToLower(rand.Text()), spec: spec}
	if err := d.provide(ctx, &c); err != nil {
		return nil, err
	}
	options, err := d.plan(c)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = d.createContainer(ctx, options)
	if errdefs.Is(err, errdefs.AlreadyExists) {
		return nil, err // somebody else's: not ours to destroy
	}
	if err == nil {
		err = errors.Join(failpoint.Hit("docker.create.created"), d.checkWorkspace(ctx, spec.Workspace))
	}
	if err == nil {
		err = d.boot(ctx, c.id)
	}
	if err == nil {
		err = failpoint.Hit("docker.create.ready")
	}
	if err != nil {
		return nil, errors.Join(err, d.undo(ctx, c))
	}
	return &sandbox{d: d, id: id, limits: spec.Limits, memory: d.inMemory(creation{spec: spec})}, nil
}

// provide brings into the engine what the container is made of.
func (d *Driver) provide(ctx context.Context, c *creation) (err error) {
	if c.rootfs, err = d.opts.Images.Rootfs(ctx, c.spec.Image); err != nil {
		return err
	}
	if c.image, err = d.provideImage(ctx, c.spec.Image, c.rootfs); err != nil {
		return err
	}
	if c.volume, err = d.provideProgram(ctx, c.image); err != nil {
		return err
	}
	if c.baseline, err = d.provideBaseline(ctx, c.image, c.rootfs); err != nil {
		return err
	}
	if err = d.chooseUser(c); err != nil {
		return err
	}
	if c.size, err = d.diskBytes(ctx, c.spec, c.rootfs); err != nil {
		return err
	}
	return d.checkWorkspace(ctx, c.spec.Workspace)
}

func (d *Driver) createContainer(ctx context.Context, options client.ContainerCreateOptions) error {
	ctx, cancel := callContext(ctx)
	defer cancel()
	_, err := d.engine.ContainerCreate(ctx, options)
	id := runtime.ID(options.Config.Labels[labelSandbox])
	if cerrdefs.IsConflict(err) {
		return errdefs.Wrap(err, errdefs.AlreadyExists, "sandbox %s exists", id)
	}
	if err != nil {
		return fmt.Errorf("create the container of sandbox %s: %w", id, d.unavailable(err))
	}
	return nil
}

// boot starts a container and waits until its runner can be spoken to: over the
// runner's own streams, which saves a tenth of the time.
func (d *Driver) boot(ctx context.Context, id runtime.ID) error {
	attached, err := d.attach(ctx, id)
	if err != nil {
		return err
	}
	if err := d.start(ctx, id); err != nil {
		attached.Close()
		return err
	}
	l, err := d.speak(ctx, id, attached)
	if err != nil {
		return fmt.Errorf("wait for the runner of sandbox %s: %w", id, err)
	}
	_, err = d.keepLink(id, l)
	return err
}

// start starts a container, unless ctx is done.
func (d *Driver) start(ctx context.Context, id runtime.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := callContext(ctx)
	defer cancel()
	if _, err := d.engine.ContainerStart(ctx, d.container(id), client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("start the container of sandbox %s: %w", id, d.classify(err, id))
	}
	return failpoint.Hit("docker.create.started")
}

// undo is the way back from Create: that of Destroy, if the container is this
// Create's.
func (d *Driver) undo(ctx context.Context, c creation) error {
	ctx, cancel := callContext(ctx)
	defer cancel()
	got, err := d.inspect(ctx, c.id)
	switch {
	case errdefs.Is(err, errdefs.NotFound):
		return nil
	case err != nil:
		return err
	case got.Config.Labels[labelTry] != c.try:
		return nil
	}
	err = d.Destroy(ctx, c.id)
	if errdefs.Is(d.checkWorkspace(ctx, c.spec.Workspace), errdefs.NotFound) { // it may be a volume that the engine made for us
		err = errors.Join(err, d.DestroyWorkspace(ctx, c.spec.Workspace))
	}
	return err
}

// Destroy implements runtime.Driver.
func (d *Driver) Destroy(ctx context.Context, id runtime.ID) error {
	if err := guest.CheckSpec(id, runtime.Spec{}); err != nil {
		return err
	}
	got, err := d.inspect(ctx, id)
	if err != nil && !errdefs.Is(err, errdefs.NotFound) {
		return err
	}
	if err := errors.Join(d.removeContainer(ctx, id), d.unlink(id)); err != nil || got.Config == nil {
		return err
	}
	ctx, cancel := callContext(ctx)
	defer cancel()
	return errors.Join(d.dropEnv(ctx, id, got.Config), d.dropForkImage(ctx, got.Config.Labels[labelFork]))
}

// removeContainer returns when the container is gone.
func (d *Driver) removeContainer(ctx context.Context, id runtime.ID) error {
	ctx, cancel := callContext(ctx)
	defer cancel()
	for {
		_, err := d.engine.ContainerRemove(ctx, d.container(id), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case cerrdefs.IsNotFound(err):
			return nil
		case err != nil && !cerrdefs.IsConflict(err): // a conflict is another removal, which is under way
			return fmt.Errorf("remove the container of sandbox %s: %w", id, d.unavailable(err))
		}
		select {
		case <-ctx.Done():
			return errdefs.Wrap(ctx.Err(), errdefs.Unavailable, "the Docker engine does not end sandbox %s", id)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stop implements runtime.Stopper.
func (d *Driver) Stop(ctx context.Context, id runtime.ID) error {
	got, err := d.inspect(ctx, id)
	if err != nil {
		return err
	}
	if got.State.Status == container.StateCreated {
		return d.notRunning(id) // it never has
	}
	if isInMemory(got) {
		return errdefs.New(errdefs.Unimplemented, "the workspace of sandbox %s is in memory, and a stop would lose it: take a snapshot, and destroy it", id)
	}
	unlink := d.unlink(id)
	ctx, cancel := callContext(ctx)
	defer cancel()
	at := 0
	if _, err := d.engine.ContainerStop(ctx, d.container(id), client.ContainerStopOptions{Timeout: &at}); err != nil {
		return fmt.Errorf("stop the container of sandbox %s: %w", id, d.classify(err, id))
	}
	return unlink
}

// Start implements runtime.Stopper.
func (d *Driver) Start(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	got, err := d.inspect(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case got.State.Status == container.StateCreated, got.Config.Labels[labelMemory] != "":
		return nil, d.notRunning(id)
	case got.State.Status != container.StateExited:
		return nil, errdefs.New(errdefs.Conflict, "sandbox %s is not stopped", id)
	}
	err = d.boot(ctx, id)
	if err == nil {
		err = d.settleAgain(ctx, id, got.Config)
	}
	if err != nil {
		return nil, errors.Join(err, d.Stop(context.WithoutCancel(ctx), id))
	}
	return d.handle(id, got), nil
}

// handle makes a sandbox of what the engine says of its container.
func (d *Driver) handle(id runtime.ID, got container.InspectResponse) *sandbox {
	return &sandbox{d: d, id: id, limits: d.limits(got), memory: isInMemory(got)}
}

// limits are those that a container has now.
func (d *Driver) limits(got container.InspectResponse) runtime.Limits {
	var l runtime.Limits
	if err := json.Unmarshal([]byte(got.Config.Labels[labelLimits]), &l); err != nil {
		d.opts.Log.Warn("the container's label with its limits cannot be read", "container", got.Name, "err", err)
	}
	if host := got.HostConfig; host != nil { // a claim changes these
		l.MemoryMB, l.CPU = host.Memory>>20, float64(host.NanoCPUs)/1e9
		if host.PidsLimit != nil {
			l.Pids = *host.PidsLimit - runnerTasks
		}
	}
	return l
}
