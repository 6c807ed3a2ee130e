package v1_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestBadInput is A04 and A05: what is refused, with which field, and that
// nothing of it becomes a session or a command.
func TestBadInput(t *testing.T) {
	s := start(t)
	path := s.create(t)
	create, exec, write := "/v1/sessions", path+"/exec", path+"/fs/write"
	tests := []struct{ path, body, field string }{
		{create, `{"tenant":"x"}`, "tenant"},
		{create, `{"state":"running"}`, "state"},
		{create, `{"owner":"bob"}`, "owner"},
		{create, `{"driver_opts":{"privileged":true}}`, "driver_opts"},
		{create, `{"uid":0}`, "uid"},
		{create, `{"host_path":"/"}`, "host_path"},
		{create, `{"Image":"base"}`, "Image"},
		{create, `{"limits":{"gpu":1}}`, "limits.gpu"},
		{create, `{"image":"a","image":"b"}`, "image"},
		{create, `{"ttl_seconds":-1}`, "ttl_seconds"},
		{create, `{"ttl_seconds":0}`, "ttl_seconds"},
		{create, `{"ttl_seconds":1e308}`, "ttl_seconds"},
		{create, `{"ttl_seconds":9300000000}`, "ttl_seconds"},
		{create, `{"ttl_seconds":9223372036854775808}`, "ttl_seconds"},
		{create, `{"ttl_seconds":"1"}`, "ttl_seconds"},
		{create, `{"ttl_seconds":null}`, "ttl_seconds"},
		{create, `{"ttl_seconds":1.5}`, "ttl_seconds"},
		{create, `{"ttl_seconds":true}`, "ttl_seconds"},
		{create, `{"ttl_seconds":31535999}`, "ttl_seconds"}, // over this daemon's maximum
		{create, `{"cpu":-1}`, "cpu"},
		{create, `{"cpu":0.001}`, "limits.cpu"},
		{create, `{"cpu":1e308}`, "cpu"},
		{create, `{"memory_mb":-1}`, "memory_mb"},
		{create, `{"memory_mb":9300000000}`, "memory_mb"},
		{create, `{"pids":-1}`, "pids"},
		{create, `{"disk_mb":1e300}`, "disk_mb"},
		{create, `{"limits":{"memory_mb":-1}}`, "limits.memory_mb"},
		{create, `{"limits":{"memory_mb":64},"pids":5}`, "limits"},
		{create, `{"limits":[]}`, "limits"},
		{create, `{"env":{"A":1}}`, "env.A"},
		{create, `{"env":{"A":null}}`, "env.A"},
		{create, `{"env":["A=1"]}`, "env"},
		{create, `{"image":5}`, "image"},
		{create, `{"image":""}`, "image"},
		{create, `{"readonly_rootfs":"yes"}`, "readonly_rootfs"},
		{create, `{"driver":"magic"}`, "driver"},
		{create, `{"driver":7}`, "driver"},
		{create, `{"hostname":"` + strings.Repeat("x", 64) + `"}`, "hostname"},
		{create, `{"labels":{"sandkasten.scope":"x"}}`, "labels"},
		{create, `{"labels":{"sandkasten.scope":"team:x"}}`, "labels"},
		{create, `[]`, ""},
		{create, `"x"`, ""},
		{create, `{"ttl_seconds":NaN}`, ""},
		{create, `{"ttl_seconds":1} {}`, ""},
		{create, `{"ttl_seconds":1`, ""},
		{create, "{\"image\":\"\xff\"}", ""},
		{exec, `{}`, "cmd"},
		{exec, `{"cmd":""}`, "cmd"},
		{exec, `{"cmd":null}`, "cmd"},
		{exec, `{"cmd":["true"]}`, "cmd"},
		{exec, `{"cmd":"a\u0000b"}`, "cmd"},
		{exec, `{"cmd":"\ud800"}`, "cmd"},
		{exec, `{"command":"true"}`, "cmd"},
		{exec, `{"cmd":"true","timeout_ms":-5}`, "timeout_ms"},
		{exec, `{"cmd":"true","timeout_ms":86400000}`, "timeout_ms"}, // over this daemon's maximum
		{exec, `{"cmd":"true","timeout_ms":9223372036854775807}`, "timeout_ms"},
		{exec, `{"cmd":"true","raw_output":1}`, "raw_output"},
		{exec, `{"cmd":"true","shell":"../x"}`, "shell"},
		{exec, ``, ""},
		{path + "/stop", `{"force":true}`, "force"},
		{path + "/heartbeat", `{"ttl_seconds":60}`, "ttl_seconds"},
		{path + "/exec/stream", `{"cmd":"a\u0000b"}`, "cmd"},
		{path + "/exec/stream", `{"cmd":"true","timeout_ms":86400000}`, "timeout_ms"},
		{write, `{"path":"a"}`, "text"},
		{write, `{"path":"a","text":"x","content_base64":"eA=="}`, "text"},
		{write, `{"path":"a","content_base64":"eA"}`, "content_base64"},
		{write, `{"path":"a","content_base64":"e-A="}`, "content_base64"},
		{write, `{"path":"","text":"x"}`, "path"},
		{write, `{"path":"a","text":"x","mode":"9"}`, "mode"},
		{write, `{"path":"a","text":"x","mode":420}`, "mode"},
		{write, `{"path":"../../etc/passwd","text":"x"}`, "path"},
		{write, `{"path":"/etc/passwd","text":"x"}`, "path"},
		{write, `{"path":"a\u0000","text":"x"}`, "path"},
		{write, `{"path":"a","text":"x","mode":"0000"}`, "mode"},
		{write, `{"path":"a","text":"x","create":true,"append":true}`, "append"},
		{path + "/fs/mkdir", `{}`, "path"},
		{path + "/fs/mkdir", `{"path":"../d"}`, "path"},
		{path + "/fs/mkdir", `{"path":"d","mode":"rwx"}`, "mode"},
		{path + "/fs/move", `{"from":"a"}`, "to"},
		{path + "/fs/move", `{"from":"/etc/a","to":"b"}`, "from"},
		{path + "/fs/move", `{"from":"a","to":"../b"}`, "to"},
		{path + "/fs/move", `{"from":"a","to":"b/"}`, "to"},
		{path + "/fs/move", `{"from":".","to":"b"}`, "from"},
		{path + "/fs/copy", `{"from":"a\u0000","to":"b"}`, "from"},
		{path + "/fs/copy", `{"from":"a","to":"/workspace"}`, "to"},
		{path + "/fs/delete", `{"path":"/workspace","recursive":true}`, "path"},
		{path + "/fs/delete", `{"path":"a","force":true}`, "force"},
		{path + "/fs/chmod", `{"path":"a"}`, "mode"},
		{path + "/fs/chmod", `{"path":"a","mode":"77777"}`, "mode"},
		{path + "/fs/edit", `{"path":"a","old":"","new":"x"}`, "old"},
		{path + "/fs/edit", `{"path":"a","old":"x","new":"x"}`, "new"},
		{path + "/fs/edit", `{"path":"a","old":"x","new":"y","count":0}`, "count"},
	}
	for _, tt := range tests {
		t.Run(strings.TrimPrefix(tt.path, path)+" "+tt.body[:min(len(tt.body), 60)], func(t *testing.T) {
			s.do(t, "POST", tt.path, tt.body, header("Content-Type", "application/json")).wantError(t, 400, "invalid_argument", tt.field)
		})
	}
	for _, query := range []struct{ path, field string }{
		{"/fs/read", "path"},
		{"/fs/read?path=a&max_bytes=0", "max_bytes"},
		{"/fs/read?path=a&max_bytes=-1", "max_bytes"},
		{"/fs/read?path=a&max_bytes=1e3", "max_bytes"},
		{"/fs/read?path=a&max_bytes=99999999999999999999", "max_bytes"},
		{"/fs/read?path=a&max_bytes=67108865", "max_bytes"},
		{"/fs/read?path=a&offset=-1", "offset"},
		{"/fs/read?path=a&raw=perhaps", "raw"},
		{"/fs/read?path=a&key=x", "key"},
		{"/fs/read?path=%00", "path"},
		{"/fs/read?path=..%2f..%2fetc%2fpasswd", "path"},
		{"/fs/read?path=" + strings.Repeat("x", 5000), "path"},
		{"/fs/read?path=%ff", "path"},
		{"/fs/list?limit=0", "limit"},
		{"/fs/list?limit=10001", "limit"},
		{"/fs/list?limit=-1", "limit"},
		{"/fs/list?depth=0", "depth"},
		{"/fs/list?depth=-2", "depth"},
		{"/fs/list?cursor=%21", "cursor"},
		{"/fs/list?cursor=Li4vYQ", "cursor"},   // ../a
		{"/fs/list?cursor=L2V0Yw", "cursor"},   // /etc
		{"/fs/list?cursor=YQBi", "cursor"},     // a NUL in it
		{"/fs/list?cursor=YS8uLi9i", "cursor"}, // a/../b
		{"/fs/stat", "path"},
		{"/fs/stat?path=a/", "path"},
		{"/fs/glob", "pattern"},
		{"/fs/glob?pattern=", "pattern"},
		{"/fs/glob?pattern=%00", "pattern"},
		{"/fs/glob?pattern=*&limit=10001", "limit"},
		{"/fs/grep?pattern=(", "pattern"},
		{"/fs/grep?pattern=a{9999}", "pattern"},
		{"/fs/grep?pattern=" + strings.Repeat("x", 4097), "pattern"},
		{"/fs/grep?pattern=a&before=51", "before"},
		{"/fs/grep?pattern=a&after=-1", "after"},
		{"/fs/grep?pattern=a&limit=1001", "limit"},
		{"/fs/grep?pattern=a&include=%00", "include"},
		{"/fs/watch?path=/etc", "path"},
		{"/fs/archive?format=rar", "format"},
		{"/fs/archive?path=..", "path"},
		{"/terminal?cols=0", "cols"},
		{"/terminal?rows=65536", "rows"},
		{"/terminal?term=a%20b", "term"},
	} {
		s.do(t, "GET", path+query.path, "").wantError(t, 400, "invalid_argument", query.field)
	}
	var all []any
	s.do(t, "GET", create, "").into(t, 200, &all)
	if len(all) != 1 {
		t.Errorf("%d sessions after refused requests, want the one from before", len(all))
	}
	s.do(t, "GET", path+"/execs", "").into(t, 200, &all)
	if len(all) != 0 {
		t.Errorf("%d commands after refused requests", len(all))
	}
}

