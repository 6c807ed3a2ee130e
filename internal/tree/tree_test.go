package tree_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/tree"
)

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// look describes all that is below a directory.
func look(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	check(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		if info.Mode()&fs.ModeSymlink == 0 {
			text += info.ModTime().UTC().Format(" 15:04:05.000000000 ")
		}
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += " " + string(content)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text = "-> " + target
		}
		found[strings.TrimPrefix(name, dir+"/")] = text
		return nil
	}))
	return found
}

func unpack(t *testing.T, dir string, stream io.Reader) (skipped int, err error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	return tree.Unpack(root, stream)
}

func TestThereAndBack(t *testing.T) {
	from := t.TempDir()
	long := strings.Repeat("long", 50) + "ä"
	check(t,
		os.MkdirAll(filepath.Join(from, "sub", long, long), 0o755),
		os.WriteFile(filepath.Join(from, "sub", long, long, "f"), []byte(strings.Repeat("x", 100_000)), 0o640),
		os.WriteFile(filepath.Join(from, "tool"), []byte("#!"), 0o755),
		os.WriteFile(filepath.Join(from, "empty"), nil, 0o600),
		os.WriteFile(filepath.Join(from, "not \xff UTF-8\n"), []byte("n"), 0o600),
		os.Symlink("sub/"+long, filepath.Join(from, "link")),
		os.Symlink("../tool", filepath.Join(from, "sub", "up")),
		os.Mkdir(filepath.Join(from, "none"), 0o700),
	)
	old := time.Unix(1e9, 789_000_000)
	for _, name := range []string{"tool", "empty", "none"} {
		check(t, os.Chtimes(filepath.Join(from, name), old, old))
	}
	want := look(t, from)
	check(t, syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600))
	p, err := tree.Scan(from)
	check(t, err)
	defer p.Close()
	var stream bytes.Buffer
	check(t, p.WriteTar(&stream))
	if int64(stream.Len()) != p.Size || p.Skipped != 1 {
		t.Errorf("%d bytes, and it said %d; %d skipped", stream.Len(), p.Size, p.Skipped)
	}
	to := t.TempDir()
	skipped, err := unpack(t, to, bytes.NewReader(stream.Bytes()))
	if err != nil || skipped != 0 {
		t.Fatalf("%d skipped, %v", skipped, err)
	}
	if diff := cmp.Diff(want, look(t, to)); diff != "" {
		t.Error(diff)
	}
	// Again, over what is there.
	if _, err := unpack(t, to, &stream); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, look(t, to)); diff != "" {
		t.Error(diff)
	}
}

func TestFilesThatChange(t *testing.T) {
	from := t.TempDir()
	grows, shrinks := filepath.Join(from, "a"), filepath.Join(from, "b")
	check(t, os.WriteFile(grows, []byte("old"), 0o600))
	p, err := tree.Scan(from)
	check(t, err)
	defer p.Close()
	check(t, os.WriteFile(grows, []byte("older"), 0o600))
	var stream bytes.Buffer
	if err := p.WriteTar(&stream); err != nil || int64(stream.Len()) != p.Size {
		t.Errorf("a file that grew: %d bytes instead of %d, %v", stream.Len(), p.Size, err)
	}
	check(t, os.WriteFile(shrinks, []byte("long"), 0o600))
	q, err := tree.Scan(from)
	check(t, err)
	defer q.Close()
	check(t, os.Truncate(shrinks, 1))
	if err := q.WriteTar(io.Discard); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that shrank: %v", err)
	}
}

// archive is a tar stream of these entries; files have their name as content.
func archive(t *testing.T, headers ...tar.Header) io.Reader {
	t.Helper()
	var stream bytes.Buffer
	w := tar.NewWriter(&stream)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(h.Name))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		check(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := io.WriteString(w, h.Name)
			check(t, err)
		}
	}
	check(t, w.Close())
	return &stream
}

