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
func (l *Local) Fork(ctx context.Context, from runtime.ID, branches []runtime.Branch, spec runtime.Spec) (_ runtime.Forks, err error) {
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
	if spec.Env == nil {
		spec.Env = r.Spec.Env
	}
	// Together they are made before any is filled: one moment for all.
	for _, b := range branches {
		sandbox, err := l.Create(ctx, b.ID, spec)
		if err != nil {
			return made, err
		}
		made.Sandboxes = append(made.Sandboxes, sandbox)
	}
	if r.Spec.Workspace != "" || spec.Workspace != "" {
		return made, nil
	}
	return made, l.copyTo(ctx, source, !r.Stopped, branches)
}

// copyTo fills the workspaces of ids with the source's, which stands still
// meanwhile.
func (l *Local) copyTo(ctx context.Context, source *localSandbox, runs bool, branches []runtime.Branch) (err error) {
	if paused, pausedErr := source.Paused(); runs && !paused {
		if err := errors.Join(pausedErr, source.Pause(ctx)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, source.Resume(context.WithoutCancel(ctx))) }()
	}
	for _, b := range branches {
		out, err := exec.CommandContext(ctx, "cp", "-a", source.workspace()+"/.", l.sandbox(b.ID).workspace()).CombinedOutput()
		if err != nil {
			return fmt.Errorf("copy the workspace of %s: %w: %s", source.id, err, out)
		}
	}
	return nil
}
