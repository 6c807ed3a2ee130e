package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/archive"
	"github.com/sandkasten/sandkasten/protocol"
)

func always() error { return nil }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func pack(t testing.TB, dir string, f archive.Format) []byte {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	var out bytes.Buffer
	must(t, archive.Pack(&out, f, fd, filepath.Base(dir), archive.Selection{}, always))
	return out.Bytes()
}

func unpack(t testing.TB, dir string, f archive.Format, in io.Reader) (protocol.Unpacked, error) {
	t.Helper()
	return unpackAs(t, dir, f, "", in)
}

func unpackAs(t testing.TB, dir string, f archive.Format, how protocol.Snapshot, in io.Reader) (protocol.Unpacked, error) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	spool, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	done, err := archive.Unpack(fd, f, how, in, int(spool.Fd()), always)
	must(t, errors.Join(unix.Close(fd), spool.Close()))
	return done, err
}

var formats = []archive.Format{archive.Tar, archive.TarGzip, archive.TarZstd, archive.Zip}

// describe tells all that is below a directory.
func describe(t testing.TB, dir string) string {
	t.Helper()
	var out strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		content := ""
		switch {
		case err != nil:
			return err
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = fmt.Sprintf("%.40q %d", b, info.ModTime().Unix())
		case d.Type() == fs.ModeSymlink:
			if content, err = os.Readlink(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(&out, "%q %v %s\n", rel, info.Mode(), content)
		return nil
	}))
	return out.String()
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/a/b/empty", 0o755))
	must(t, os.WriteFile(dir+"/a/file", []byte("content"), 0o640))
	must(t, os.WriteFile(dir+"/a/run", bytes.Repeat([]byte("x y z\n"), 100_000), 0o755))
	must(t, os.WriteFile(dir+"/empty", nil, 0o600))
	must(t, os.WriteFile(dir+"/ödd \n name", []byte("1"), 0o644))
	must(t, os.WriteFile(dir+"/"+strings.Repeat("n", 255), []byte("2"), 0o644))
	must(t, os.Symlink("../elsewhere", dir+"/a/link"))
	must(t, os.Symlink("/etc/passwd", dir+"/out"))
	must(t, os.Chmod(dir+"/a/b", 0o700))
	old := time.Unix(1_600_000_000, 0)
	must(t, os.Chtimes(dir+"/a/file", old, old))
	want := describe(t, dir)
	must(t, unix.Mkfifo(dir+"/fifo", 0o644)) // left out
	for _, f := range formats {
		to := t.TempDir()
		done, err := unpack(t, to, f, bytes.NewReader(pack(t, dir, f)))
		if err != nil || done.Files != 7 || done.Bytes != 600_009 {
			t.Errorf("%s: %+v, %v", f, done, err)
		}
		if got := describe(t, to); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", f, got, want)
		}
		single := t.TempDir()
		if _, err := unpack(t, single, f, bytes.NewReader(pack(t, dir+"/a/file", f))); err != nil {
			t.Error(f, err)
		}
		if b, err := os.ReadFile(single + "/file"); err != nil || string(b) != "content" {
			t.Errorf("%s: a single file: %q, %v", f, b, err)
		}
	}
}

