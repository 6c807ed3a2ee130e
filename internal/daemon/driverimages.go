package daemon

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
)

// imagesOf is session.Options.ImagesOf: the store resolves images, but for a driver that
// finds them itself.
func imagesOf(set *drivers.Set, store *images.Store) func(string) session.ImageResolver {
	return func(driver string) session.ImageResolver {
		for name, own := range drivers.Able[runtime.ImageResolver](set) {
			if name == driver {
				return driverImages{store, own}
			}
		}
		return store
	}
}

// driverImages are the images of a driver that may be used: the configuration's list has
// their names, for the daemon knows no digests of them.
type driverImages struct {
	store *images.Store
	own   runtime.ImageResolver
}

// Resolve implements session.ImageResolver.
func (i driverImages) Resolve(ctx context.Context, name string) (string, error) {
	listed, open, err := i.store.Listed(name)
	if err != nil {
		return "", err
	}
	if !listed && !open {
		return "", errdefs.New(errdefs.PermissionDenied, "image %q may not be used here; allowed_images in the configuration names those that may", name)
	}
	return i.own.ResolveImage(ctx, name)
}
