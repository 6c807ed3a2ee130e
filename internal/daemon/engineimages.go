package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/runtime/docker"
	"github.com/sandkasten/sandkasten/internal/session"
)

// engineImages brings what a Docker engine has, or can pull, into the store when a
// session of that engine names it.
type engineImages struct {
	library *jobs.Library
	engine  *docker.Driver
}

// engineSource is how the source of such an image begins; the engine's id of the
// image follows.
const engineSource = "Docker engine "

// engineOf returns the driver of a Docker engine that d is or has.
func engineOf(d hostDriver) *docker.Driver {
	switch d := d.(type) {
	case *docker.Driver:
		return d
	case hostDrivers:
		for _, part := range d.parts {
			if engine := engineOf(part); engine != nil {
				return engine
			}
		}
	}
	return nil
}

// fetch is session.Options.FetchImage. An image of the store that came from
// anywhere else is left alone, and so is what the owner may not have fetched: to
// fetch what no list names is for the daemon's own key, for the images of a
// Docker host may hold what is not for every client.
func (e *engineImages) fetch(ctx context.Context, req session.ImageFetch) error {
	if req.Driver != engineDriver || strings.HasPrefix(req.Image, "sha256:") {
		return nil
	}
	stored, err := e.library.Store.Inspect(ctx, req.Image)
	if err != nil && !errdefs.Is(err, errdefs.NotFound) {
		return err
	}
	known := err == nil
	if known && !strings.HasPrefix(stored.Source, engineSource) {
		return nil
	}
	listed, open, err := e.library.Store.Listed(req.Image)
	if err != nil {
		return err
	}
	if !listed && (!open || req.Owner != auth.Admin) {
		return nil // Resolve says what is to be said
	}
	own, err := e.engine.FindOwn(ctx, req.Image)
	switch {
	case known && (err != nil || stored.Source == engineSource+own.ID):
		return nil // it is what it was, or nobody can tell
	case err != nil && !errdefs.Is(err, errdefs.NotFound):
		return err
	}
	job, err := e.library.Take(req.Image, engineSource+own.ID, e.bring(req.Image))
	if err != nil {
		return err
	}
	if job, err = e.library.Jobs.Wait(ctx, job.ID); err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "the image %q is being brought from the Docker engine; try again", req.Image)
	}
	if job.State == jobs.Canceled {
		return errdefs.New(errdefs.Conflict, "somebody has canceled the job %s that brings the image %q", job.ID, req.Image)
	}
	return job.Err
}

// bring is the work of a job: it pulls the image where the engine has not got it,
// and stores it.
func (e *engineImages) bring(name string) jobs.Work {
	return func(ctx context.Context, report images.ProgressFunc) (images.Image, error) {
		own, err := e.engine.FindOwn(ctx, name)
		if errdefs.Is(err, errdefs.NotFound) {
			own, err = e.pull(ctx, name, report)
		}
		if err != nil {
			return images.Image{}, err
		}
		archive, err := e.engine.ExportOwn(ctx, own.ID)
		if err != nil {
			return images.Image{}, err
		}
		img, err := e.library.Store.Import(ctx, images.ImportRequest{
			Name: name, Tar: archive, Source: engineSource + own.ID, Progress: report,
			Env: own.Env, WorkingDir: own.WorkingDir, User: own.User,
		})
		return img, errors.Join(err, archive.Close())
	}
}

func (e *engineImages) pull(ctx context.Context, name string, report images.ProgressFunc) (docker.OwnImage, error) {
	credentials, err := images.EngineCredentials(name)
	if err != nil {
		return docker.OwnImage{}, err
	}
	err = e.engine.PullOwn(ctx, name, credentials, func(phase string, done, total int64) {
		report(images.Progress{Phase: phase, Done: done, Total: total})
	})
	if err != nil {
		return docker.OwnImage{}, err
	}
	own, err := e.engine.FindOwn(ctx, name)
	if err != nil {
		return docker.OwnImage{}, fmt.Errorf("after its pull: %w", err)
	}
	return own, nil
}