// Holes come out as holes, however the archive has them.
// TestTimes has files and directories get the times that they had, directories also where
// later entries come into them.
func TestTimes(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/a/b", 0o755))
	must(t, os.WriteFile(dir+"/a/b/f", nil, 0o600))
	old := time.Unix(1_000_000_000, 789_123_456)
	for _, name := range []string{"a/b/f", "a/b", "a"} {
		must(t, os.Chtimes(dir+"/"+name, old, old))
	}
	for _, f := range formats {
		to := t.TempDir()
		if _, err := unpack(t, to, f, bytes.NewReader(pack(t, dir, f))); err != nil {
			t.Fatal(err)
		}
		want := old
		if f == archive.Zip { // which has full seconds
			want = old.Truncate(time.Second)
		}
		for _, name := range []string{"a/b/f", "a/b", "a"} {
			if info, err := os.Stat(to + "/" + name); err != nil || !info.ModTime().Equal(want) {
				t.Errorf("%s: %s is of %v, %v, want %v", f, name, info.ModTime(), err, want)
			}
		}
	}
	// A file in the place of a directory, and the target itself.
	to := t.TempDir()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	must(t, w.WriteHeader(&tar.Header{Name: "./", Typeflag: tar.TypeDir, ModTime: old, Format: tar.FormatPAX}))
	must(t, w.WriteHeader(&tar.Header{Name: "d/", Typeflag: tar.TypeDir, ModTime: old, Format: tar.FormatPAX}))
	must(t, w.WriteHeader(&tar.Header{Name: "d", Typeflag: tar.TypeReg, ModTime: old.Add(time.Hour), Format: tar.FormatPAX}))
	must(t, w.Close())
	if _, err := unpack(t, to, archive.Tar, &out); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Time{"": old, "/d": old.Add(time.Hour)} {
		if info, err := os.Stat(to + name); err != nil || !info.ModTime().Equal(want) {
			t.Errorf("%q is of %v, %v, want %v", name, info.ModTime(), err, want)
		}
	}
}

func TestHoles(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/f", []byte("x"), 0o644))
	must(t, os.Truncate(dir+"/f", 8<<20))
	for _, f := range formats {
		to := t.TempDir()
		if _, err := unpack(t, to, f, bytes.NewReader(pack(t, dir, f))); err != nil {
			t.Fatal(f, err)
		}
		var st unix.Stat_t
		must(t, unix.Stat(to+"/f", &st))
		if st.Size != 8<<20 || st.Blocks*512 > 1<<20 {
			t.Errorf("%s: %d bytes in %d blocks", f, st.Size, st.Blocks)
		}
	}
}

// entry is one of a made-up archive.
type entry struct {
	name, body string
	kind       byte
	link       string
	mode       int64
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		if e.mode == 0 {
			e.mode = 0o644
		}
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode, Size: int64(len(e.body)), Uid: 12345, ModTime: time.Now().Add(time.Hour)}
		must(t, w.WriteHeader(h))
		_, err := io.WriteString(w, e.body)
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

func zipOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		mode := fs.FileMode(0o644)
		switch e.kind {
		case tar.TypeSymlink:
			mode, e.body = fs.ModeSymlink|0o777, e.link
		case tar.TypeDir:
			mode = fs.ModeDir | 0o755
		case tar.TypeChar:
			mode = fs.ModeDevice | fs.ModeCharDevice | 0o644
		}
		if e.mode&0o4000 != 0 {
			mode |= fs.ModeSetuid
		}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		must(t, err)
		_, err = io.WriteString(f, e.body)
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

