package runner_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

func (p *peer) read(r protocol.Read) (protocol.FileInfo, []byte, error) {
	p.t.Helper()
	if err := p.out.Send(protocol.TypeRead, r, nil); err != nil {
		p.t.Fatal(err)
	}
	var info protocol.FileInfo
	if err := p.reply(protocol.TypeFile, &info); err != nil {
		return info, nil, err
	}
	b, err := io.ReadAll(p.in)
	return info, b, err
}

func (p *peer) write(w protocol.Write, content []byte) error {
	p.t.Helper()
	if err := p.out.SendFrom(protocol.TypeWrite, w, int64(len(content)), bytes.NewReader(content)); err != nil {
		p.t.Fatal(err)
	}
	return p.reply(protocol.TypeOK, nil)
}

func (p *peer) list(l protocol.List) (protocol.Entries, error) {
	p.t.Helper()
	if err := p.out.Send(protocol.TypeList, l, nil); err != nil {
		p.t.Fatal(err)
	}
	var e protocol.Entries
	err := p.reply(protocol.TypeEntries, &e)
	return e, err
}

// frame receives the next frame of an answer, whoever sends it.
func (p *peer) frame() (protocol.Header, error) {
	h, err := p.in.Next()
	if err == nil && h.Type == protocol.TypeLent {
		return p.in.Next()
	}
	return h, err
}

// reply receives a final frame of type want into body.
func (p *peer) reply(want protocol.Type, body any) error {
	p.t.Helper()
	if err := p.c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		p.t.Fatal(err)
	}
	h, err := p.frame()
	if err != nil {
		return err
	}
	if h.Type == protocol.TypeError {
		var e protocol.Error
		if err := h.Decode(&e); err != nil {
			return err
		}
		return &refused{e}
	}
	if h.Type != want {
		return fmt.Errorf("got a %s frame, want %s", h.Type, want)
	}
	if body == nil {
		return nil
	}
	return h.Decode(body)
}

func TestFiles(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	big := make([]byte, 5<<20)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	for _, tc := range []struct {
		path    string
		content []byte
	}{
		{"a", []byte("hello")},
		{"empty", nil},
		{h.workspace + "/deep/er/and/../b", []byte{0, 255, 10}},
		{"big", big},
		{"odd \n\x1b[31m \xff name", []byte("x")},
		{strings.Repeat("n", 255), []byte("x")},
	} {
		if err := p.write(protocol.Write{Path: tc.path}, tc.content); err != nil {
			t.Errorf("write %q: %v", tc.path, err)
			continue
		}
		info, b, err := p.read(protocol.Read{Path: tc.path})
		if err != nil || !bytes.Equal(b, tc.content) || info.Size != int64(len(tc.content)) || info.Type != "file" || info.Mode != 0o644 {
			t.Errorf("read %q: %d bytes, %+v, %v", tc.path, len(b), info, err)
		}
	}
	if _, b, err := p.read(protocol.Read{Path: "a", Offset: 1, MaxBytes: 3}); err != nil || string(b) != "ell" {
		t.Errorf("a part: %q, %v", b, err)
	}
	if _, b, err := p.read(protocol.Read{Path: "a", Offset: 9}); err != nil || len(b) != 0 {
		t.Errorf("beyond the end: %q, %v", b, err)
	}
	if err := p.write(protocol.Write{Path: "a", Mode: 0o750}, []byte("2")); err != nil {
		t.Error(err)
	}
	if err := p.write(protocol.Write{Path: "a"}, []byte("3")); err != nil {
		t.Error(err)
	}
	if info, b, err := p.read(protocol.Read{Path: "a"}); err != nil || info.Mode != 0o750 || string(b) != "3" {
		t.Errorf("replaced: %+v %q %v, want the mode kept", info, b, err)
	}
	h.wantNoTemp()
}

func (h *host) wantNoTemp() {
	h.t.Helper()
	left, err := filepath.Glob(h.workspace + "/.sandkasten-*")
	if err != nil || len(left) > 0 {
		h.t.Errorf("temporary files are left: %v %v", left, err)
	}
}

