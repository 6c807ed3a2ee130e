package api_test

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const goodKey = "sk-good"

type keys struct{}

func (keys) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	if subtle.ConstantTimeCompare([]byte(key), []byte(goodKey)) == 1 {
		return auth.Principal{Owner: "alice", Quota: "alice"}, nil
	}
	return auth.Principal{}, errdefs.New(errdefs.Unauthenticated, "unknown key")
}

// scoped is keys whose principal has scopes.
type scoped struct{ scopes auth.Scopes }

func (s scoped) Authenticate(ctx context.Context, key string) (auth.Principal, error) {
	p, err := keys{}.Authenticate(ctx, key)
	return p.With(s.scopes), err
}

// handler has one route of each scope, and some that misbehave.
func handler(t testing.TB, set ...func(*api.Options)) http.Handler {
	t.Helper()
	ok := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.WriteJSON(w, r, http.StatusOK, map[string]string{"owner": api.Caller(r.Context()).Owner})
	})
	fail := func(err error) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.WriteError(w, r, err) })
	}
	o := api.Options{Authenticator: keys{}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, s := range set {
		s(&o)
	}
	return api.Handler(o, api.Surface{Name: "test", Routes: []api.Route{
		{Pattern: "GET /public", Scope: api.Public, Handler: ok},
		{Pattern: "GET /thing/{id}", Scope: api.Key, Handler: ok},
		{Pattern: "POST /thing/{id}", Scope: api.Key, Handler: ok},
		{Pattern: "GET /socket", Scope: api.Socket, Handler: ok},
		{Pattern: "GET /admin", Scope: api.Admin, Handler: ok},
		{Pattern: "GET /internal", Scope: api.Key, Handler: fail(errors.New("open /secret/path: EIO"))},
		{Pattern: "GET /unable", Scope: api.Key, Handler: fail(errdefs.New(errdefs.Unimplemented, "not here"))},
		{Pattern: "GET /full", Scope: api.Key, Handler: fail(errdefs.New(errdefs.InsufficientSpace, "full"))},
		{Pattern: "GET /busy", Scope: api.Key, Handler: fail(errdefs.New(errdefs.Unavailable, "wait"))},
		{Pattern: "GET /panic", Scope: api.Key, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret \x1b[31m detail") })},
		{Pattern: "GET /late-panic", Scope: api.Key, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, err := io.WriteString(w, "half"); err != nil {
				t.Error(err)
			}
			panic("late")
		})},
	}})
}

// request is one with a good key and Host, edited.
func request(method, target string, edits ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "localhost:8080"
	r.Header.Set("Authorization", "Bearer "+goodKey)
	for _, e := range edits {
		e(r)
	}
	return r
}

func set(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func wantError(t *testing.T, w *httptest.ResponseRecorder, status int, code string) api.ErrorBody {
	t.Helper()
	var e api.ErrorBody
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
		t.Fatalf("%v in %q", err, w.Body)
	}
	if w.Code != status || string(e.Code) != code || e.Error == "" {
		t.Errorf("status %d, error %+v; want %d and %s", w.Code, e, status, code)
	}
	return e
}

