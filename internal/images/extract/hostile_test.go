package extract_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images/extract"
)

// Each archive must be refused with Unprocessable or TooLarge, and the jail's
// neighbour must stay as it is.
func TestRefused(t *testing.T) {
	outside := "../canary"
	tests := map[string]struct {
		items []item
		code  errdefs.Code
	}{
		// T01: names that lead out.
		"parent":                {items: []item{file(outside, "dead")}},
		"absolute":              {items: []item{file("/tmp/sandkasten-x", "dead")}},
		"climb inside":          {items: []item{file("a/../../canary", "dead")}},
		"climb after dot":       {items: []item{file("./../canary", "dead")}},
		"climb to root":         {items: []item{file("a/..", "dead")}},
		"only dots":             {items: []item{file("..", "dead")}},
		"other separator":       {items: []item{file(`..\canary`, "dead")}},
		"other separator below": {items: []item{file(`a\..\..\canary`, "dead")}},
		"parent directory":      {items: []item{dir("../x")}},
		"parent link":           {items: []item{symlink("../x", "y")}},
		"root as file":          {items: []item{file(".", "dead")}},

		// T02: through links and files.
		"below a file":             {items: []item{file("f", ""), file("f/x", "dead")}},
		"link loop":                {items: []item{symlink("a", "b"), symlink("b", "a"), file("a/x", "")}},
		"link to itself":           {items: []item{symlink("a", "a/a"), file("a/x", "")}},
		"full directory to link":   {items: []item{dir("d"), file("d/f", ""), symlink("d", "/root")}},
		"full directory to file":   {items: []item{dir("d"), file("d/f", ""), file("d", "")}},
		"link below too deep":      {items: []item{symlink("l", deep(129)), file("l/x", "")}},
		"empty link":               {items: []item{{name: "l", kind: tar.TypeSymlink, link: ""}}},
		"long link":                {items: []item{symlink("l", strings.Repeat("x", 1025))}},
		"links that multiply":      {items: []item{symlink("a", "b/b/b/b"), symlink("b", "c/c/c/c"), symlink("c", "a/a/a/a"), file("a/x", "")}},
		"link to parent then file": {items: []item{symlink("l", ".."), file("l", "x"), file("l/canary", "dead")}},

		// T03: hard links.
		"hard link out":            {items: []item{hardlink("l", outside)}},
		"hard link absolute":       {items: []item{hardlink("l", "/etc/passwd")}},
		"hard link to nothing":     {items: []item{hardlink("l", "later"), file("later", "")}},
		"hard link to a link":      {items: []item{symlink("s", outside), hardlink("l", "s")}},
		"hard link to directory":   {items: []item{dir("d"), hardlink("l", "d")}},
		"hard link to itself":      {items: []item{file("f", "x"), hardlink("f", "f")}},
		"hard link through a link": {items: []item{symlink("s", ".."), hardlink("l", "s/canary")}},
		"hard link to the root":    {items: []item{hardlink("l", ".")}},

		// T04: types and owners.
		"negative owner": {items: []item{{name: "f", uid: -5, mode: 0o644}}},
		"negative group": {items: []item{{name: "f", gid: -5, mode: 0o644}}},
		"unknown type":   {items: []item{{name: "f", kind: 'Z'}}},

		// T06: sizes of names.
		"long path":      {items: []item{file(strings.Repeat("a/", 600)+"f", "")}},
		"long component": {items: []item{file(strings.Repeat("a", 256), "")}},
		"too deep":       {items: []item{file(deep(128)+"/f", "")}},

		"layer names in a root": {items: []item{dir("d"), file("d/.wh.f", "")}},
		"empty":                 {items: nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJail(t)
			_, err := j.extract(t, archive(t, tt.items...))
			if !errdefs.Is(err, errdefs.Unprocessable) {
				t.Errorf("got %v, want a refusal", err)
			}
			if err != nil && strings.Contains(errdefs.MessageOf(err), j.root) {
				t.Errorf("the message tells the host's path: %v", err)
			}
		})
	}
}

