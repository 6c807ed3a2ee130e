package v1_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	v1files "github.com/sandkasten/sandkasten/internal/api/v1/files"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// put sends a body with its length.
func (s *server) put(tb testing.TB, path, body string, edits ...edit) answer {
	tb.Helper()
	return s.do(tb, "PUT", path, body, append([]edit{header("Content-Type", "application/octet-stream")}, edits...)...)
}

func TestWriteRaw(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for _, tt := range []struct{ query, body, content, mode string }{
		{"path=a.bin", "\x00\xff", "\x00\xff", "0644"},
		{"path=deep/er/b&mode=0750", "b", "b", "0750"},
		{"path=deep/er/b", "again", "again", "0750"},
		{"path=deep/er/b&append=true", " and", "again and", "0750"},
		{"path=new&append=true", "x", "x", "0644"},
		{"path=first&create=true", "x", "x", "0644"},
		{"path=empty", "", "", "0644"},
	} {
		var edits []edit
		if tt.body == "" {
			edits = append(edits, func(r *http.Request) { r.Body = http.NoBody })
		}
		s.put(t, path+"/fs/raw?"+tt.query, tt.body, edits...).into(t, 200, &v1.OK{})
		name, _, _ := strings.Cut(tt.query, "&")
		if got, content := s.readBack(t, path, name); content != tt.content || got.Mode != tt.mode {
			t.Errorf("%s: %+v with %q", tt.query, got, content)
		}
	}
	s.put(t, path+"/fs/raw?path=first&create=true", "y").wantError(t, 409, "already_exists", "")
	s.do(t, "POST", path+"/fs/write", `{"path":"first","text":"y","create":true}`).wantError(t, 409, "already_exists", "")
	s.do(t, "POST", path+"/fs/write", `{"path":"first","text":"y","append":true}`).into(t, 200, &v1.OK{})
	if _, content := s.readBack(t, path, "path=first"); content != "xy" {
		t.Errorf("after refused writes and an append: %q", content)
	}
}

// A file is only replaced by who has seen it last.
func TestWriteRawIfMatch(t *testing.T) {
	s := start(t)
	path := s.create(t)
	raw := path + "/fs/raw?path=f"
	var made, replaced v1files.Written
	answer := s.put(t, raw, "one", header("If-None-Match", "*"))
	answer.into(t, 200, &made)
	s.put(t, raw, "two", header("If-None-Match", "*")).wantError(t, 412, "precondition_failed", "")
	var stat v1files.Stat
	s.do(t, "GET", path+"/fs/stat?path=f", "").into(t, 200, &stat)
	for what, tag := range map[string]string{
		"GET":  s.do(t, "GET", path+"/fs/read?raw=1&path=f", "").header.Get("ETag"),
		"HEAD": s.do(t, "HEAD", path+"/fs/read?raw=1&path=f", "").header.Get("ETag"),
		"stat": stat.ETag, "PUT": answer.header.Get("ETag"),
	} {
		if tag == "" || tag != made.ETag {
			t.Errorf("%s gives the ETag %s, the write %s", what, tag, made.ETag)
		}
	}
	s.put(t, raw, "two", header("If-Match", `"other", `+made.ETag)).into(t, 200, &replaced)
	refused := s.put(t, raw, "three", header("If-Match", made.ETag))
	refused.wantError(t, 412, "precondition_failed", "")
	if !strings.Contains(string(refused.body), "file_changed") {
		t.Errorf("%s", refused.body)
	}
	s.put(t, path+"/fs/raw?path=x/y", "x", header("If-Match", "*")).wantError(t, 412, "precondition_failed", "")
	s.put(t, raw+"&append=1", "x", header("If-Match", replaced.ETag)).wantError(t, 400, "invalid_argument", "If-Match")
	s.put(t, raw, "x", header("If-Match", replaced.ETag), header("If-None-Match", "*")).wantError(t, 400, "invalid_argument", "If-Match")
	s.put(t, raw, "x", header("If-None-Match", replaced.ETag)).wantError(t, 400, "invalid_argument", "If-None-Match")
	if _, content := s.readBack(t, path, "path=f"); content != "two" {
		t.Errorf("after refused writes there is %q", content)
	}
	s.put(t, raw, "five", header("If-Match", replaced.ETag)).into(t, 200, &replaced)
	s.exec(t, path, "test ! -e x")
}