// TestKeys is A01: whatever is wrong with a key, the answer is the same.
func TestKeys(t *testing.T) {
	h := handler(t)
	bad := map[string]func(*http.Request){
		"none":            set("Authorization"),
		"empty":           set("Authorization", ""),
		"scheme only":     set("Authorization", "Bearer"),
		"empty bearer":    set("Authorization", "Bearer "),
		"other scheme":    set("Authorization", "Token "+goodKey),
		"two spaces":      set("Authorization", "Bearer  "+goodKey),
		"twice":           set("Authorization", "Bearer "+goodKey, "Bearer "+goodKey),
		"both headers":    set("X-API-Key", goodKey),
		"suffix":          set("Authorization", "Bearer "+goodKey+"x"),
		"prefix":          set("Authorization", "Bearer "+goodKey[:4]),
		"other case":      set("Authorization", "Bearer "+strings.ToUpper(goodKey)),
		"NUL":             set("Authorization", "Bearer "+goodKey+"\x00"),
		"long":            set("Authorization", "Bearer "+strings.Repeat("k", 16<<10)),
		"basic elsewhere": func(r *http.Request) { r.SetBasicAuth("", goodKey) },
		"in the query":    func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "key=" + goodKey },
		"two X-API-Key": func(r *http.Request) {
			r.Header.Del("Authorization")
			r.Header["X-Api-Key"] = []string{goodKey, goodKey}
		},
		"X-API-Key, wrong": func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("X-API-Key", "no") },
	}
	var first string
	for name, edit := range bad {
		for _, target := range []string{"/thing/1", "/nowhere"} {
			w := serve(h, request("GET", target, edit))
			wantError(t, w, http.StatusUnauthorized, "unauthenticated")
			if first == "" {
				first = w.Body.String()
			}
			if w.Body.String() != first || w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: body %s, WWW-Authenticate %q", name, w.Body, w.Header().Get("WWW-Authenticate"))
			}
		}
	}
	good := map[string]func(*http.Request){
		"bearer":           set("Authorization", "Bearer "+goodKey),
		"bearer, any case": set("Authorization", "bEARER "+goodKey),
		"X-API-Key":        func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("X-API-Key", goodKey) },
	}
	for name, edit := range good {
		if w := serve(h, request("GET", "/thing/1", edit)); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "alice") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := serve(h, request("GET", "/public", bad["none"])); w.Code != http.StatusOK {
		t.Errorf("public route without a key: %d", w.Code)
	}
	open := handler(t, func(o *api.Options) { o.Authenticator = nil })
	if w := serve(open, request("GET", "/thing/1", bad["none"])); w.Code != http.StatusOK {
		t.Errorf("with keys off: %d", w.Code)
	}
}

// TestBrowsers is A08: what a web page can make a browser send is refused.
func TestBrowsers(t *testing.T) {
	h := handler(t, func(o *api.Options) { o.Hosts = api.NewHosts("192.0.2.7:8080", "Box.Example") })
	tests := []struct {
		name    string
		edit    func(*http.Request)
		allowed bool
	}{
		{"no browser", func(*http.Request) {}, true},
		{"own origin", set("Origin", "http://localhost:8080"), true},
		{"other site", set("Origin", "https://evil.test"), false},
		{"other port", set("Origin", "http://localhost:9090"), false},
		{"null", set("Origin", "null"), false},
		{"two origins", set("Origin", "http://localhost:8080", "https://evil.test"), false},
		{"same-origin fetch", set("Sec-Fetch-Site", "same-origin"), true},
		{"typed into the address bar", set("Sec-Fetch-Site", "none"), true},
		{"cross-site fetch", set("Sec-Fetch-Site", "cross-site"), false},
		{"same-site fetch", set("Sec-Fetch-Site", "same-site"), false},
		{"unknown Sec-Fetch-Site", set("Sec-Fetch-Site", "weird"), false},
	}
	for _, tt := range tests {
		for _, method := range []string{"GET", "POST"} {
			w := serve(h, request(method, "/thing/1", tt.edit))
			if tt.allowed && w.Code != http.StatusOK || !tt.allowed && w.Code != http.StatusForbidden {
				t.Errorf("%s %s: %d", method, tt.name, w.Code)
			}
			for name := range w.Header() {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s: header %s", method, tt.name, name)
				}
			}
		}
	}
	link := []func(*http.Request){set("Sec-Fetch-Site", "cross-site"), set("Sec-Fetch-Mode", "navigate")}
	if w := serve(h, request("GET", "/thing/1", link...)); w.Code != http.StatusOK {
		t.Errorf("a followed link: %d", w.Code)
	}
	if w := serve(h, request("POST", "/thing/1", link...)); w.Code != http.StatusForbidden {
		t.Errorf("a form posted from another site: %d", w.Code)
	}
	if w := serve(h, request("GET", "/thing/1", append(link, set("Upgrade", "websocket"))...)); w.Code != http.StatusForbidden {
		t.Errorf("a WebSocket from another site: %d", w.Code)
	}
}

