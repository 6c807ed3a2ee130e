package attack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// escaped begins the name of every file that an archive wants to lay somewhere
// else than where it is unpacked.
const escaped = "escaped-from-an-archive"

// zipOf is a zip file of the same entries, as far as it has such kinds.
func zipOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		mode, body := fs.FileMode(0o644), e.body
		switch e.kind {
		case tar.TypeSymlink:
			mode, body = fs.ModeSymlink|0o777, e.link
		case tar.TypeDir:
			mode = fs.ModeDir | 0o755
		case tar.TypeChar:
			mode |= fs.ModeDevice | fs.ModeCharDevice
		case tar.TypeFifo:
			mode |= fs.ModeNamedPipe
		}
		if e.mode&0o4000 != 0 {
			mode |= fs.ModeSetuid
		}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(f, body)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstdOf(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(data, nil)
}

// part is one of the two of a snapshot, compressed.
type part struct {
	name           string // workspace or root
	data           []byte
	entries, bytes int
}

// partOf is a part of these entries, with figures that are true of it.
func partOf(t testing.TB, name string, entries ...entry) part {
	p := part{name: name, data: zstdOf(t, tarOf(t, entries...)), entries: len(entries)}
	for _, e := range entries {
		p.bytes += len(e.body)
	}
	return p
}

// snapshotOf is a snapshot as a download gives it, but for what is in it. edit
// changes its manifest.
func snapshotOf(t testing.TB, digest string, edit func(manifest map[string]any), parts ...part) []byte {
	t.Helper()
	var listed []map[string]any
	scope := "workspace"
	for _, p := range parts {
		sum := sha256.Sum256(p.data)
		listed = append(listed, map[string]any{"name": p.name, "size": len(p.data), "sha256": hex.EncodeToString(sum[:]), "entries": p.entries, "bytes": p.bytes})
		if p.name == "root" {
			scope = "sandbox"
		}
	}
	manifest := map[string]any{
		"format": 1, "id": strings.Repeat("a", 26), "owner": "other", "session_id": strings.Repeat("b", 26), "scope": scope, "image": "base",
		"image_digest": digest, "cwd": "/workspace", "created_at": "2026-01-01T00:00:00Z", "parts": listed,
	}
	if edit != nil {
		edit(manifest)
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	entries := []entry{{name: "manifest.json", body: string(text)}}
	for _, p := range parts {
		entries = append(entries, entry{name: p.name + ".tar.zst", body: string(p.data)})
	}
	return tarOf(t, entries...)
}

// uploadSnapshot uploads an archive of a snapshot.
func (c *caller) uploadSnapshot(t testing.TB, archive []byte) reply {
	t.Helper()
	return c.do(t, "POST", "/v1/snapshots?name=uploaded", archive, header("Content-Type", "application/x-tar"))
}

// digest is that of the image base.
func (c *caller) digest(t testing.TB) string {
	t.Helper()
	var made struct {
		Digest string `json:"image_digest"`
	}
	b := c.session(t, nil)
	c.do(t, "GET", b.at(""), nil).into(t, &made)
	return made.Digest
}

// unpack sends an archive to be unpacked in a session.
func (b *target) unpack(t testing.TB, dir, format string, archive []byte) reply {
	t.Helper()
	return b.do(t, "PUT", b.file("archive", dir)+"&format="+format, archive, header("Content-Type", "application/octet-stream"))
}

// store is an image store that only one test has.
type store struct {
	*scene
	data string
}

func (s *scene) store(t testing.TB) *store { return &store{s, testenv.DataDir(t)} }

// image runs a command of the program on the store.
func (s *store) image(t testing.TB, stdin []byte, args ...string) (text string, err error) {
	t.Helper()
	text, _, err = s.watched(t, stdin, args...)
	return text, err
}

// watched is image that also tells how much memory the program had at most.
func (s *store) watched(t testing.TB, stdin []byte, args ...string) (text string, memory int64, err error) {
	t.Helper()
	cmd := s.d.Command(append([]string{"image"}, args...)...)
	cmd.Env = append(cmd.Env, "SANDKASTEN_DATA_DIR="+s.data)
	cmd.Stdin = bytes.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return out.String(), memory, err
		case <-time.After(10 * time.Millisecond):
			if now, err := statusOf(cmd.Process.Pid, "VmHWM"); err == nil {
				memory = max(memory, now)
			}
		}
	}
}

