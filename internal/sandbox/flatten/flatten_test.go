package flatten

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/baseline"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// layer makes a directory of files by name and content. A name that ends with
// a slash is a directory; of content "deleted" the mark of that, "opaque/" the
// mark of a directory, "link:..." a symbolic and "same:..." a hard link.
func layer(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := put(filepath.Join(dir, name), dir, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func put(full, dir, content string) error {
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	switch {
	case content == "deleted":
		return unix.Mknod(full, unix.S_IFCHR, 0)
	case content == "device":
		return unix.Mknod(full, unix.S_IFCHR, int(unix.Mkdev(1, 3)))
	case content == "dir":
		return os.Mkdir(full, 0o755)
	case content == "opaque":
		return errors.Join(os.Mkdir(full, 0o700), unix.Setxattr(full, "user.overlay.opaque", []byte("y"), 0))
	case len(content) > 5 && content[:5] == "link:":
		return os.Symlink(content[5:], full)
	case len(content) > 5 && content[:5] == "same:":
		return os.Link(filepath.Join(dir, content[5:]), full)
	}
	return os.WriteFile(full, []byte(content), 0o640)
}

func TestWrite(t *testing.T) {
	testenv.NeedsRoot(t)
	top := layer(t, map[string]string{
		"changed": "top", "gone": "deleted", "never": "deleted", "dir/added": "top", "dir/gone": "deleted",
		"opaque": "opaque", "opaque/only": "top", "filenow": "a file", "dirnow/x": "top", "null": "device",
	})
	bottom := layer(t, map[string]string{
		"changed": "bottom", "gone": "bottom", "kept": "bottom", "dir/kept": "bottom", "dir/gone": "bottom", "dir/deep/er": "bottom",
		"opaque/hidden": "bottom", "filenow/hidden": "bottom", "dirnow": "a file", "z-link": "link:/etc/passwd", "z-same": "same:kept",
	})
	if err := unix.Setxattr(filepath.Join(bottom, "kept"), "user.note", []byte("hi"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(bottom, "kept"), 12, 34); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := Write(t.Context(), &archive, []string{top, bottom}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"changed=top", "dir/", "dir/added=top", "dir/deep/", "dir/deep/er=bottom", "dir/kept=bottom", "dirnow/", "dirnow/x=top",
		"filenow=a file", "kept=bottom", "opaque/", "opaque/only=top", "z-link->/etc/passwd", "z-same==kept",
	}
	if got := listing(t, &archive); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// listing tells of each entry what it is, and checks what must be kept of one.
func listing(t *testing.T, archive io.Reader) []string {
	t.Helper()
	var got []string
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "kept" && (h.Uid != 12 || h.Gid != 34 || h.Mode != 0o640 || h.Uname != "" || h.PAXRecords["SCHILY.xattr.user.note"] != "hi") {
			t.Errorf("%+v", h)
		}
		line := h.Name
		switch h.Typeflag {
		case tar.TypeReg:
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			line += "=" + string(text)
		case tar.TypeSymlink:
			line += "->" + h.Linkname
		case tar.TypeLink:
			line += "==" + h.Linkname
		}
		got = append(got, line)
	}
}

// What List lists is what Write writes: each entry, with what a tar file says of
// it, in the order of a list.
func TestList(t *testing.T) {
	testenv.NeedsRoot(t)
	top := layer(t, map[string]string{"a/gone": "deleted", "a/new": "top", "b-": "link:/nowhere", "null": "device", "o": "opaque"})
	bottom := layer(t, map[string]string{"a/gone": "bottom", "a/kept": "bottom", "b/x": "same:a/kept", "o/hidden": "bottom"})
	if err := os.Chown(filepath.Join(bottom, "a/kept"), 12, 34); err != nil {
		t.Fatal(err)
	}
	var archive, list bytes.Buffer
	layers := []string{top, bottom}
	if err := errors.Join(Write(t.Context(), &archive, layers), List(t.Context(), &list, layers)); err != nil {
		t.Fatal(err)
	}
	r, err := baseline.NewReader(&list)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for in := tar.NewReader(&archive); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := r.Next()
		if err != nil || e.Path != strings.TrimSuffix(h.Name, "/") || e.Mode&0o7777 != uint32(h.Mode) || e.UID != uint32(h.Uid) || e.GID != uint32(h.Gid) ||
			h.Typeflag == tar.TypeReg && (e.Size != h.Size || e.MTime != h.ModTime.Unix()) {
			t.Errorf("%+v, %v, want %+v", e, err, h)
		}
		names = append(names, e.Path)
	}
	if e, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("more is listed: %+v, %v", e, err)
	}
	if want := strings.Fields("a a/kept a/new b b/x b- o"); !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestWriteCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(ctx, io.Discard, []string{dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestSize counts blocks of what is seen, and a file with two names once.
func TestSize(t *testing.T) {
	top := layer(t, map[string]string{"changed": "top"})
	bottom := layer(t, map[string]string{
		"changed": strings.Repeat("x", 100_000), "big": strings.Repeat("x", 5000), "same": "same:big", "dir/empty": "",
	})
	// The first, the second and third in two blocks, a directory and what is in it.
	if got, err := Size(t.Context(), []string{top, bottom}); err != nil || got != 5*4096 {
		t.Errorf("%d, %v", got, err)
	}
}

// TestOpen: a file is that of the layer that shows it, and no link is followed.
func TestOpen(t *testing.T) {
	testenv.NeedsRoot(t)
	layers := []string{
		layer(t, map[string]string{"etc/passwd": "top", "etc/gone": "deleted", "closed": "opaque", "closed/x": "top", "dir": "deleted", "file": "link:etc/passwd", "link": "link:/etc"}),
		layer(t, map[string]string{"etc/passwd": "bottom", "etc/group": "bottom", "etc/gone": "bottom", "closed/hidden": "bottom", "dir/x": "bottom", "link/passwd": "bottom"}),
	}
	for name, want := range map[string]string{"etc/passwd": "top", "etc/group": "bottom", "closed/x": "top"} {
		f, err := Open(layers, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"etc/gone", "etc/none", "etc", "closed/hidden", "dir/x", "link/passwd", "file", "etc/passwd/x", "none/x"} {
		if f, err := Open(layers, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}
