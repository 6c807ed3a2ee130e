package docker

import (
	"bytes"
	"context"
	"strings"

	"github.com/sandkasten/sandkasten/internal/sandbox/flatten"
)

// provideBaseline puts the list of what an image is made of where the runners
// of its containers find it, and returns that path. It is one for each image of
// the engine's, and not of ours: the runner takes what was changed after the
// list was written for changed, and the list is never written again while there
// are containers of that image.
func (d *Driver) provideBaseline(ctx context.Context, image string, rootfs Rootfs) (string, error) {
	got, err := d.engine.ImageInspect(ctx, image)
	if err != nil {
		return "", d.unavailable(err)
	}
	_, id, _ := strings.Cut(got.ID, ":")
	name := "baseline-" + id
	return programDir + "/" + name, d.provideFile(ctx, image, volumeFile{
		name: name, mode: 0o444,
		content: func(ctx context.Context) ([]byte, error) {
			var list bytes.Buffer
			err := flatten.List(ctx, &list, rootfs.Layers)
			return list.Bytes(), err
		},
	})
}