// load imports a root file system by the name.
func (s *store) load(t testing.TB, name string, archive []byte) (text string, err error) {
	t.Helper()
	return s.image(t, archive, "import", "--name", name, "--tar", "-")
}

// rootOf are the entries of the smallest image, and others.
func rootOf(more ...entry) []entry {
	return append([]entry{{name: "bin/", kind: tar.TypeDir, mode: 0o755}, {name: "bin/sh", body: "#!", mode: 0o755}}, more...)
}

// stray are files of the name escaped where no archive's may be: not in the
// layers of images.
func (s *store) stray(t testing.TB) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(s.data, func(file string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), escaped) && !strings.Contains(file, "/layers/") {
			found = append(found, file)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// wantNothing fails the test for what a refused import has left.
func (s *store) wantNothing(t testing.TB) {
	t.Helper()
	for _, dir := range []string{"names", "images", "staging", "layers"} {
		if left, err := os.ReadDir(filepath.Join(s.data, "images", dir)); err == nil && len(left) > 0 {
			t.Errorf("%s holds %v", dir, left)
		}
	}
}

// breakout is an archive of which something wants to get out.
type breakout struct {
	name    string
	entries []entry
	inside  bool   // an image may have it: links are resolved as its sandboxes do
	files   bool   // a session may have it: there it means nothing
	raw     []byte // the tar file, instead of the entries
}

// tar is the archive.
func (b breakout) tar(t testing.TB) []byte {
	if b.raw != nil {
		return b.raw
	}
	return tarOf(t, b.entries...)
}

// hostileArchive sends an archive along every way in, and sees that it is
// refused, or stays inside where that is what a link there means.
func hostileArchive(t *testing.T, s *scene, digest string, tt breakout) {
	b := s.a.session(t, nil)
	b.sh(t, `mkdir -p in/full; echo kept >in/full/kept; ln -s .. in/before; echo mine >in/mine`)
	ways := map[string]func() reply{
		"tar":     func() reply { return b.unpack(t, "in", "tar", tt.tar(t)) },
		"tar.zst": func() reply { return b.unpack(t, "in", "tar.zst", zstdOf(t, tt.tar(t))) },
		"zip":     func() reply { return b.unpack(t, "in", "zip", zipOf(t, tt.entries...)) },
	}
	for _, e := range tt.entries {
		if e.kind == hard {
			delete(ways, "zip")
		}
	}
	for way, send := range ways {
		if a := send(); !tt.files {
			a.refused(t, tt.name+" as "+way, 400, 413, 422)
		}
		if found := b.sh(t, `find / -xdev -name '`+escaped+`*' ! -path '/workspace/in/*'; cat in/full/kept in/mine`); found != "kept\nmine\n" {
			t.Errorf("%s as %s: %s", tt.name, way, found)
		}
	}
	for _, name := range []string{"workspace", "root"} {
		s.hostileSnapshot(t, tt, digest, name)
	}
	st := s.store(t)
	text, err := st.load(t, "hostile", append(withoutEnd(tarOf(t, rootOf()...)), tt.tar(t)...))
	if err == nil && !tt.inside {
		t.Errorf("%s is an image: %s", tt.name, text)
	}
	if err != nil {
		st.wantNothing(t)
	}
	if strings.Contains(text, st.data) || strings.Contains(text, "goroutine ") {
		t.Errorf("%s: the refusal is %s", tt.name, text)
	}
	for _, found := range st.stray(t) {
		t.Errorf("%s: the import left %s", tt.name, found)
	}
	s.unharmed(t, tt.name)
	for _, file := range []string{"/tmp/" + escaped, "/" + escaped, filepath.Join(path.Dir(s.d.Data), escaped)} {
		if _, err := os.Lstat(file); err == nil {
			t.Errorf("%s: %s is there", tt.name, file)
		}
	}
}

// withoutEnd is a tar file without the two blocks at its end.
func withoutEnd(data []byte) []byte { return bytes.Clone(data[:len(data)-1024]) }

// hostileSnapshot has an archive as a part of a snapshot. It is refused when it
// is uploaded or restored, or what it has is inside the session then.
func (s *scene) hostileSnapshot(t *testing.T, tt breakout, digest, name string) {
	t.Helper()
	p := part{name: name, data: zstdOf(t, tt.tar(t)), entries: len(tt.entries)}
	for _, e := range tt.entries {
		p.bytes += len(e.body)
	}
	a := s.a.uploadSnapshot(t, snapshotOf(t, digest, nil, p))
	a.refused(t, tt.name+" as a snapshot's "+name, 201, 413, 422)
	if a.status != 201 {
		return
	}
	var made struct{ ID string }
	a.into(t, &made)
	a = s.a.do(t, "POST", "/v1/sessions", map[string]any{"restore_snapshot_id": made.ID})
	a.refused(t, tt.name+" restored as "+name, 201, 413, 422)
	if a.status != 201 {
		return
	}
	a.into(t, &made)
	b := &target{s.a, made.ID}
	defer b.end(t)
	if name == "root" {
		b.sh(t, "test -s /etc/passwd && test -d /workspace && test -d /usr")
		return
	}
	if found := b.sh(t, `find / -xdev -name '`+escaped+`*' ! -path '/workspace/*'`); found != "" {
		t.Errorf("%s restored from a snapshot: %s", tt.name, found)
	}
}

func runBreakouts(t *testing.T, all []breakout) {
	t.Helper()
	s := stage(t, "")
	digest := s.a.digest(t)
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.entries {
				tt.entries[i].name = strings.ReplaceAll(tt.entries[i].name, "CANARYDIR", path.Dir(s.canary))
				tt.entries[i].link = strings.ReplaceAll(tt.entries[i].link, "CANARYDIR", path.Dir(s.canary))
			}
			hostileArchive(t, s, digest, tt)
		})
	}
}

