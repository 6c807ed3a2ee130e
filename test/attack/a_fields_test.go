package attack

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

// bodies is a request that is accepted for each operation with a JSON body: to
// it a field is added or changed. Those of calls are used too.
var bodies = map[string]string{
	"create-session": `{"ttl_seconds":60}`, "create-workspace": `{"size_mb":64}`, "create-user": `{"name":"stolen"}`, "create-key": `{"user":"stolen"}`,
	"sign-in":         `{"name":"nobody","password":"of-nobody"}`,
	"set-secret":      `{"hosts":["stolen.example.org"],"header":"Authorization","value":"of-great-worth"}`,
	"complete-scope":  `{"retention_seconds":60}`,
	"change-sessions": `{"action":"resume","ids":["aaaaaaaaaaaaaaaaaaaaaaaaaa"]}`,
}

// eachBody calls try for every operation with a JSON body, its path in the
// session b and a workspace, and a body that would do.
func (s *scene) eachBody(t *testing.T, b *target, try func(name, method, path string, s *schema, good map[string]any)) {
	t.Helper()
	doc := s.a.document(t)
	execID := b.run(t, "true").ExecID
	n := 0
	for _, pattern := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, o := range doc.Paths[pattern] {
			shape := doc.body(o)
			if shape == nil || strings.HasPrefix(pattern, "/v1/workspaces/") { // whose are those of sessions
				continue
			}
			if strings.HasPrefix(pattern, "/v1/images/") {
				continue // these owners may not change images, whatever they send: TestOthersMayNotChangeImages
			}
			text, ok := bodies[o.ID]
			if !ok {
				text, ok = callOf(o.ID)
			}
			var good map[string]any
			if !ok || json.Unmarshal([]byte(text), &good) != nil {
				t.Errorf("%s has no body in bodies or calls", o.ID)
				continue
			}
			n++
			try(o.ID, strings.ToUpper(method), strings.NewReplacer("{id}", b.id, "{exec_id}", execID, "{ctx}", execID, "{name}", "stolen", "{namespace}", "workflow").Replace(pattern), shape, good)
		}
	}
	if n < 20 {
		t.Errorf("only %d operations have a body", n)
	}
}

// with is a JSON object with one more field, whose value is written as it is.
func with(good map[string]any, field, value string) string {
	rest := maps.Clone(good)
	delete(rest, field)
	text, err := json.Marshal(rest)
	if err != nil {
		panic(err)
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(string(text), "{"), "}")
	if inner != "" {
		inner = "," + inner
	}
	return fmt.Sprintf("{%q:%s%s}", field, value, inner)
}

// A04: a field that an operation does not have, one that comes twice and one
// without a value are refused in every operation, and nothing is made.
func TestA04_UnknownFields(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, nil)
	before := s.a.count(t, "/v1/sessions")
	s.eachBody(t, b, func(name, method, path string, shape *schema, good map[string]any) {
		for _, extra := range []string{
			`"tenant":"x"`, `"owner":"admin"`, `"state":"running"`, `"driver_opts":{"privileged":true}`, `"uid":0`, `"host_path":"/"`, `"privileged":true`,
			`"volumes":["/:/host"]`, `"devices":["/dev/sda"]`, `"cap_add":["ALL"]`, `"network":"host"`, `"__proto__":{"admin":true}`, `"boot_id":"x"`, `"":1`,
		} {
			field, value, _ := strings.Cut(strings.TrimPrefix(extra, `"`), `":`)
			s.a.do(t, method, path, with(good, field, value)).refused(t, name+" with "+extra, 400)
		}
		for field := range shape.Properties {
			text := with(good, field, "null")
			s.a.do(t, method, path, text).refused(t, name+" "+text, 400)
		}
		for field, value := range good {
			value, _ := json.Marshal(value)
			twice := strings.Replace(with(good, field, string(value)), "{", fmt.Sprintf("{%q:%s,", field, value), 1)
			s.a.do(t, method, path, twice).refused(t, name+" "+twice, 400)
			upper := with(good, strings.ToUpper(field), string(value))
			s.a.do(t, method, path, upper).refused(t, name+" "+upper, 400)
		}
		for _, text := range []string{`[]`, `"x"`, `1`, `null`, `{`, `{}}`, `{"a":1}{"b":2}`, "{\"a\":\"\xff\"}", "\ufeff{}", "{'a':1}", "{/**/}"} {
			s.a.do(t, method, path, text).refused(t, name+" "+text, 400)
		}
	})
	if after := s.a.count(t, "/v1/sessions"); after != before {
		t.Errorf("%d sessions before, %d after", before, after)
	}
}

// zeroIsValid are the fields in which 0 is the default, or no wait.
var zeroIsValid = map[string]bool{
	"cpu": true, "memory_mb": true, "pids": true, "disk_mb": true, "timeout_ms": true,
	"max_mbit": true, "max_connections": true, "connections_per_second": true, "max_mb": true,
	"retention_seconds": true,
}