func TestWriteRawMistakes(t *testing.T) {
	s := start(t, func(o *setup) { o.session.Maxima.FileBytes = 100 })
	path := s.create(t)
	s.exec(t, path, "mkdir d; mkfifo p")
	chunked := func(r *http.Request) { r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader("x")) }
	for _, tt := range []struct {
		query, body string
		status      int
		code, field string
		edits       []edit
	}{
		{"path=a", "", 411, "length_required", "", []edit{chunked}},
		{"path=a", strings.Repeat("x", 101), 413, "too_large", "", nil},
		{"", "x", 400, "invalid_argument", "path", nil},
		{"path=/etc/x", "x", 400, "invalid_argument", "path", nil},
		{"path=a/", "x", 400, "invalid_argument", "path", nil},
		{"path=a&mode=0999", "x", 400, "invalid_argument", "mode", nil},
		{"path=a&create=1&append=1", "x", 400, "invalid_argument", "append", nil},
		{"path=a&size=1", "x", 400, "invalid_argument", "size", nil},
	} {
		s.put(t, path+"/fs/raw?"+tt.query, tt.body, tt.edits...).wantError(t, tt.status, tt.code, tt.field)
	}
	for _, name := range []string{"d", "p"} {
		if a := s.put(t, path+"/fs/raw?path="+name, "x"); a.status < 400 || a.status >= 500 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if got := s.exec(t, path, "ls -A"); got.Output != "d\np\n" {
		t.Errorf("refused writes left %q", got.Output)
	}
}

