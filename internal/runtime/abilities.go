package runtime

import (
	"context"
	"io"
)

// What a Driver can do beside the contract. Each is found by assertion, so that a
// driver that lacks it says nothing about it.

// DiskLimiter is a Driver that cannot bound what every sandbox writes. One that is
// none bounds all of them.
type DiskLimiter interface {
	// LimitsDisk reports whether Limits.DiskMB holds for a sandbox with such a
	// root. It is known after Check.
	LimitsDisk(readonlyRoot bool) bool
}

// Remote is a Driver whose sandboxes may run elsewhere than on the daemon's host. What
// the host has left says nothing about another one of them.
type Remote interface {
	// Remote reports whether they do. It does not change.
	Remote() bool

	// Admit refuses another sandbox where Remote: Unavailable, or InsufficientSpace if
	// only the end of others makes room. Nil lets Create try. It is asked for every
	// sandbox that is made or started, so an answer may be some seconds old.
	Admit(ctx context.Context) error
}

// DiskPool is a Driver whose disks may be on a file system of its own.
type DiskPool interface {
	// PoolDir is a directory of that file system, or "" where disks are in the data
	// directory.
	PoolDir() string
}

// Preparer is a Driver that can try the greater part of a create without an image.
type Preparer interface {
	// Prepare makes that part and removes it.
	Prepare(ctx context.Context) error
}

// ImageLoader is a Driver that has to be brought images before it can use them.
type ImageLoader interface {
	// Load brings an image of the store, and does nothing if the driver has it.
	// The error is Unavailable if the driver cannot be reached.
	Load(ctx context.Context, digest string, progress func(bytes int64)) error
}

// ImageResolver is a Driver whose sandboxes begin with images that it finds itself. The
// store of the daemon has none of them.
type ImageResolver interface {
	// ResolveImage returns what Spec.Image is for the name of an image: the same
	// image for as long as a session has it. It returns InvalidArgument for what is
	// no name, NotFound if there is no such image.
	ResolveImage(ctx context.Context, name string) (string, error)
}

// ImageSource is a Driver with images of its own, which sessions may name.
type ImageSource interface {
	// SourceName is what people call it: "Docker engine".
	SourceName() string

	// FindImage returns the image that the source has under a name. The error is
	// NotFound if it has none, or one that Load brought.
	FindImage(ctx context.Context, name string) (SourceImage, error)

	// PullImage has the source get an image from its registry, with credentials in
	// the form of Docker's API, which may be empty. Progress hears phases for
	// people, and bytes.
	PullImage(ctx context.Context, name, credentials string, progress func(phase string, done, total int64)) error

	// ExportImage opens the archive of an image's whole root file system. The caller
	// closes it.
	ExportImage(ctx context.Context, id string) (io.ReadCloser, error)
}

// SourceImage is an image of an ImageSource.
type SourceImage struct {
	ID         string // in the source: sha256:...
	Env        []string
	WorkingDir string
	User       string
}
