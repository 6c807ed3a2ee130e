package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/audit"
)

// TestAudit makes requests of every kind and reads what the log says of them.
func TestAudit(t *testing.T) {
	dir := t.TempDir()
	log, err := audit.Open(audit.Options{Dir: dir, MaxBytes: 1 << 20, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	lines := func() []byte {
		text, err := os.ReadFile(filepath.Join(dir, "audit.log"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	handler := api.Handler(api.Options{Authenticator: threeKeys{}, Audit: log}, api.Surface{Name: "test", Routes: []api.Route{
		{Pattern: "GET /public", Scope: api.Public, Handler: http.NotFoundHandler()},
		{Pattern: "GET /things/{id}", Scope: api.Key, Handler: http.NotFoundHandler()},
		{Pattern: "POST /things", Scope: api.Key, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			api.Made(r.Context(), "thing", "t1")
			api.Made(r.Context(), "thing", "t2")
			io.Copy(w, r.Body)
		})},
		{Pattern: "GET /things/{id}/file/{path...}", Scope: api.Key, Class: api.Transfer, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Write(bytes.Repeat([]byte("x"), 5000))
			// What is under way is in the log before the client has it.
			if !bytes.Contains(lines(), []byte(`"event":"answering"`)) {
				t.Error("the client has an answer that is in no line")
			}
		})},
	}})
	server := httptest.NewServer(handler)
	defer server.Close()
	ask := func(method, path, key, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", key)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	ask("GET", "/public", "alice", "")
	ask("GET", "/things/7", "alice", "")
	ask("POST", "/things?token=secret-1", "alice", "secret-2")
	ask("GET", "/things/7/file/secret-3", "bob", "")
	ask("GET", "/things/7", "secret-4", "")
	ask("POST", "/nowhere/secret-5", "bob", "")

	type line struct {
		Event, Owner, Route string
		Status              int
		BytesIn             int64 `json:"bytes_in"`
		BytesOut            int64 `json:"bytes_out"`
		IDs                 map[string]string
	}
	want := []line{
		{"answered", "alice", "POST /things", 200, 8, 8, map[string]string{"thing": "t1 t2"}},
		{"answering", "bob", "GET /things/{id}/file/{path...}", 200, 0, 0, map[string]string{"thing": "7"}},
		{"answered", "bob", "GET /things/{id}/file/{path...}", 200, 0, 5000, map[string]string{"thing": "7"}},
		{"answered", "", "GET /things/{id}", 401, 0, -1, map[string]string{"thing": "7"}},
		{"answered", "bob", "POST (none)", 404, 17, -1, nil},
	}
	var got []line
	for text := range bytes.Lines(lines()) {
		var one line
		if err := json.Unmarshal(text, &one); err != nil {
			t.Fatal(err)
		}
		if one.Status >= 400 {
			one.BytesOut = -1 // as long as the text is
		}
		got = append(got, one)
	}
	want[4].BytesIn = 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	if text := string(lines()); strings.Contains(text, "secret") {
		t.Errorf("a secret is in the log:\n%s", text)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// Ids of paths are called by what they are of, as what a request makes is. Who listens, or
// asks how it goes, has no line, unless an admin looks into what another has: that is in the
// log whatever it is, and says whose it is.
func TestAuditOfIDsListenersAndInspections(t *testing.T) {
	dir := t.TempDir()
	log, err := audit.Open(audit.Options{Dir: dir, MaxBytes: 1 << 20, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	answers := func(do func(r *http.Request)) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { do(r) })
	}
	nothing := func(*http.Request) {}
	looks := func(r *http.Request) {
		var all sync.WaitGroup
		for range 4 { // as one request for many sessions
			all.Go(func() { api.LooksIn(r.Context(), "alice") })
		}
		all.Wait()
	}
	handler := api.Handler(api.Options{Authenticator: threeKeys{}, Audit: log}, api.Surface{Name: "test", Routes: []api.Route{
		{Pattern: "POST /v1/sessions/{id}/fork", Scope: api.Key, Handler: answers(func(r *http.Request) { api.Made(r.Context(), "session", "made") })},
		{Pattern: "DELETE /v1/sessions/{id}/execs/{exec_id}", Scope: api.Key, Handler: answers(nothing)},
		{Pattern: "DELETE /v1/users/{name}", Scope: api.Key, Handler: answers(nothing)},
		{Pattern: "DELETE /v1/image-jobs/{id}", Scope: api.Key, Handler: answers(nothing)},
		{Pattern: "GET /v1/events", Scope: api.Key, Class: api.Long, Listens: true, Handler: answers(nothing)},
		{Pattern: "POST /v1/sessions/{id}/wait", Scope: api.Key, Class: api.Long, Listens: true, Handler: answers(nothing)},
		{Pattern: "GET /v1/sessions/{id}/stream", Scope: api.Key, Class: api.Long, Listens: true, Handler: answers(looks)},
		{Pattern: "GET /v1/sessions/{id}/read", Scope: api.Key, Handler: answers(looks)},
	}})
	for _, request := range []string{
		"POST /v1/sessions/s1/fork", "DELETE /v1/sessions/s1/execs/e1", "DELETE /v1/users/u1", "DELETE /v1/image-jobs/j1",
		"GET /v1/events", "POST /v1/sessions/s1/wait", "GET /v1/sessions/s1/stream", "GET /v1/sessions/s1/read",
	} {
		method, path, _ := strings.Cut(request, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil)
		r.Header.Set("X-Api-Key", "bob")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	page, err := log.Query(t.Context(), audit.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range slices.Backward(page.Records) {
		got = append(got, fmt.Sprintln(r.Route, r.IDs, r.Of))
	}
	want := []string{
		fmt.Sprintln("POST /v1/sessions/{id}/fork", map[string]string{"session": "s1 made"}, ""),
		fmt.Sprintln("DELETE /v1/sessions/{id}/execs/{exec_id}", map[string]string{"session": "s1", "exec": "e1"}, ""),
		fmt.Sprintln("DELETE /v1/users/{name}", map[string]string{"user": "u1"}, ""),
		fmt.Sprintln("DELETE /v1/image-jobs/{id}", map[string]string{"image_job": "j1"}, ""),
		fmt.Sprintln("GET /v1/sessions/{id}/stream", map[string]string{"session": "s1"}, "alice"),
		fmt.Sprintln("GET /v1/sessions/{id}/read", map[string]string{"session": "s1"}, "alice"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// Those without a key push nobody's lines out of the audit log or the daemon's.
func TestStrangersKeepHistory(t *testing.T) {
	dir := t.TempDir()
	log, err := audit.Open(audit.Options{Dir: dir, MaxBytes: 64 << 10, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	handler := api.Handler(api.Options{Authenticator: threeKeys{}, Audit: log, Log: slog.New(slog.NewJSONHandler(&out, nil))}, api.Surface{Name: "test", Routes: []api.Route{
		{Pattern: "POST /things", Scope: api.Key, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
		{Pattern: "GET /public", Scope: api.Public, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
	}})
	ask := func(method, path, key string) {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil)
		r.Header.Set("X-Api-Key", key)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	ask("POST", "/things", "alice")
	for range 2000 {
		ask("POST", "/things", "wrong")
		ask("GET", "/nowhere", "")
		ask("GET", "/public", "")
	}
	ask("POST", "/things", "bob")
	files, err := audit.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	owners := ""
	if _, err := audit.Verify(files, func(l audit.Line) error { owners += l.Owner; return nil }); err != nil || owners != "alicebob" {
		t.Errorf("the audit log is of %q, %v", owners, err)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n > 100 || n < 10 {
		t.Errorf("6000 requests without a key have %d lines in the log", n)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// The audit log has the address of the client whom a trusted proxy speaks for, and nobody
// else's word for it.
func TestAuditOfClientsBehindProxies(t *testing.T) {
	for _, tt := range []struct {
		proxies api.Proxies
		want    []string // of two clients, and of one who makes an address up
	}{
		{nil, []string{"10.0.0.1:4711", "10.0.0.1:4711", "10.0.0.1:4711"}},
		{api.Proxies{netip.MustParsePrefix("10.0.0.0/8")}, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}},
	} {
		dir := t.TempDir()
		log, err := audit.Open(audit.Options{Dir: dir, MaxBytes: 1 << 20, MaxFiles: 2})
		if err != nil {
			t.Fatal(err)
		}
		handler := api.Handler(api.Options{Authenticator: threeKeys{}, Audit: log, Proxies: tt.proxies}, api.Surface{Name: "test", Routes: []api.Route{
			{Pattern: "POST /things", Scope: api.Key, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
		}})
		for _, forwarded := range []string{"192.0.2.1", "192.0.2.2", "198.51.100.66, 192.0.2.3"} {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/things", nil)
			r.RemoteAddr = "10.0.0.1:4711"
			r.Header.Set("X-Api-Key", "alice")
			r.Header.Set("X-Forwarded-For", forwarded)
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		files, err := audit.Files(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if _, err := audit.Verify(files, func(l audit.Line) error { got = append(got, l.Remote); return nil }); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("trusting %v: the log has %q, %v; want %q", tt.proxies, got, err, tt.want)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}
