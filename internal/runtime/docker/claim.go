package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/protocol"
)

// Claim implements runtime.Claimer. The container's new name is the claim; what
// is the session's comes after that, so one that has anything of a session is
// never found under the name of a ready one.
//
// The engine changes the limits of a living container, and neither its name for
// itself nor its volumes, nor file systems in memory, whose sizes follow from
// the memory: a spec with others is Unimplemented.
func (d *Driver) Claim(ctx context.Context, ready, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	if err := guest.CheckSpec(id, spec); err != nil {
		return nil, err
	}
	got, err := d.inspect(ctx, ready)
	if err == nil && !got.State.Running {
		err = d.notRunning(ready)
	}
	if errdefs.Is(err, errdefs.NotFound) {
		err = errdefs.Wrap(err, errdefs.Conflict, "sandbox %s is not running", ready)
	}
	if err != nil {
		return nil, err
	}
	spec.Limits = d.limitsFor(spec.Limits, spec.ReadonlyRoot)
	if err := d.checkWorkspace(ctx, spec.Workspace); err != nil {
		return nil, err
	}
	if err := d.claimable(got, spec); err != nil {
		return nil, err
	}
	if err := d.rename(ctx, ready, id); err != nil {
		return nil, err
	}
	s := &sandbox{d: d, id: id, limits: spec.Limits, memory: isInMemory(got)}
	err = failpoint.Hit("docker.claim.renamed")
	if err == nil {
		err = d.keepEnv(ctx, id, spec.Env)
	}
	if err == nil && d.limits(got) != spec.Limits {
		err = d.limit(ctx, id, spec.Limits)
	}
	if err == nil {
		err = errors.Join(failpoint.Hit("docker.claim.limited"), guest.Settle(ctx, s, protocol.Settle{}, spec.Env, nil), failpoint.Hit("docker.claim.settled"))
	}
	if err != nil {
		return nil, fmt.Errorf("claim sandbox %s as %s: %w", ready, id, err)
	}
	return s, nil
}

// claimable reports whether a ready container can become one of spec.
func (d *Driver) claimable(ready container.InspectResponse, spec runtime.Spec) error {
	labels, was := ready.Config.Labels, d.limits(ready)
	if labels[labelUser] != d.opts.User { // of a daemon with another configuration: nobody can use it any more
		return errdefs.New(errdefs.Conflict, "the programs of a ready container are another user's")
	}
	for _, c := range []struct {
		same bool
		what string
	}{
		{labels[labelImage] == spec.Image, "image"},
		{labels[labelSeccomp] == string(spec.Seccomp), "seccomp"},
		{ready.HostConfig.ReadonlyRootfs == spec.ReadonlyRoot, "root"},
		{was.DiskMB == spec.Limits.DiskMB, "disk limit"},
		{was.MemoryMB == spec.Limits.MemoryMB, "memory limit"},
		{ready.Config.Hostname == hostnameOf(spec), "host name"},
		{spec.Workspace == "" && (labels[labelMemory] != "") == d.opts.Memory, "workspace"},
		{!hasShown(spec.Labels), "label"},
		{spec.Network.Mode != runtime.NetworkEngine, "network"},
	} {
		if !c.same {
			return errdefs.New(errdefs.Unimplemented, "a ready container cannot become one with another %s", c.what)
		}
	}
	return nil
}

// hasShown reports whether a container would have some of a session's labels.
func hasShown(labels map[string]string) bool {
	return slices.ContainsFunc(shownLabels, func(name string) bool { return labels[name] != "" })
}

