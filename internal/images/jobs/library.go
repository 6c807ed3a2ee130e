package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

// Library is an image store with the jobs that fill it. Store, Jobs and InUse are
// required.
type Library struct {
	Store *images.Store
	Jobs  *Manager
	InUse images.InUse

	// Stored is called with each image that comes into the store, before its name
	// is told: a Docker engine is brought it. Nil does nothing.
	Stored func(context.Context, images.Image, images.ProgressFunc) error
}

// keep is the end of all that brings an image into the store.
func (l *Library) keep(ctx context.Context, img images.Image, err error, report images.ProgressFunc) (images.Image, error) {
	if err == nil && l.Stored != nil {
		err = l.Stored(ctx, img, report)
	}
	return img, err
}

// Pull starts a job for an image of a registry.
func (l *Library) Pull(req images.PullRequest) (Job, error) {
	name, err := images.PulledName(req)
	if err != nil {
		return Job{}, err
	}
	return l.Jobs.Start(Pull, name, fmt.Sprintln(req.Ref, req.Insecure), func(ctx context.Context, report images.ProgressFunc) (images.Image, error) {
		req.Progress = report
		img, err := l.Store.Pull(ctx, req)
		return l.keep(ctx, img, err, report)
	})
}

// Take starts a job for an image that somebody else's store has: the work brings
// it. The source says which one, so that another one is another job.
func (l *Library) Take(name, source string, work Work) (Job, error) {
	name, err := images.CheckName(name)
	if err != nil {
		return Job{}, err
	}
	return l.Jobs.Start(Pull, name, source, func(ctx context.Context, report images.ProgressFunc) (images.Image, error) {
		img, err := work(ctx, report)
		return l.keep(ctx, img, err, report)
	})
}

// Build starts a job for an image of a recipe. What is wrong with the recipe, or
// keeps this host from building, is told at once.
func (l *Library) Build(req images.BuildRequest) (Job, error) {
	name, recipe, err := images.CheckBuild(req)
	if err != nil {
		return Job{}, err
	}
	return l.Jobs.Start(Build, name, fmt.Sprintln(recipe, req.IfAbsent, req.NoCache, req.Mirror), func(ctx context.Context, report images.ProgressFunc) (images.Image, error) {
		req.Progress = report
		img, err := l.Store.Build(ctx, req)
		return l.keep(ctx, img, err, report)
	})
}

// Archive opens the archive of a snapshot of scope sandbox; its caller closes it.
type Archive func(context.Context) (io.ReadCloser, error)

// Commit starts a job for an image of a snapshot: the image of its session with
// what was changed of the root on top. The source tells people where it is from.
func (l *Library) Commit(name, source string, open Archive) (Job, error) {
	name, err := images.CheckName(name)
	if err != nil {
		return Job{}, err
	}
	return l.Jobs.Start(Commit, name, source, func(ctx context.Context, report images.ProgressFunc) (images.Image, error) {
		report(images.Progress{Phase: "save the files"})
		archive, err := open(ctx)
		if err != nil {
			return images.Image{}, err
		}
		img, err := l.extend(ctx, name, source, archive, report)
		err = errors.Join(err, archive.Close())
		return l.keep(ctx, img, err, report)
	})
}

func (l *Library) extend(ctx context.Context, name, source string, archive io.Reader, report images.ProgressFunc) (images.Image, error) {
	in, err := snapshot.NewReader(archive)
	if err != nil {
		return images.Image{}, err
	}
	for {
		part, r, err := in.Next()
		if errors.Is(err, io.EOF) {
			return images.Image{}, errdefs.New(errdefs.Unprocessable, "there are no changes to the root: the snapshot is of scope workspace, or the session's root was read-only")
		}
		if err != nil {
			return images.Image{}, err
		}
		if part.Name == snapshot.Root {
			return l.Store.Extend(ctx, images.ExtendRequest{
				Name: name, Base: in.Manifest.ImageDigest, Layer: r, Source: source, Progress: report,
			})
		}
	}
}

// Import stores an archive, as images.Store.Import does.
func (l *Library) Import(ctx context.Context, req images.ImportRequest) (images.Image, error) {
	img, err := l.Store.Import(ctx, req)
	return l.keep(ctx, img, err, req.Progress)
}

// Remove removes an image, as images.Store.Remove does.
func (l *Library) Remove(ctx context.Context, name string) error {
	return l.Store.Remove(ctx, name, l.InUse)
}

// Listed is an image, and whether sessions may use it.
type Listed struct {
	images.Image

	Allowed bool
}

// List returns the images that sessions may use, or with all also the others,
// newest first.
func (l *Library) List(ctx context.Context, all bool) ([]Listed, error) {
	stored, err := l.Store.List(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Listed, 0, len(stored))
	for _, img := range stored {
		allowed, err := l.Store.Allowed(img.Digest)
		if err != nil {
			return nil, err
		}
		if allowed || all {
			list = append(list, Listed{img, allowed})
		}
	}
	return list, nil
}

// Inspect returns one image; with all also one that sessions may not use, which
// otherwise is NotFound.
func (l *Library) Inspect(ctx context.Context, name string, all bool) (Listed, error) {
	img, err := l.Store.Inspect(ctx, name)
	if err != nil {
		return Listed{}, err
	}
	allowed, err := l.Store.Allowed(img.Digest)
	if err != nil {
		return Listed{}, err
	}
	if !allowed && !all {
		return Listed{}, errdefs.New(errdefs.NotFound, "no image %q here that this key may use", name)
	}
	return Listed{img, allowed}, nil
}