// TestWriteRawBreaksOff ends the connection in the middle of a body: the file
// is as before, nothing is left beside it, and the session is free again.
func TestWriteRawBreaksOff(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.put(t, path+"/fs/raw?path=f", "old").into(t, 200, &v1.OK{})
	for range 70 { // more than a session has places for
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(conn, "PUT %s/fs/raw?path=f HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\nnew", path, aliceKey)
		if err := firstOf(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, "files are listed, and no temporary one is left", func() bool {
		answered := s.do(t, "GET", path+"/fs/list", "")
		return answered.status == 200 && !strings.Contains(string(answered.body), ".sandkasten")
	})
	if _, content := s.readBack(t, path, "path=f"); content != "old" {
		t.Errorf("the file became %q", content)
	}
}

func TestRange(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.put(t, path+"/fs/raw?path=f", "0123456789").into(t, 200, &v1.OK{})
	s.exec(t, path, ": > empty")
	for _, tt := range []struct {
		name, header string
		status       int
		body, ranged string
	}{
		{"f", "bytes=0-3", 206, "0123", "bytes 0-3/10"},
		{"f", "bytes=4-", 206, "456789", "bytes 4-9/10"},
		{"f", "bytes=9-9", 206, "9", "bytes 9-9/10"},
		{"f", "bytes=8-99", 206, "89", "bytes 8-9/10"},
		{"f", "bytes=-3", 206, "789", "bytes 7-9/10"},
		{"f", "bytes=-99", 206, "0123456789", "bytes 0-9/10"},
		{"f", "lines=1-2", 200, "0123456789", ""},
		{"f", "bytes=10-", 416, "", "bytes */10"},
		{"f", "bytes=4611686018427387903-", 416, "", "bytes */10"},
		{"empty", "bytes=-1", 416, "", "bytes */0"},
		{"f", "bytes=-0", 416, "", ""},
		{"f", "bytes=3-1", 416, "", ""},
		{"f", "bytes=", 416, "", ""},
		{"f", "bytes=-", 416, "", ""},
		{"f", "bytes=a-b", 416, "", ""},
		{"f", "bytes=+1-2", 416, "", ""},
		{"f", "bytes=0-0,2-2", 416, "", ""},
		{"f", "bytes=-9223372036854775808", 206, "0123456789", "bytes 0-9/10"},
		{"f", "bytes=9223372036854775807-", 416, "", "bytes */10"},
		{"f", "bytes=7-9223372036854775807", 206, "789", "bytes 7-9/10"},
		{"f", "bytes=7-99999999999999999999999", 206, "789", "bytes 7-9/10"},
		{"f", "bytes=-99999999999999999999999", 206, "0123456789", "bytes 0-9/10"},
		{"f", "bytes=99999999999999999999999-", 416, "", "bytes */10"},
		{"missing", "bytes=0-1", 404, "", ""},
		{"missing", "bytes=-1", 404, "", ""},
	} {
		a := s.do(t, "GET", path+"/fs/read?path="+tt.name, "", header("Range", tt.header))
		if a.status != tt.status || a.header.Get("Content-Range") != tt.ranged || tt.body != "" && string(a.body) != tt.body {
			t.Errorf("%s of %s: %d %q, Content-Range %q", tt.header, tt.name, a.status, a.body, a.header.Get("Content-Range"))
		}
		if tt.status == 416 {
			a.wantError(t, 416, "range_not_satisfiable", "")
		}
	}
	many := "bytes=" + strings.Repeat("0-0,", 1000)
	s.do(t, "GET", path+"/fs/read?path=f", "", header("Range", many)).wantError(t, 400, "invalid_argument", "Range")
	s.do(t, "GET", path+"/fs/read?path=f&offset=1", "", header("Range", "bytes=0-1")).wantError(t, 400, "invalid_argument", "Range")
}

func TestIfRange(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.put(t, path+"/fs/raw?path=f", "0123456789").into(t, 200, &v1.OK{})
	tag := s.do(t, "GET", path+"/fs/read?raw=1&path=f", "").header.Get("ETag")
	part := func() answer {
		return s.do(t, "GET", path+"/fs/read?path=f", "", header("Range", "bytes=8-"), header("If-Range", tag))
	}
	if a := part(); a.status != 206 || string(a.body) != "89" {
		t.Errorf("the same file: %d %q", a.status, a.body)
	}
	s.put(t, path+"/fs/raw?path=f", "another file").into(t, 200, &v1.OK{})
	if a := part(); a.status != 200 || string(a.body) != "another file" {
		t.Errorf("another file: %d %q", a.status, a.body)
	}
}

// TestReadAsked is who gets bytes and who gets JSON, with the headers of each.
func TestReadAsked(t *testing.T) {
	s := start(t)
	path := s.create(t)
	name := "x\"\r\nSet-Cookie: a=b.html"
	s.do(t, "POST", path+"/fs/write", js(t, map[string]string{"path": name, "text": "<script>", "mode": "0600"})).into(t, 200, &v1.OK{})
	read := path + "/fs/read?path=" + url.QueryEscape(name)
	for _, tt := range []struct {
		method, path, accept, body string
		raw                        bool
	}{
		{"GET", read + "&raw=1", "", "<script>", true},
		{"GET", read, "application/octet-stream", "<script>", true},
		{"GET", read, "text/html, application/octet-stream;q=0.5", "<script>", true},
		{"HEAD", read + "&raw=1", "", "", true},
		{"GET", read, "*/*", "", false},
		{"GET", read, "application/json", "", false},
	} {
		a := s.do(t, tt.method, tt.path, "", header("Accept", tt.accept))
		if a.status != 200 || a.header.Get("Set-Cookie") != "" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %d %v", tt.method, tt.accept, a.status, a.header)
		}
		if !tt.raw {
			if a.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %v", tt.accept, a.header)
			}
			continue
		}
		for name, want := range map[string]string{
			"Content-Type": "application/octet-stream", "Content-Length": "8", "X-File-Size": "8", "X-File-Mode": "0600",
			"Accept-Ranges": "bytes", "Content-Security-Policy": "sandbox",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s %s: %s is %q, want %q", tt.method, tt.accept, name, got, want)
			}
		}
		if string(a.body) != tt.body || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment;") {
			t.Errorf("%s %s: %q %v", tt.method, tt.accept, a.body, a.header)
		}
	}
	if a := s.do(t, "HEAD", path+"/fs/read?raw=1&path=missing", ""); a.status != 404 || len(a.body) != 0 {
		t.Errorf("HEAD of nothing: %d %q", a.status, a.body)
	}
}

