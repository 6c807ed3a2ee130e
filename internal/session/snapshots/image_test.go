package snapshots

import (
	"context"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

func TestChangesToARootFitTheirImageOnly(t *testing.T) {
	t.Parallel()
	const digest, newer = "sha256:1", "sha256:2"
	names := map[string]string{"base": digest, "alias": digest, "moved": newer, newer: newer}
	resolve := func(_ context.Context, name string) (string, error) {
		if found := names[name]; found != "" {
			return found, nil
		}
		return "", errdefs.New(errdefs.NotFound, "no image %q here", name).Because(errdefs.NoSuchImage)
	}
	names[digest] = digest
	for name, c := range map[string]struct {
		of       string // the image by the name that its session had
		gone     bool   // from the store
		root     bool
		asked    string
		readonly bool
		want     string
		code     errdefs.Code
		field    string
	}{
		"its own":                      {of: "base", root: true, want: "base"},
		"its own, which moved":         {of: "moved", root: true, want: digest},
		"its own, which is not named":  {of: "old", root: true, want: digest},
		"its own by name":              {of: "base", root: true, asked: "base", want: "base"},
		"its own by another name":      {of: "base", root: true, asked: "alias", want: "alias"},
		"another":                      {of: "base", root: true, asked: "moved", code: errdefs.InvalidArgument, field: "image"},
		"one that is not there":        {of: "base", root: true, asked: "absent", code: errdefs.NotFound},
		"its own, which is gone":       {of: "moved", gone: true, root: true, code: errdefs.NotFound},
		"a read-only root":             {of: "base", root: true, readonly: true, code: errdefs.InvalidArgument, field: "readonly_rootfs"},
		"no changes":                   {of: "moved", want: "moved"},
		"no changes, another":          {of: "base", asked: "moved", want: "moved"},
		"no changes, a read-only root": {of: "base", readonly: true, want: "base"},
		"no changes, its own, is gone": {of: "base", gone: true, want: "base"},
	} {
		man := snapshot.Manifest{Image: c.of, ImageDigest: digest, Parts: []snapshot.Part{{Name: snapshot.Workspace}}}
		if c.root {
			man.Parts = append(man.Parts, snapshot.Part{Name: snapshot.Root})
		}
		lookup := resolve
		if c.gone {
			lookup = func(ctx context.Context, name string) (string, error) {
				if got, err := resolve(ctx, name); got != digest {
					return got, err
				}
				return resolve(ctx, "absent")
			}
		}
		got, err := Snapshot{ID: "s", Manifest: man}.ImageFor(t.Context(), c.asked, c.readonly, lookup)
		if c.code == "" {
			if got != c.want || err != nil {
				t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
			}
			continue
		}
		refused, ok := err.(*errdefs.Error)
		if !ok || refused.Code != c.code || refused.Field != c.field {
			t.Errorf("%s: %v, want %s of %q", name, err, c.code, c.field)
		}
		if c.asked != "absent" && !strings.Contains(errdefs.MessageOf(err), "scope=workspace") {
			t.Errorf("%s: it names no way: %v", name, err)
		}
		if c.gone && refused.Reason != errdefs.NoSuchImage {
			t.Errorf("%s: the reason is %q", name, refused.Reason)
		}
	}
}