func TestHosts(t *testing.T) {
	tests := []struct {
		listen  string
		host    string
		allowed bool
	}{
		{"127.0.0.1:8080", "localhost", true},
		{"127.0.0.1:8080", "LOCALHOST:8080", true},
		{"127.0.0.1:8080", "127.0.0.1:8080", true},
		{"127.0.0.1:8080", "127.8.9.1", true},
		{"127.0.0.1:8080", "[::1]:8080", true},
		{"127.0.0.1:8080", "[::ffff:127.0.0.1]", true},
		{"127.0.0.1:8080", "evil.test", false},
		{"127.0.0.1:8080", "127.0.0.1.nip.io", false},
		{"127.0.0.1:8080", "localhost.evil.test", false},
		{"127.0.0.1:8080", "localhost.", false},
		{"127.0.0.1:8080", "", false},
		{"127.0.0.1:8080", "192.0.2.7", false},
		{"192.0.2.7:8080", "192.0.2.7:8080", true},
		{"192.0.2.7:8080", "192.0.2.8:8080", false},
		{"192.0.2.7:8080", "box.example:8080", true},
		{"192.0.2.7:8080", "a.box.example", false},
		{"0.0.0.0:8080", "192.0.2.9:8080", true},
		{":8080", "[2001:db8::1]:8080", true},
		{":8080", "evil.test", false},
		{"box2.example:8080", "box2.example", true},
	}
	for _, tt := range tests {
		h := handler(t, func(o *api.Options) { o.Hosts = api.NewHosts(tt.listen, "Box.Example") })
		w := serve(h, request("GET", "/public", func(r *http.Request) { r.Host = tt.host }))
		if got := w.Code == http.StatusOK; got != tt.allowed {
			t.Errorf("listening on %s, Host %q: %d", tt.listen, tt.host, w.Code)
		}
		if !tt.allowed {
			wantError(t, w, http.StatusForbidden, "permission_denied")
		}
	}
}

// TestUnknownPaths is A11.
func TestUnknownPaths(t *testing.T) {
	h := handler(t)
	for _, target := range []string{"/", "/nowhere", "//thing/1", "/thing/..;/admin", "/thing/1/", "/thing/../public", "/debug/pprof/", "/.git/config", "/thing/a%2fb/c"} {
		wantError(t, serve(h, request("GET", target)), http.StatusNotFound, "not_found")
	}
	e := wantError(t, serve(h, request("GET", "/thing//parts")), http.StatusNotFound, "not_found")
	if !strings.Contains(e.Error, "empty") {
		t.Errorf("an empty part of a path: %q", e.Error)
	}
	w := serve(h, request("DELETE", "/thing/1", set("X-HTTP-Method-Override", "GET")))
	wantError(t, w, http.StatusMethodNotAllowed, "method_not_allowed")
	if allow := strings.Join(w.Header()["Allow"], ","); allow != "GET,POST" {
		t.Errorf("Allow: %s", allow)
	}
}

func TestErrors(t *testing.T) {
	h := handler(t)
	w := serve(h, request("GET", "/internal", set("X-Request-Id", "from-client_1.2")))
	e := wantError(t, w, http.StatusInternalServerError, "internal")
	if e.RequestID != "from-client_1.2" || w.Header().Get("X-Request-Id") != e.RequestID {
		t.Errorf("request id %q in the body, %q in the header", e.RequestID, w.Header().Get("X-Request-Id"))
	}
	if strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the body tells internals: %s", w.Body)
	}
	if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", w.Header())
	}
	w = serve(h, request("GET", "/busy"))
	if wantError(t, w, http.StatusServiceUnavailable, "unavailable"); w.Header().Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	for _, id := range []string{"", "a b", "x\r\nSet-Cookie: a", strings.Repeat("x", 65), "\x1b[31m"} {
		w := serve(h, request("GET", "/busy", set("X-Request-Id", id)))
		if got := w.Header().Get("X-Request-Id"); got == id || len(got) < 16 {
			t.Errorf("X-Request-Id %q was answered with %q", id, got)
		}
	}
}

