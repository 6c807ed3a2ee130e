package snapshot_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

var contents = map[snapshot.PartName]string{snapshot.Workspace: "the workspace", snapshot.Root: strings.Repeat("root ", 1000)}

func manifest(parts ...snapshot.PartName) snapshot.Manifest {
	m := snapshot.Manifest{
		Format: snapshot.Format, ID: "id", Owner: "alice", SessionID: "session", Scope: snapshot.ScopeSandbox, Image: "base",
		ImageDigest: "sha256:1", Cwd: "/workspace", CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC), Include: []string{"/a"},
	}
	for _, p := range parts {
		sum := sha256.Sum256([]byte(contents[p]))
		m.Parts = append(m.Parts, snapshot.Part{Name: p, Size: int64(len(contents[p])), SHA256: hex.EncodeToString(sum[:]), Entries: 1, Bytes: 2})
	}
	return m
}

func contentsOf(m snapshot.Manifest) (parts []io.Reader) {
	for _, p := range m.Parts {
		parts = append(parts, strings.NewReader(contents[p.Name]))
	}
	return parts
}

func archive(t testing.TB, m snapshot.Manifest) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := snapshot.Write(&out, m, contentsOf(m)...); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// read reads an archive to its end, the parts too or not.
func read(r io.Reader, parts bool) (m snapshot.Manifest, got map[snapshot.PartName]string, err error) {
	got = map[snapshot.PartName]string{}
	a, err := snapshot.NewReader(r)
	if err != nil {
		return m, got, err
	}
	for {
		p, r, err := a.Next()
		if errors.Is(err, io.EOF) {
			return a.Manifest, got, nil
		}
		if err != nil {
			return m, got, err
		}
		if parts {
			text, err := io.ReadAll(r)
			if err != nil {
				return m, got, err
			}
			got[p.Name] = string(text)
		}
	}
}

func TestArchive(t *testing.T) {
	for _, parts := range [][]snapshot.PartName{{snapshot.Workspace}, {snapshot.Root}, {snapshot.Workspace, snapshot.Root}} {
		m := manifest(parts...)
		data := archive(t, m)
		back, got, err := read(iotest.OneByteReader(bytes.NewReader(data)), true)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, back); diff != "" {
			t.Error(diff)
		}
		var zipped bytes.Buffer
		if err := snapshot.WriteGzip(&zipped, m, contentsOf(m)...); err != nil {
			t.Fatal(err)
		}
		if again, _, err := read(&zipped, true); err != nil || !cmp.Equal(m, again) {
			t.Errorf("in a gzip file: %+v, %v", again, err)
		}
		for _, p := range parts {
			if got[p] != contents[p] {
				t.Errorf("%s: %q", p, got[p])
			}
		}
		if _, _, err := read(bytes.NewReader(data), false); err != nil {
			t.Errorf("without its parts: %v", err)
		}
	}
	m := manifest(snapshot.Workspace, snapshot.Root)
	if _, ok := m.Part("other"); ok || m.Entries() != 2 || m.Bytes() != 4 {
		t.Errorf("%+v", m)
	}
}