// T01 to T04: nothing that an archive says leads out of its directory.
func TestBreakouts(t *testing.T) {
	link, dir, hard := byte(tar.TypeSymlink), byte(tar.TypeDir), byte(tar.TypeLink)
	for name, tc := range map[string]struct {
		entries []entry
		tarOnly bool
	}{
		"climbs":                 {entries: []entry{{name: "../canary", body: "x"}}},
		"climbs later":           {entries: []entry{{name: "a/../../canary", body: "x"}}},
		"climbs with a dot":      {entries: []entry{{name: "./../canary", body: "x"}}},
		"climbs backwards":       {entries: []entry{{name: `..\canary`, body: "x"}}},
		"absolute":               {entries: []entry{{name: "/tmp/sandkasten-canary", body: "x"}}},
		"climbing directory":     {entries: []entry{{name: "../dir/", kind: dir}}},
		"climbing link":          {entries: []entry{{name: "../l", kind: link, link: "x"}}},
		"through a link":         {entries: []entry{{name: "l", kind: link, link: ".."}, {name: "l/canary", body: "x"}}},
		"through two links":      {entries: []entry{{name: "a", kind: link, link: "."}, {name: "b", kind: link, link: "a/.."}, {name: "b/canary", body: "x"}}},
		"through its own target": {entries: []entry{{name: "l", kind: link, link: "OUT"}, {name: "l/canary", body: "x"}}},
		"through one before":     {entries: []entry{{name: "before/canary", body: "x"}}},
		"directory in one":       {entries: []entry{{name: "before/dir/", kind: dir}}},
		"link in one":            {entries: []entry{{name: "before/l", kind: link, link: "x"}}},
		"hard link out":          {entries: []entry{{name: "h", kind: hard, link: "../canary"}, {name: "h", body: "x"}}, tarOnly: true},
		"hard link to a link":    {entries: []entry{{name: "l", kind: link, link: "../canary"}, {name: "h", kind: hard, link: "l"}}, tarOnly: true},
		"hard link through one":  {entries: []entry{{name: "l", kind: link, link: ".."}, {name: "h", kind: hard, link: "l/canary"}}, tarOnly: true},
		"hard link to one there": {entries: []entry{{name: "h", kind: hard, link: "mine"}}, tarOnly: true},
		"hard link to nothing":   {entries: []entry{{name: "h", kind: hard, link: "later"}, {name: "later"}}, tarOnly: true},
		"hard link to itself":    {entries: []entry{{name: "h"}, {name: "h", kind: hard, link: "h"}}, tarOnly: true},
		"device":                 {entries: []entry{{name: "d", kind: tar.TypeChar}}},
		"pipe":                   {entries: []entry{{name: "p", kind: tar.TypeFifo}}, tarOnly: true},
		"file then directory":    {entries: []entry{{name: "f", body: "x"}, {name: "f/g", body: "x"}}},
		"over a full directory":  {entries: []entry{{name: "full", body: "x"}}},
		"link over a directory":  {entries: []entry{{name: "full", kind: link, link: ".."}}},
		"the target as a file":   {entries: []entry{{name: ".", kind: link, link: ".."}}},
		"long name":              {entries: []entry{{name: strings.Repeat("n", 256)}}},
		"long path":              {entries: []entry{{name: strings.Repeat("d/", 600) + "f"}}},
		"deep path":              {entries: []entry{{name: strings.Repeat("d/", 129) + "f"}}},
		"long link":              {entries: []entry{{name: "l", kind: link, link: strings.Repeat("x", 1025)}}},
	} {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			must(t, os.WriteFile(outside+"/canary", []byte("secret"), 0o600))
			to := outside + "/to"
			must(t, os.MkdirAll(to+"/full", 0o755))
			must(t, os.WriteFile(to+"/full/kept", []byte("kept"), 0o644))
			must(t, os.WriteFile(to+"/mine", []byte("mine"), 0o644))
			must(t, os.Symlink("..", to+"/before"))
			for i := range tc.entries {
				tc.entries[i].link = strings.ReplaceAll(tc.entries[i].link, "OUT", outside)
			}
			archives := map[archive.Format][]byte{archive.Tar: tarOf(t, tc.entries...)}
			if !tc.tarOnly {
				archives[archive.Zip] = zipOf(t, tc.entries...)
			}
			for f, data := range archives {
				if _, err := unpack(t, to, f, bytes.NewReader(data)); codeOf(err) != protocol.CodeUnprocessable {
					t.Errorf("%s: %v", f, err)
				}
			}
			for _, how := range []protocol.Snapshot{protocol.SnapshotTree, protocol.SnapshotLayer} {
				covers := strings.HasSuffix(name, "over a full directory") || name == "link over a directory"
				if os.Getuid() != 0 || how == protocol.SnapshotLayer && covers { // a snapshot has owners; a layer covers directories
					continue
				}
				if _, err := unpackAs(t, to, archive.Tar, how, bytes.NewReader(archives[archive.Tar])); codeOf(err) != protocol.CodeUnprocessable {
					t.Errorf("as a %s: %v", how, err)
				}
			}
			if b, err := os.ReadFile(outside + "/canary"); err != nil || string(b) != "secret" {
				t.Errorf("the canary is %q, %v", b, err)
			}
			if b, err := os.ReadFile(to + "/full/kept"); err != nil || string(b) != "kept" {
				t.Errorf("a file that was there is %q, %v", b, err)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) != 2 {
				t.Errorf("outside: %v, %v", left, err)
			}
		})
	}
}