func link(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

// TestHostileArchives unpacks into a directory beside which there is a canary.
func TestHostileArchives(t *testing.T) {
	for _, tt := range []struct {
		name    string
		entries []tar.Header
		skipped int
		refused bool
		want    []string // names below
	}{
		{name: "up", entries: []tar.Header{{Name: "../canary"}}, refused: true},
		{name: "up and down", entries: []tar.Header{{Name: "a/../../canary"}}, refused: true},
		{name: "absolute", entries: []tar.Header{{Name: "/etc/canary"}}, refused: true},
		{name: "absolute link", entries: []tar.Header{link("l", "/etc"), {Name: "f"}}, skipped: 1, want: []string{"f"}},
		{name: "link up", entries: []tar.Header{link("d/l", "../../x")}, skipped: 1},
		{name: "link that climbs behind a link", entries: []tar.Header{link("y", "."), link("l", "y/../canary")}, skipped: 1, want: []string{"y"}},
		{name: "link in a link", entries: []tar.Header{link("a/b/s", "../.."), link("a/b/s/l", "../../x")}, skipped: 1, want: []string{"a", "a/b", "a/b/s"}},
		{name: "file through a link", entries: []tar.Header{link("l", ".."), {Name: "l/canary"}}, skipped: 1, want: []string{"l", "l/canary"}},
		{name: "file in place of a link", entries: []tar.Header{{Name: "f"}, link("l", "f"), {Name: "l"}}, want: []string{"f", "l"}},
		{name: "hard link up", entries: []tar.Header{{Typeflag: tar.TypeLink, Name: "l", Linkname: "../canary"}}, refused: true},
		{name: "hard link", entries: []tar.Header{{Name: "f"}, {Typeflag: tar.TypeLink, Name: "l", Linkname: "f"}}, want: []string{"f", "l"}},
		{name: "device", entries: []tar.Header{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, {Typeflag: tar.TypeFifo, Name: "p"}}, skipped: 2},
		{name: "set-user-id", entries: []tar.Header{{Name: "s", Mode: 0o6755}}, want: []string{"s"}},
		{name: "read-only directory", entries: []tar.Header{{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o500}, {Name: "d/f"}}, want: []string{"d", "d/f"}},
		{name: "itself", entries: []tar.Header{{Typeflag: tar.TypeDir, Name: "./"}, {Name: "./f"}}, want: []string{"f"}},
		{name: "directory in place of a file", entries: []tar.Header{{Name: "f"}, {Name: "f/x"}}, refused: true},
		{name: "file in place of a directory", entries: []tar.Header{{Name: "d/x"}, {Name: "d"}}, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "in", "to")
			check(t, os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(top, "in", "canary"), []byte("alive"), 0o600))
			skipped, err := unpack(t, dir, archive(t, tt.entries...))
			if (err != nil) != tt.refused || skipped != tt.skipped {
				t.Errorf("%d skipped, %v", skipped, err)
			}
			if content, err := os.ReadFile(filepath.Join(top, "in", "canary")); string(content) != "alive" {
				t.Errorf("the canary is %q, %v", content, err)
			}
			found := look(t, dir)
			for name, text := range found {
				if strings.HasPrefix(text, "u") || strings.HasPrefix(text, "g") { // as fs.FileMode shows set-id bits
					t.Errorf("%s is %s", name, text)
				}
			}
			if tt.refused {
				return
			}
			for _, name := range tt.want {
				if _, ok := found[name]; !ok {
					t.Errorf("%s is missing in %v", name, found)
				}
				delete(found, name)
			}
			delete(found, "d") // of a link that was left out
			if len(found) > 0 {
				t.Errorf("beside what it should have made: %v", found)
			}
		})
	}
}

func TestArchiveThatIsCut(t *testing.T) {
	whole, err := io.ReadAll(archive(t, tar.Header{Name: strings.Repeat("n", 90)}))
	check(t, err)
	for _, n := range []int{100, 512, 513, 601} {
		if _, err := unpack(t, t.TempDir(), bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("%d bytes of an archive were taken for a whole one", n)
		}
	}
	if _, err := unpack(t, t.TempDir(), strings.NewReader("this is no archive"+strings.Repeat("x", 1000))); err == nil {
		t.Error("text was taken for an archive")
	}
}

func TestScanOfNothing(t *testing.T) {
	if _, err := tree.Scan(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