// T02, T11: links are followed inside the root only, so these archives are laid
// down as a process with that root would have it.
func TestLinksStayInside(t *testing.T) {
	tests := map[string]struct {
		items []item
		want  string // where the file "dead" must be
	}{
		"absolute link":          {[]item{symlink("d", "/root"), file("d/f", "dead")}, "root/f"},
		"parent link":            {[]item{symlink("d", ".."), file("d/canary", "dead")}, "canary"},
		"many parents":           {[]item{symlink("d", "../../../../../.."), file("d/canary", "dead")}, "canary"},
		"chain of parents":       {[]item{dir("a"), symlink("a/b", "../.."), symlink("c", "a/b"), file("c/canary", "dead")}, "canary"},
		"link in a link":         {[]item{symlink("a", "/b"), symlink("b", "/c/../../d"), file("a/canary", "dead")}, "d/canary"},
		"merged usr":             {[]item{dir("usr"), dir("usr/bin"), symlink("bin", "usr/bin"), file("bin/sh", "dead")}, "usr/bin/sh"},
		"empty directory to it":  {[]item{dir("d"), symlink("d", "/etc"), file("d/f", "dead")}, "etc/f"},
		"link to a directory":    {[]item{symlink("d", "/etc"), dir("d"), file("d/f", "dead")}, "d/f"},
		"cached parent replaced": {[]item{dir("a"), dir("a/b"), file("a/b/x", ""), hardlink("y", "a/b/x"), symlink("l", "a"), file("l/b/f", "dead")}, "a/b/f"},
		"link over link":         {[]item{symlink("d", ".."), symlink("d", "e"), file("d/f", "dead")}, "e/f"},
		"file over link":         {[]item{symlink("canary", "../canary"), file("canary", "dead")}, "canary"},
		"proc":                   {[]item{symlink("d", "/proc/self/root"), file("d/canary", "dead")}, "proc/self/root/canary"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJail(t)
			if _, err := j.extract(t, archive(t, tt.items...)); err != nil {
				t.Fatal(err)
			}
			if got := j.read(t, tt.want); got != "dead" {
				t.Errorf("%s holds %q", tt.want, got)
			}
		})
	}
}

// A directory that was entered and then replaced must not be entered again by
// what its name led to before.
func TestReplacedParentIsLookedUpAgain(t *testing.T) {
	j := newJail(t)
	items := []item{dir("a"), dir("b"), symlink("l", "a"), file("l/one", "1"), symlink("l", "b"), file("l/two", "2")}
	if _, err := j.extract(t, archive(t, items...)); err != nil {
		t.Fatal(err)
	}
	if j.read(t, "a/one") != "1" || j.read(t, "b/two") != "2" {
		t.Error("files are not where the links led when they came")
	}
}

// T04: what an archive may not bring is left out or made harmless.
func TestStripped(t *testing.T) {
	j := newJail(t)
	xattrs := map[string]string{
		"SCHILY.xattr.security.capability":      "\x01\x00\x00\x02",
		"SCHILY.xattr.trusted.overlay.opaque":   "y",
		"SCHILY.xattr.user.overlay.opaque":      "y",
		"SCHILY.xattr.user.overlay.redirect":    "/etc",
		"SCHILY.xattr.system.posix_acl_access":  "x",
		"LIBARCHIVE.xattr.user.overlay.origin":  "x",
		"SCHILY.acl.access":                     "user::rwx",
		"SCHILY.xattr.user.harmless":            "x",
		"SCHILY.xattr.user.overlay.overlay.tmp": "x",
	}
	got, err := j.extract(t, archive(t,
		item{name: "suid", mode: 0o6755}, item{name: "sgid", mode: 0o2755}, item{name: "sticky", mode: 0o1644},
		item{name: "d", kind: tar.TypeDir, mode: 0o6755 | 0o1000, pax: xattrs},
		item{name: "f", mode: 0o644, pax: xattrs},
		special("null", tar.TypeChar), special("sda", tar.TypeBlock), special("fifo", tar.TypeFifo),
		dir("dev"), special("dev/null", tar.TypeChar)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{
		"suid": 0o755, "sgid": 0o755, "sticky": 0o644,
		"d": os.ModeDir | os.ModeSetgid | os.ModeSticky | 0o755,
	} {
		if mode := j.lstat(t, name).Mode(); mode != want {
			t.Errorf("%s has mode %v, want %v", name, mode, want)
		}
	}
	for _, name := range []string{"null", "sda", "fifo", "dev/null"} {
		j.wantAbsent(t, name)
	}
	if got.Skipped != 3 {
		t.Errorf("Skipped = %d, want 3: those outside /dev", got.Skipped)
	}
	for _, name := range []string{"d", "f"} {
		buf := make([]byte, 1024)
		n, err := unix.Llistxattr(filepath.Join(j.root, name), buf)
		if err != nil || n != 0 {
			t.Errorf("%s has extended attributes %q, %v", name, buf[:max(n, 0)], err)
		}
	}
}

// T05: the work stops at a limit and memory stays small.
func TestBombs(t *testing.T) {
	zeros := func() io.Reader {
		head := tarOf(t, &tar.Header{Name: "f", Typeflag: tar.TypeReg, Size: 10 << 30, Format: tar.FormatGNU})
		return io.LimitReader(head, 10<<30)
	}
	tests := map[string]struct {
		bomb func(t *testing.T) io.Reader
		want string
	}{
		"gzip": {func(t *testing.T) io.Reader {
			return pipe(t, zeros(), func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
		}, "expands more than"},
		"zstd": {func(t *testing.T) io.Reader {
			return pipe(t, zeros(), func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)); return z })
		}, "expands more than"},
		"zstd window": {func(t *testing.T) io.Reader {
			// A frame header that asks for a window of 2 GiB, then a raw block.
			return bytes.NewReader([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x41, 0, 0, 'x'})
		}, "zstd window"},
		"huge file": {func(t *testing.T) io.Reader {
			return tarOf(t, &tar.Header{Name: "f", Typeflag: tar.TypeReg, Size: 1 << 50, Format: tar.FormatGNU})
		}, "hold more than"},
		"many entries": {func(t *testing.T) io.Reader {
			pr, pw := io.Pipe()
			go func() {
				w := tar.NewWriter(pw)
				for i := 0; ; i++ {
					if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("f%d", i), Typeflag: tar.TypeLink, Linkname: "f", Uid: os.Getuid()}); err != nil {
						return
					}
				}
			}()
			t.Cleanup(func() { pr.Close() })
			return io.MultiReader(bytes.NewReader(cutEnd(archive(t, file("f", "")))), pr)
		}, "more than 20 entries"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJail(t)
			limits := extract.DefaultLimits()
			limits.Entries = 20
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := extract.Tree(t.Context(), j.root, tt.bomb(t), extract.Options{Kind: extract.Root, Limits: limits})
			runtime.ReadMemStats(&after)
			if !errdefs.Is(err, errdefs.TooLarge) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want TooLarge with %q", err, tt.want)
			}
			if grew := int64(after.Sys) - int64(before.Sys); grew > 100<<20 {
				t.Errorf("memory grew by %d MiB", grew>>20)
			}
		})
	}
}

