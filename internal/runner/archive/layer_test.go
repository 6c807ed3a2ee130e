package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/archive"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// packed returns the headers of what is packed of a directory.
func packed(t testing.TB, dir string, which archive.Selection) []*tar.Header {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	var out bytes.Buffer
	must(t, archive.Pack(&out, archive.Tar, fd, "", which, always))
	return headers(t, out.Bytes())
}

func headers(t testing.TB, data []byte) []*tar.Header {
	t.Helper()
	var all []*tar.Header
	for in := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		all = append(all, h)
	}
}

func names(all []*tar.Header) []string {
	var list []string
	for _, h := range all {
		list = append(list, h.Name)
	}
	return list
}

func TestSelection(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a/b/c", "a/bb", "d"} {
		must(t, os.MkdirAll(dir+"/"+d, 0o755))
		must(t, os.WriteFile(dir+"/"+d+"/f", nil, 0o644))
	}
	must(t, os.WriteFile(dir+"/.wh.d", nil, 0o644))
	for _, c := range []struct {
		include, exclude, want string
	}{
		{"", "", ".wh.d a/ a/b/ a/b/c/ a/b/c/f a/bb/ a/bb/f d/ d/f"},
		{"a/b", "", "a/ a/b/ a/b/c/ a/b/c/f"},
		{"a/bb d/f", "", "a/ a/bb/ a/bb/f d/ d/f"},
		{"", "a/b .wh.d", "a/ a/bb/ a/bb/f d/ d/f"},
		{"a", "a/b/c a/bb/f", "a/ a/b/ a/bb/"},
		{"missing a/b/missing", "", "a/ a/b/"},
	} {
		got := names(packed(t, dir, archive.Selection{Include: strings.Fields(c.include), Exclude: strings.Fields(c.exclude)}))
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("only %q without %q: %q", c.include, c.exclude, got)
		}
	}
}

// H10: what an overlay's upper directory says of removed files is packed, and
// files that only look like it are not.
func TestPackLayer(t *testing.T) {
	testenv.NeedsRoot(t) // to make the marks
	dir := t.TempDir()
	for _, d := range []string{"opaque", "looks", "plain"} {
		must(t, os.Mkdir(dir+"/"+d, 0o755))
		must(t, os.WriteFile(dir+"/"+d+"/f", nil, 0o644))
	}
	must(t, unix.Setxattr(dir+"/opaque", "user.overlay.opaque", []byte("y"), 0))
	must(t, unix.Setxattr(dir+"/looks", "user.overlay.opaque", []byte("no"), 0))
	must(t, unix.Mknod(dir+"/plain/gone", unix.S_IFCHR, 0))
	must(t, unix.Mknod(dir+"/plain/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	for _, fake := range []string{".wh.f", ".wh..wh..opq"} {
		must(t, os.WriteFile(dir+"/plain/"+fake, nil, 0o644))
	}
	want := strings.Fields("looks/ looks/f opaque/ opaque/.wh..wh..opq opaque/f plain/ plain/f plain/.wh.gone")
	if got := names(packed(t, dir, archive.Selection{Layer: true})); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := names(packed(t, dir, archive.Selection{})); slices.Contains(got, "plain/.wh.gone") || !slices.Contains(got, "plain/.wh.f") {
		t.Errorf("a tree: %q", got)
	}
}

// A whiteout's name may be longer than any file's.
func TestLongWhiteouts(t *testing.T) {
	testenv.NeedsRoot(t) // to make the marks
	for _, n := range []int{251, 252, 255} {
		gone := strings.Repeat("n", n)
		from, to := t.TempDir(), t.TempDir()
		must(t, os.Mkdir(from+"/d", 0o755))
		must(t, unix.Mknod(from+"/d/"+gone, unix.S_IFCHR, 0))
		must(t, os.Mkdir(to+"/d", 0o755))
		must(t, os.WriteFile(to+"/d/"+gone, nil, 0o644))
		fd, err := unix.Open(from, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		must(t, err)
		var layer bytes.Buffer
		must(t, archive.Pack(&layer, archive.Tar, fd, "", archive.Selection{Layer: true}, always))
		if _, err := unpackAs(t, to, archive.Tar, protocol.SnapshotLayer, &layer); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		if left, err := os.ReadDir(to + "/d"); err != nil || len(left) > 0 {
			t.Errorf("%d bytes: left %v, %v", n, left, err)
		}
	}
	for _, name := range []string{".wh." + strings.Repeat("n", 256), ".wh." + strings.Repeat("n", 252) + "/f"} {
		var data bytes.Buffer
		out := tar.NewWriter(&data)
		must(t, out.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg}))
		must(t, out.Close())
		if _, err := unpackAs(t, t.TempDir(), archive.Tar, protocol.SnapshotLayer, &data); codeOf(err) != protocol.CodeUnprocessable {
			t.Errorf("%.10q: %v", name, err)
		}
	}
}