// T07: every way in which an archive is not what it says.
func TestRefused(t *testing.T) {
	good := archive(t, manifest(snapshot.Workspace, snapshot.Root))
	changed := func(change func(*snapshot.Manifest)) []byte {
		m := manifest(snapshot.Workspace, snapshot.Root)
		change(&m)
		return archive(t, m)
	}
	raw := func(entries ...*tar.Header) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, h := range entries {
			body := h.Linkname
			h.Linkname = ""
			h.Size = int64(len(body))
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, body); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	text, err := json.Marshal(manifest(snapshot.Workspace))
	if err != nil {
		t.Fatal(err)
	}
	first := func() *tar.Header { return &tar.Header{Name: "manifest.json", Linkname: string(text)} }
	part := func() *tar.Header {
		return &tar.Header{Name: "workspace.tar.zst", Linkname: contents[snapshot.Workspace]}
	}
	for name, data := range map[string][]byte{
		"nothing":           nil,
		"no tar":            []byte(strings.Repeat("x", 2000)),
		"cut in the parts":  good[:4000],
		"twice":             append(bytes.Clone(good), good...),
		"garbage":           append(bytes.Clone(good), 1),
		"endless zeros":     append(bytes.Clone(good), make([]byte, 1<<20)...),
		"a future format":   changed(func(m *snapshot.Manifest) { m.Format++ }),
		"no scope":          changed(func(m *snapshot.Manifest) { m.Scope = "" }),
		"too much for it":   changed(func(m *snapshot.Manifest) { m.Scope = snapshot.ScopeWorkspace }),
		"no parts":          changed(func(m *snapshot.Manifest) { m.Parts = nil }),
		"the wrong order":   archive(t, manifest(snapshot.Root, snapshot.Workspace)),
		"a part twice":      archive(t, manifest(snapshot.Root, snapshot.Root)),
		"another hash":      changed(func(m *snapshot.Manifest) { m.Parts[1].SHA256 = strings.Repeat("a", 64) }),
		"half a hash":       changed(func(m *snapshot.Manifest) { m.Parts[1].SHA256 = "a" }),
		"less than none":    changed(func(m *snapshot.Manifest) { m.Parts[0].Bytes = -1 }),
		"no manifest":       raw(part()),
		"its manifest last": raw(part(), first()),
		"not JSON":          raw(&tar.Header{Name: "manifest.json", Linkname: "{"}, part()),
		"JSON twice":        raw(&tar.Header{Name: "manifest.json", Linkname: string(text) + "{}"}, part()),
		"unknown fields":    raw(&tar.Header{Name: "manifest.json", Linkname: `{"more":1}`}, part()),
		"a link":            raw(&tar.Header{Name: "manifest.json", Typeflag: tar.TypeDir}),
		"a part missing":    raw(first()),
		"a part too long":   raw(first(), &tar.Header{Name: "workspace.tar.zst", Linkname: contents[snapshot.Workspace] + "x"}),
		"another part":      raw(first(), &tar.Header{Name: "../workspace.tar.zst", Linkname: contents[snapshot.Workspace]}),
		"one more":          raw(first(), part(), &tar.Header{Name: "more", Linkname: "x"}),
	} {
		for _, parts := range []bool{true, false} {
			if _, _, err := read(bytes.NewReader(data), parts); errdefs.CodeOf(err) != errdefs.Unprocessable {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	large := raw(&tar.Header{Name: "manifest.json", Linkname: strings.Repeat(" ", 2<<20)})
	if _, _, err := read(bytes.NewReader(large), true); errdefs.CodeOf(err) != errdefs.TooLarge {
		t.Errorf("a large manifest: %v", err)
	}
	for i := range len(good) - 1024 { // but for what is behind the end
		flipped := bytes.Clone(good)
		flipped[i] ^= 4
		// In the manifest a bit may make another one, but never other parts.
		if _, got, err := read(bytes.NewReader(flipped), true); err == nil && !cmp.Equal(got, contents) {
			t.Fatalf("byte %d flipped: the parts are %q", i, got)
		}
	}
}

// What fails below is not the archive's fault.
func TestReaderFails(t *testing.T) {
	data := archive(t, manifest(snapshot.Workspace, snapshot.Root))
	failure := errors.New("the network is gone")
	for _, n := range []int{0, 100, 600, 2500, 5000, len(data)} {
		r := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(failure))
		if _, _, err := read(r, true); !errors.Is(err, failure) {
			t.Errorf("behind %d bytes: %v", n, err)
		}
	}
	failing := manifest(snapshot.Workspace)
	if err := snapshot.Write(io.Discard, failing, iotest.ErrReader(failure)); !errors.Is(err, failure) {
		t.Errorf("a writer: %v", err)
	}
	if err := snapshot.Write(io.Discard, failing, strings.NewReader("short")); err == nil {
		t.Error("a part that is too short was written")
	}
}

func compressed(t testing.TB, h tar.Header, zeros int64) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	h.Size = zeros
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, zeroes{}, zeros); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// T05: what expands is read as far as the limit.
func TestScan(t *testing.T) {
	limits := snapshot.Limits{Bytes: 20 << 20, Entries: 2}
	part := compressed(t, tar.Header{Name: "zeros", Mode: 0o644}, 16<<20)
	if entries, n, err := snapshot.Scan(t.Context(), bytes.NewReader(part), limits); err != nil || entries != 1 || n != 16<<20 {
		t.Errorf("%d of %d bytes: %v", entries, n, err)
	}
	for name, c := range map[string]struct {
		part []byte
		code errdefs.Code
	}{
		"too much":       {compressed(t, tar.Header{Name: "zeros", Mode: 0o644}, 64<<20), errdefs.TooLarge},
		"a bit too much": {compressed(t, tar.Header{Name: "zeros", Mode: 0o644}, 20<<20+1), errdefs.TooLarge},
		"climbs":         {compressed(t, tar.Header{Name: "../x", Mode: 0o644}, 1), errdefs.Unprocessable},
		"damaged":        {part[:len(part)/2], errdefs.Unprocessable},
		"no tar":         {[]byte("x"), errdefs.Unprocessable},
	} {
		if _, _, err := snapshot.Scan(t.Context(), bytes.NewReader(c.part), limits); errdefs.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}
