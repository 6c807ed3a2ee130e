package v1_test

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
)

// packed is an archive of files, each with its name as content.
func packed(tb testing.TB, format string, names ...string) []byte {
	tb.Helper()
	var buf bytes.Buffer
	if format == "zip" {
		w := zip.NewWriter(&buf)
		for _, name := range names {
			f, err := w.Create(name)
			if err == nil {
				_, err = io.WriteString(f, name)
			}
			if err != nil {
				tb.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			tb.Fatal(err)
		}
		return buf.Bytes()
	}
	var out io.WriteCloser
	switch format {
	case "tar.gz":
		out = gzip.NewWriter(&buf)
	case "tar.zst":
		var err error
		if out, err = zstd.NewWriter(&buf); err != nil {
			tb.Fatal(err)
		}
	default:
		out = nopCloser{&buf}
	}
	w := tar.NewWriter(out)
	for _, name := range names {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o750, Size: int64(len(name))})
		if err == nil {
			_, err = io.WriteString(w, name)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := firstOf(w.Close(), out.Close()); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestArchives(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for format, media := range map[string]string{
		"tar": "application/x-tar", "tar.gz": "application/gzip", "tar.zst": "application/zstd", "zip": "application/zip",
	} {
		t.Run(format, func(t *testing.T) {
			dir := "from-" + format
			var done files.Unpacked
			s.put(t, path+"/fs/archive?path="+dir+"&format="+format, string(packed(t, format, "a", "d/b"))).into(t, 200, &done)
			if done.Files < 2 || done.Bytes != 4 {
				t.Errorf("%+v", done)
			}
			if r := s.exec(t, path, "cd /workspace 2>/dev/null; cat "+dir+"/a "+dir+"/d/b; ln -s a "+dir+"/l"); r.Output != "ad/b" {
				t.Errorf("unpacked %q", r.Output)
			}
			got := s.do(t, "GET", path+"/fs/archive?path="+dir+"&format="+format, "")
			if got.status != 200 || got.header.Get("Content-Type") != media ||
				got.header.Get("Content-Disposition") != "attachment; filename="+dir+"."+format || got.header.Get("Content-Security-Policy") != "sandbox" {
				t.Errorf("%d %v", got.status, got.header)
			}
			s.put(t, path+"/fs/archive?path=again-"+format+"&format="+format, string(got.body)).into(t, 200, &done)
			if r := s.exec(t, path, "diff -r "+dir+" again-"+format+" && readlink again-"+format+"/l"); r.Output != "a\n" {
				t.Errorf("there and back: %q", r.Output)
			}
			s.put(t, path+"/fs/archive?path=told-"+format, string(got.body)).into(t, 200, &done)
			if r := s.exec(t, path, "diff -r "+dir+" told-"+format+" && echo same"); r.Output != "same\n" {
				t.Errorf("without a format: %q", r.Output)
			}
		})
	}
	got := s.do(t, "GET", path+"/fs/archive", "")
	if got.header.Get("Content-Disposition") != "attachment; filename=workspace.tar.gz" || !bytes.HasPrefix(got.body, []byte{0x1f, 0x8b}) {
		t.Errorf("of the workspace: %v", got.header)
	}
}

func TestArchiveMistakes(t *testing.T) {
	s := start(t, func(o *setup) { o.session.Maxima.FileBytes = 10_000 })
	path := s.create(t)
	good := string(packed(t, "tar", "f"))
	for name, tt := range map[string]struct {
		query, body string
		status      []int
		edits       []edit
	}{
		"no archive":           {"format=tar", strings.Repeat("text", 1000), []int{400, 422}, nil},
		"another format":       {"format=zip", good, []int{400, 422}, nil},
		"cut":                  {"format=tar", good[:513], []int{400, 422}, nil},
		"up":                   {"format=tar", string(packed(t, "tar", "../x")), []int{400, 422}, nil},
		"absolute":             {"format=tar", string(packed(t, "tar", "/x")), []int{400, 422}, nil},
		"too large":            {"format=tar", strings.Repeat("x", 10_001), []int{413}, nil},
		"unknown format":       {"format=rar", good, []int{400}, nil},
		"without a length":     {"format=tar", "", []int{411}, []edit{func(r *http.Request) { r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader(good)) }}},
		"out of the workspace": {"format=tar&path=/etc", good, []int{400}, nil},
	} {
		if a := s.put(t, path+"/fs/archive?"+tt.query, tt.body, tt.edits...); !slices.Contains(tt.status, a.status) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	s.do(t, "GET", path+"/fs/archive?path=missing", "").wantError(t, 404, "not_found", "")
	if r := s.exec(t, path, "ls -A ..  | grep -x x"); r.Output != "" {
		t.Errorf("outside of the workspace there is %q", r.Output)
	}
}

// watcher reads the events of a watch.
type watcher struct {
	tb    testing.TB
	lines *bufio.Scanner
	body  io.Closer
}

func (s *server) watch(tb testing.TB, path, query string) *watcher {
	tb.Helper()
	response := s.open(tb, "GET", path+"/fs/watch?"+query, nil)
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		tb.Fatal(response.Status, response.Header)
	}
	w := &watcher{tb: tb, lines: bufio.NewScanner(response.Body), body: response.Body}
	tb.Cleanup(func() { w.body.Close() })
	if name, _ := w.next(); name != "ready" {
		tb.Fatalf("the first event is %q", name)
	}
	return w
}

// next returns the next event.
func (w *watcher) next() (name string, data map[string]string) {
	w.tb.Helper()
	for w.lines.Scan() {
		line := w.lines.Text()
		switch {
		case line == "" && name != "":
			return name, data
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[len("data: "):]), &data); err != nil {
				w.tb.Fatal(err)
			}
		}
	}
	w.tb.Fatalf("the stream ended: %v", w.lines.Err())
	return "", nil
}