func TestManyWrongFields(t *testing.T) {
	s := start(t)
	a := s.do(t, "POST", "/v1/sessions", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`)
	if a.status != 400 || !strings.Contains(string(a.body), "and 2 more") {
		t.Errorf("%d %s", a.status, a.body)
	}
	long := strings.Repeat("k", 10_000)
	if a := s.do(t, "POST", "/v1/sessions", `{"`+long+`":1}`); a.status != 400 || len(a.body) > 1000 {
		t.Errorf("%d with %d bytes", a.status, len(a.body))
	}
}

// TestIDs is A03.
func TestIDs(t *testing.T) {
	s := start(t)
	path := s.create(t)
	execID := s.exec(t, path, "true").ExecID
	for _, id := range []string{
		"..%2f..%2fetc", "x", strings.Repeat("a", 10_000), "%00", strings.ToUpper(strings.TrimPrefix(path, "/v1/sessions/")),
		"'%20or%201=1--", "%25", "_________________________%25", execID, "..", ".",
	} {
		for _, rest := range []string{"", "/exec", "/fs/read?path=a"} {
			method, body := "GET", ""
			if rest == "/exec" {
				method, body = "POST", `{"cmd":"true"}`
			}
			a := s.do(t, method, "/v1/sessions/"+id+rest, body)
			if a.status != 404 && a.status != 400 && a.status != 405 {
				t.Errorf("%s %s%s: %d %s", method, id, rest, a.status, a.body)
			}
		}
	}
	for _, id := range []string{"x", "..%2fx", "%00", strings.Repeat("a", 26), strings.TrimPrefix(path, "/v1/sessions/")} {
		for _, rest := range []string{"", "/stream"} {
			s.do(t, "GET", path+"/execs/"+id+rest, "").wantError(t, 404, "not_found", "")
		}
		s.do(t, "POST", path+"/execs/"+id+"/cancel", "").wantError(t, 404, "not_found", "")
	}
}

// noType sends no Content-Type at all.
func noType(r *http.Request) { r.Header.Del("Content-Type") }

// Clients that say nothing of their JSON are understood, as long as they are no
// browser: TestBodies has those.
func TestJSONWithoutAType(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for name, body := range map[string]io.Reader{"whole": strings.NewReader(`{"cmd":"true","timeout_ms":0}`), "chunked": io.MultiReader(strings.NewReader(`{"cmd":"true"}`))} {
		response := s.open(t, "POST", path+"/exec", body, noType)
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d (%v)", name, response.StatusCode, err)
		}
	}
}

// TestBodies is A06.
func TestBodies(t *testing.T) {
	s := start(t)
	path := s.create(t)
	big := func(n int64) io.Reader { return io.LimitReader(spaces{}, n) }

	tests := []struct {
		name, path string
		body       io.Reader
		status     int
		code       string
		edits      []edit
	}{
		{"over the limit, with a length", path + "/exec", bytes.NewReader(make([]byte, 8<<20+1)), 413, "too_large", nil},
		{"over the limit, chunked", path + "/exec", big(1 << 30), 413, "too_large", nil},
		{"over the limit of a small route", "/v1/sessions", big(1<<20 + 1), 413, "too_large", nil},
		{"100k deep", "/v1/sessions", strings.NewReader(`{"env":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}"), 400, "invalid_argument", nil},
		{"gzip", "/v1/sessions", zipped(t), 400, "invalid_argument", []edit{header("Content-Encoding", "gzip")}},
		{"a form", "/v1/sessions", strings.NewReader("a=b"), 415, "unsupported_media_type", []edit{header("Content-Type", "application/x-www-form-urlencoded")}},
		{"plain text", path + "/exec", strings.NewReader(`{"cmd":"true"}`), 415, "unsupported_media_type", []edit{header("Content-Type", "text/plain")}},
		{"nothing said", path + "/exec", strings.NewReader(`{"cmd":"true"}`), 415, "unsupported_media_type", []edit{header("Content-Type", "")}},
		{"nothing said by a page", path + "/exec", strings.NewReader(`{"cmd":"true"}`), 415, "unsupported_media_type", []edit{noType, func(r *http.Request) { r.Header.Set("Origin", "http://"+r.Host) }}},
		{"nothing said by a browser", path + "/exec", strings.NewReader(`{"cmd":"true"}`), 415, "unsupported_media_type", []edit{noType, header("Sec-Fetch-Site", "same-origin")}},
		{"nothing said with a cookie", path + "/exec", strings.NewReader(`{"cmd":"true"}`), 415, "unsupported_media_type", []edit{noType, header("Cookie", "a=b")}},
		{"nothing said, and no JSON", path + "/exec", strings.NewReader(`cmd=true`), 400, "invalid_argument", []edit{noType}},
		{"no type before the charset", path + "/exec", strings.NewReader(`{"cmd":"true"}`), 415, "unsupported_media_type", []edit{header("Content-Type", "; charset=utf-8")}},
		{"a form with fields of files", path + "/exec", strings.NewReader(`{"cmd":"true"}`), 415, "unsupported_media_type", []edit{header("Content-Type", "multipart/form-data; boundary=x")}},
		{"a suffix", path + "/exec", strings.NewReader(`{"cmd":"true"}`), 415, "unsupported_media_type", []edit{header("Content-Type", "text/x+json")}},
		{"upload that is none", path + "/fs/upload", strings.NewReader(`{}`), 415, "unsupported_media_type", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := s.open(t, "POST", tt.path, tt.body, tt.edits...)
			data, err := io.ReadAll(response.Body)
			if err := firstOf(err, response.Body.Close()); err != nil {
				t.Fatal(err)
			}
			answer{response.StatusCode, response.Header, data}.wantError(t, tt.status, tt.code, "")
			if tt.code == "too_large" && !strings.Contains(string(data), "limit of") {
				t.Errorf("the limit is not named: %s", data)
			}
		})
	}
	// Exactly the limit is allowed.
	body := `{"cmd":"true"}`
	if a := s.do(t, "POST", path+"/exec", body+strings.Repeat(" ", 8<<20-len(body))); a.status != http.StatusOK {
		t.Errorf("a body of exactly the limit: %d %s", a.status, a.body)
	}
	if a := s.do(t, "POST", path+"/exec", body, header("Content-Type", "application/json; charset=utf-8")); a.status != http.StatusOK {
		t.Errorf("with a charset: %d %s", a.status, a.body)
	}
}

