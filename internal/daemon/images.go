package daemon

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/events/sources"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/maintenance"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// openLibrary makes what clients do with the images. Its jobs end before the driver
// closes.
func (d *Daemon) openLibrary(ctx context.Context) *jobs.Library {
	ctx = context.WithoutCancel(ctx) // of the start, which ends before
	l := &jobs.Library{Store: d.images, Jobs: jobs.New(ctx, d.log), InUse: maintenance.ImagesInUse(ctx, d.cfg, d.opts.Drivers...)}
	l.Jobs.Changed = sources.ImageJobs(d.events)
	d.closers = append(d.closers, l.Jobs.Close)
	l.Stored = func(ctx context.Context, img images.Image, progress images.ProgressFunc) error {
		err := d.loadImage(ctx, img, progress)
		if err == nil && img.NetworkGroups == nil {
			d.groups.askLater(img.Digest)
		}
		return err
	}
	return l
}

// FirstImage is the image to try first: the default one if it is there, else the newest
// that has a name, else "".
func (d *Daemon) FirstImage(ctx context.Context) string {
	if _, err := d.images.Resolve(ctx, d.cfg.DefaultImage); err == nil {
		return d.cfg.DefaultImage
	}
	all, err := d.images.List(ctx)
	if err != nil {
		return ""
	}
	for _, img := range all {
		if len(img.Names) > 0 {
			return img.Names[0]
		}
	}
	return ""
}

// loadImage brings an image to the engine of the first driver, if that has one.
func (d *Daemon) loadImage(ctx context.Context, img images.Image, progress images.ProgressFunc) error {
	engine, ok := d.drivers.Parts[0].Driver.(runtime.ImageLoader)
	if !ok {
		return nil
	}
	err := drivers.Load(ctx, engine, img, progress)
	if errdefs.Is(err, errdefs.Unavailable) {
		d.log.WarnContext(ctx, "the image is stored and not loaded into the engine; its first session does that", "digest", img.Digest, "err", err)
		return nil
	}
	return err
}