// A bomb inside a bomb is not an archive after one decoding.
func TestNestedCompression(t *testing.T) {
	j := newJail(t)
	_, err := j.extract(t, gzipped(t, gzipped(t, archive(t, file("f", "x")))))
	if !errdefs.Is(err, errdefs.Unprocessable) {
		t.Errorf("got %v", err)
	}
}

// T06: a sparse map or PAX header cannot make us allocate what it announces.
func TestHeaderBombs(t *testing.T) {
	tests := map[string]map[string]string{
		"pax over 1 MiB": {"SANDKASTEN.x": strings.Repeat("x", 2<<20)},
		"sparse map": {
			"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "f",
			"GNU.sparse.realsize": "1000000000000", "SANDKASTEN.x": "y",
		},
	}
	for name, pax := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJail(t)
			_, err := j.extract(t, rawPAX(t, pax, strings.Repeat("1\n", 1<<20)))
			if !errdefs.Is(err, errdefs.Unprocessable) && !errdefs.Is(err, errdefs.TooLarge) {
				t.Errorf("got %v, want a refusal", err)
			}
		})
	}
}

// sparse is an archive with the file f of that size, which ends with the word
// end behind a hole.
func sparse(t *testing.T, size int64) []byte {
	list := fmt.Sprintf("1\n%d\n3\n", size-3)
	return rawPAX(t, map[string]string{
		"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "f", "GNU.sparse.realsize": fmt.Sprint(size),
	}, list+strings.Repeat("\x00", 512-len(list))+"end")
}