func TestPanic(t *testing.T) {
	var log bytes.Buffer
	h := handler(t, func(o *api.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	w := serve(h, request("GET", "/panic"))
	wantError(t, w, http.StatusInternalServerError, "internal")
	if strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the body tells internals: %s", w.Body)
	}
	if !strings.Contains(log.String(), "secret ?[31m detail") || !strings.Contains(log.String(), w.Header().Get("X-Request-Id")) {
		t.Errorf("the log does not tell: %s", &log)
	}

	// What has begun cannot become an error any more: the client must notice.
	server := httptest.NewServer(h)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/late-panic", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", goodKey)
	response, err := server.Client().Do(r)
	if err == nil {
		_, err = io.ReadAll(response.Body)
		if closeErr := response.Body.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	}
	if err == nil {
		t.Error("a broken answer looks whole")
	}
}

// TestLog is A14: what a client sends cannot forge a line or move a cursor.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	h := handler(t, func(o *api.Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	w := serve(h, request("GET", "/internal", func(r *http.Request) {
		r.URL.Path = "/thing/x\r\nlevel=ERROR msg=forged \x1b]0;t\x07 \u202e"
		r.URL.RawQuery = "token=hunter2"
	}))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	line := log.String()
	if strings.Count(line, "\n") != 1 || strings.ContainsAny(line, "\r\x1b\x07\u202e") {
		t.Errorf("%q", line)
	}
	for _, secret := range []string{goodKey, "hunter2"} {
		if strings.Contains(line, secret) {
			t.Errorf("the log has %s: %s", secret, line)
		}
	}
	log.Reset()
	serve(h, request("GET", "/internal"))
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "open /secret/path: EIO") {
		t.Errorf("the log does not tell the cause: %s", &log)
	}
}

