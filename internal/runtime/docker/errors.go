package docker

import (
	"context"
	"errors"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// classify gives an error of the engine about a sandbox its code.
func (d *Driver) classify(err error, id runtime.ID) error {
	switch {
	case err == nil:
		return nil
	case cerrdefs.IsNotFound(err):
		return errdefs.Wrap(err, errdefs.NotFound, "sandbox %s does not exist", id)
	case strings.Contains(err.Error(), "no space left on device"): // the engine has no other word for it
		return errdefs.Wrap(err, errdefs.InsufficientSpace, "the disk of the Docker engine is full")
	}
	return d.unavailable(err)
}

// unavailable tells an engine that does not answer from one that refuses.
func (d *Driver) unavailable(err error) error {
	if client.IsErrConnectionFailed(err) || errors.Is(err, context.DeadlineExceeded) || cerrdefs.IsUnavailable(err) {
		return errdefs.Wrap(err, errdefs.Unavailable, "the Docker engine does not answer; start it, or look at docker.host")
	}
	return err
}

func (d *Driver) notRunning(id runtime.ID) error {
	return errdefs.New(errdefs.NotFound, "sandbox %s is not running", id)
}
