package ops_test

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
		if _, err := d.Files.Write(t.Context(), everyone, string(s.ID), protocol.Write{Path: name, Mode: 0o600}, int64(len(content)), strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		info, r, err := d.Files.Read(t.Context(), everyone, string(s.ID), protocol.Read{Path: name, Offset: 3, MaxBytes: 4})
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
		list, err := d.Files.List(t.Context(), everyone, string(s.ID), protocol.List{Path: name, Max: 10})
		if err != nil || list.Truncated || len(list.Entries) != 1 || list.Entries[0].Name != "dir" || list.Entries[0].Type != "dir" {
			t.Errorf("list %s: %+v, %v", name, list, err)
		}
	}
	_, _, err := d.Files.Read(t.Context(), everyone, string(s.ID), protocol.Read{Path: "no"})
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
		_, _, err := d.Files.Read(t.Context(), everyone, string(s.ID), protocol.Read{Path: path})
		var e *errdefs.Error
		if !errors.As(err, &e) || e.Code != errdefs.InvalidArgument || e.Field != "path" {
			t.Errorf("read, %s: %v", name, err)
		}
		_, err = d.Files.Write(t.Context(), everyone, string(s.ID), protocol.Write{Path: path}, 0, strings.NewReader(""))
		wantCode(t, err, errdefs.InvalidArgument)
		if name != "a slash behind" {
			_, err = d.Files.List(t.Context(), everyone, string(s.ID), protocol.List{Path: path, Max: 1})
			wantCode(t, err, errdefs.InvalidArgument)
		}
	}
}

func TestFileNumbers(t *testing.T) {
	d := newHost(t).start(t, func(o *session.Options) { o.Maxima.FileBytes = 10 })
	s := d.create(t, session.CreateRequest{})
	write := func(mode uint32, size int64) error {
		_, err := d.Files.Write(t.Context(), everyone, string(s.ID), protocol.Write{Path: "f", Mode: mode}, size, strings.NewReader("0123456789abc"))
		return err
	}
	wantCode(t, write(0, 11), errdefs.TooLarge)
	wantCode(t, write(0, -1), errdefs.InvalidArgument)
	wantCode(t, write(0o10000, 1), errdefs.InvalidArgument)
	if err := write(0, 10); err != nil {
		t.Error(err)
	}
	_, _, err := d.Files.Read(t.Context(), everyone, string(s.ID), protocol.Read{Path: "f", Offset: -1})
	wantCode(t, err, errdefs.InvalidArgument)
	_, _, err = d.Files.Read(t.Context(), everyone, string(s.ID), protocol.Read{Path: "f", MaxBytes: -1})
	wantCode(t, err, errdefs.InvalidArgument)
}

// TestWriteOfABrokenUpload: the file stays as it was.
func TestWriteOfABrokenUpload(t *testing.T) {
	d := newHost(t).start(t)
	s := d.create(t, session.CreateRequest{})
	if _, err := d.Files.Write(t.Context(), everyone, string(s.ID), protocol.Write{Path: "f"}, 3, strings.NewReader("old")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Files.Write(t.Context(), everyone, string(s.ID), protocol.Write{Path: "f"}, 100, strings.NewReader("new")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if got := d.output(t, s.ID, "cat f; ls -A"); got != "oldf\n" {
		t.Errorf("left %q", got)
	}
}

// A session has only so many operations on files at once, and another one as many.
func TestFileOperationsAtOnceAreBounded(t *testing.T) {
	d := newHost(t).start(t)
	s, other := d.create(t, session.CreateRequest{}), d.create(t, session.CreateRequest{})
	d.output(t, s.ID, "echo text > f")
	stat := func(id session.ID) error {
		_, err := d.Files.Stat(t.Context(), everyone, string(id), protocol.Stat{Path: "."})
		return err
	}
	var open []io.Closer
	for range 64 {
		_, content, err := d.Files.Read(t.Context(), everyone, string(s.ID), protocol.Read{Path: "f"})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, content)
	}
	wantCode(t, stat(s.ID), errdefs.ResourceExhausted)
	if err := stat(other.ID); err != nil {
		t.Errorf("in another session: %v", err)
	}
	for _, content := range open {
		if err := content.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := stat(s.ID); err != nil {
		t.Errorf("when the others have ended: %v", err)
	}
}
