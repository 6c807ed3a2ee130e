package docker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/inside"
)

// callTime bounds one call that changes something in the engine. Such calls
// are not cut off by the caller: the engine would go on with them, and nobody
// would know what it made.
const callTime = time.Minute

// call is a context for one of them.
func call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callTime)
}

// Create implements runtime.Driver. The container's name is the claim to the
// id: the engine gives it to one of those who ask at the same time.
func (d *Driver) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	if err := inside.CheckSpec(id, spec); err != nil {
		return nil, err
	}
	spec.Limits = spec.Limits.Or(d.opts.Defaults)
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
		err = d.boot(ctx, id)
	}
	if err == nil {
		err = failpoint.Hit("docker.create.ready")
	}
	if err != nil {
		return nil, errors.Join(err, d.undo(ctx, c))
	}
	return &sandbox{d: d, id: id, limits: spec.Limits}, nil
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
	return d.checkWorkspace(ctx, c.spec.Workspace)
}

func (d *Driver) createContainer(ctx context.Context, options client.ContainerCreateOptions) error {
	ctx, cancel := call(ctx)
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

// boot starts a container and waits until its runner can be spoken to.
func (d *Driver) boot(ctx context.Context, id runtime.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	starting, cancel := call(ctx)
	defer cancel()
	if _, err := d.engine.ContainerStart(starting, d.container(id), client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("start the container of sandbox %s: %w", id, d.classify(err, id))
	}
	if err := failpoint.Hit("docker.create.started"); err != nil {
		return err
	}
	if _, err := d.link(ctx, id); err != nil {
		return errors.Join(fmt.Errorf("wait for the runner of sandbox %s: %w", id, err), d.lastWords(ctx, id))
	}
	return nil
}

// lastWords is what a runner that has ended said, as an error.
func (d *Driver) lastWords(ctx context.Context, id runtime.ID) error {
	ctx, cancel := call(ctx)
	defer cancel()
	logs, err := d.engine.ContainerLogs(ctx, d.container(id), client.ContainerLogsOptions{ShowStderr: true, Tail: "10"})
	if err != nil {
		return err
	}
	defer logs.Close()
	text, err := io.ReadAll(io.LimitReader(&frames{from: logs, only: stderrStream}, 4<<10))
	if err == nil && len(text) > 0 {
		err = fmt.Errorf("in the sandbox: %q", text)
	}
	return err
}

// undo is the way back from Create: that of Destroy, if the container is this
// Create's.
func (d *Driver) undo(ctx context.Context, c creation) error {
	ctx, cancel := call(ctx)
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
	if err := inside.CheckSpec(id, runtime.Spec{}); err != nil {
		return err
	}
	unlink := d.unlink(id)
	removing, cancel := call(ctx)
	defer cancel()
	for {
		_, err := d.engine.ContainerRemove(removing, d.container(id), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case cerrdefs.IsNotFound(err):
			return unlink
		case err != nil && !cerrdefs.IsConflict(err): // a conflict is another removal, which is under way
			return fmt.Errorf("remove the container of sandbox %s: %w", id, d.unavailable(err))
		}
		select {
		case <-removing.Done():
			return errdefs.Wrap(removing.Err(), errdefs.Unavailable, "the Docker engine does not end sandbox %s", id)
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
	unlink := d.unlink(id)
	ctx, cancel := call(ctx)
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
	case got.State.Status == container.StateCreated:
		return nil, d.notRunning(id)
	case got.State.Status != container.StateExited:
		return nil, errdefs.New(errdefs.Conflict, "sandbox %s is not stopped", id)
	}
	if err := d.boot(ctx, id); err != nil {
		return nil, errors.Join(err, d.Stop(context.WithoutCancel(ctx), id))
	}
	return d.handle(id, got), nil
}

// handle makes a sandbox of what the engine says of its container.
func (d *Driver) handle(id runtime.ID, got container.InspectResponse) *sandbox {
	s := &sandbox{d: d, id: id}
	if err := json.Unmarshal([]byte(got.Config.Labels[labelLimits]), &s.limits); err != nil {
		d.opts.Log.Warn("the container's label with its limits cannot be read", "sandbox", id, "err", err)
	}
	return s
}
