package images_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/extract"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// tarLayer is an OCI layer of these bytes, compressed with gzip.
func tarLayer(t testing.TB, data []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ociImage is an image of these layers, bottom first, for linux/amd64.
func ociImage(t testing.TB, layers ...v1.Layer) v1.Image {
	t.Helper()
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	img, err := mutate.AppendLayers(img, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return withConfig(t, img, func(c *v1.ConfigFile) { c.OS, c.Architecture = "linux", "amd64" })
}

func withConfig(t testing.TB, img v1.Image, change func(*v1.ConfigFile)) v1.Image {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	change(c)
	img, err = mutate.ConfigFile(img, c)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func writeLayout(t testing.TB, add ...mutate.Appendable) string {
	t.Helper()
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range add {
		switch a := a.(type) {
		case v1.Image:
			err = p.AppendImage(a)
		case v1.ImageIndex:
			err = p.AppendIndex(a)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func importOCI(t testing.TB, s *images.Store, dir string) (images.Image, error) {
	t.Helper()
	return s.ImportOCI(t.Context(), images.ImportOCIRequest{Name: "oci", Dir: dir})
}

// view opens an image as its sandboxes see it.
func view(t testing.TB, s *images.Store, digest string) *extract.View {
	t.Helper()
	r, err := s.Rootfs(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	v, err := extract.OpenView(r.Layers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

func TestImportOCI(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	base := tarLayer(t, rootfs(t, item{name: "gone", body: "x"}, item{name: "d/"}, item{name: "d/old", body: "x"}, item{name: "both", body: "bottom"}))
	top := tarLayer(t, archive(t, item{name: ".wh.gone"}, item{name: "d/"}, item{name: "d/.wh..wh..opq"}, item{name: "d/new", body: "x"}, item{name: "both", body: "top"}))
	img := withConfig(t, ociImage(t, base, top), func(c *v1.ConfigFile) {
		c.Config.Env = []string{"PATH=/custom", "LANG=de_DE.UTF-8", "broken", "=x"}
		c.Config.WorkingDir, c.Config.User = "/proc/self/fd/7", "1000:1000"
	})
	got, err := importOCI(t, s, writeLayout(t, img))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Layers) != 2 || got.WorkingDir != "/proc/self/fd/7" || got.User != "1000:1000" {
		t.Errorf("image %+v", got)
	}
	if !slices.Contains(got.Env, "PATH=/custom") || !slices.Contains(got.Env, "LANG=de_DE.UTF-8") || slices.Contains(got.Env, "broken") {
		t.Errorf("Env = %q", got.Env)
	}
	v := view(t, s, got.Digest)
	if both, err := v.ReadFile("both", 10); string(both) != "top" || err != nil {
		t.Errorf("both holds %q, %v", both, err)
	}
	for name, there := range map[string]bool{"gone": false, "d/old": false, "d/new": true, "bin/sh": true} {
		if _, err := v.Stat(name); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A second image shares the layer below.
	other := ociImage(t, base, tarLayer(t, archive(t, item{name: "more", body: "x"})))
	if _, err := importOCI(t, s, writeLayout(t, other)); err != nil {
		t.Fatal(err)
	}
	if n := len(entries(t, filepath.Join(dir, "layers"))); n != 3 {
		t.Errorf("%d layers are stored, want 3", n)
	}
}

func TestImportOCIForms(t *testing.T) {
	base := tarLayer(t, rootfs(t))
	img := ociImage(t, base)
	arm := withConfig(t, ociImage(t, tarLayer(t, rootfs(t, item{name: "arm", body: "x"}))), func(c *v1.ConfigFile) { c.Architecture = "arm64" })
	platform := func(i mutate.Appendable, arch string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: i, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}}
	}
	multi := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), platform(arm, "arm64"), platform(img, "amd64"))
	attested := mutate.AppendManifests(multi, mutate.IndexAddendum{
		Add: ociImage(t, tarLayer(t, archive(t))), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}},
	})
	docker := mutate.MediaType(mutate.ConfigMediaType(img, types.DockerConfigJSON), types.DockerManifestSchema2)
	plain := static.NewLayer(rootfs(t), types.OCIUncompressedLayer)
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	compressed := zstdLayer{Layer: static.NewLayer(encoder.EncodeAll(rootfs(t), nil), types.OCILayerZStd), diff: base}

	for name, dir := range map[string]string{
		"one":              writeLayout(t, img),
		"multi":            writeLayout(t, multi),
		"with attestation": writeLayout(t, attested),
		"docker":           writeLayout(t, docker),
		"uncompressed":     writeLayout(t, ociImage(t, plain)),
		"zstd":             writeLayout(t, ociImage(t, compressed)),
	} {
		if _, err := importOCI(t, open(t), dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type zstdLayer struct {
	v1.Layer
	diff v1.Layer
}

func (l zstdLayer) DiffID() (v1.Hash, error) { return l.diff.DiffID() }

func TestImportOCITag(t *testing.T) {
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"one", "two"} {
		img := ociImage(t, tarLayer(t, rootfs(t, item{name: tag, body: "x"})))
		if err := p.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t)
	if _, err := importOCI(t, s, dir); !errdefs.Is(err, errdefs.Unprocessable) || !strings.Contains(err.Error(), "tag") {
		t.Errorf("one of two images was guessed: %v", err)
	}
	got, err := s.ImportOCI(t.Context(), images.ImportOCIRequest{Name: "x", Dir: dir, Tag: "two"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := view(t, s, got.Digest).Stat("two"); err != nil {
		t.Error(err)
	}
	if _, err := s.ImportOCI(t.Context(), images.ImportOCIRequest{Name: "x", Dir: dir, Tag: "three"}); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("a tag that is not there: %v", err)
	}
}

// A layer that leaves its directories to those below is stored for each base.
func TestImpliedLayersAreNotShared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	tool := tarLayer(t, archive(t, item{name: "opt/tool", body: "x"}))
	for i, base := range []item{{name: "opt", link: "usr/opt"}, {name: "opt/"}} {
		got, err := importOCI(t, s, writeLayout(t, ociImage(t, tarLayer(t, rootfs(t, base)), tool)))
		if err != nil {
			t.Fatal(err)
		}
		v := view(t, s, got.Digest)
		if _, err := v.Stat("opt/tool"); err != nil {
			t.Errorf("base %d: the tool is not at opt/tool: %v", i, err)
		}
		e, err := v.Lstat("opt")
		if err != nil || e.IsSymlink() != (base.link != "") {
			t.Errorf("base %d: opt is %+v, %v", i, e, err)
		}
	}
	if n := len(entries(t, filepath.Join(dir, "layers"))); n != 4 {
		t.Errorf("%d layers are stored, want 4", n)
	}
}

// Overlayfs takes a directory once; the same layer may come twice.
func TestRepeatedLayers(t *testing.T) {
	a, b := tarLayer(t, rootfs(t, item{name: "f", body: "a"})), tarLayer(t, archive(t, item{name: "f", body: "b"}))
	s := open(t)
	got, err := importOCI(t, s, writeLayout(t, ociImage(t, a, b, a)))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Layers) != 2 {
		t.Errorf("layers %+v, want two", got.Layers)
	}
	if f, err := view(t, s, got.Digest).ReadFile("f", 10); string(f) != "a" || err != nil {
		t.Errorf("f holds %q, %v", f, err)
	}
}

// T09, and what else a layout can lie about.
func TestImportOCIRefuses(t *testing.T) {
	base := tarLayer(t, rootfs(t))
	good := func(t *testing.T) v1.Image { return ociImage(t, base) }
	// edited is a good layout whose manifest was changed, with its digest made
	// right again, so that only the change is wrong.
	edited := func(change func(m *v1.Manifest)) func(t *testing.T) string {
		return func(t *testing.T) string {
			dir := writeLayout(t, good(t))
			editManifest(t, dir, change)
			return dir
		}
	}
	tests := map[string]func(t *testing.T) string{
		"layer digest mismatch": func(t *testing.T) string {
			dir := writeLayout(t, good(t))
			h, _ := base.Digest()
			damage(t, blobFile(dir, h))
			return dir
		},
		"layer too short": func(t *testing.T) string {
			dir := writeLayout(t, good(t))
			h, _ := base.Digest()
			if err := os.Truncate(blobFile(dir, h), 100); err != nil {
				t.Fatal(err)
			}
			return dir
		},
		"manifest damaged": func(t *testing.T) string {
			dir := writeLayout(t, good(t))
			damage(t, blobFile(dir, indexOf(t, dir).Manifests[0].Digest))
			return dir
		},
		"layer missing": func(t *testing.T) string {
			dir := writeLayout(t, good(t))
			h, _ := base.Digest()
			if err := os.Remove(blobFile(dir, h)); err != nil {
				t.Fatal(err)
			}
			return dir
		},
		"layer is a link out": func(t *testing.T) string {
			dir := writeLayout(t, good(t))
			h, _ := base.Digest()
			outside := filepath.Join(t.TempDir(), "blob")
			if err := errors.Join(os.Rename(blobFile(dir, h), outside), os.Symlink(outside, blobFile(dir, h))); err != nil {
				t.Fatal(err)
			}
			return dir
		},
		"diff id mismatch": func(t *testing.T) string {
			return writeLayout(t, withConfig(t, good(t), func(c *v1.ConfigFile) { c.RootFS.DiffIDs[0].Hex = strings.Repeat("0", 64) }))
		},
		"fewer diff ids": func(t *testing.T) string {
			return writeLayout(t, withConfig(t, good(t), func(c *v1.ConfigFile) { c.RootFS.DiffIDs = nil }))
		},
		"other platform": func(t *testing.T) string {
			return writeLayout(t, withConfig(t, good(t), func(c *v1.ConfigFile) { c.Architecture = "arm64" }))
		},
		"no shell": func(t *testing.T) string {
			return writeLayout(t, ociImage(t, tarLayer(t, archive(t, item{name: "f", body: "x"}))))
		},
		"no layers":        func(t *testing.T) string { return writeLayout(t, ociImage(t)) },
		"layer size less":  edited(func(m *v1.Manifest) { m.Layers[0].Size-- }),
		"layer size more":  edited(func(m *v1.Manifest) { m.Layers[0].Size++ }),
		"layer size minus": edited(func(m *v1.Manifest) { m.Layers[0].Size = -1 }),
		"config size":      edited(func(m *v1.Manifest) { m.Config.Size++ }),
		"config is huge":   edited(func(m *v1.Manifest) { m.Config.Size = 5 << 20 }),
		"layer is huge":    edited(func(m *v1.Manifest) { m.Layers[0].Size = 1 << 60 }),
		"foreign layer":    edited(func(m *v1.Manifest) { m.Layers[0].URLs = []string{"http://169.254.169.254/"} }),
		"foreign type":     edited(func(m *v1.Manifest) { m.Layers[0].MediaType = types.DockerForeignLayer }),
		"unknown type":     edited(func(m *v1.Manifest) { m.Layers[0].MediaType = "application/x-evil" }),
		"unknown config":   edited(func(m *v1.Manifest) { m.Config.MediaType = "application/x-evil" }),
		"calls itself":     edited(func(m *v1.Manifest) { m.MediaType = types.OCIImageIndex }),
		"5000 layers":      edited(func(m *v1.Manifest) { m.Layers = slices.Repeat(m.Layers, 5000) }),
		"129 layers":       edited(func(m *v1.Manifest) { m.Layers = slices.Repeat(m.Layers, 129) }),
		"sha512":           edited(func(m *v1.Manifest) { m.Layers[0].Digest = v1.Hash{Algorithm: "sha512", Hex: strings.Repeat("a", 128)} }),
		"nested indexes": func(t *testing.T) string {
			var i v1.ImageIndex = mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: good(t)})
			return writeLayout(t, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: i}))
		},
		"index loop":        rawIndex(`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","size":%d,"digest":"sha256:` + strings.Repeat("0", 64) + `"}]}`),
		"dots in a digest":  rawIndex(`{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":%d,"digest":"sha256:../../../../etc/passwd"}]}`),
		"digest is a path":  rawIndex(`{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":%d,"digest":"../x:` + strings.Repeat("0", 64) + `"}]}`),
		"index is not JSON": rawIndex(`{"manifests":%d`),
		"index is empty":    rawIndex(`{"manifests":[],"x":%d}`),
		"index is a manifest": rawIndex(
			`{"mediaType":"application/vnd.oci.image.manifest.v1+json","manifests":[],"x":%d}`),
		"too many entries": func(t *testing.T) string {
			d := `{"mediaType":"x","size":1,"digest":"sha256:` + strings.Repeat("0", 64) + `"}`
			return rawIndex(`{"x":%d,"manifests":[` + strings.TrimSuffix(strings.Repeat(d+",", 1025), ",") + "]}")(t)
		},
		"index is huge": func(t *testing.T) string {
			return rawIndex(`{"x":%d,"y":"` + strings.Repeat("y", 5<<20) + `"}`)(t)
		},
		"nothing there": func(t *testing.T) string { return t.TempDir() },
		"index is a directory": func(t *testing.T) string {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "index.json"), 0o755); err != nil {
				t.Fatal(err)
			}
			return dir
		},
	}
	for name, make := range tests {
		t.Run(name, func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "images")
			_, err := importOCI(t, open(t, inDir(store)), make(t))
			if !errdefs.Is(err, errdefs.Unprocessable) && !errdefs.Is(err, errdefs.TooLarge) {
				t.Errorf("got %v, want a refusal", err)
			}
			for _, d := range []string{"names", "images", "staging"} {
				if left := entries(t, filepath.Join(store, d)); len(left) > 0 {
					t.Errorf("%s holds %v", d, left)
				}
			}
		})
	}
}

