package sandkasten

import (
	"bytes"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// received is what a request's form has: files by name, and its path.
func received(t *testing.T, r recorded) (files map[string]string, path string) {
	t.Helper()
	_, params, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	form := multipart.NewReader(strings.NewReader(r.body), params["boundary"])
	for {
		part, err := form.NextRawPart()
		if err == io.EOF {
			return files, path
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		if part.FormName() == "path" {
			path = string(text)
		} else {
			files[part.FileName()] = string(text)
		}
	}
}

func TestUploadFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "local")
	if err := os.WriteFile(name, []byte("skipped and sent"), 0o600); err != nil {
		t.Fatal(err)
	}
	local, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if _, err := local.Seek(8, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	busy := answer{status: 429, body: `{"code": "resource_exhausted", "error": "too many"}`}
	c, d := start(t, busy, answer{status: 200, body: `{"ok": true, "paths": ["/workspace/in/a"]}`})
	paths, err := c.Session("s1").UploadFiles(t.Context(), "in/",
		NewFile{Name: `a "b" \ ä.txt`, Content: strings.NewReader("text")},
		NewFile{Name: "local", Content: local},
		NewFile{Name: "empty", Content: new(bytes.Reader)})
	if err != nil || len(paths) != 1 {
		t.Fatalf("%q, %v", paths, err)
	}
	want := map[string]string{`a "b" \ ä.txt`: "text", "local": "and sent", "empty": ""}
	for i, r := range d.seen() {
		if got, path := received(t, r); !maps.Equal(got, want) || path != "in/" {
			t.Errorf("request %d has %q for %q", i, got, path)
		}
	}
	if n := len(d.seen()); n != 2 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestUploadFilesIsNotRepeatedWhereItCannotBe(t *testing.T) {
	c, d := start(t, answer{status: 429, body: `{"code": "resource_exhausted", "error": "too many"}`})
	stream := io.MultiReader(strings.NewReader("text"))
	if _, err := c.Session("s1").UploadFiles(t.Context(), "", NewFile{"a", stream, 4}); err == nil {
		t.Error("it succeeded")
	}
	if n := len(d.seen()); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestUploadFilesRefuses(t *testing.T) {
	c, d := start(t)
	for what, file := range map[string]NewFile{
		"no name":      {"", strings.NewReader("x"), 0},
		"a directory":  {"a/b", strings.NewReader("x"), 0},
		"a line's end": {"a\r\nX: y", strings.NewReader("x"), 0},
		"no size":      {"a", io.MultiReader(), 0},
	} {
		if _, err := c.Session("s1").UploadFiles(t.Context(), "", file); err == nil {
			t.Errorf("%s: sent", what)
		}
	}
	if n := len(d.seen()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