// H01, H03, H04: paths and files that are not what they seem.
func TestFilesRefuse(t *testing.T) {
	h := newHost(t)
	canary := filepath.Join(filepath.Dir(h.workspace), "canary")
	must(t, os.WriteFile(canary, []byte("secret"), 0o644))
	ws := func(name string) string { return filepath.Join(h.workspace, name) }
	must(t, os.Symlink(canary, ws("link")))
	must(t, os.Symlink("../canary", ws("uplink")))
	must(t, os.Symlink("/", ws("root")))
	must(t, os.Symlink("/proc/self/root", ws("magic")))
	must(t, os.Symlink("loop", ws("loop")))
	must(t, os.Symlink("/dev/zero", ws("zero")))
	must(t, unix.Mkfifo(ws("fifo"), 0o644))
	must(t, os.Mkdir(ws("dir"), 0o755))
	must(t, os.WriteFile(ws("file"), []byte("f"), 0o644))
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(s)
	must(t, unix.Bind(s, &unix.SockaddrUnix{Name: ws("socket")}))

	p := h.dial()
	for _, tc := range []struct{ path, read, write string }{
		{canary, "permission_denied", "permission_denied"},
		{"../canary", "permission_denied", "permission_denied"},
		{"dir/../../canary", "permission_denied", "permission_denied"},
		{"link", "permission_denied", "permission_denied"},
		{"uplink", "permission_denied", "permission_denied"},
		{"root" + canary, "permission_denied", "permission_denied"},
		{"magic" + canary, "permission_denied", "permission_denied"},
		{"loop", "invalid_argument", "invalid_argument"},
		{"zero", "permission_denied", "permission_denied"},
		{"fifo", "invalid_argument", "invalid_argument"},
		{"socket", "invalid_argument", "invalid_argument"},
		{"dir", "invalid_argument", "invalid_argument"},
		{"dir/", "invalid_argument", "invalid_argument"},
		{"", "invalid_argument", "invalid_argument"},
		{".", "invalid_argument", "invalid_argument"},
		{"a\x00b", "invalid_argument", "invalid_argument"},
		{strings.Repeat("x/", 3000), "invalid_argument", "invalid_argument"},
		{strings.Repeat("n", 256), "invalid_argument", "invalid_argument"},
		{"file/below", "invalid_argument", "invalid_argument"},
		{"missing", "not_found", ""},
	} {
		begin := time.Now()
		if _, b, err := p.read(protocol.Read{Path: tc.path}); codeOf(err) != tc.read {
			t.Errorf("read %.40q: %q %v, want %s", tc.path, b, err, tc.read)
		}
		if tc.write != "" {
			if err := p.write(protocol.Write{Path: tc.path}, []byte("overwritten")); codeOf(err) != tc.write {
				t.Errorf("write %.40q: %v, want %s", tc.path, err, tc.write)
			}
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%.40q took %v", tc.path, took)
		}
	}
	if b, err := os.ReadFile(canary); err != nil || string(b) != "secret" {
		t.Errorf("the canary is %q, %v", b, err)
	}
	h.wantNoTemp()

	// With leave to go outside, links lead where they do for any program, but
	// the kernel's own still do not.
	for path, want := range map[string]string{
		canary: "<nil>", "link": "<nil>", "root" + canary: "<nil>",
		"magic" + canary: "invalid_argument", "/proc/self/mem": "unprocessable", "/proc/version": "unprocessable",
		"zero": "invalid_argument",
	} {
		if _, _, err := p.read(protocol.Read{Path: path, AllowOutside: true}); codeOf(err) != want {
			t.Errorf("outside, %s: %v, want %s", path, err, want)
		}
	}
	must(t, p.write(protocol.Write{Path: "link", AllowOutside: true}, []byte("new")))
	if b, err := os.ReadFile(canary); err != nil || string(b) != "new" {
		t.Errorf("through the link: %q, %v", b, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A write goes to what a link names, and the link stays.
func TestWriteFollowsLinks(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	must(t, os.Mkdir(h.workspace+"/sub", 0o755))
	must(t, os.Symlink("sub/target", h.workspace+"/relative"))
	must(t, os.Symlink(h.workspace+"/sub/target", h.workspace+"/absolute"))
	must(t, os.Symlink("sub", h.workspace+"/dirlink"))
	for i, path := range []string{"relative", "absolute", "dirlink/target"} {
		want := fmt.Sprint("content ", i)
		must(t, p.write(protocol.Write{Path: path}, []byte(want)))
		if b, err := os.ReadFile(h.workspace + "/sub/target"); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
	if target, err := os.Readlink(h.workspace + "/relative"); err != nil || target != "sub/target" {
		t.Errorf("the link is %q, %v", target, err)
	}
}

// H12: readers see the old content or the new, and a broken upload nothing.
func TestWriteIsAtomic(t *testing.T) {
	h := newHost(t)
	a, b := bytes.Repeat([]byte("a"), 300_000), bytes.Repeat([]byte("b"), 200_000)
	must(t, h.dial().write(protocol.Write{Path: "f"}, a))
	var wg sync.WaitGroup
	for _, content := range [][]byte{a, b} {
		p := h.dial()
		wg.Go(func() {
			for range 50 {
				if err := p.write(protocol.Write{Path: "f"}, content); err != nil {
					t.Error(err)
				}
			}
		})
	}
	p := h.dial()
	for range 100 {
		if _, got, err := p.read(protocol.Read{Path: "f"}); err != nil || !bytes.Equal(got, a) && !bytes.Equal(got, b) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	wg.Wait()

	broken := h.dial()
	if _, err := fmt.Fprintf(broken.c, `{"type":"write","body":{"path":"f"},"bytes":1000}`+"\nonly this"); err != nil {
		t.Fatal(err)
	}
	broken.c.Close()
	waitFor(t, func() bool { n, err := filepath.Glob(h.workspace + "/.sandkasten-*"); return err == nil && len(n) == 0 })
	if _, got, err := p.read(protocol.Read{Path: "f"}); err != nil || len(got) < 200_000 {
		t.Errorf("after a broken upload: %d bytes, %v", len(got), err)
	}
}

// H06: a file that shrinks while it is read cannot be delivered as announced.
func TestReadOfShrinkingFile(t *testing.T) {
	h := newHost(t)
	path := h.workspace + "/f"
	must(t, os.WriteFile(path, make([]byte, 64<<20), 0o644))
	p := h.dial()
	must(t, p.out.Send(protocol.TypeRead, protocol.Read{Path: "f"}, nil))
	if _, err := p.in.Next(); err != nil {
		t.Fatal(err)
	}
	must(t, os.Truncate(path, 0))
	if n, err := io.Copy(io.Discard, p.in); err != io.ErrUnexpectedEOF {
		t.Errorf("%d bytes, %v; want the connection closed", n, err)
	}
	h.dial().next()
}

func TestWriteToFullDisk(t *testing.T) {
	testenv.NeedsRoot(t)
	h := newHost(t)
	dir := h.workspace + "/small"
	must(t, os.Mkdir(dir, 0o755))
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	p := h.dial()
	must(t, p.write(protocol.Write{Path: "small/f"}, []byte("old")))
	if err := p.write(protocol.Write{Path: "small/f"}, make([]byte, 1<<20)); codeOf(err) != "insufficient_space" {
		t.Errorf("%v, want insufficient_space", err)
	}
	if _, b, err := p.read(protocol.Read{Path: "small/f"}); err != nil || string(b) != "old" {
		t.Errorf("%q, %v; want the old content", b, err)
	}
	if e, err := p.list(protocol.List{Path: "small"}); err != nil || len(e.Entries) != 1 {
		t.Errorf("%+v, %v; want no temporary file", e, err)
	}
}

func TestList(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	must(t, os.Mkdir(h.workspace+"/d", 0o750))
	must(t, os.WriteFile(h.workspace+"/d/b", []byte("12"), 0o600))
	must(t, os.Symlink("/nowhere", h.workspace+"/d/a"))
	must(t, os.Mkdir(h.workspace+"/d/c", 0o711))
	e, err := p.list(protocol.List{Path: "d"})
	if err != nil || e.Truncated || len(e.Entries) != 3 {
		t.Fatalf("%+v, %v", e, err)
	}
	for i := range e.Entries {
		if e.Entries[i].ModTimeMS == 0 {
			t.Errorf("%s has no time", e.Entries[i].Name)
		}
		e.Entries[i].ModTimeMS = 0
		if e.Entries[i].Type == "dir" {
			e.Entries[i].Size = 0
		}
	}
	if want := []protocol.FileInfo{
		{Name: "a", Type: "symlink", Size: 8, Mode: 0o777, Target: "/nowhere"},
		{Name: "b", Type: "file", Size: 2, Mode: 0o600},
		{Name: "c", Type: "dir", Mode: 0o711},
	}; !slices.Equal(e.Entries, want) {
		t.Errorf("%+v\nwant %+v", e.Entries, want)
	}
	if e, err := p.list(protocol.List{Path: "d", Max: 2}); err != nil || !e.Truncated || len(e.Entries) != 2 || e.Entries[1].Name != "b" {
		t.Errorf("%+v, %v", e, err)
	}
	for path, want := range map[string]string{"d/b": "invalid_argument", "d/a": "permission_denied", "x": "not_found", "..": "permission_denied"} {
		if _, err := p.list(protocol.List{Path: path}); codeOf(err) != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	for i := range 3000 {
		must(t, os.WriteFile(fmt.Sprintf("%s/d/c/%04d%s", h.workspace, i, strings.Repeat("\x01", 200)), nil, 0o600))
	}
	if e, err := p.list(protocol.List{Path: "d/c"}); err != nil || !e.Truncated || len(e.Entries) < 100 {
		t.Errorf("%d entries, %v", len(e.Entries), err)
	}
}

func TestFilesDuringExec(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	id := p.start(protocol.Exec{TimeoutMS: 60_000}, "sleep 60")
	q := h.dial()
	waitFor(t, func() bool { return q.recordOf(id).State == protocol.StateRunning })
	begin := time.Now()
	must(t, q.write(protocol.Write{Path: "f"}, []byte("x")))
	if _, _, err := q.read(protocol.Read{Path: "f"}); err != nil || time.Since(begin) > 15*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	q.cancel(id)
	if _, err := p.finish(); err != nil {
		t.Error(err)
	}
}
