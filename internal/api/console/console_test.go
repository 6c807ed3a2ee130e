package console_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/console"
	"github.com/sandkasten/sandkasten/internal/auth"
)

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// ask asks a daemon that wants a key from everybody.
func ask(t *testing.T, page fstest.MapFS, method, path string, header http.Header) *http.Response {
	t.Helper()
	keys, err := auth.NewKeys(auth.Key{ID: "k", Owner: "owner", Hash: auth.HashKey("the-key-of-somebody")})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	api.Handler(api.Options{Authenticator: keys}, console.New(page)).ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var nonces = regexp.MustCompile(`'nonce-([A-Z0-9]{26})'`)

func TestPage(t *testing.T) {
	t.Parallel()
	page := fstest.MapFS{"index.html": {Data: []byte(`<meta name="csp-nonce" content="__NONCE__">`)}}
	seen := map[string]bool{}
	for _, path := range []string{"/", "/?q=x", "/sessions", "/sessions/f5q2bz7lq4m3k5n6p7r2s3t4u5?tab=files", "/images", "/users"} {
		got := ask(t, page, http.MethodGet, path, nil)
		policy := got.Header.Get("Content-Security-Policy")
		match := nonces.FindStringSubmatch(policy)
		if got.StatusCode != http.StatusOK || match == nil || !strings.Contains(body(t, got), `content="`+match[1]+`"`) {
			t.Fatalf("%s: %d, %s", path, got.StatusCode, policy)
		}
		if seen[match[1]] {
			t.Errorf("%s has the nonce of another answer", path)
		}
		seen[match[1]] = true
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "frame-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy lacks %s", path, want)
			}
		}
		if strings.Contains(policy, "unsafe") || got.Header.Get("X-Frame-Options") != "DENY" || got.Header.Get("Cache-Control") != "no-store" ||
			got.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(got.Header.Get("Permissions-Policy"), "camera=()") {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
	for _, path := range []string{"/v1/sessions", "/other", "/sessions/a/b"} {
		if got := ask(t, page, http.MethodGet, path, nil); got.StatusCode == http.StatusOK {
			t.Errorf("%s is the page", path)
		}
	}
	if got := ask(t, fstest.MapFS{}, http.MethodGet, "/", nil); got.StatusCode != http.StatusNotFound || !strings.Contains(body(t, got), "web:build") {
		t.Errorf("without a page: %d", got.StatusCode)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	page := fstest.MapFS{
		"index.html":            {Data: []byte("secret of nobody")},
		"assets/index-a1.js.gz": {Data: packed(t, "run()")}, "assets/index-a1.js.br": {Data: []byte("as brotli")},
	}
	for accepts, want := range map[string][2]string{
		"gzip, deflate, br": {"br", "as brotli"}, "gzip": {"gzip", string(packed(t, "run()"))}, "": {"", "run()"},
		"br;q=0, gzip;q=0.5": {"gzip", string(packed(t, "run()"))}, "br; q=0": {"", "run()"},
	} {
		got := ask(t, page, http.MethodGet, "/assets/index-a1.js", http.Header{"Accept-Encoding": {accepts}})
		if got.StatusCode != http.StatusOK || got.Header.Get("Content-Encoding") != want[0] || body(t, got) != want[1] {
			t.Errorf("%q: %d %q", accepts, got.StatusCode, got.Header.Get("Content-Encoding"))
		}
		if got.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || !strings.Contains(got.Header.Get("Cache-Control"), "immutable") || got.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %v", accepts, got.Header)
		}
	}
	for _, path := range []string{"/assets/none.js", "/assets/..%2findex.html", "/assets/%2e%2e%2findex.html", "/assets/"} {
		if got := ask(t, page, http.MethodGet, path, nil); got.StatusCode == http.StatusOK || strings.Contains(body(t, got), "nobody") {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
}

// What is checked in is a page with its files.
func TestBuilt(t *testing.T) {
	t.Parallel()
	h := api.Handler(api.Options{}, console.New(console.Built()))
	get := func(path string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	status, text := get("/")
	files := regexp.MustCompile(`"(/assets/[^"]+)"`).FindAllStringSubmatch(text, -1)
	if status != http.StatusOK || len(files) < 2 || strings.Contains(text, "__NONCE__") {
		t.Fatalf("%d %s", status, text)
	}
	for _, file := range files {
		if status, text := get(file[1]); status != http.StatusOK || len(text) < 200 {
			t.Errorf("%s: %d, %d bytes", file[1], status, len(text))
		}
	}
}