// rename is the claim: of two that want the same sandbox one finds it gone, or
// the other at it. The engine itself would rename it twice.
func (d *Driver) rename(ctx context.Context, ready, id runtime.ID) error {
	claimed := errdefs.New(errdefs.Conflict, "sandbox %s has been claimed by somebody else", ready)
	d.mu.Lock()
	if d.claims[ready] {
		d.mu.Unlock()
		return claimed
	}
	d.claims[ready] = true
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.claims, ready)
		d.mu.Unlock()
	}()
	ctx, cancel := callContext(ctx)
	defer cancel()
	_, err := d.engine.ContainerRename(ctx, d.container(ready), client.ContainerRenameOptions{NewName: d.container(id)})
	switch {
	case cerrdefs.IsNotFound(err):
		return claimed
	case cerrdefs.IsConflict(err):
		return errdefs.Wrap(err, errdefs.AlreadyExists, "sandbox %s exists", id)
	case err != nil:
		return fmt.Errorf("rename sandbox %s to %s: %w", ready, id, d.unavailable(err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.links[ready]; l != nil { // it leads to the container, whatever its name
		d.links[id] = l
		delete(d.links, ready)
	}
	return nil
}

// limit changes what a claim can change of a container's limits.
func (d *Driver) limit(ctx context.Context, id runtime.ID, l runtime.Limits) error {
	ctx, cancel := callContext(ctx)
	defer cancel()
	_, err := d.engine.ContainerUpdate(ctx, d.container(id), client.ContainerUpdateOptions{Resources: limitsOf(l)})
	return d.classify(err, id)
}

// settleAgain tells the runner of a container that was claimed and is started
// again what its session is.
func (d *Driver) settleAgain(ctx context.Context, id runtime.ID, config *container.Config) error {
	env, err := d.claimedEnv(ctx, id, config)
	if err != nil || len(env) == 0 {
		return err
	}
	return guest.Settle(ctx, &sandbox{d: d, id: id}, protocol.Settle{}, env, nil)
}

// The environment of a container is settled when it is made. What one is
// claimed with is kept in the label of a volume that nobody has: the engine has
// no other place of which a sandbox cannot write.

func (d *Driver) envVolume(id runtime.ID) string {
	return "sandkasten-" + d.opts.Node + "-env-" + string(id)
}

func (d *Driver) keepEnv(ctx context.Context, id runtime.ID, env map[string]string) error {
	if len(env) == 0 {
		return nil
	}
	text, err := json.Marshal(env)
	if err != nil {
		return err
	}
	ctx, cancel := callContext(ctx)
	defer cancel()
	_, err = d.engine.VolumeCreate(ctx, client.VolumeCreateOptions{
		Name: d.envVolume(id), Labels: map[string]string{labelNode: d.opts.Node, labelEnv: string(text)},
	})
	return d.unavailable(err)
}

// claimed reports whether the container of a sandbox was made for a pool.
func claimed(id runtime.ID, config *container.Config) bool {
	return config.Labels[labelSandbox] != string(id)
}

// claimedEnv is what a sandbox was claimed with.
func (d *Driver) claimedEnv(ctx context.Context, id runtime.ID, config *container.Config) (env map[string]string, err error) {
	if !claimed(id, config) {
		return nil, nil
	}
	got, err := d.engine.VolumeInspect(ctx, d.envVolume(id), client.VolumeInspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(got.Volume.Labels[labelEnv]), &env)
	}
	if err != nil {
		return nil, fmt.Errorf("read what sandbox %s was claimed with: %w", id, d.unavailable(err))
	}
	return env, nil
}

func (d *Driver) dropEnv(ctx context.Context, id runtime.ID, config *container.Config) error {
	if !claimed(id, config) {
		return nil
	}
	return d.unavailable(d.removeVolume(ctx, d.envVolume(id)))
}

// sweepEnvs removes what containers were claimed with that are no more.
func (d *Driver) sweepEnvs(ctx context.Context) error {
	all, err := d.engine.VolumeList(ctx, client.VolumeListOptions{Filters: d.own(labelEnv)})
	if err != nil {
		return d.unavailable(err)
	}
	var errs []error
	for _, v := range all.Items {
		id := runtime.ID(strings.TrimPrefix(v.Name, d.envVolume("")))
		if _, err := d.inspect(ctx, id); !errdefs.Is(err, errdefs.NotFound) {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, d.removeVolume(ctx, v.Name))
	}
	return errors.Join(errs...)
}
