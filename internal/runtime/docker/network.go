package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
)

var (
	_ runtime.Networked       = (*sandbox)(nil)
	_ runtime.EngineNetworker = (*Driver)(nil)
	_ runtime.Remote          = (*Driver)(nil)
)

// Remote implements runtime.Remote: an engine that is reached over the network has a
// host of its own.
func (d *Driver) Remote() bool { return !strings.HasPrefix(d.engine.DaemonHost(), "unix://") }

// Admit implements runtime.Remote: the engine does not tell what its host has left, and
// refuses by itself what does not fit.
func (d *Driver) Admit(context.Context) error { return nil }

// EngineNetwork implements runtime.EngineNetworker.
func (d *Driver) EngineNetwork() string { return d.opts.Network }

// checkNetwork refuses a sandbox of the engine's network where there is none any more:
// the engine's default would be another.
func (d *Driver) checkNetwork(spec runtime.Spec) error {
	if spec.Network.Mode == runtime.NetworkEngine && d.opts.Network == "" {
		return errdefs.New(errdefs.Unimplemented, "the sandbox would be in a network of the engine, and docker.network names none any more")
	}
	return nil
}

// NetNS implements runtime.Networked, for containers that are processes of this host's
// kernel. A claim's container was made like every other, so it can do it, too.
func (s *sandbox) NetNS(ctx context.Context) (*os.File, error) {
	if s.d.Remote() {
		return nil, errdefs.New(errdefs.Unimplemented, "a sandbox on a Docker engine that is reached over the network can have no network: it needs an engine of this host, at unix://")
	}
	got, err := s.d.inspect(ctx, s.id)
	if err != nil {
		return nil, err
	}
	if !got.State.Running || got.State.Pid <= 0 {
		return nil, s.d.notRunning(s.id)
	}
	if got.HostConfig != nil && got.HostConfig.NetworkMode != "none" {
		return nil, errdefs.New(errdefs.Unimplemented, "the sandbox is in the engine's network %s, which decides what it reaches", got.HostConfig.NetworkMode)
	}
	if err := s.d.checkRuntime(ctx, got.HostConfig); err != nil {
		return nil, err
	}
	f, err := netns.Open(got.State.Pid, func() error { return checkProcess(got.State.Pid, got.ID) })
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, errdefs.Wrap(err, errdefs.Unimplemented, "a sandbox of the Docker engine can have no network: this daemon may not enter its containers' network namespaces, for which it must be root")
	case errdefs.Is(err, errdefs.NotFound):
		return nil, s.d.whyNoProcess(ctx, s.id, got, err)
	}
	return f, err
}

// checkProcess returns NotFound unless a process of this host is one of a container:
// the control group of each of its processes has the container's id in its name. An
// engine behind a socket that somebody forwards speaks of processes of another host.
func checkProcess(pid int, id string) error {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !inContainer(string(groups), id):
		return errdefs.Wrap(err, errdefs.NotFound, "no process of this host is the container's")
	}
	return err
}

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

func inContainer(groups, id string) bool {
	return containerID.MatchString(id) && strings.Contains(groups, id)
}

// whyNoProcess tells a container that has just ended from one whose processes this
// daemon does not see.
func (d *Driver) whyNoProcess(ctx context.Context, id runtime.ID, was container.InspectResponse, err error) error {
	now, inspectErr := d.inspect(ctx, id)
	switch {
	case inspectErr != nil:
		return inspectErr
	case now.ID != was.ID || !now.State.Running || now.State.Pid != was.State.Pid:
		return d.notRunning(id)
	}
	return errdefs.Wrap(err, errdefs.Unimplemented, "a sandbox of the Docker engine can have no network: the engine's processes are not among those that this daemon sees; in a container the daemon needs `pid: host`")
}

// sharedKernel are runtimes whose containers are processes of the host's kernel. A
// container of another, such as gVisor or Kata, has its network in a kernel of its
// own, and the namespace on the host is not what its programs see.
var sharedKernel = []string{"runc", "crun", "youki", "io.containerd.runc.v1", "io.containerd.runc.v2"}

// checkRuntime looks at the runtime that a container was made with, which need not be
// that of the configuration now. The operator may give a runtime any name; its program
// says then what it is.
func (d *Driver) checkRuntime(ctx context.Context, host *container.HostConfig) error {
	if host == nil {
		return errors.New("the engine says nothing of the container's runtime")
	}
	name := cmp.Or(host.Runtime, "runc")
	if slices.Contains(sharedKernel, name) {
		return nil
	}
	got, err := d.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return d.unavailable(err)
	}
	known := got.Info.Runtimes[name]
	if slices.Contains(sharedKernel, filepath.Base(known.Path)) || slices.Contains(sharedKernel, known.Type) {
		return nil
	}
	return errdefs.New(errdefs.Unimplemented, "a sandbox of the Docker engine's runtime %q can have no network: it needs one whose containers share the host's kernel, as runc's do", name)
}
