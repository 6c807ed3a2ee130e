package images_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
)

// I01: with an allow-list, a name is worth what it resolves to.
func TestAllowList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir), func(o *images.Options) { o.Allowed = []string{"python:3.12", "absent"} })
	allowed := importTar(t, s, "python:3.12", rootfs(t))
	other := importTar(t, s, "python:3.12-evil", rootfs(t, item{name: "evil", body: "x"}))
	for _, name := range []string{"evil/python:3.12", "localhost:5000/python:3.12", "python", "secret"} {
		importTar(t, s, name, rootfs(t, item{name: "evil", body: "x"}))
	}
	importTar(t, s, "alias", rootfs(t))

	short := strings.TrimPrefix(allowed.Digest, "sha256:")
	tests := map[string]errdefs.Code{ // "" is allowed
		"python:3.12":                            "",
		"docker.io/library/python:3.12":          "",
		"index.docker.io/library/python:3.12":    "",
		"docker.io/python:3.12":                  "",
		"python:3.12@" + allowed.Digest:          "",
		allowed.Digest:                           "",
		"alias":                                  "",
		"python:3.12-evil":                       errdefs.PermissionDenied,
		"evil/python:3.12":                       errdefs.PermissionDenied,
		"localhost:5000/python:3.12":             errdefs.PermissionDenied,
		"python":                                 errdefs.PermissionDenied,
		"python:latest":                          errdefs.PermissionDenied,
		other.Digest:                             errdefs.PermissionDenied,
		"python:3.12@" + other.Digest:            errdefs.NotFound,
		"alias@" + other.Digest:                  errdefs.NotFound,
		"secret@" + allowed.Digest:               errdefs.NotFound,
		"python:3":                               errdefs.NotFound,
		"library/python:3.12":                    errdefs.NotFound,
		"docker.io/evil/python:3.13":             errdefs.NotFound,
		"absent":                                 errdefs.NotFound,
		"sha256:" + strings.Repeat("0", 64):      errdefs.NotFound,
		short[:12]:                               errdefs.NotFound,
		"PYTHON:3.12":                            errdefs.InvalidArgument,
		" python:3.12":                           errdefs.InvalidArgument,
		"python:3.12 ":                           errdefs.InvalidArgument,
		"python:3.12\n":                          errdefs.InvalidArgument,
		"python:3.12\x00":                        errdefs.InvalidArgument,
		"pyth\u043en:3.12":                       errdefs.InvalidArgument, // a Cyrillic o
		"sha256:" + short[:12]:                   errdefs.InvalidArgument,
		"SHA256:" + short:                        errdefs.InvalidArgument,
		"allowed/../evil":                        errdefs.InvalidArgument,
		"../python:3.12":                         errdefs.InvalidArgument,
		"/python:3.12":                           errdefs.InvalidArgument,
		"python:3.12/":                           errdefs.InvalidArgument,
		"python//x":                              errdefs.InvalidArgument,
		"--privileged":                           errdefs.InvalidArgument,
		"-v":                                     errdefs.InvalidArgument,
		"":                                       errdefs.InvalidArgument,
		"@" + allowed.Digest:                     errdefs.InvalidArgument,
		"python:3.12@sha256:" + short[:12]:       errdefs.InvalidArgument,
		"python:3.12@" + allowed.Digest + "@x":   errdefs.InvalidArgument,
		"python:3.12,x":                          errdefs.InvalidArgument,
		`python\x`:                               errdefs.InvalidArgument,
		"python:3.12:evil":                       errdefs.InvalidArgument,
		"a+b":                                    errdefs.InvalidArgument,
		"http://python":                          errdefs.InvalidArgument,
		".hidden":                                errdefs.InvalidArgument,
		strings.Repeat("a", 201):                 errdefs.InvalidArgument,
		"python:" + strings.Repeat("1", 129):     errdefs.InvalidArgument,
		"../names/python:3.12":                   errdefs.InvalidArgument,
		"python:3.12?x":                          errdefs.InvalidArgument,
		"\u202epython":                           errdefs.InvalidArgument,
		"python:3.12@md5:" + short:               errdefs.InvalidArgument,
		"python:3.12@" + allowed.Digest + "\n":   errdefs.InvalidArgument,
		"localhost:99999999/python":              errdefs.InvalidArgument,
		"docker.io/library/python:3.12@" + short: errdefs.InvalidArgument,
	}
	for name, want := range tests {
		got, err := s.Resolve(t.Context(), name)
		if want == "" && (err != nil || got != allowed.Digest) {
			t.Errorf("Resolve(%q) = %q, %v; want it allowed", name, got, err)
		}
		if want != "" && (!errdefs.Is(err, want) || got != "") {
			t.Errorf("Resolve(%q) = %q, %v; want %s", name, got, err, want)
		}
	}

	// I02: when the name moves, so does what is allowed; a session keeps the
	// digest it got.
	moved := importTar(t, s, "python:3.12", rootfs(t, item{name: "newer", body: "x"}))
	if got, err := s.Resolve(t.Context(), "python:3.12"); got != moved.Digest || err != nil {
		t.Errorf("after a new import: %q, %v", got, err)
	}
	if _, err := s.Resolve(t.Context(), "alias"); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("the older image is still allowed: %v", err)
	}
	if _, err := s.Rootfs(t.Context(), allowed.Digest); err != nil {
		t.Errorf("a session's image is gone: %v", err)
	}
	// Without a list everything in the store is.
	if _, err := open(t, inDir(dir)).Resolve(t.Context(), "secret"); err != nil {
		t.Error(err)
	}
}