const (
	link = tar.TypeSymlink
	hard = tar.TypeLink
	dir  = tar.TypeDir
)

// T01: names that lead out of where an archive is unpacked are refused, and
// nothing is written there.
func TestT01_NamesThatLeadOut(t *testing.T) {
	t.Parallel()
	runBreakouts(t, []breakout{
		{name: "up", entries: []entry{{name: "../" + escaped, body: "x"}}},
		{name: "up later", entries: []entry{{name: "a/../../" + escaped, body: "x"}}},
		{name: "up behind a dot", entries: []entry{{name: "./../" + escaped, body: "x"}}},
		{name: "far up", entries: []entry{{name: strings.Repeat("../", 40) + "tmp/" + escaped, body: "x"}}},
		{name: "absolute", entries: []entry{{name: "/tmp/" + escaped, body: "x"}}},
		{name: "two slashes", entries: []entry{{name: "//tmp/" + escaped, body: "x"}}},
		{name: "backslashes", entries: []entry{{name: `..\` + escaped, body: "x"}}},
		{name: "backslashes below", entries: []entry{{name: `a\..\..\` + escaped, body: "x"}}},
		{name: "a directory", entries: []entry{{name: "../" + escaped + "/", kind: dir, mode: 0o755}}},
		{name: "a link", entries: []entry{{name: "../" + escaped, kind: link, link: "x"}}},
		{name: "only up", entries: []entry{{name: "..", body: "x"}}},
		{name: "the canary", entries: []entry{{name: "CANARYDIR/canary", body: "x"}}},
		{name: "by its header", raw: withPAX(t, tarOf(t, entry{name: "x", body: "x"}), "path", "../"+escaped), entries: make([]entry, 1)},
	})
}

// T02: a link that an archive brings is not followed out, in whatever order and
// however often its name comes.
func TestT02_LinksThatLeadOut(t *testing.T) {
	t.Parallel()
	runBreakouts(t, []breakout{
		{name: "to a directory", entries: []entry{{name: "d", kind: link, link: "CANARYDIR"}, {name: "d/" + escaped, body: "x"}}, inside: true},
		{name: "to the file", entries: []entry{{name: "d", kind: link, link: "CANARYDIR"}, {name: "d/canary", body: "x"}}, inside: true},
		{name: "up", entries: []entry{{name: "d", kind: link, link: ".."}, {name: "d/" + escaped, body: "x"}}, inside: true},
		{name: "a chain", entries: []entry{{name: "a", kind: link, link: "."}, {name: "b", kind: link, link: "a/.."}, {name: "b/" + escaped, body: "x"}}, inside: true},
		{name: "a longer chain", entries: []entry{
			{name: "a/", kind: dir, mode: 0o755},
			{name: "a/b", kind: link, link: "../.."},
			{name: "c", kind: link, link: "a/b/.."},
			{name: "c/" + escaped, body: "x"},
		}, inside: true},
		{name: "a directory that becomes one", entries: []entry{{name: "d/", kind: dir, mode: 0o755}, {name: "d", kind: link, link: "CANARYDIR"}, {name: "d/" + escaped, body: "x"}}, inside: true},
		{name: "a full directory that becomes one", entries: []entry{
			{name: "d/", kind: dir, mode: 0o755},
			{name: "d/f", body: "x"},
			{name: "d", kind: link, link: "CANARYDIR"},
			{name: "d/" + escaped, body: "x"},
		}},
		{name: "the root becomes one", entries: []entry{{name: ".", kind: link, link: "CANARYDIR"}, {name: escaped, body: "x"}}},
		{name: "procfs", entries: []entry{{name: "d", kind: link, link: "/proc/self/root/tmp"}, {name: "d/" + escaped, body: "x"}}, inside: true},
		{name: "a loop", entries: []entry{{name: "a", kind: link, link: "b"}, {name: "b", kind: link, link: "a"}, {name: "a/" + escaped, body: "x"}}},
		{name: "a link of 1,025 bytes", entries: []entry{{name: "l", kind: link, link: strings.Repeat("x", 1025)}}},
	})
}

// T03: a hard link leads to a file that the same archive brought before, or is
// refused.
func TestT03_HardLinks(t *testing.T) {
	t.Parallel()
	runBreakouts(t, []breakout{
		{name: "to the canary", entries: []entry{{name: "h", kind: hard, link: "CANARYDIR/canary"}, {name: "h", body: "x"}}},
		{name: "to the canary, relatively", entries: []entry{{name: "h", kind: hard, link: "../../../../../../CANARYDIR/canary"}}},
		{name: "to a link", entries: []entry{{name: "l", kind: link, link: "CANARYDIR/canary"}, {name: "h", kind: hard, link: "l"}, {name: "h", body: "x"}}},
		{name: "through a link", entries: []entry{{name: "l", kind: link, link: "CANARYDIR"}, {name: "h", kind: hard, link: "l/canary"}}},
		{name: "to what comes later", entries: []entry{{name: "h", kind: hard, link: "later"}, {name: "later", body: "x"}}},
		{name: "to nothing", entries: []entry{{name: "h", kind: hard, link: "nothing"}}},
		{name: "to itself", entries: []entry{{name: "h", body: "x"}, {name: "h", kind: hard, link: "h"}}},
		{name: "to a directory", entries: []entry{{name: "d/", kind: dir, mode: 0o755}, {name: "h", kind: hard, link: "d"}}},
		{name: "to the host's password file", entries: []entry{{name: "h", kind: hard, link: "/etc/shadow"}}},
	})
}

// T11: the tricks by which archives got out of other programs.
func TestT11_KnownBreakouts(t *testing.T) {
	t.Parallel()
	runBreakouts(t, []breakout{
		{name: "a link and a directory below it", entries: []entry{{name: "l", kind: link, link: "CANARYDIR"}, {name: "l/" + escaped + "/", kind: dir, mode: 0o755}}, inside: true},
		{name: "a link below a link", entries: []entry{{name: "l", kind: link, link: ".."}, {name: "l/m", kind: link, link: "../.."}, {name: "l/m/" + escaped, body: "x"}}, inside: true},
		{name: "a file over a link", entries: []entry{{name: escaped, kind: link, link: "CANARYDIR/canary"}, {name: escaped + "/x", body: "x"}}, inside: true},
		{name: "link, hard link, write", entries: []entry{
			{name: "l", kind: link, link: "CANARYDIR/canary"}, {name: "m", kind: hard, link: "./l"}, {name: "m", body: "x"},
		}},
		{name: "a hard link below a link", entries: []entry{{name: "l", kind: link, link: ".."}, {name: "f", body: "x"}, {name: "h", kind: hard, link: "l/../" + escaped}}},
		{name: "a name with an end", entries: []entry{{name: "a\\", kind: link, link: ".."}, {name: `a\/` + escaped, body: "x"}}, inside: true},
		{name: "a whiteout of the parent", entries: []entry{{name: ".wh...", body: ""}}, files: true},
		{name: "a whiteout of this", entries: []entry{{name: ".wh..", body: ""}}, files: true},
		{name: "a whiteout without a name", entries: []entry{{name: ".wh.", body: ""}}, files: true},
		{name: "a whiteout above", entries: []entry{{name: "../.wh." + escaped, body: ""}}},
		{name: "in what was there before", entries: []entry{{name: "before/" + escaped, body: "x"}}, inside: true},
	})
}