// What an archive may replace, and what it cannot say.
func TestUnpackOver(t *testing.T) {
	to := t.TempDir()
	elsewhere := t.TempDir() + "/elsewhere"
	must(t, os.WriteFile(elsewhere, []byte("elsewhere"), 0o600))
	must(t, os.Symlink(elsewhere, to+"/link"))
	must(t, os.Symlink(filepath.Dir(elsewhere), to+"/dirlink"))
	must(t, os.Link(elsewhere, to+"/hard"))
	must(t, os.Mkdir(to+"/empty", 0o755))
	must(t, os.MkdirAll(to+"/dir/kept", 0o700))
	data := tarOf(
		t,
		entry{name: "link", body: "new"},
		entry{name: "hard", body: "new"},
		entry{name: "dirlink/", kind: tar.TypeDir, mode: 0o755},
		entry{name: "dirlink/f", body: "new", mode: 0o4755},
		entry{name: "empty", body: "new"},
		entry{name: "dir/", kind: tar.TypeDir, mode: 0o2775},
		entry{name: "twice", body: "first"},
		entry{name: "second", kind: tar.TypeLink, link: "twice"},
		entry{name: "twice", body: "second"},
	)
	done, err := unpack(t, to, archive.Tar, bytes.NewReader(data))
	if err != nil || done.Files != 7 {
		t.Errorf("%+v, %v", done, err)
	}
	if b, err := os.ReadFile(elsewhere); err != nil || string(b) != "elsewhere" {
		t.Errorf("elsewhere is %q, %v", b, err)
	}
	for name, want := range map[string]string{"link": "new", "hard": "new", "dirlink/f": "new", "empty": "new", "twice": "second", "second": "first"} {
		if b, err := os.ReadFile(to + "/" + name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for name, want := range map[string]fs.FileMode{"dirlink/f": 0o755, "dir": fs.ModeDir | 0o775, "dirlink": fs.ModeDir | 0o755} {
		if st, err := os.Lstat(to + "/" + name); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
		if st, err := os.Lstat(to + "/" + name); err != nil || st.ModTime().After(time.Now().Add(time.Minute)) {
			t.Errorf("%s is from the future", name)
		}
	}
	var st unix.Stat_t
	must(t, unix.Stat(to+"/link", &st))
	if int(st.Uid) != os.Getuid() {
		t.Errorf("the archive chose the owner %d", st.Uid)
	}
}

func gzipped(t testing.TB, r io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := io.Copy(z, r)
	must(t, errors.Join(err, z.Close()))
	return out.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// T05 to T07: bombs, and archives that are not whole.
func TestBombsAndDamage(t *testing.T) {
	var bomb bytes.Buffer
	w := tar.NewWriter(&bomb)
	must(t, w.WriteHeader(&tar.Header{Name: "zeros", Size: 64 << 20, Mode: 0o644}))
	_, err := io.CopyN(w, zeros{}, 64<<20)
	must(t, errors.Join(err, w.Close()))
	enc, err := zstd.NewWriter(nil)
	must(t, err)
	defer enc.Close()
	good := tarOf(t, entry{name: "f", body: strings.Repeat("content ", 1000)})
	goodZip := zipOf(t, entry{name: "f", body: strings.Repeat("content ", 1000)})
	flipped := bytes.Clone(goodZip)
	flipped[60] ^= 0xff
	var huge bytes.Buffer
	must(t, tar.NewWriter(&huge).WriteHeader(&tar.Header{Name: "huge", Size: 1 << 50, Format: tar.FormatGNU}))
	window := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 0x01, 0x00, 0x00} // a window of terabytes
	for name, tc := range map[string]struct {
		format archive.Format
		data   []byte
		code   string
	}{
		"gzip bomb":       {archive.TarGzip, gzipped(t, &bomb), protocol.CodeTooLarge},
		"zstd bomb":       {archive.TarZstd, enc.EncodeAll(make([]byte, 64<<20), nil), protocol.CodeTooLarge},
		"zip bomb":        {archive.Zip, zipOf(t, entry{name: "z", body: strings.Repeat("\x00", 64<<20)}), protocol.CodeTooLarge},
		"huge file":       {archive.Tar, huge.Bytes(), protocol.CodeTooLarge},
		"huge window":     {archive.TarZstd, window, protocol.CodeTooLarge},
		"sparse bomb":     {archive.Tar, sparseBomb(), protocol.CodeTooLarge},
		"long PAX":        {archive.Tar, longPAX(), protocol.CodeUnprocessable},
		"truncated":       {archive.Tar, good[:len(good)/2], protocol.CodeUnprocessable},
		"no end mark":     {archive.Tar, good[:len(good)-1024], protocol.CodeUnprocessable},
		"truncated gzip":  {archive.TarGzip, gzipped(t, bytes.NewReader(good))[:50], protocol.CodeUnprocessable},
		"truncated zip":   {archive.Zip, goodZip[:len(goodZip)-10], protocol.CodeUnprocessable},
		"flipped zip":     {archive.Zip, flipped, protocol.CodeUnprocessable},
		"trailing":        {archive.Tar, append(bytes.Clone(good), "garbage"...), protocol.CodeUnprocessable},
		"second archive":  {archive.Tar, append(bytes.Clone(good), good...), protocol.CodeUnprocessable},
		"trailing gzip":   {archive.TarGzip, append(gzipped(t, bytes.NewReader(good)), "garbage"...), protocol.CodeUnprocessable},
		"another format":  {archive.TarZstd, gzipped(t, bytes.NewReader(good)), protocol.CodeUnprocessable},
		"nothing":         {archive.TarGzip, nil, protocol.CodeUnprocessable},
		"nothing, as tar": {archive.Tar, nil, protocol.CodeUnprocessable},
		"nothing, as zip": {archive.Zip, nil, protocol.CodeUnprocessable},
		"unknown format":  {"rar", good, protocol.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			if _, err := unpack(t, to, tc.format, bytes.NewReader(tc.data)); codeOf(err) != tc.code {
				t.Errorf("%v, want %s", err, tc.code)
			}
			used := int64(0)
			must(t, filepath.WalkDir(to, func(path string, _ fs.DirEntry, err error) error {
				var st unix.Stat_t
				if err == nil {
					err = unix.Lstat(path, &st)
				}
				used += st.Blocks * 512
				return err
			}))
			if used > 20<<20 {
				t.Errorf("it took %d bytes of the disk", used)
			}
		})
	}
}

// rawHeader is a header that no tar.Writer writes: fields go to their offsets.
func rawHeader(fields map[int]string) []byte {
	h := make([]byte, 512)
	copy(h[100:], "0000644\x00")
	copy(h[136:], "00000000000\x00")
	copy(h[148:], "        ")
	for at, field := range fields {
		copy(h[at:], field)
	}
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// sparseBomb is a GNU sparse file of a terabyte with one byte in it.
func sparseBomb() []byte {
	h := rawHeader(map[int]string{
		0: "bomb", 124: "00000000001\x00", 156: "S", 257: "ustar  \x00",
		386: "00000000000\x00" + "00000000001\x00",              // the byte
		483: "\x80\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00", // the size
	})
	return append(append(h, "x"+strings.Repeat("\x00", 511)...), make([]byte, 1024)...)
}

// longPAX has a record of 2 MiB about one file.
func longPAX() []byte {
	const size = 2 << 20
	record := fmt.Sprintf("%d comment=%s\n", size, strings.Repeat("x", size-len("2097152 comment=\n")))
	h := rawHeader(map[int]string{0: "pax", 124: fmt.Sprintf("%011o\x00", size), 156: "x", 257: "ustar\x0000"})
	return append(append(h, record...), make([]byte, 1024)...)
}

// An error of the connection is not the archive's fault.
func TestBrokenSource(t *testing.T) {
	broken := errors.New("broken")
	for _, f := range formats {
		data := tarOf(t, entry{name: "f", body: "content"})
		switch f {
		case archive.TarGzip:
			data = gzipped(t, bytes.NewReader(data))
		case archive.Zip:
			data = zipOf(t, entry{name: "f", body: "content"})
		case archive.TarZstd:
			data = data[:0]
		}
		_, err := unpack(t, t.TempDir(), f, io.MultiReader(bytes.NewReader(data[:len(data)/2]), errReader{broken}))
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestCheckEndsIt(t *testing.T) {
	gone := errors.New("gone")
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/f", make([]byte, 4<<20), 0o644))
	calls := 0
	check := func() error {
		if calls++; calls > 4 {
			return gone
		}
		return nil
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	if err := archive.Pack(io.Discard, archive.Tar, fd, "", archive.Selection{}, check); !errors.Is(err, gone) {
		t.Error(err)
	}
}

func FuzzUnpack(f *testing.F) {
	entries := []entry{{name: "d/", kind: tar.TypeDir}, {name: "d/f", body: "content"}, {name: "l", kind: tar.TypeSymlink, link: "d"}}
	f.Add(uint8(0), tarOf(f, append(entries, entry{name: "h", kind: tar.TypeLink, link: "d/f"})...))
	f.Add(uint8(1), gzipped(f, bytes.NewReader(tarOf(f, entries...))))
	f.Add(uint8(3), zipOf(f, entries...))
	f.Add(uint8(0), sparseBomb())
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		outside := t.TempDir()
		must(t, os.Mkdir(outside+"/to", 0o755))
		_, err := unpack(t, outside+"/to", formats[int(which)%len(formats)], bytes.NewReader(data))
		switch codeOf(err) {
		case "<nil>", protocol.CodeUnprocessable, protocol.CodeTooLarge:
		default:
			if _, ok := errors.AsType[unix.Errno](err); !ok {
				t.Errorf("%v", err)
			}
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
			t.Errorf("outside: %v, %v", left, err)
		}
	})
}

// FuzzEntries gives the unpacker archives that are sound but for what their
// entries are: names, kinds and links, over each other.
func FuzzEntries(f *testing.F) {
	f.Add("d", byte(tar.TypeDir), "", "d/f", byte(tar.TypeReg), "", uint8(0))
	f.Add("l", byte(tar.TypeSymlink), "..", "l/f", byte(tar.TypeReg), "", uint8(1))
	f.Add("h", byte(tar.TypeLink), "../beside", "h", byte(tar.TypeReg), "", uint8(2))
	f.Add("a/../../x", byte(tar.TypeReg), "", ".wh.x", byte(tar.TypeReg), "", uint8(2))
	f.Fuzz(func(t *testing.T, name string, kind byte, link, name2 string, kind2 byte, link2 string, how uint8) {
		var packed bytes.Buffer
		w := tar.NewWriter(&packed)
		for _, h := range []*tar.Header{
			{Name: name, Typeflag: kind, Linkname: link, Mode: 0o4755},
			{Name: name2, Typeflag: kind2, Linkname: link2, Mode: 0o644},
		} {
			if w.WriteHeader(h) != nil {
				return // no archive can say that
			}
		}
		must(t, w.Close())
		outside := t.TempDir()
		must(t, errors.Join(os.Mkdir(outside+"/to", 0o755), os.WriteFile(outside+"/beside", []byte("kept"), 0o600)))
		kinds := []protocol.Snapshot{"", protocol.SnapshotTree, protocol.SnapshotLayer}
		_, err := unpackAs(t, outside+"/to", archive.Tar, kinds[int(how)%len(kinds)], &packed)
		switch codeOf(err) {
		case "<nil>", protocol.CodeUnprocessable, protocol.CodeTooLarge:
		default:
			if _, ok := errors.AsType[unix.Errno](err); !ok {
				t.Errorf("%v", err)
			}
		}
		left, lerr := os.ReadDir(outside)
		text, rerr := os.ReadFile(outside + "/beside")
		if lerr != nil || len(left) != 2 || rerr != nil || string(text) != "kept" {
			t.Errorf("outside: %v, %v; %q, %v", left, lerr, text, rerr)
		}
	})
}