// T06: a hole stays one, and a large one does not outlive whoever waits for it.
func TestHoles(t *testing.T) {
	const size = 1 << 30
	j := newJail(t)
	if _, err := j.extract(t, sparse(t, size)); err != nil {
		t.Fatal(err)
	}
	info := j.lstat(t, "f")
	if blocks := info.Sys().(*syscall.Stat_t).Blocks; info.Size() != size || blocks*512 > 1<<20 { //nolint:forcetypeassert // of Linux
		t.Errorf("%d bytes in %d blocks", info.Size(), blocks)
	}
	f, err := os.Open(filepath.Join(j.root, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tail := make([]byte, 5)
	if _, err := f.ReadAt(tail, size-5); err != nil || string(tail) != "\x00\x00end" {
		t.Errorf("it ends with %q, %v", tail, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(10*time.Millisecond, cancel).Stop()
	_, err = extract.Tree(ctx, newJail(t).root, bytes.NewReader(sparse(t, 31<<30)), extract.Options{Limits: extract.DefaultLimits()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// Zeros at the end of a file are a part of it.
func TestZerosAtTheEnd(t *testing.T) {
	j := newJail(t)
	want := "begin" + strings.Repeat("\x00", 1<<20)
	if _, err := j.extract(t, archive(t, file("f", want))); err != nil {
		t.Fatal(err)
	}
	if got := j.read(t, "f"); got != want {
		t.Errorf("%d bytes of %d", len(got), len(want))
	}
}

// T07: damage is seen.
func TestDamaged(t *testing.T) {
	whole := archive(t, dir("d"), file("d/f", strings.Repeat("content", 5000)), file("g", "x"))
	tests := map[string][]byte{
		"nothing":               nil,
		"cut in a header":       whole[:700],
		"cut in a file":         whole[:3000],
		"cut before the end":    cutEnd(whole),
		"half of the end":       whole[:len(whole)-512],
		"garbage after the end": append(bytes.Clone(whole), "garbage"...),
		"two archives":          append(bytes.Clone(whole), whole...),
		"late garbage":          append(append(bytes.Clone(whole), make([]byte, 100<<10)...), 'x'),
		"flipped header":        flip(whole, 512+10),
		"not an archive":        []byte(strings.Repeat("hello ", 1000)),
		"gzip cut":              gzipped(t, whole)[:len(gzipped(t, whole))-6],
		"gzip flipped":          flip(gzipped(t, whole), 60),
		"gzip garbage":          append(gzipped(t, whole), "garbage"...),
		"zstd cut":              zstandard(t, whole)[:len(zstandard(t, whole))-6],
		"zstd flipped":          flip(zstandard(t, whole), len(zstandard(t, whole))-2),
		"zstd garbage":          append(zstandard(t, whole), "garbage"...),
		"xz":                    append([]byte{0xfd, '7', 'z', 'X', 'Z', 0}, make([]byte, 600)...),
		"bzip2":                 append([]byte("BZh9"), make([]byte, 600)...),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newJail(t).extract(t, data)
			if !errdefs.Is(err, errdefs.Unprocessable) {
				t.Errorf("got %v, want Unprocessable", err)
			}
		})
	}
}

// T08: compressed archives are decoded here; no program is run, whatever PATH
// has.
func TestNoProgramIsRun(t *testing.T) {
	bin, marker := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	for _, name := range []string{"gzip", "gunzip", "unpigz", "pigz", "zstd", "unzstd", "xz", "tar"} {
		script := "#!/bin/sh\ntouch " + marker + "\nexec cat\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	whole := archive(t, file("f", "x"))
	for _, data := range [][]byte{gzipped(t, whole), zstandard(t, whole)} {
		if _, err := newJail(t).extract(t, data); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a program from PATH was run")
	}
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data := archive(t, file("f", "x"))
	_, err := extract.Tree(ctx, newJail(t).root, bytes.NewReader(data), extract.Options{Limits: extract.DefaultLimits()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// pipe compresses from while it is read, so that no test holds a whole bomb.
func pipe(t *testing.T, from io.Reader, compress func(io.Writer) io.WriteCloser) io.Reader {
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := compress(pw)
		_, err := io.Copy(w, from)
		pw.CloseWithError(errors.Join(err, w.Close()))
	}()
	t.Cleanup(func() { pr.Close(); <-done })
	return pr
}

// tarOf is a header with zeros for ever after it.
func tarOf(t *testing.T, h *tar.Header) io.Reader {
	t.Helper()
	h.Uid, h.Gid = os.Getuid(), os.Getgid()
	var buf bytes.Buffer
	if err := tar.NewWriter(&buf).WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	return io.MultiReader(&buf, zeroReader{})
}

// rawPAX writes a PAX header that archive/tar would refuse to write.
func rawPAX(t *testing.T, records map[string]string, body string) []byte {
	t.Helper()
	var text strings.Builder
	for key, value := range records {
		record := key + "=" + value + "\n"
		size := len(record) + 1
		for n := 0; n != size; {
			n = size
			size = len(fmt.Sprint(n)) + 1 + len(record)
		}
		fmt.Fprintf(&text, "%d %s", size, record)
	}
	head := archive(t, item{name: "PaxHeaders.0/f", body: text.String(), mode: 0o644})
	head[156] = 'x' // the type, of a header whose sum leaves it out below
	fixSum(head)
	return append(cutEnd(head), archive(t, file("GNUSparseFile.0/f", body))...)
}

// fixSum writes the check sum of the archive's first header anew.
func fixSum(head []byte) {
	sum := 0
	for i, b := range head[:512] {
		if i >= 148 && i < 156 {
			b = ' '
		}
		sum += int(b)
	}
	copy(head[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// cutEnd removes the end mark.
func cutEnd(data []byte) []byte { return bytes.Clone(data[:len(data)-1024]) }

func flip(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 0x55
	return data
}