// until passes over events up to one of this name and path.
func (w *watcher) until(name, path string) map[string]string {
	w.tb.Helper()
	for {
		if got, data := w.next(); got == name && data["path"] == path {
			return data
		}
	}
}

func TestWatch(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "mkdir -p d/sub")
	w := s.watch(t, path, "path=d")
	s.exec(t, path, "echo x > d/sub/unseen; echo x > d/a")
	if data := w.until("create", "a"); data["type"] != "file" {
		t.Errorf("%v", data)
	}
	w.until("write", "a") // until here the file stays, so that its type can be told
	s.exec(t, path, "mv d/a d/b; chmod 600 d/b; rm d/b")
	if data := w.until("rename", "b"); data["from"] != "a" {
		t.Errorf("%v", data)
	}
	w.until("chmod", "b")
	w.until("remove", "b")

	all := s.watch(t, path, "path=d&recursive=true")
	name := "x\n\ndata: \x1b[2J"
	s.change(t, path, "mkdir", object{"path": "d/sub/" + name}).into(t, 200, &v1.OK{})
	all.until("create", "sub/"+name) // one event, although it has newlines

	s.do(t, "DELETE", path, "").into(t, 200, &v1.OK{})
	for {
		if name, data := all.next(); name == "error" {
			if data["code"] != "conflict" || data["error"] == "" {
				t.Errorf("at the session's end: %v", data)
			}
			break
		}
	}
	if all.lines.Scan() && all.lines.Text() != "" {
		t.Errorf("behind the last event: %q", all.lines.Text())
	}
}

// TestWatchersGo leaves watches: their places come free again.
func TestWatchersGo(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for range 20 {
		var bodies []io.Closer
		for range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var response *http.Response
			for response == nil || response.StatusCode == http.StatusTooManyRequests { // those of the last round are going
				response = s.open(t, "GET", path+"/fs/watch", nil, func(r *http.Request) { *r = *r.WithContext(ctx) })
				bodies = append(bodies, response.Body)
			}
			if response.StatusCode != 200 {
				t.Fatal(response.Status)
			}
		}
		for _, body := range bodies {
			body.Close()
		}
	}
}