// A05: numbers that are negative, without end, no whole ones or of another type
// are refused in every field of every operation, and in every query.
func TestA05_Numbers(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, nil)
	before := s.a.count(t, "/v1/sessions")
	numeric := func(of schema) bool { return of.Type == "integer" || of.Type == "number" }
	n := 0
	s.eachBody(t, b, func(name, method, path string, shape *schema, good map[string]any) {
		for field, of := range shape.Properties {
			if !numeric(of) {
				continue
			}
			n++
			values := []string{
				"-1", "-0.5", "1e308", "-1e308", "1e999", "9300000000000", "9223372036854775807", "9223372036854775808", "18446744073709551616", `"1"`, "true", "[1]", "{}",
				"NaN", "Infinity", "0x10", "01", "+1", "1.", ".5", "1_000", "1e",
			}
			if of.Type == "integer" {
				values = append(values, "1.5", "1e-1")
			}
			if !zeroIsValid[field] {
				values = append(values, "0", "-0")
			}
			for _, value := range values {
				text := with(good, field, value)
				a := s.a.do(t, method, path, text)
				if a.refused(t, name+" "+text, 400, map[bool]int{true: 404}[name == "edit-file"]); strings.Contains(a.body, "goroutine ") {
					t.Errorf("%s %s: %s", name, text, a.body)
				}
			}
		}
	})
	for _, field := range []string{"cpu", "memory_mb", "pids", "disk_mb"} {
		for _, value := range []string{"-1", "1e308", `"1"`, "9300000000"} {
			s.a.do(t, "POST", "/v1/sessions", fmt.Sprintf(`{"limits":{%q:%s}}`, field, value)).refused(t, "limits."+field+" "+value, 400)
		}
	}
	if n < 25 {
		t.Errorf("only %d numbers were tried", n)
	}
	doc := s.a.document(t)
	for pattern, methods := range doc.Paths {
		o, ok := methods["get"]
		if !ok || !strings.HasPrefix(pattern, "/v1/sessions/{id}/fs/") {
			continue
		}
		call, _ := callOf(o.ID)
		for _, p := range o.Parameters {
			if p.In != "query" || !numeric(p.Schema) {
				continue
			}
			for _, value := range []string{"-2", "1e3", "1.5", "9223372036854775808", "NaN", "0x1", "+1", "1%20", "%F0%9D%9F%99"} {
				path := strings.Replace(pattern, "{id}", b.id, 1) + "?" + call + "&" + p.Name + "=" + value
				s.a.do(t, "GET", path, nil).refused(t, path, 400)
			}
		}
	}
	if after := s.a.count(t, "/v1/sessions"); after != before {
		t.Errorf("%d sessions before, %d after", before, after)
	}
	if got := b.sh(t, "echo alive"); got != "alive\n" {
		t.Errorf("the session says %q", got)
	}
}

// spaces never end.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// A06: bodies that are too long, too deep, packed or not there are refused at
// once, in memory for the longest one that is allowed.
func TestA06_Bodies(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, nil)
	before := s.memory(t)
	gigabyte := func() io.Reader { return io.LimitReader(spaces{}, 1<<30) }
	for _, path := range []string{"/v1/sessions", b.at("/exec"), b.at("/fs/write"), b.at("/fs/edit"), b.at("/processes"), "/v1/workspaces", b.at("/previews"), b.at("/snapshots")} {
		for name, body := range map[string]any{
			"a gigabyte, in chunks": gigabyte(), "100,000 deep": `{"env":` + strings.Repeat(`[`, 100000) + strings.Repeat(`]`, 100000) + `}`,
			"100,000 objects deep": strings.Repeat(`{"a":`, 100000), "60,000 fields": `{` + strings.Repeat(`"a":1,`, 60000) + `"b":1}`,
		} {
			a, err := s.a.try(t, "POST", path, body)
			if err != nil {
				continue // the daemon closed while the body was still coming
			}
			a.refused(t, path+" "+name, 400, 413)
			if a.took > paced(10*time.Second) {
				t.Errorf("%s %s took %s", path, name, a.took)
			}
		}
		s.a.do(t, "POST", path, packed(t, 64<<20), header("Content-Encoding", "gzip")).refused(t, path+" packed", 400, 413, 415)
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "application/jsonp", "*/*"} {
			s.a.do(t, "POST", path, `{}`, header("Content-Type", kind)).refused(t, path+" as "+kind, 415)
		}
	}
	head := "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + s.a.key + "\r\nContent-Type: application/json\r\n"
	for name, rest := range map[string]string{
		"a length below zero": "Content-Length: -1\r\n\r\n{}", "a length without end": "Content-Length: 99999999999999999999\r\n\r\n{}", "two lengths": "Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}",
		"bad chunks":          "Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
		"an unknown encoding": "Transfer-Encoding: gzip\r\n\r\n{}", "a chunk below zero": "Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
		"a chunk without end": "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{}\r\n", "a header of 1 MB": "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"100,000 headers": strings.Repeat("X: y\r\n", 100000) + "\r\n", "less than announced": "Content-Length: 10\r\nConnection: close\r\n\r\n{\"ttl_",
	} {
		status, rest := s.a.bare(t, head+rest, 2*time.Second)
		if status != 0 && status/100 != 4 && status != 501 {
			t.Errorf("%s: %d %s", name, status, rest)
		}
	}
	// Who announces a body and waits does not keep others waiting.
	waiting := s.a.dial(t)
	defer waiting.Close()
	fmt.Fprint(waiting, head+"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n")
	if got := b.sh(t, "echo fine"); got != "fine\n" {
		t.Errorf("the session says %q", got)
	}
	// The longest body that is read is that of fs/write, of 9 MiB.
	if now := s.memory(t); now > before+150<<20 {
		t.Errorf("the daemon had %d MiB and has %d", before>>20, now>>20)
	}
}

// packed is n spaces as gzip has them.
func packed(t testing.TB, n int64) io.Reader {
	t.Helper()
	r, w := io.Pipe()
	go func() {
		z := gzip.NewWriter(w)
		io.Copy(z, io.LimitReader(spaces{}, n))
		z.Close()
		w.Close()
	}()
	t.Cleanup(func() { r.Close() })
	return r
}