func zipped(t *testing.T) io.Reader {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := fmt.Fprint(z, `{}`); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}

// spaces never end.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestForeignHost(t *testing.T) {
	s := start(t)
	s.do(t, "GET", "/v1/sessions", "", host("evil.test")).wantError(t, 403, "permission_denied", "")
	s.do(t, "POST", "/v1/sessions", "{}", header("Origin", "https://evil.test")).wantError(t, 403, "permission_denied", "")
}

// TestBodyDeadline holds that a body has a deadline, and that a command which
// runs longer than that is not ended by it.
func TestBodyDeadline(t *testing.T) {
	s := start(t, func(o *setup) { o.idle = true })
	w := &sink{header: http.Header{}}
	r := httptest.NewRequest("POST", "/v1/sessions", strings.NewReader("{}"))
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer "+aliceKey)
	r.Header.Set("Content-Type", "application/json")
	s.Config.Handler.ServeHTTP(w, r)
	if w.status != http.StatusServiceUnavailable {
		t.Fatalf("status %d", w.status)
	}
	n := len(w.readDeadlines)
	if n < 2 || w.readDeadlines[n-2].IsZero() || !w.readDeadlines[n-1].IsZero() {
		t.Errorf("read deadlines were %v", w.readDeadlines)
	}
}

// TestAnUnknownFieldSuggestsTheRightOne is for those who write from memory.
func TestAnUnknownFieldSuggestsTheRightOne(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for _, test := range []struct{ path, body, want string }{
		{"/v1/sessions", `{"memory":64}`, "did you mean memory_mb?"},
		{"/v1/sessions", `{"limits":{"cpus":1}}`, "did you mean cpu?"},
		{path + "/exec", `{"command":"true"}`, "did you mean cmd?"},
		{path + "/exec", `{"cmd":"true","timeout":1}`, "did you mean timeout_ms?"},
	} {
		if body := string(s.do(t, "POST", test.path, test.body).body); !strings.Contains(body, test.want) {
			t.Errorf("%s is answered by %s", test.body, body)
		}
	}
}