func TestAllowListIsChecked(t *testing.T) {
	_, err := images.Open(images.Options{Dir: t.TempDir(), Allowed: []string{"python", "Bad Name"}})
	if !errdefs.Is(err, errdefs.InvalidArgument) || !strings.Contains(err.Error(), "allowed_images") {
		t.Errorf("got %v", err)
	}
}

func TestUnknownImageTeaches(t *testing.T) {
	_, err := open(t).Resolve(t.Context(), "python")
	for _, word := range []string{`"python"`, "sandkasten image ls", "build", "import"} {
		if !strings.Contains(errdefs.MessageOf(err), word) {
			t.Errorf("%q does not mention %s", errdefs.MessageOf(err), word)
		}
	}
}

// T10: a name that is accepted never leaves its directory and never looks like
// an option, whatever it is made of.
func FuzzName(f *testing.F) {
	for _, s := range []string{"base", "a/b:1", "localhost:5000/x@sha256:" + strings.Repeat("a", 64), "--x", "../x", "a,b", "a\nb"} {
		f.Add(s)
	}
	dir := filepath.Join(f.TempDir(), "images")
	data := rootfs(f)
	s := open(f, inDir(dir))
	f.Fuzz(func(t *testing.T, name string) {
		_, err := s.Import(t.Context(), images.ImportRequest{Name: name, Tar: bytes.NewReader(data)})
		if errdefs.Is(err, errdefs.InvalidArgument) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(name, " ,\\\n\x00@+=;") || strings.HasPrefix(name, "-") || strings.Contains(name, "..") {
			t.Errorf("%q was accepted", name)
		}
		if len(entries(t, filepath.Join(dir, "names"))) != 1 {
			t.Errorf("%q made the names %v", name, entries(t, filepath.Join(dir, "names")))
		}
		if err := s.Remove(t.Context(), name, unused); err != nil {
			t.Errorf("%q was stored but not found again: %v", name, err)
		}
	})
}

// The names of the first documents are other names of the images of the recipes, unless an
// image has such a name itself.
func TestNamesOfTheFirstDocuments(t *testing.T) {
	t.Parallel()
	s := open(t)
	base, python := importTar(t, s, "base", rootfs(t)), importTar(t, s, "python", rootfs(t, item{name: "python", body: "x"}))
	own := importTar(t, s, "sandbox-runtime:node", rootfs(t, item{name: "own", body: "x"}))
	importTar(t, s, "node", rootfs(t, item{name: "node", body: "x"}))
	for name, want := range map[string]string{
		"sandbox-runtime:base": base.Digest, "docker.io/sandbox-runtime:python": python.Digest, "sandbox-runtime:python@" + python.Digest: python.Digest,
		"sandbox-runtime:node": own.Digest, "sandbox-runtime:ruby": "", "sandbox-runtime": "", "sandbox-runtime:python@" + base.Digest: "",
	} {
		got, err := s.Resolve(t.Context(), name)
		if got != want || (want == "") != errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("%s is %s, %v; want %s", name, got, err, want)
		}
	}
	if image, err := s.Inspect(t.Context(), "sandbox-runtime:python"); err != nil || image.Digest != python.Digest {
		t.Errorf("%+v, %v", image, err)
	}
}