// At the usual level the log has what an operator does something about, and no line of each
// request. A time has its unit.
func TestLevelsOfRequests(t *testing.T) {
	for name, c := range map[string]struct {
		path  string
		edits []func(*http.Request)
		level string
	}{
		"a request":              {"/thing/1", nil, "DEBUG"},
		"a typing error":         {"/nowhere", nil, "DEBUG"},
		"what a driver lacks":    {"/unable", nil, "DEBUG"},
		"no key":                 {"/thing/1", []func(*http.Request){set("Authorization")}, "DEBUG"},
		"a wrong key":            {"/thing/1", []func(*http.Request){set("Authorization", "Bearer no")}, "INFO"},
		"what the host is short": {"/busy", nil, "INFO"},
		"a full disk":            {"/full", nil, "INFO"},
		"a fault":                {"/internal", nil, "ERROR"},
	} {
		var log bytes.Buffer
		answers := &api.Answers{}
		h := handler(t, func(o *api.Options) {
			o.Answers, o.Log = answers, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		serve(h, request("GET", c.path, c.edits...))
		var line struct {
			Level, Msg string
			TookMS     *float64 `json:"took_ms"`
		}
		if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Level != c.level || line.Msg != "request" || line.TookMS == nil || *line.TookMS > 60_000 {
			t.Errorf("%s: %s (%v), want %s", name, &log, err, c.level)
		}
		if failed := answers.Failed.Load(); failed > 0 != (c.level == "ERROR") {
			t.Errorf("%s counts %d times as a fault", name, failed)
		}
	}
}

func TestRate(t *testing.T) {
	h := handler(t, func(o *api.Options) {
		o.Quotas = auth.FixedQuotas{General: auth.Quota{RequestsPerSecond: 0.001, Burst: 2}}
	})
	for i := range 3 {
		w := serve(h, request("GET", "/thing/1"))
		if i < 2 && w.Code != http.StatusOK {
			t.Errorf("request %d: %d", i, w.Code)
		}
		if i == 2 {
			wantError(t, w, http.StatusTooManyRequests, "resource_exhausted")
			if w.Header().Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
		}
	}
	if w := serve(h, request("GET", "/public")); w.Code != http.StatusOK {
		t.Errorf("public route: %d", w.Code)
	}
}

// An owner may have a rate of their own, above or below that of all.
func TestRateOfOneOwner(t *testing.T) {
	for name, tt := range map[string]struct {
		general, own auth.Quota
		want         int // requests that are answered
	}{
		"less":        {auth.Quota{RequestsPerSecond: 0.001, Burst: 5}, auth.Quota{Burst: 2}, 2},
		"more":        {auth.Quota{RequestsPerSecond: 0.001, Burst: 1}, auth.Quota{Burst: 4}, 4},
		"only theirs": {auth.Quota{Burst: 3}, auth.Quota{RequestsPerSecond: 0.001}, 3},
		"burst":       {auth.Quota{}, auth.Quota{RequestsPerSecond: 0.5}, 1},
		"somebody's":  {auth.Quota{}, auth.Quota{}, 10},
	} {
		h := handler(t, func(o *api.Options) {
			o.Quotas = auth.FixedQuotas{General: tt.general, Of: map[string]auth.Quota{"alice": tt.own, "bob": {RequestsPerSecond: 0.001, Burst: 1}}}
		})
		got := 0
		for range 10 {
			if serve(h, request("GET", "/thing/1")).Code == http.StatusOK {
				got++
			}
		}
		if got != tt.want {
			t.Errorf("%s: %d answered, want %d", name, got, tt.want)
		}
	}
}

// What tells of everybody is for the daemon's own key.
func TestAdminRoutes(t *testing.T) {
	for scopes, status := range map[auth.Scopes]int{0: 403, auth.ScopeEveryOwner: 403, auth.ScopeDaemon: 200} {
		h := handler(t, func(o *api.Options) { o.Authenticator = scoped{scopes} })
		if w := serve(h, request("GET", "/admin")); w.Code != status {
			t.Errorf("scopes %b: %d", scopes, w.Code)
		}
		if w := serve(h, request("GET", "/admin", set("Authorization", "Bearer x"))); w.Code != http.StatusUnauthorized {
			t.Errorf("without a key: %d", w.Code)
		}
	}
	h := handler(t)
	wantError(t, serve(h, request("GET", "/admin")), http.StatusForbidden, "permission_denied")
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := handler(t, func(o *api.Options) { o.Registry = registry })
	for _, target := range []string{"/thing/1", "/thing/2", "/nowhere"} {
		serve(h, request("GET", target))
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if n := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()); n != 0 {
				got[name] += n
			}
		}
	}
	want := map[string]float64{
		"sandkasten_http_requests_total GET /thing/{id} 200":       2,
		"sandkasten_http_requests_total none 404":                  1,
		"sandkasten_http_request_duration_seconds GET /thing/{id}": 2,
		"sandkasten_http_request_duration_seconds none":            1,
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s is %v, want %v; all: %v", name, got[name], n, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("more series than expected: %v", got)
	}
}

func TestRouteWithoutScope(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a route without a scope was accepted")
		}
	}()
	api.Handler(api.Options{}, api.Surface{Routes: []api.Route{{Pattern: "GET /x", Handler: http.NotFoundHandler()}}})
}

func TestNewServer(t *testing.T) {
	s := api.NewServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("a limit is missing: %+v", s)
	}
	if s.ReadTimeout != 0 || s.WriteTimeout != 0 {
		t.Error("a timeout would cut long commands and streams")
	}
}

// Headers that are too long are answered as everything else is.
func TestLongHeadersAreAnsweredInJSON(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.Config = api.NewServer(api.Handler(api.Options{}), slog.New(slog.DiscardHandler))
	s.Start()
	defer s.Close()
	for size, want := range map[int]int{16 << 10: http.StatusNotFound, 40 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("x", size))
		response, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var body api.ErrorBody
		err = json.NewDecoder(response.Body).Decode(&body)
		if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != want || body.Error == "" {
			t.Errorf("%d bytes: status %d with %+v (%v), want %d", size, response.StatusCode, body, err, want)
		}
	}
}
