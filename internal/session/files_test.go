package session_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestFiles(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	for _, name := range []string{"dir/a", "/workspace/dir/a", "./dir/../dir//a"} {
		content := "content of " + name
		if err := d.WriteFile(t.Context(), s.ID, name, 0o600, int64(len(content)), strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		info, r, err := d.ReadFile(t.Context(), s.ID, name, 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Error(err)
		}
		if string(got) != content[3:7] || info.Name != "/workspace/dir/a" || info.Size != int64(len(content)) || info.Mode != 0o600 {
			t.Errorf("%q, %+v", got, info)
		}
	}
	for _, name := range []string{".", "/workspace", "/workspace/", "dir/.."} {
		files, truncated, err := d.ListFiles(t.Context(), s.ID, name)
		if err != nil || truncated || len(files) != 1 || files[0].Name != "dir" || files[0].Type != "dir" {
			t.Errorf("list %s: %+v, %v, %v", name, files, truncated, err)
		}
	}
	_, _, err := d.ReadFile(t.Context(), s.ID, "no", 0, 0)
	wantCode(t, err, errdefs.NotFound)
}

func TestFilePaths(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	for name, path := range map[string]string{
		"empty":          "",
		"NUL":            "a\x00b",
		"not UTF-8":      "a\xffb",
		"too long":       strings.Repeat("a/", protocol.MaxPath/2) + "a",
		"long component": "a/" + strings.Repeat("b", 256),
		"a slash behind": "a/",
		"parent":         "../a",
		"deep parent":    "a/../../a",
		"absolute":       "/etc/passwd",
		"prefix only":    "/workspaces/a",
		"out and in":     "/workspace/../etc/passwd",
		"root":           "/",
	} {
		_, _, err := d.ReadFile(t.Context(), s.ID, path, 0, 0)
		var e *errdefs.Error
		if !errors.As(err, &e) || e.Code != errdefs.InvalidArgument || e.Field != "path" {
			t.Errorf("read, %s: %v", name, err)
		}
		wantCode(t, d.WriteFile(t.Context(), s.ID, path, 0, 0, strings.NewReader("")), errdefs.InvalidArgument)
		if name != "a slash behind" {
			_, _, err = d.ListFiles(t.Context(), s.ID, path)
			wantCode(t, err, errdefs.InvalidArgument)
		}
	}
}

func TestFilesOutsideTheWorkspace(t *testing.T) {
	h := newHost(t)
	d := h.start(t, func(o *session.Options) { o.FilesOutsideWorkspace = true })
	s := d.create(t, session.CreateRequest{})
	_, r, err := d.ReadFile(t.Context(), s.ID, "/etc/hostname", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	d.output(t, s.ID, "ln -s /etc/hostname link")
	if _, r, err = d.ReadFile(t.Context(), s.ID, "link", 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	d.stop()

	d = h.start(t)
	_, _, err = d.ReadFile(t.Context(), s.ID, "link", 0, 0)
	if err == nil || errdefs.CodeOf(err) == errdefs.Internal {
		t.Errorf("a link leads out of the workspace: %v", err)
	}
}

func TestFileNumbers(t *testing.T) {
	d := newHost(t).start(t, func(o *session.Options) { o.Maxima.FileBytes = 10 })
	s := d.create(t, session.CreateRequest{})
	write := func(mode uint32, size int64) error {
		return d.WriteFile(t.Context(), s.ID, "f", mode, size, strings.NewReader("0123456789abc"))
	}
	wantCode(t, write(0, 11), errdefs.TooLarge)
	wantCode(t, write(0, -1), errdefs.InvalidArgument)
	wantCode(t, write(0o10000, 1), errdefs.InvalidArgument)
	if err := write(0, 10); err != nil {
		t.Error(err)
	}
	_, _, err := d.ReadFile(t.Context(), s.ID, "f", -1, 0)
	wantCode(t, err, errdefs.InvalidArgument)
	_, _, err = d.ReadFile(t.Context(), s.ID, "f", 0, -1)
	wantCode(t, err, errdefs.InvalidArgument)
}

// TestWriteOfABrokenUpload: the file stays as it was.
func TestWriteOfABrokenUpload(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	if err := d.WriteFile(t.Context(), s.ID, "f", 0, 3, strings.NewReader("old")); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteFile(t.Context(), s.ID, "f", 0, 100, strings.NewReader("new")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if got := d.output(t, s.ID, "cat f; ls -A"); got != "oldf\n" {
		t.Errorf("left %q", got)
	}
}