func TestImportOCIAbsent(t *testing.T) {
	if _, err := importOCI(t, open(t), filepath.Join(t.TempDir(), "absent")); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("got %v", err)
	}
}

// After a crash between two layers the first is not read again.
func TestImportOCIResumes(t *testing.T) {
	store := filepath.Join(t.TempDir(), "images")
	first, second := tarLayer(t, rootfs(t)), tarLayer(t, archive(t, item{name: "x", body: "x"}))
	dir := writeLayout(t, ociImage(t, first, second))
	h, err := second.Digest()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(blobFile(dir, h))
	if err != nil {
		t.Fatal(err)
	}
	damage(t, blobFile(dir, h))
	if _, err := importOCI(t, open(t, inDir(store)), dir); err == nil {
		t.Fatal("a damaged layer was stored")
	}
	if swept, err := open(t, inDir(store)).GC(t.Context(), unused); err != nil || swept.Layers != 0 {
		t.Errorf("GC = %+v, %v; want the finished layer to stay for a while", swept, err)
	}
	h, err = first.Digest()
	if err != nil {
		t.Fatal(err)
	}
	d2, err := second.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(blobFile(dir, h)), os.WriteFile(blobFile(dir, d2), whole, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := importOCI(t, open(t, inDir(store)), dir); err != nil {
		t.Errorf("the second try needed the first layer again: %v", err)
	}
}

func blobFile(dir string, h v1.Hash) string { return filepath.Join(dir, "blobs", h.Algorithm, h.Hex) }

func damage(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0x55
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func indexOf(t *testing.T, dir string) *v1.IndexManifest {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	im, err := v1.ParseIndexManifest(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func editManifest(t *testing.T, dir string, change func(*v1.Manifest)) {
	t.Helper()
	im := indexOf(t, dir)
	data, err := os.ReadFile(blobFile(dir, im.Manifests[0].Digest))
	if err != nil {
		t.Fatal(err)
	}
	m, err := v1.ParseManifest(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	change(m)
	if data, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	h, size, err := v1.SHA256(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	im.Manifests[0].Digest, im.Manifests[0].Size = h, size
	index, err := json.Marshal(im)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(blobFile(dir, h), data, 0o600), os.WriteFile(filepath.Join(dir, "index.json"), index, 0o600))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}

// rawIndex is a layout of an index.json only; its format gets its own length.
func rawIndex(format string) func(t *testing.T) string {
	return func(t *testing.T) string {
		dir := t.TempDir()
		text := fmt.Sprintf(format, len(format))
		if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
}

// What View shows is what the kernel shows: with the options of the native
// driver, whiteouts hide, opaque directories hide, links lead on.
func TestOverlayfsAgrees(t *testing.T) {
	testenv.NeedsRoot(t)
	s := open(t)
	img, err := importOCI(t, s, writeLayout(t, ociImage(t,
		tarLayer(t, rootfs(t, item{name: "gone", body: "x"}, item{name: "d/"}, item{name: "d/old", body: "x"},
			item{name: "e/"}, item{name: "e/old", body: "x"}, item{name: "l", link: "d"})),
		tarLayer(t, archive(t, item{name: ".wh.gone"}, item{name: "d/"}, item{name: "d/.wh..wh..opq"}, item{name: "d/new", body: "x"},
			item{name: ".wh.e"}, item{name: "e/"}, item{name: "e/new", body: "x"})),
		tarLayer(t, archive(t, item{name: "l/through", body: "x"})))))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Rootfs(t.Context(), img.Digest)
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	options := "userxattr,lowerdir=" + strings.Join(r.Layers, ":")
	if err := unix.Mount("overlay", at, "overlay", unix.MS_RDONLY, options); err != nil {
		testenv.Unsupported(t, "mount an overlay: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	v := view(t, s, img.Digest)
	for name, there := range map[string]bool{
		"gone": false, "d/old": false, "d/new": true, "e/old": false, "e/new": true, "d/through": true, "l/through": true, "bin/sh": true,
	} {
		_, kernel := os.Stat(filepath.Join(at, name))
		_, ours := v.Stat(name)
		if (kernel == nil) != there || (ours == nil) != there {
			t.Errorf("%s: the kernel says %v, View says %v, want it there: %v", name, kernel, ours, there)
		}
	}
}
