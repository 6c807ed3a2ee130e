package v1_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
)

// readBack reads a file as JSON.
func (s *server) readBack(tb testing.TB, path, query string) (files.Content, string) {
	tb.Helper()
	var got files.Content
	s.do(tb, "GET", path+"/fs/read?"+query, "").into(tb, http.StatusOK, &got)
	content, err := base64.StdEncoding.DecodeString(got.ContentBase64)
	if err != nil {
		tb.Fatal(err)
	}
	return got, string(content)
}

func TestWriteAndRead(t *testing.T) {
	s := start(t)
	path := s.create(t)
	tests := []struct{ body, path, content, mode string }{
		{`{"path":"a.txt","text":"h\u00e4\n"}`, "a.txt", "h\u00e4\n", "0644"},
		{`{"path":"/workspace/a.txt","text":"again"}`, "a.txt", "again", "0644"},
		{`{"path":"deep/er/b.bin","content_base64":"AP/+"}`, "deep/er/b.bin", "\x00\xff\xfe", "0644"},
		{`{"path":"run.sh","text":"#!/bin/sh\n","mode":"0755"}`, "run.sh", "#!/bin/sh\n", "0755"},
		{`{"path":"run.sh","text":"x"}`, "run.sh", "x", "0755"},
		{`{"path":"empty","text":""}`, "empty", "", "0644"},
		{`{"path":"empty2","content_base64":""}`, "empty2", "", "0644"},
		{`{"path":"odd \"\\\u00e4\n","text":"x"}`, "odd \"\\\u00e4\n", "x", "0644"},
	}
	for _, tt := range tests {
		s.do(t, "POST", path+"/fs/write", tt.body).into(t, 200, &v1.OK{})
		got, content := s.readBack(t, path, "path="+url.QueryEscape(tt.path))
		if content != tt.content || got.Truncated || got.Mode != tt.mode || got.Size != int64(len(content)) || got.Path != "/workspace/"+tt.path {
			t.Errorf("%s: %+v with %q", tt.body, got, content)
		}
	}
	if r := s.exec(t, path, "cat /workspace/a.txt 2>/dev/null || cat a.txt"); r.Output != "again" {
		t.Errorf("the shell sees %q", r.Output)
	}
}

func TestReadParts(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.do(t, "POST", path+"/fs/write", `{"path":"f","text":"0123456789"}`).into(t, 200, &v1.OK{})
	tests := []struct {
		query, content string
		truncated      bool
	}{
		{"", "0123456789", false},
		{"&max_bytes=10", "0123456789", false},
		{"&max_bytes=9", "012345678", true},
		{"&max_bytes=1", "0", true},
		{"&offset=8", "89", false},
		{"&offset=3&max_bytes=4", "3456", true},
		{"&offset=10", "", false},
		{"&offset=99", "", false},
	}
	for _, tt := range tests {
		if got, content := s.readBack(t, path, "path=f"+tt.query); content != tt.content || got.Truncated != tt.truncated || got.Size != 10 {
			t.Errorf("%s: %+v with %q", tt.query, got, content)
		}
		raw := s.do(t, "GET", path+"/fs/read?raw=1&path=f"+tt.query, "")
		if raw.status != 200 || string(raw.body) != tt.content {
			t.Errorf("%s raw: %d %q", tt.query, raw.status, raw.body)
		}
	}
}

func TestReadRawHeaders(t *testing.T) {
	s := start(t)
	path := s.create(t)
	name := "x\"\r\nSet-Cookie: a=b.html"
	s.do(t, "POST", path+"/fs/write", js(t, map[string]string{"path": name, "text": "<script>"})).into(t, 200, &v1.OK{})
	raw := s.do(t, "GET", path+"/fs/read?raw=1&path="+url.QueryEscape(name), "")
	if raw.status != 200 || raw.header.Get("Set-Cookie") != "" || raw.header.Get("Content-Type") != "application/octet-stream" ||
		raw.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(raw.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%d %v", raw.status, raw.header)
	}
}

