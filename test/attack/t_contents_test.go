package attack

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// attributes are those that an overlay or the kernel would obey.
var attributes = map[string]string{
	"SCHILY.xattr.security.capability":     "\x01\x00\x00\x02\x00\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	"SCHILY.xattr.trusted.overlay.opaque":  "y",
	"SCHILY.xattr.user.overlay.opaque":     "y",
	"SCHILY.xattr.user.overlay.redirect":   "/etc",
	"SCHILY.xattr.system.posix_acl_access": "x",
	"SCHILY.xattr.user.kept":               "x",
}

// T04: devices, pipes, set-id bits, attributes and impossible owners do not
// come out of an archive.
func TestT04_Contents(t *testing.T) {
	s := stage(t, "")
	digest := s.a.digest(t)
	b := s.a.session(t, nil)
	for name, e := range map[string]entry{
		"character device": {name: "n", kind: tar.TypeChar}, "block device": {name: "n", kind: tar.TypeBlock}, "pipe": {name: "n", kind: tar.TypeFifo},
		"unknown": {name: "n", kind: 'Z'}, "owner below zero": {name: "n", uid: -5}, "huge owner": {name: "n", uid: 1 << 40},
	} {
		a := b.unpack(t, "in", "tar", tarOf(t, e))
		a.sane(t, name)
		if found := b.sh(t, `mkdir -p in; find in ! -type f ! -type d; find in ! -uid 0`); found != "" {
			t.Errorf("%s came out: %d, %s", name, a.status, found)
		}
		if kind := e.kind; kind != 0 {
			a.refused(t, name, 422)
			s.a.uploadSnapshot(t, snapshotOf(t, digest, nil, partOf(t, "workspace", e))).sane(t, name)
		}
	}
	// What is made harmless instead of refused.
	files := []entry{
		{name: "suid", mode: 0o6755, body: "x"},
		{name: "sticky", mode: 0o1755, body: "x"},
		{name: "f", body: "x", pax: attributes},
		{name: "d/", kind: tar.TypeDir, mode: 0o6755, pax: attributes},
	}
	look := `find . \( -perm /4000 -o -type f -perm /7000 \) ; find . ! -type f ! -type d; python3 -c '
import os
for n in ["f", "d", "suid"]:
    print(n, os.listxattr(n))'`
	const clean = "f []\nd []\nsuid []\n"
	b.unpack(t, "clean", "tar", tarOf(t, files...)).refused(t, "the rest", 200)
	if got := b.sh(t, "cd clean; "+look+"; cd .."); got != clean {
		t.Errorf("unpacked in a session: %s", got)
	}
	var made struct{ ID string }
	s.a.uploadSnapshot(t, snapshotOf(t, digest, nil, partOf(t, "workspace", files...))).into(t, &made)
	restored := s.a.session(t, map[string]any{"restore_snapshot_id": made.ID})
	if got := restored.sh(t, look); got != clean {
		t.Errorf("restored from a snapshot: %s", got)
	}
	st := s.store(t)
	devices := []entry{{name: "dev/", kind: tar.TypeDir, mode: 0o755}, {name: "dev/sda", kind: tar.TypeBlock}, {name: "kmsg", kind: tar.TypeChar}, {name: "p", kind: tar.TypeFifo}}
	files = append(files, entry{name: "huge", uid: 4000000, body: "x"})
	if text, err := st.load(t, "stripped", tarOf(t, rootOf(append(files, devices...)...)...)); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	layers, err := filepath.Glob(filepath.Join(st.data, "images", "layers", "*", "fs", "*"))
	if err != nil || len(layers) < 5 {
		t.Fatalf("the image has %v, %v", layers, err)
	}
	for _, file := range layers {
		info, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		if m := info.Mode(); m&(os.ModeDevice|os.ModeNamedPipe|os.ModeSetuid) != 0 || m.IsRegular() && m&(os.ModeSetgid|os.ModeSticky) != 0 {
			t.Errorf("the image has %s with mode %v", filepath.Base(file), m)
		}
		if n, err := syscall.Listxattr(file, make([]byte, 1000)); err != nil || n != 0 {
			t.Errorf("the image's %s has %d bytes of attributes, %v", filepath.Base(file), n, err)
		}
	}
}

// zeroFrame is a zstd frame of data and then n times 128 KiB of zeros, each in
// four bytes.
func zeroFrame(data []byte, n int) []byte {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 7 << 3} // no size, a window of 128 KiB
	block := func(kind, size, last int) {
		frame = append(frame, binary.LittleEndian.AppendUint32(nil, uint32(size<<3|kind<<1|last))[:3]...)
	}
	block(0, len(data), 0)
	frame = append(frame, data...)
	for range n {
		block(1, 128<<10, 0)
		frame = append(frame, 0)
	}
	block(0, 0, 1)
	return frame
}

