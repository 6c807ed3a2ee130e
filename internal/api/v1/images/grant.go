package images

import (
	"context"
	"strings"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
)

// Grant is what an owner who is no admin may make images of, and how much.
type Grant struct {
	Pull, Build bool
	Images      int   // names at most
	Bytes       int64 // of all together, before another one begins
}

// own begins the names of the images that an owner may make. They are of all, and so no
// owner takes a name that others use.
func own(owner string) string { return owner + "/" }

// grant is that of the caller; an operator needs none, and all says so.
func (h *Handlers) grant(ctx context.Context) (g Grant, all bool, err error) {
	p := api.Caller(ctx)
	if h.seesAll(ctx) {
		return Grant{}, true, nil
	}
	if h.Granted != nil {
		g = h.Granted(p.Owner)
	}
	if !g.Pull || p.Owner == "" {
		return g, false, errdefs.New(errdefs.PermissionDenied, "images belong to all: admins make them, and users whom an admin lets: sandkasten user set NAME --images pull, or build. Then POST /v1/images/commit makes one of a session of yours, too")
	}
	return g, false, nil
}

// granted is the library, for who may make images of something.
func (h *Handlers) granted(ctx context.Context) (*jobs.Library, error) {
	l, err := h.library()
	if err == nil {
		_, _, err = h.grant(ctx)
	}
	return l, err
}

// begin starts a job for an image of a name, if the caller may make it and has room for it.
func (h *Handlers) begin(ctx context.Context, kind jobs.Kind, name string, start func() (jobs.Job, error)) (*JobOutput, error) {
	g, all, err := h.grant(ctx)
	if err != nil {
		return nil, err
	}
	if all {
		return h.started(ctx)(start())
	}
	if kind == jobs.Build && !g.Build {
		return nil, errdefs.New(errdefs.PermissionDenied, "this user pulls images and makes them of sessions; the steps of a recipe run on the daemon's host, so that an admin lets users build: sandkasten user set NAME --images build")
	}
	name, err = h.ownName(ctx, name)
	if err != nil {
		return nil, err
	}
	h.making.Lock() // of two at once the second one sees the first one's job
	defer h.making.Unlock()
	if err := h.checkRoom(ctx, g, name); err != nil {
		return nil, err
	}
	return h.started(ctx)(start())
}

// ownName refuses a name that is not the caller's. It is checked as the store keeps it: a
// registry's own is left off some.
func (h *Handlers) ownName(ctx context.Context, name string) (string, error) {
	prefix := own(api.Caller(ctx).Owner)
	kept, err := images.CheckName(name)
	if name != "" && err != nil {
		return "", err
	}
	if !strings.HasPrefix(kept, prefix) {
		return "", errdefs.Invalid("name", "must begin with %s: other names are for admins to give", prefix)
	}
	return kept, nil
}

// checkRoom refuses another image over the caller's quota. One that takes the place of
// another of its name is none.
func (h *Handlers) checkRoom(ctx context.Context, g Grant, name string) error {
	prefix := own(api.Caller(ctx).Owner)
	stored, err := h.Library.Store.List(ctx)
	if err != nil {
		return err
	}
	names, bytes := map[string]bool{name: true}, int64(0)
	for _, img := range stored {
		mine := false
		for _, one := range img.Names {
			if strings.HasPrefix(one, prefix) {
				names[one], mine = true, true
			}
		}
		if mine {
			bytes += img.Size
		}
	}
	for _, job := range h.Library.Jobs.List() {
		if !job.Ended() && strings.HasPrefix(job.Name, prefix) {
			names[job.Name] = true
		}
	}
	switch {
	case g.Images > 0 && len(names) > g.Images:
		return errdefs.OverQuota(errdefs.ResourceExhausted, errdefs.Quota{Name: "max_images", Used: float64(len(names) - 1), Limit: float64(g.Images)}, "one of them has to be removed")
	case g.Bytes > 0 && bytes >= g.Bytes:
		return errdefs.OverQuota(errdefs.ResourceExhausted, errdefs.Quota{Name: "image_mb", Used: float64(bytes >> 20), Limit: float64(g.Bytes >> 20)}, "an image has to be removed")
	}
	return nil
}

// job returns a job that the caller may know of.
func (h *Handlers) job(ctx context.Context, id string) (jobs.Job, error) {
	_, all, err := h.grant(ctx)
	if err != nil {
		return jobs.Job{}, err
	}
	job, err := h.Library.Jobs.Get(id)
	if err == nil && !all && !strings.HasPrefix(job.Name, own(api.Caller(ctx).Owner)) {
		_, err = h.Library.Jobs.Get("") // as one that never was
	}
	return job, err
}
