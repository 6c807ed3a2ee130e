package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

var _ runtime.Forker = (*Local)(nil)

// Fork implements runtime.Forker. It copies.
func (l *Local) Fork(ctx context.Context, from runtime.ID, ids []runtime.ID, spec runtime.Spec) (_ runtime.Forks, err error) {
	source := l.sandbox(from)
	r, err := source.load()
	if err != nil || !r.Stopped && !source.alive() {
		return runtime.Forks{}, errdefs.New(errdefs.NotFound, "no sandbox %s", from)
	}
	if spec.Image != r.Spec.Image {
		return runtime.Forks{}, errdefs.Invalid("image", "must be that of the sandbox that is forked")
	}
	made := runtime.Forks{Copied: true}
	defer func() {
		if err == nil {
			return
		}
		for _, sandbox := range made.Sandboxes {
			err = errors.Join(err, l.Destroy(context.WithoutCancel(ctx), sandbox.ID()))
		}
		made = runtime.Forks{}
	}()
	// Together they are made before any is filled: one moment for all.
	for _, id := range ids {
		sandbox, err := l.Create(ctx, id, spec)
		if err != nil {
			return made, err
		}
		made.Sandboxes = append(made.Sandboxes, sandbox)
	}
	if r.Spec.Workspace != "" || spec.Workspace != "" {
		return made, nil
	}
	return made, l.copyTo(ctx, source, !r.Stopped, ids)
}

// copyTo fills the workspaces of ids with the source's, which stands still
// meanwhile.
func (l *Local) copyTo(ctx context.Context, source *localSandbox, runs bool, ids []runtime.ID) (err error) {
	if paused, pausedErr := source.Paused(); runs && !paused {
		if err := errors.Join(pausedErr, source.Pause(ctx)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, source.Resume(context.WithoutCancel(ctx))) }()
	}
	for _, id := range ids {
		out, err := exec.CommandContext(ctx, "cp", "-a", source.workspace()+"/.", l.sandbox(id).workspace()).CombinedOutput()
		if err != nil {
			return fmt.Errorf("copy the workspace of %s: %w: %s", source.id, err, out)
		}
	}
	return nil
}