// A snapshot brings owners back, however much it expands, and no set-id bits.
func TestUnpackSnapshot(t *testing.T) {
	testenv.NeedsRoot(t)
	dir, to := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(dir+"/d", 0o755))
	must(t, os.WriteFile(dir+"/d/f", []byte("x"), 0o644))
	must(t, os.WriteFile(dir+"/zeros", nil, 0o600))
	must(t, os.Truncate(dir+"/zeros", 64<<20))
	must(t, os.Symlink("f", dir+"/d/l"))
	must(t, os.Chown(dir+"/d", 1, 2))
	must(t, os.Chown(dir+"/d/f", 65534, 3))
	must(t, os.Lchown(dir+"/d/l", 4, 5))
	must(t, os.Chmod(dir+"/d", fs.ModeSetgid|fs.ModeSticky|0o770))
	must(t, os.Chmod(dir+"/d/f", fs.ModeSetuid|0o711))
	old := time.Unix(1_500_000_000, 0)
	must(t, os.Chtimes(dir+"/d/f", old, old))
	data := pack(t, dir, archive.TarZstd)
	if _, err := unpack(t, t.TempDir(), archive.TarZstd, bytes.NewReader(data)); codeOf(err) != protocol.CodeTooLarge {
		t.Errorf("somebody's archive expands that much: %v", err)
	}
	if _, err := unpackAs(t, to, archive.TarZstd, protocol.SnapshotTree, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][3]uint32{"d": {1, 2, 0o3770}, "d/f": {65534, 3, 0o711}, "d/l": {4, 5, 0o777}} {
		var st unix.Stat_t
		must(t, unix.Lstat(to+"/"+name, &st))
		if got := [3]uint32{st.Uid, st.Gid, st.Mode & 0o7777}; got != want {
			t.Errorf("%s: %o, want %o", name, got, want)
		}
		if name == "d/f" && st.Mtim.Sec != old.Unix() {
			t.Errorf("the time is %d", st.Mtim.Sec)
		}
	}
	var st unix.Stat_t
	must(t, unix.Stat(to+"/zeros", &st))
	if st.Size != 64<<20 || st.Blocks > 2048 {
		t.Errorf("%d bytes in %d blocks", st.Size, st.Blocks)
	}
}

func TestUnpackLayer(t *testing.T) {
	testenv.NeedsRoot(t)
	to := t.TempDir()
	for _, d := range []string{"gone/deep", "opaque/deep", "file", "stays"} {
		must(t, os.MkdirAll(to+"/"+d, 0o755))
		must(t, os.WriteFile(to+"/"+d+"/f", nil, 0o644))
	}
	must(t, os.WriteFile(to+"/single", nil, 0o644))
	must(t, os.Symlink("stays", to+"/link"))
	data := tarOf(
		t,
		entry{name: ".wh.gone"},
		entry{name: ".wh.single"},
		entry{name: ".wh.missing"},
		entry{name: ".wh.link"},
		entry{name: "opaque/", kind: tar.TypeDir, mode: 0o700},
		entry{name: "opaque/.wh..wh..opq"},
		entry{name: "opaque/new", body: "x"},
		entry{name: "file", body: "instead of a directory"},
		entry{name: "stays/new", body: "x"},
	)
	if _, err := unpackAs(t, to, archive.Tar, protocol.SnapshotLayer, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	var left []string
	must(t, fs.WalkDir(os.DirFS(to), ".", func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			left = append(left, path)
		}
		return err
	}))
	if want := strings.Fields("file opaque/new stays/f stays/new"); !slices.Equal(left, want) {
		t.Errorf("left: %q", left)
	}

	for _, name := range []string{".wh.", ".wh...", ".wh..", ".wh..wh..opq", "a/.wh..wh.x", "../.wh.x", "to/.wh.x/../y"} {
		if _, err := unpackAs(t, to, archive.Tar, protocol.SnapshotLayer, bytes.NewReader(tarOf(t, entry{name: name}))); codeOf(err) != protocol.CodeUnprocessable {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.Symlink(t.TempDir(), to+"/out"))
	for _, name := range []string{"out/.wh.x", "out/.wh..wh..opq"} {
		if _, err := unpackAs(t, to, archive.Tar, protocol.SnapshotLayer, bytes.NewReader(tarOf(t, entry{name: name}))); codeOf(err) != protocol.CodeUnprocessable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// T04: owners that a sandbox does not know.
func TestSnapshotOwners(t *testing.T) {
	for _, h := range []tar.Header{{Uid: 65535}, {Gid: 1 << 30}, {Uid: -1}} {
		h.Name, h.Typeflag, h.Mode, h.Format = "f", tar.TypeReg, 0o644, tar.FormatGNU
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		must(t, w.WriteHeader(&h))
		must(t, w.Close())
		if _, err := unpackAs(t, t.TempDir(), archive.Tar, protocol.SnapshotTree, &out); codeOf(err) != protocol.CodeUnprocessable {
			t.Errorf("%d:%d: %v", h.Uid, h.Gid, err)
		}
	}
}
