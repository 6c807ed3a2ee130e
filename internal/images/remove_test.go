package images_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
)

// usedBy is what uses one image.
func usedBy(digest string) images.InUse {
	return func(d string) ([]string, error) {
		if d != digest {
			return nil, nil
		}
		return []string{"s1", "s2", "s3", "s4", "s5", "s6"}, nil
	}
}

func TestRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	img := importTar(t, s, "a", rootfs(t))
	importTar(t, s, "b", rootfs(t))
	importTar(t, s, "c", rootfs(t, item{name: "x", body: "x"}))

	inUse := usedBy(img.Digest)
	if err := s.Remove(t.Context(), "a", inUse); err != nil {
		t.Errorf("taking one of two names away: %v", err)
	}
	if err := s.Remove(t.Context(), "b", inUse); !errdefs.Is(err, errdefs.Conflict) || errdefs.MessageOf(err) != "image b is in use by the sessions s1, s2, s3, s4, s5 and 1 more: destroy them first" {
		t.Errorf("removing an image in use: %v", err)
	}
	if err := s.Remove(t.Context(), img.Digest, inUse); !errdefs.Is(err, errdefs.Conflict) {
		t.Errorf("removing an image in use by digest: %v", err)
	}
	broken := errors.New("no database")
	if err := s.Remove(t.Context(), "b", func(string) ([]string, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("removing without knowing: %v", err)
	}
	if _, err := s.Rootfs(t.Context(), img.Digest); err != nil {
		t.Errorf("a refused removal harmed the image: %v", err)
	}
	if err := s.Remove(t.Context(), "b", unused); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve(t.Context(), "b"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("after removal: %v", err)
	}
	if got := entries(t, filepath.Join(dir, "layers")); len(got) != 1 {
		t.Errorf("layers are %v, want the one of c", got)
	}
	if got := entries(t, filepath.Join(dir, "trash")); len(got) != 0 {
		t.Errorf("trash holds %v", got)
	}
	if err := s.Remove(t.Context(), "b", unused); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("removing twice: %v", err)
	}
	if problems, err := s.Validate(t.Context(), "c"); err != nil || len(problems) > 0 {
		t.Errorf("another image: %q, %v", problems, err)
	}
}

func TestRemoveByDigestTakesAllNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	img := importTar(t, s, "a", rootfs(t))
	importTar(t, s, "b", rootfs(t))
	if err := s.Remove(t.Context(), img.Digest, unused); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, filepath.Join(dir, "names")); len(got) != 0 {
		t.Errorf("names are %v", got)
	}
}

// A sandbox that got the image just before it went is seen, and the image
// comes back.
func TestRemoveRacesCreate(t *testing.T) {
	s := open(t)
	img := importTar(t, s, "a", rootfs(t))
	asked := 0
	err := s.Remove(t.Context(), "a", func(string) ([]string, error) {
		asked++
		if asked == 2 {
			return []string{"s1"}, nil
		}
		return nil, nil
	})
	if !errdefs.Is(err, errdefs.Conflict) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Resolve(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if problems, err := s.Validate(t.Context(), img.Digest); err != nil || len(problems) > 0 {
		t.Errorf("%q, %v", problems, err)
	}
}

func TestGC(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	old := importTar(t, s, "x", rootfs(t))
	used := importTar(t, s, "x", rootfs(t, item{name: "2", body: "x"}))
	importTar(t, s, "x", rootfs(t, item{name: "3", body: "x"}))
	if got := entries(t, filepath.Join(dir, "layers")); len(got) != 3 {
		t.Fatalf("layers are %v", got)
	}
	// All layers look as if no import would come back for them.
	past := time.Now().Add(-48 * time.Hour)
	for _, l := range entries(t, filepath.Join(dir, "layers")) {
		if err := os.Chtimes(filepath.Join(dir, "layers", l), past, past); err != nil {
			t.Fatal(err)
		}
	}
	swept, err := s.GC(t.Context(), usedBy(used.Digest))
	if err != nil || swept.Images != 1 || swept.Layers != 1 {
		t.Errorf("GC = %+v, %v", swept, err)
	}
	if _, err := s.Inspect(t.Context(), old.Digest); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("the image without a name: %v", err)
	}
	if problems, err := s.Validate(t.Context(), used.Digest); err != nil || len(problems) > 0 {
		t.Errorf("the image in use: %q, %v", problems, err)
	}
	if problems, err := s.Validate(t.Context(), "x"); err != nil || len(problems) > 0 {
		t.Errorf("the image with the name: %q, %v", problems, err)
	}
}

// A damaged image must not make its layers, or others', look like rubbish.
// What is told before is what GC removes.
func TestGarbage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	lost := importTar(t, s, "a", rootfs(t))
	importTar(t, s, "a", rootfs(t, item{name: "x", body: "x"})) // takes the name
	for _, name := range []string{"staging/one", "trash/two"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-48 * time.Hour)
	for _, name := range entries(t, filepath.Join(dir, "layers")) {
		if err := os.Chtimes(filepath.Join(dir, "layers", name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	kinds := func(inUse images.InUse) (list []string) {
		t.Helper()
		all, err := s.Garbage(t.Context(), inUse)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range all {
			list = append(list, g.What)
		}
		return list
	}
	used := usedBy(lost.Digest)
	if diff := cmp.Diff([]string{"staging", "trash"}, kinds(used)); diff != "" {
		t.Errorf("with the image in use: %s", diff)
	}
	if diff := cmp.Diff([]string{"image", "layer", "staging", "trash"}, kinds(unused)); diff != "" {
		t.Error(diff)
	}
	if _, err := s.GC(t.Context(), unused); err != nil {
		t.Fatal(err)
	}
	if left := kinds(unused); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestGCStopsAtDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	img := importTar(t, s, "x", rootfs(t))
	meta := filepath.Join(dir, "images", img.Digest[len("sha256:"):], "meta.json")
	if err := os.WriteFile(meta, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GC(t.Context(), unused); err == nil {
		t.Error("GC went on")
	}
	if got := entries(t, filepath.Join(dir, "layers")); len(got) != 1 {
		t.Errorf("layers are %v", got)
	}
}
