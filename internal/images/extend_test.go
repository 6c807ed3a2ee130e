package images_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
)

func TestExtend(t *testing.T) {
	s := open(t)
	base := importTar(t, s, "base", rootfs(t, item{name: "etc/environment", body: "EXTRA=a\n"}, item{name: "etc/old"}))
	layer := archive(t, item{name: "etc/"}, item{name: "etc/.wh.old"}, item{name: "bin/"}, item{name: "bin/bash", body: "x"})
	made, err := s.Extend(t.Context(), images.ExtendRequest{Name: "mine", Base: base.Digest, Layer: bytes.NewReader(layer), Source: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Layers) != 2 || made.Layers[1] != base.Layers[0] || made.Shell != "/bin/bash" || made.Source != "a test" || !slices.Contains(made.Env, "EXTRA=a") {
		t.Errorf("%+v", made)
	}
	if again, err := s.Extend(t.Context(), images.ExtendRequest{Name: "again", Base: "base", Layer: bytes.NewReader(layer)}); err != nil || again.Digest != made.Digest {
		t.Errorf("the same again is %+v, %v", again, err)
	}
	failure := errors.New("gone")
	for name, c := range map[string]struct {
		req  images.ExtendRequest
		want errdefs.Code
	}{
		"no base":     {images.ExtendRequest{Name: "x", Base: "missing", Layer: bytes.NewReader(layer)}, errdefs.NotFound},
		"a bad name":  {images.ExtendRequest{Name: "../x", Base: "base", Layer: bytes.NewReader(layer)}, errdefs.InvalidArgument},
		"hostile":     {images.ExtendRequest{Name: "x", Base: "base", Layer: bytes.NewReader(archive(t, item{name: "../x"}))}, errdefs.Unprocessable},
		"not a shell": {images.ExtendRequest{Name: "x", Base: "base", Layer: bytes.NewReader(archive(t, item{name: "bin/"}, item{name: "bin/.wh..wh..opq"}))}, errdefs.Unprocessable},
		"cut off":     {images.ExtendRequest{Name: "x", Base: "base", Layer: io.MultiReader(bytes.NewReader(layer[:600]), iotest.ErrReader(failure))}, errdefs.Unprocessable},
	} {
		if _, err := s.Extend(t.Context(), c.req); errdefs.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Inspect(t.Context(), "x"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("a failure left an image: %v", err)
	}
}
