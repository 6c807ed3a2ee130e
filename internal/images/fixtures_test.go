package images_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// item is one entry of an archive, owned by this process: tests need no root.
// A name with a slash at its end is a directory, a link has a target.
type item struct{ name, body, link string }

// rootItems is the least that an image needs.
var rootItems = []item{
	{name: "bin/"}, {name: "bin/sh", body: "#!"}, {name: "etc/"}, {name: "tmp/"}, {name: "proc/"},
}

func archive(t testing.TB, items ...item) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, i := range items {
		h := &tar.Header{Name: i.name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(i.body)), Uid: os.Getuid(), Gid: os.Getgid()}
		if strings.HasSuffix(i.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if i.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, i.link
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(i.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// rootfs is rootItems and more.
func rootfs(t testing.TB, more ...item) []byte {
	t.Helper()
	return archive(t, append(rootItems[:len(rootItems):len(rootItems)], more...)...)
}

func open(t testing.TB, change ...func(*images.Options)) *images.Store {
	t.Helper()
	opt := images.Options{Dir: filepath.Join(t.TempDir(), "images")}
	for _, c := range change {
		c(&opt)
	}
	s, err := images.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inDir opens another handle on a store, as another process would.
func inDir(dir string) func(*images.Options) {
	return func(o *images.Options) { o.Dir = dir }
}

func importTar(t testing.TB, s *images.Store, name string, data []byte) images.Image {
	t.Helper()
	img, err := s.Import(t.Context(), images.ImportRequest{Name: name, Tar: bytes.NewReader(data)})
	if err != nil {
		t.Fatalf("import %s: %v", name, err)
	}
	return img
}

func entries(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func unused(string) ([]string, error) { return nil, nil }
