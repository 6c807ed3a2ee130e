package extract_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sandkasten/sandkasten/internal/images/extract"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// item is one entry of an archive. Owners default to this process's, so that
// tests need no root.
type item struct {
	name string
	kind byte // tar.Type...; 0 is a regular file
	body string
	link string
	mode int64
	uid  int
	gid  int
	pax  map[string]string
	time time.Time // 2023 if zero
}

func dir(name string) item             { return item{name: name, kind: tar.TypeDir, mode: 0o755} }
func file(name, body string) item      { return item{name: name, body: body, mode: 0o644} }
func symlink(name, to string) item     { return item{name: name, kind: tar.TypeSymlink, link: to} }
func hardlink(name, to string) item    { return item{name: name, kind: tar.TypeLink, link: to} }
func special(name string, k byte) item { return item{name: name, kind: k, mode: 0o666} }

func archive(t testing.TB, items ...item) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, i := range items {
		write(t, w, i)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func write(t testing.TB, w *tar.Writer, i item) {
	t.Helper()
	h := &tar.Header{
		Name: i.name, Typeflag: i.kind, Linkname: i.link, Mode: i.mode, Size: int64(len(i.body)),
		Uid: i.uid, Gid: i.gid, PAXRecords: i.pax, ModTime: time.Unix(1_700_000_000, 0),
	}
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
	}
	if i.uid == 0 {
		h.Uid = os.Getuid()
	}
	if i.gid == 0 {
		h.Gid = os.Getgid()
	}
	if !i.time.IsZero() {
		h.ModTime, h.Format = i.time, tar.FormatPAX
	}
	if i.pax != nil {
		h.Format = tar.FormatPAX
	}
	if i.kind == tar.TypeXGlobalHeader {
		h = &tar.Header{Typeflag: i.kind, PAXRecords: i.pax}
	}
	if err := w.WriteHeader(h); err != nil {
		t.Fatalf("write header of %.100q: %v", i.name, err)
	}
	if _, err := w.Write([]byte(i.body)); err != nil {
		t.Fatal(err)
	}
}

// jail is a directory with a neighbour that no archive may touch.
type jail struct {
	root   string // where the archive goes
	canary string // a file beside it
}

func newJail(t testing.TB) jail {
	t.Helper()
	parent := t.TempDir()
	j := jail{root: filepath.Join(parent, "root"), canary: filepath.Join(parent, "canary")}
	if err := os.Mkdir(j.root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(j.canary, []byte("alive"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		names, err := os.ReadDir(parent)
		if err != nil || len(names) != 2 {
			t.Errorf("beside the root there is now %v, %v", names, err)
		}
		if got, err := os.ReadFile(j.canary); err != nil || string(got) != "alive" {
			t.Errorf("the neighbour holds %q, %v", got, err)
		}
		if info, err := os.Stat(j.canary); err != nil || info.Mode() != 0o600 {
			t.Errorf("the neighbour is %v, %v", info.Mode(), err)
		}
	})
	return j
}

func (j jail) extract(t testing.TB, data []byte, change ...func(*extract.Options)) (extract.Result, error) {
	t.Helper()
	opt := extract.Options{Kind: extract.Root, Limits: extract.DefaultLimits()}
	for _, c := range change {
		c(&opt)
	}
	return extract.Tree(t.Context(), j.root, bytes.NewReader(data), opt)
}

func (j jail) read(t testing.TB, name string) string {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(j.root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func (j jail) lstat(t testing.TB, name string) fs.FileInfo {
	t.Helper()
	info, err := os.Lstat(filepath.Join(j.root, name))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func (j jail) wantAbsent(t testing.TB, name string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(j.root, name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there: %v", name, err)
	}
}

func asLayer(lowers ...string) func(*extract.Options) {
	return func(o *extract.Options) { o.Kind, o.Lowers = extract.Layer, lowers }
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func zstandard(t testing.TB, data []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := zstd.NewWriter(&buf, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func deep(n int) string { return strings.TrimSuffix(strings.Repeat("d/", n), "/") }