// bigFile is the head of a tar file with one file of that size.
func bigFile(t testing.TB, name string, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644, Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zeroGzip is a gzip file of data and 64 MiB of zeros n times.
func zeroGzip(t testing.TB, data []byte, n int) []byte {
	t.Helper()
	member := func(data []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		w.Write(data)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	return append(member(data), bytes.Repeat(member(make([]byte, 64<<20)), n)...)
}

// bomb is an archive that is small and grows.
type bomb struct {
	name, format string
	data         []byte
}

// bombsRefused sends bombs along every way in: each is refused within 20 s, the
// daemon's memory stays, and nothing of it is left.
func bombsRefused(t *testing.T, bombs []bomb) {
	t.Helper()
	s := stage(t, "")
	digest := s.a.digest(t)
	for _, tt := range bombs {
		t.Run(tt.name, func(t *testing.T) {
			b := s.a.session(t, nil)
			before := s.memory(t)
			send := map[string]func() reply{"unpack": func() reply { return b.unpack(t, "in", tt.format, tt.data) }}
			if tt.format == "tar.zst" {
				p := part{name: "workspace", data: tt.data, entries: 1, bytes: 100 << 30}
				send["snapshot"] = func() reply { return s.a.uploadSnapshot(t, snapshotOf(t, digest, nil, p)) }
			}
			for way, send := range send {
				a := send()
				a.refused(t, way, 400, 413, 422, 507)
				if a.took > paced(20*time.Second) {
					t.Errorf("%s took %s", way, a.took)
				}
			}
			if now := s.memory(t); now > before+100<<20 {
				t.Errorf("the daemon had %d MiB and has %d", before>>20, now>>20)
			}
			if got := b.sh(t, "echo fine"); got != "fine\n" {
				t.Errorf("the session says %q", got)
			}
			if tt.format == "zip" {
				return // images are tar files
			}
			st := s.store(t)
			begin := time.Now()
			text, use, err := st.watched(t, tt.data, "import", "--name", "bomb", "--tar", "-")
			if err == nil || strings.Contains(text, "goroutine ") || time.Since(begin) > paced(20*time.Second) {
				t.Errorf("as an image: %v after %s: %s", err, time.Since(begin), text)
			}
			st.wantNothing(t)
			if use > 250<<20 {
				t.Errorf("the import took %d MiB of memory", use>>20)
			}
		})
	}
	if used := s.spoolFiles(t); len(used) > 0 {
		t.Errorf("left in data_dir: %v", used)
	}
}

// T05: what is small and expands to 10 GB is given up early: by its ratio, or
// by the window that it wants.
func TestT05_CompressionBombs(t *testing.T) {
	head := bigFile(t, "zeros", 10<<30)
	once := zeroFrame(head, 10<<30/(128<<10))
	bombsRefused(t, []bomb{
		{"zstd", "tar.zst", once},
		{"zstd in zstd", "tar.zst", zstdOf(t, once)},
		{"zstd with a window of 2 GiB", "tar.zst", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x41, 0, 0, 'x'}},
		{"gzip", "tar.gz", zeroGzip(t, head, 160)},
		{"zip", "zip", zipOf(t, entry{name: "zeros", body: string(make([]byte, 300<<20))})},
	})
}

// T06: what announces more than there is place for, in number, length or depth,
// is given up without its memory.
func TestT06_StructureBombs(t *testing.T) {
	bombsRefused(t, []bomb{
		{"a path of 100 KB", "tar", tarOf(t, entry{name: strings.Repeat("a/", 50000) + "f"})},
		{"a name of 256 bytes", "tar", tarOf(t, entry{name: strings.Repeat("a", 256)})},
		{"10,000 levels", "tar", tarOf(t, entry{name: strings.Repeat("d/", 10000), kind: tar.TypeDir})},
		{"a PAX header of 1 GB", "tar.zst", zeroFrame(paxHead(t, 1<<30), 1<<30/(128<<10))},
		{"a PAX header of 2 MB", "tar", withPAX(t, tarOf(t, entry{name: "f"}), "SANDKASTEN.x", strings.Repeat("x", 2<<20))},
		{"a map of holes without end", "tar.zst", sparseBomb(t)},
		{"a file of a petabyte", "tar", append(bigFile(t, "f", 1<<50), make([]byte, 1<<20)...)},
	})
}

// T06, the number of entries: a snapshot of more than a million is refused. To count so far
// costs time that the limits of the other ways in, tested where they are, need not
// cost here.
func TestT06_ManyEntries(t *testing.T) {
	s := stage(t, "")
	const many = 1_002_000
	p := part{name: "workspace", data: manyEntries(t, many), entries: many}
	before := s.memory(t)
	s.a.uploadSnapshot(t, snapshotOf(t, s.a.digest(t), nil, p)).refused(t, "1,002,000 entries", 413)
	// The garbage of so many headers is what the daemon may have of it, and no more.
	if most := s.mostMemory(t); most > before+150<<20 {
		t.Errorf("the daemon had %d MiB and came to %d", before>>20, most>>20)
	} else {
		t.Logf("the daemon had %d MiB and came to %d", before>>20, most>>20)
	}
}

// manyEntries is a compressed tar file of so many files, a multiple of 2000.
func manyEntries(t testing.TB, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	var one bytes.Buffer
	head := tar.NewWriter(&one)
	head.WriteHeader(&tar.Header{Name: "f", Mode: 0o644})
	many := bytes.Repeat(one.Bytes(), 2000)
	for ; n > 0; n -= 2000 {
		if _, err := w.Write(many); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(make([]byte, 1024)); err != nil { // the end mark
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// paxHead is a header that announces records of that size.
func paxHead(t testing.TB, size int64) []byte {
	head := bigFile(t, "PaxHeaders/f", size)
	head[156] = 'x'
	fixSum(head)
	return head
}

// fixSum writes a header's check sum anew.
func fixSum(head []byte) {
	sum := 0
	for i, c := range head[:512] {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int(c)
	}
	copy(head[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// withPAX is a tar file whose first entry has records, keys and values, before
// it, as no writer of our language would write them.
func withPAX(t testing.TB, file []byte, records ...string) []byte {
	t.Helper()
	text := ""
	for i := 0; i < len(records); i += 2 {
		record := " " + records[i] + "=" + records[i+1] + "\n"
		size := len(record)
		for n := 0; n != size; {
			n = size
			size = len(fmt.Sprint(n)) + len(record)
		}
		text += fmt.Sprint(size) + record
	}
	data := paxHead(t, int64(len(text)))
	data = append(data, text...)
	data = append(data, make([]byte, (512-len(text)%512)%512)...)
	return append(data, file...)
}

// sparseBomb is a file whose map of holes goes on for a gigabyte.
func sparseBomb(t testing.TB) []byte {
	data := withPAX(t, bigFile(t, "GNUSparseFile/f", 1<<30), "GNU.sparse.major", "1", "GNU.sparse.minor", "0", "GNU.sparse.name", "f", "GNU.sparse.realsize", "1000000000000")
	data = append(data, "9999999\n"...)
	data = append(data, strings.Repeat("1\n", 20000)...)
	return zeroFrame(data, 1<<30/(128<<10))
}

// trojans are programs that a clumsy daemon might run in an image's root.
var trojans = []string{"xz", "gzip", "gunzip", "unpigz", "pigz", "tar", "zstd", "unzstd", "unzip", "bzip2", "getent", "ldconfig"}

// loadTrojans imports the image trojan: base, in which each of those programs
// leaves a file that tells that it ran.
func (s *store) loadTrojans(t testing.TB) {
	t.Helper()
	more := t.TempDir()
	if err := os.MkdirAll(filepath.Join(more, "usr", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range trojans {
		if err := os.WriteFile(filepath.Join(more, "usr", "bin", name), []byte("#!/bin/sh\n: >/tmp/trojan-ran-"+name+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pack := exec.CommandContext(t.Context(), "tar", "-c", "-C", testenv.BaseRootfs(t), ".", "-C", more, "usr/bin")
	load := s.d.Command("image", "import", "--name", "trojan", "--tar", "-")
	load.Env = append(load.Env, "SANDKASTEN_DATA_DIR="+s.data)
	out, err := pack.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	load.Stdin = out
	if err := pack.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := load.CombinedOutput()
	if err := errors.Join(err, pack.Wait()); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// T08: no program of the image or of the session decodes what is unpacked there
// or restored into it.
func TestT08_TrojanPrograms(t *testing.T) {
	t.Parallel()
	st := stage(t, "").store(t)
	st.loadTrojans(t)
	if ran, err := filepath.Glob("/tmp/trojan-ran*"); err != nil || len(ran) > 0 {
		t.Errorf("an import ran %v, %v", ran, err)
	}
	s := stageWith(t, blackbox.Options{Images: filepath.Join(st.data, "images")}, "default_image: trojan")
	b := s.a.session(t, nil)
	one := tarOf(t, entry{name: "f", body: "content"})
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write(one)
	w.Close()
	for format, data := range map[string][]byte{"tar.gz": packed.Bytes(), "tar.zst": zstdOf(t, one), "zip": zipOf(t, entry{name: "f", body: "content"})} {
		b.unpack(t, "in", format, data).refused(t, format, 200)
		if got := b.get(t, "in/f"); got != "content" {
			t.Errorf("%s: %q", format, got)
		}
		b.do(t, "GET", b.file("archive", "in")+"&format="+format, nil).refused(t, "pack "+format, 200)
	}
	made := b.snapshot(t, map[string]any{"scope": "sandbox"})
	restored := s.a.session(t, map[string]any{"restore_snapshot_id": made})
	for _, b := range []*target{b, restored} {
		if got := b.sh(t, `ls -d /trojan-ran* /tmp/trojan-ran* 2>/dev/null; /usr/bin/zstd; ls -d /tmp/trojan-ran*`); got != "/tmp/trojan-ran-zstd\n" {
			t.Errorf("trojans have run: %s", got)
		}
	}
}
