package images_test

import (
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
)

// I01: whatever is asked for, what is given out is the allowed image, and not
// the one beside it.
func FuzzAllowList(f *testing.F) {
	dir := f.TempDir() + "/images"
	all := open(f, inDir(dir))
	allowed := importTar(f, all, "python:3.12", rootfs(f))
	other := importTar(f, all, "python:3.12-evil", rootfs(f, item{name: "etc/evil", body: "x"}))
	importTar(f, all, "evil/python:3.12", rootfs(f, item{name: "etc/evil", body: "y"}))
	for _, seed := range []string{
		"python:3.12", "python:3.12-evil", "evil/python:3.12", "python:3.12@" + other.Digest, "python:3.12@" + allowed.Digest, other.Digest, allowed.Digest,
		"PYTHON:3.12", "docker.io/library/python:3.12", " python:3.12", "python:3.12\n", "pyth\u043en:3.12", "python/../evil/python:3.12", "--privileged",
		strings.TrimPrefix(other.Digest, "sha256:"), "index.docker.io/python:3.12", "docker.io/docker.io/python:3.12", "python:3.12@@", "",
	} {
		f.Add(seed)
	}
	s := open(f, inDir(dir), func(o *images.Options) { o.Allowed = []string{"python:3.12"} })
	f.Fuzz(func(t *testing.T, name string) {
		digest, err := s.Resolve(t.Context(), name)
		switch {
		case err == nil && digest != allowed.Digest:
			t.Errorf("%q gives out %s", name, digest)
		case err != nil && !errdefs.Is(err, errdefs.InvalidArgument) && !errdefs.Is(err, errdefs.NotFound) && !errdefs.Is(err, errdefs.PermissionDenied):
			t.Errorf("%q: %v", name, err)
		}
	})
}