// A browser shows a page of a sandbox, and does nothing that is in it.
func TestReadAsPage(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for name, text := range map[string]string{"a.html": "\ufeff<LINK rel=preconnect href=//x><p>\u00e9<iframe src=//x></IFRAME><link><script>", "long": strings.Repeat("x", 1<<20), "longer": strings.Repeat("x", 1<<20+1), "latin": "caf\xe9"} {
		s.do(t, "POST", path+"/fs/write", js(t, map[string]any{"path": name, "content_base64": []byte(text)})).into(t, 200, &v1.OK{})
	}
	page := s.do(t, "GET", path+"/fs/read?as=page&path=a.html", "")
	if want := "\ufeff<no-LINK rel=preconnect href=//x><p>\u00e9<no-iframe src=//x></no-IFRAME><no-link><script>"; page.status != 200 || string(page.body) != want {
		t.Errorf("%d %q", page.status, page.body)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "SAMEORIGIN", "X-DNS-Prefetch-Control": "off",
		"Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; media-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
	} {
		if got := page.header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for query, want := range map[string]int{"path=long": 200, "path=longer": 413, "path=latin": 400, "path=a.html&raw=1": 400, "path=a.html&offset=1": 400, "path=none": 404} {
		if got := s.do(t, "GET", path+"/fs/read?as=page&"+query, ""); got.status != want {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	if got := s.do(t, "GET", path+"/fs/read?as=html&path=a.html", ""); got.status != 400 && got.status != 422 {
		t.Errorf("as=html: %d", got.status)
	}
}

func TestReadMistakes(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "mkdir d; mkfifo p; ln -s /etc/passwd l; ln -s nowhere dangling")
	for _, tt := range []struct {
		path   string
		status []int
	}{
		{"missing", []int{404}},
		{"d", []int{400, 409, 422}},
		{"p", []int{400, 409, 422}},
		{"l", []int{400, 403, 404, 422}},
		{"dangling", []int{404}},
		{"d/missing/x", []int{404}},
	} {
		for _, raw := range []string{"", "&raw=true"} {
			a := s.do(t, "GET", path+"/fs/read?path="+tt.path+raw, "")
			if !slices.Contains(tt.status, a.status) {
				t.Errorf("%s%s: %d %s", tt.path, raw, a.status, a.body)
			}
		}
	}
}

func TestListFiles(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "mkdir d; printf abc > a; chmod 600 a; ln -s a l; mkfifo p")
	var list files.List
	s.do(t, "GET", path+"/fs/list", "").into(t, 200, &list)
	var got []string
	for _, e := range list.Entries {
		got = append(got, e.Name+" "+e.Type+" "+e.Target)
	}
	if want := []string{"a file ", "d dir ", "l symlink a", "p fifo "}; !slices.Equal(got, want) || list.Truncated || list.Path != "/workspace" {
		t.Errorf("%v, want %v; %+v", got, want, list)
	}
	if a := list.Entries[0]; a.Size != 3 || a.Mode != "0600" || a.ModifiedAt.IsZero() {
		t.Errorf("%+v", a)
	}
	s.do(t, "GET", path+"/fs/list?path=d/", "").into(t, 200, &list)
	if list.Entries == nil || len(list.Entries) != 0 {
		t.Errorf("empty directory: %+v", list)
	}
	s.do(t, "GET", path+"/fs/list?path=missing", "").wantError(t, 404, "not_found", "")
	s.do(t, "GET", path+"/fs/list?path=/etc", "").wantError(t, 400, "invalid_argument", "path")
}

func TestWriteTooMuch(t *testing.T) {
	s := start(t, func(o *setup) { o.v1.WriteBytes = 256 << 10 })
	path := s.create(t)
	text := strings.Repeat("x", 256<<10+1)
	s.do(t, "POST", path+"/fs/write", `{"path":"f","text":"`+text+`"}`).wantError(t, 413, "too_large", "text")
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	s.do(t, "POST", path+"/fs/write", `{"path":"f","content_base64":"`+encoded+`"}`).wantError(t, 413, "too_large", "content_base64")
	encoded = base64.StdEncoding.EncodeToString([]byte(text[1:]))
	if a := s.do(t, "POST", path+"/fs/write", `{"path":"f","content_base64":"`+encoded+`"}`); a.status != 200 {
		t.Errorf("exactly the limit: %d %s", a.status, a.body)
	}
	a := s.do(t, "POST", path+"/fs/write", `{"path":"f","text":"`+strings.Repeat("x", 2<<20)+`"}`)
	a.wantError(t, 413, "too_large", "")
}

// part is one part of a form: a field if it has no file name.
type part struct{ field, file, content string }

func form(tb testing.TB, parts ...part) (body io.Reader, contentType edit) {
	tb.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	for _, p := range parts {
		var dst io.Writer
		var err error
		if p.file == "" {
			dst, err = w.CreateFormField(p.field)
		} else {
			dst, err = w.CreateFormFile(p.field, p.file)
		}
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := io.WriteString(dst, p.content); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return &buf, header("Content-Type", w.FormDataContentType())
}

func (s *server) upload(tb testing.TB, path string, parts ...part) answer {
	tb.Helper()
	body, contentType := form(tb, parts...)
	response := s.open(tb, "POST", path+"/fs/upload", body, contentType)
	data, err := io.ReadAll(response.Body)
	if err := firstOf(err, response.Body.Close()); err != nil {
		tb.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, data}
}

func TestUpload(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "mkdir there")
	tests := []struct {
		name  string
		parts []part
		paths []string
	}{
		{"without a path", []part{{"file", "a", "1"}}, []string{"/workspace/a"}},
		{"path before", []part{{"path", "", "/workspace/new.txt"}, {"file", "a", "2"}}, []string{"/workspace/new.txt"}},
		{"path behind", []part{{"file", "a", "3"}, {"path", "", "late.txt"}}, []string{"/workspace/late.txt"}},
		{"into a new directory", []part{{"path", "", "dir/"}, {"file", "a", "4"}}, []string{"/workspace/dir/a"}},
		{"into a directory that exists", []part{{"path", "", "/workspace/there"}, {"file", "a", "5"}}, []string{"/workspace/there/a"}},
		{"several", []part{{"path", "", "many"}, {"file", "a", "6"}, {"files", "b", ""}, {"files", "c d", "7"}}, []string{"/workspace/many/a", "/workspace/many/b", "/workspace/many/c d"}},
		{"into a new directory without a slash", []part{{"path", "", "/workspace/fresh/deep"}, {"file", "a.txt", "9"}}, []string{"/workspace/fresh/deep/a.txt"}},
		{"to a new name without an extension", []part{{"path", "", "tool"}, {"file", "tool-v1", "9"}}, []string{"/workspace/tool"}},
		{"a quote, as browsers send it", []part{{"file", "q%22x 100%", "8"}}, []string{`/workspace/q"x 100%`}},
		{"a name with directories", []part{{"file", "../../x/a", "8"}}, []string{"/workspace/a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got files.Uploaded
			s.upload(t, path, tt.parts...).into(t, 200, &got)
			if !got.OK || !slices.Equal(got.Paths, tt.paths) {
				t.Fatalf("%+v, want %v", got, tt.paths)
			}
			sent := slices.DeleteFunc(slices.Clone(tt.parts), func(p part) bool { return p.file == "" })
			for i, p := range got.Paths {
				if _, content := s.readBack(t, path, "path="+url.QueryEscape(p)); content != sent[i].content {
					t.Errorf("%s has %q, want %q", p, content, sent[i].content)
				}
			}
		})
	}
}

func TestUploadMistakes(t *testing.T) {
	s := start(t, func(o *setup) { o.v1.UploadBytes = 1000 })
	path := s.create(t)
	tests := []struct {
		name   string
		parts  []part
		status int
		code   string
		field  string
	}{
		{"no file", []part{{"path", "", "x"}}, 400, "invalid_argument", "file"},
		{"no file name", []part{{"file", "", "x"}}, 400, "invalid_argument", "file"},
		{"unknown field", []part{{"file", "a", "x"}, {"mode", "", "0777"}}, 400, "invalid_argument", "mode"},
		{"two paths", []part{{"path", "", "a"}, {"path", "", "b"}, {"file", "a", "x"}}, 400, "invalid_argument", "path"},
		{"outside", []part{{"path", "", "/etc/x"}, {"file", "a", "x"}}, 400, "invalid_argument", "path"},
		{"dots", []part{{"path", "", "../../etc/"}, {"file", "a", "x"}}, 400, "invalid_argument", "path"},
		{"NUL", []part{{"path", "", "a\x00b"}, {"file", "a", "x"}}, 400, "invalid_argument", "path"},
		{"too much", []part{{"file", "a", strings.Repeat("x", 1000)}}, 413, "too_large", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.upload(t, path, tt.parts...).wantError(t, tt.status, tt.code, tt.field)
		})
	}
	body, contentType := form(t, part{"file", "a", "content"})
	whole, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	s.do(t, "POST", path+"/fs/upload", string(whole[:len(whole)-10]), contentType).wantError(t, 400, "invalid_argument", "")
	var list files.List
	s.do(t, "GET", path+"/fs/list", "").into(t, 200, &list)
	if len(list.Entries) != 0 {
		t.Errorf("refused uploads left %+v", list.Entries)
	}
}

