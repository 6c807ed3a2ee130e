package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
)

// sourceImages brings what a driver has of images, or can pull, into the store when a
// session of that driver names it.
type sourceImages struct {
	library *jobs.Library
	sources map[string]runtime.ImageSource // by the name of the driver
}

// sourceOf is the source of such an image as the store keeps it. With an empty id
// it is how all of them begin.
func sourceOf(source runtime.ImageSource, id string) string { return source.SourceName() + " " + id }

// beingMade is the error for an image that is not in the store yet and that a job makes
// or brings: who asks for it need not be told how to make one.
func (i *sourceImages) beingMade(ctx context.Context, image string) error {
	name, err := images.CheckName(image)
	if err != nil {
		return nil //nolint:nilerr // Resolve says what is wrong with it
	}
	making := func(job jobs.Job) bool { return job.Name == name && !job.Ended() && job.Kind != jobs.Pull }
	if !slices.ContainsFunc(i.library.Jobs.List(), making) {
		return nil // as nearly always, which costs a create nothing
	}
	if _, err := i.library.Store.Inspect(ctx, name); !errdefs.Is(err, errdefs.NotFound) {
		return nil //nolint:nilerr // it is there, or Resolve says what is wrong
	}
	if listed, open, err := i.library.Store.Listed(name); err != nil || !listed && !open {
		return nil //nolint:nilerr // who may not use it is told nothing of it
	}
	return errdefs.New(errdefs.NotFound, "the image %q is being made: `sandkasten image jobs` shows how far it is, and `sandkasten image ls` which others there are", image).Because(errdefs.NoSuchImage)
}

// fetch is session.Options.FetchImage. An image of the store that came from
// anywhere else is left alone, and so is what the owner may not have fetched: to
// fetch what no list names is for the daemon's own key, for the images of a
// Docker host may hold what is not for every client.
func (i *sourceImages) fetch(ctx context.Context, req session.ImageFetch) error {
	if err := i.beingMade(ctx, req.Image); err != nil {
		return err
	}
	source, ok := i.sources[req.Driver]
	if !ok || strings.HasPrefix(req.Image, "sha256:") {
		return nil
	}
	stored, err := i.library.Store.Inspect(ctx, req.Image)
	if err != nil && !errdefs.Is(err, errdefs.NotFound) {
		return err
	}
	known := err == nil
	if known && !strings.HasPrefix(stored.Source, sourceOf(source, "")) {
		return nil
	}
	listed, open, err := i.library.Store.Listed(req.Image)
	if err != nil {
		return err
	}
	if !listed && (!open || req.Owner != auth.Admin) {
		return nil // Resolve says what is to be said
	}
	own, err := source.FindImage(ctx, req.Image)
	switch {
	case known && (err != nil || stored.Source == sourceOf(source, own.ID)):
		return nil // it is what it was, or nobody can tell
	case err != nil && !errdefs.Is(err, errdefs.NotFound):
		return err
	}
	job, err := i.library.Take(req.Image, sourceOf(source, own.ID), i.bring(source, req.Image))
	if err != nil {
		return err
	}
	if job, err = i.library.Jobs.Wait(ctx, job.ID); err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "the image %q is being brought from the %s; try again", req.Image, source.SourceName())
	}
	if job.State == jobs.Canceled {
		return errdefs.New(errdefs.Conflict, "somebody has canceled the job %s that brings the image %q", job.ID, req.Image)
	}
	return job.Err
}

// bring is the work of a job: it pulls the image where the source has not got it,
// and stores it.
func (i *sourceImages) bring(source runtime.ImageSource, name string) jobs.Work {
	return func(ctx context.Context, report images.ProgressFunc) (images.Image, error) {
		own, err := source.FindImage(ctx, name)
		if errdefs.Is(err, errdefs.NotFound) {
			own, err = pullImage(ctx, source, name, report)
		}
		if err != nil {
			return images.Image{}, err
		}
		archive, err := source.ExportImage(ctx, own.ID)
		if err != nil {
			return images.Image{}, err
		}
		img, err := i.library.Store.Import(ctx, images.ImportRequest{
			Name: name, Tar: archive, Source: sourceOf(source, own.ID), Progress: report,
			Env: own.Env, WorkingDir: own.WorkingDir, User: own.User,
		})
		return img, errors.Join(err, archive.Close())
	}
}

func pullImage(ctx context.Context, source runtime.ImageSource, name string, report images.ProgressFunc) (runtime.SourceImage, error) {
	credentials, err := images.EngineCredentials(name)
	if err != nil {
		return runtime.SourceImage{}, err
	}
	err = source.PullImage(ctx, name, credentials, func(phase string, done, total int64) {
		report(images.Progress{Phase: phase, Done: done, Total: total})
	})
	if err != nil {
		return runtime.SourceImage{}, err
	}
	own, err := source.FindImage(ctx, name)
	if err != nil {
		return runtime.SourceImage{}, fmt.Errorf("after its pull: %w", err)
	}
	return own, nil
}
