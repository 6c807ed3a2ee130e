package snapshots

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

// ImageFor returns the image of a session that begins with s: asked, which its client
// named, or else that of s. Resolve turns names into digests.
//
// The changes to a root are those to one image: on another one they would lie beside
// programs and libraries that they do not fit. So a snapshot that has some is restored
// on that image only, whatever it is called by now.
func (s Snapshot) ImageFor(ctx context.Context, asked string, readonlyRoot bool, resolve func(context.Context, string) (string, error)) (string, error) {
	m := s.Manifest
	_, changed := m.Part(snapshot.Root)
	switch {
	case !changed && asked != "":
		return asked, nil
	case !changed:
		return m.Image, nil
	case readonlyRoot:
		return "", errdefs.Invalid("readonly_rootfs", "must be off: the snapshot has changes to the root, too; one made with scope=%s has none", snapshot.ScopeWorkspace)
	case asked != "":
		got, err := resolve(ctx, asked)
		if err == nil && got != m.ImageDigest {
			err = errdefs.Invalid("image", "must be left out: snapshot %s has changes to the root of image %s (%s), which fit no other image; "+
				"a snapshot made with scope=%s fits every one", s.ID, m.Image, m.ImageDigest, snapshot.ScopeWorkspace)
		}
		return asked, err
	}
	// People know the name, as long as it stands for the same image.
	if got, err := resolve(ctx, m.Image); err == nil && got == m.ImageDigest {
		return m.Image, nil
	}
	_, err := resolve(ctx, m.ImageDigest)
	if refused, ok := errors.AsType[*errdefs.Error](err); ok {
		missing := *refused
		missing.Message = fmt.Sprintf("snapshot %s has changes to the root of image %s (%s) and needs it: %s; a snapshot made with scope=%s fits every image",
			s.ID, m.Image, m.ImageDigest, refused.Message, snapshot.ScopeWorkspace)
		err = &missing
	}
	return m.ImageDigest, err
}