// TestUploadLeavesNoFile looks for spool files.
func TestUploadLeavesNoFile(t *testing.T) {
	spool := t.TempDir()
	s := start(t, func(o *setup) { o.v1.SpoolDir = spool })
	path := s.create(t)
	s.upload(t, path, part{"file", "a", "x"}).into(t, 200, &files.Uploaded{})
	s.upload(t, path, part{"path", "", "/etc/"}, part{"file", "a", "x"})
	left, err := os.ReadDir(spool)
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestBigFile moves 64 MiB in and out: the daemon's memory stays flat.
func TestBigFile(t *testing.T) {
	s := start(t)
	path := s.create(t)
	const size = 64 << 20
	reader, writer := io.Pipe()
	w := multipart.NewWriter(writer)
	sent := sha256.New()
	go func() {
		dst, err := w.CreateFormFile("file", "big")
		if err == nil {
			_, err = io.Copy(io.MultiWriter(dst, sent), io.LimitReader(&pattern{}, size))
		}
		writer.CloseWithError(firstOf(err, w.Close())) // EOF for nil; never fails
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	response := s.open(t, "POST", path+"/fs/upload", reader, header("Content-Type", w.FormDataContentType()))
	data, err := io.ReadAll(response.Body)
	if err := firstOf(err, response.Body.Close()); err != nil || response.StatusCode != 200 {
		t.Fatalf("%d %s, %v", response.StatusCode, data, err)
	}
	response = s.open(t, "GET", path+"/fs/read?raw=1&path=big", nil)
	received := sha256.New()
	n, err := io.Copy(received, response.Body)
	if err := firstOf(err, response.Body.Close()); err != nil || n != size {
		t.Fatalf("%d bytes came back, %v", n, err)
	}
	if !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
		t.Error("the file has changed on its way")
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	got := s.do(t, "GET", path+"/fs/read?path=big&max_bytes=1000000", "")
	var content files.Content
	got.into(t, 200, &content)
	if !content.Truncated || content.Size != size {
		t.Errorf("%d bytes, truncated %v", content.Size, content.Truncated)
	}
}

// pattern is bytes of which no two blocks that follow each other are equal.
type pattern struct{ n byte }

func (p *pattern) Read(b []byte) (int, error) {
	p.n++
	for i := 0; i < len(b); i = max(1, 2*i) {
		b[i] = p.n
		copy(b[i:], b[:i])
	}
	b[0] = ^p.n
	return len(b), nil
}

// TestFilesBesideExec reads and writes while a command runs.
func TestFilesBesideExec(t *testing.T) {
	s := start(t)
	path := s.create(t)
	id := launch(t, s, path, "echo on; sleep 60")
	for i := range 20 {
		body := fmt.Sprintf(`{"path":"f","text":"%d"}`, i)
		s.do(t, "POST", path+"/fs/write", body).into(t, 200, &v1.OK{})
		if _, content := s.readBack(t, path, "path=f"); content != fmt.Sprint(i) {
			t.Errorf("read %q after %s", content, body)
		}
	}
	s.do(t, "POST", path+"/execs/"+id+"/cancel", "").into(t, 200, &v1.OK{})
}
