package daemon

import (
	"context"
	"testing"

	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// resolving is a driver that has every image, and says what it was asked for.
type resolving struct{ drivers.HostDriver }

func (resolving) ResolveImage(_ context.Context, name string) (string, error) {
	return "theirs:" + name, nil
}

// An image that a driver finds itself may be used if the configuration's list has its name.
func TestImagesOfADriverAreAllowedByName(t *testing.T) {
	set := &drivers.Set{Parts: []drivers.Part{{Row: drivers.Row{Name: "far"}, Driver: resolving{}}, {Row: drivers.Row{Name: "near"}, Driver: struct{ drivers.HostDriver }{}}}}
	for _, c := range []struct {
		driver, image string
		allowed       []string
		want          string
		code          errdefs.Code
	}{
		{"far", "registry.example/a:1", nil, "theirs:registry.example/a:1", ""},
		{"far", "registry.example/a:1", []string{"registry.example/a:1"}, "theirs:registry.example/a:1", ""},
		{"far", "registry.example/a:2", []string{"registry.example/a:1"}, "", errdefs.PermissionDenied},
		{"far", "no name", nil, "", errdefs.InvalidArgument},
		{"near", "registry.example/a:1", nil, "", errdefs.NotFound},
	} {
		cfg := testConfig(t)
		cfg.AllowedImages = c.allowed
		store, err := datadir.OpenImages(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := imagesOf(set, store)(c.driver).Resolve(t.Context(), c.image)
		if got != c.want || (err == nil) != (c.code == "") || err != nil && errdefs.CodeOf(err) != c.code {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