// TestRawStreams moves 128 MiB up and down in constant memory.
func TestRawStreams(t *testing.T) {
	s := start(t)
	path := s.create(t)
	const size = 128 << 20
	sent := sha256.New()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	response := s.open(t, "PUT", path+"/fs/raw?path=big", io.TeeReader(io.LimitReader(&pattern{}, size), sent), length(size))
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
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
		t.Errorf("%d MiB were allocated for a file of %d MiB", allocated>>20, size>>20)
	}
}

// TestReadBreaksOff closes the connections of downloads that have not ended: the
// session's places come free again.
func TestReadBreaksOff(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "truncate -s 1G f")
	for range 70 {
		response := s.open(t, "GET", path+"/fs/read?raw=1&path=f", nil)
		if response.StatusCode == http.StatusTooManyRequests {
			response.Body.Close()
			time.Sleep(time.Millisecond)
			continue
		}
		if _, err := io.ReadFull(response.Body, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	testenv.Eventually(t, "there is room for one more call", func() bool { return s.do(t, "GET", path+"/fs/list", "").status == 200 })
}

// A file that is emptied between the look at its size and the read of its first bytes
// gets an answer all the same.
func TestReadOfAShiftingFile(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "(while :; do head -c 2000000 /dev/zero >g; : >g; done) >/dev/null 2>&1 &")
	for range 2000 {
		response := s.open(t, "GET", path+"/fs/read?raw=1&path=g", nil)
		if code := response.StatusCode; code != 200 && code != 404 && code != 409 {
			t.Errorf("status %d", code)
		}
		_, _ = io.Copy(io.Discard, response.Body) // may end early: the file is shorter by then
		response.Body.Close()
	}
	s.exec(t, path, "kill $(jobs -p)")
}

// TestManyAtOnce is the bound on operations at once.
func TestManyAtOnce(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "truncate -s 1G f")
	var open []*http.Response
	for range 64 {
		response := s.open(t, "GET", path+"/fs/read?raw=1&path=f", nil)
		if response.StatusCode != 200 {
			t.Fatal(response.Status)
		}
		open = append(open, response)
	}
	s.do(t, "GET", path+"/fs/list", "").wantError(t, 429, "resource_exhausted", "")
	if got := s.exec(t, path, "echo on"); got.Output != "on\n" {
		t.Errorf("a command beside them: %+v", got)
	}
	for _, response := range open {
		response.Body.Close()
	}
}

// TestEndedSession is the answer of every route about files.
func TestEndedSession(t *testing.T) {
	s := start(t)
	path := s.create(t)
	if err := s.manager.Sessions.Destroy(t.Context(), auth.Anonymous(), session.ID(strings.TrimPrefix(path, "/v1/sessions/"))); err != nil {
		t.Fatal(err)
	}
	for _, route := range []string{"read?raw=1&path=a", "read?path=a", "list", "stat?path=a", "glob?pattern=a", "grep?pattern=a", "watch", "archive"} {
		s.do(t, "GET", path+"/fs/"+route, "").wantError(t, 409, "conflict", "")
	}
	for _, route := range []string{"raw?path=a", "archive"} {
		s.put(t, path+"/fs/"+route, "x").wantError(t, 409, "conflict", "")
	}
}

// TestFilesAreNoJSON uploads two files at once that together are more than one key
// may have of JSON under way: neither waits for the other.
func TestFilesAreNoJSON(t *testing.T) {
	s := start(t)
	path := s.create(t)
	const size = 20 << 20
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "PUT %s/fs/raw?path=slow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\nnew", path, aliceKey, size)
	if err != nil {
		t.Fatal(err)
	}
	s.put(t, path+"/fs/raw?path=f", strings.Repeat("x", size)).into(t, 200, &v1.OK{})
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}
