package v1_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPage holds that /docs works offline and runs nothing but its own file.
func TestPage(t *testing.T) {
	s := start(t)
	basic := func(r *http.Request) { r.SetBasicAuth("me", aliceKey) }
	for path, contentType := range map[string]string{
		"/docs":          "text/html; charset=utf-8",
		"/docs/page.js":  "text/javascript; charset=utf-8",
		"/docs/page.css": "text/css; charset=utf-8",
		"/openapi.json":  "application/json",
	} {
		a := s.do(t, "GET", path, "", basic)
		if a.status != 200 || a.header.Get("Content-Type") != contentType || len(a.body) == 0 {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
		csp := a.header.Get("Content-Security-Policy")
		if path == "/docs" && (!strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe")) {
			t.Errorf("Content-Security-Policy %q", csp)
		}
		none := s.do(t, "GET", path, "", header("Authorization", ""))
		if none.status != 401 || !strings.HasPrefix(none.header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s without a key: %d %v", path, none.status, none.header)
		}
	}
	for _, name := range []string{"index.html", "page.js", "page.css"} {
		source, err := os.ReadFile("page/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "onclick", "style=", "<script>"} {
			if strings.Contains(string(source), bad) {
				t.Errorf("%s has %s", name, bad)
			}
		}
	}
}

// TestDocs holds that docs/api.md has an example of every route, and names
// every limit and code.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	routes, err := os.ReadFile("routes.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`"((?:GET|POST|DELETE) /[^"]*)"`).FindAllStringSubmatch(string(routes), -1)
	if len(found) < 20 {
		t.Fatalf("found %d routes", len(found))
	}
	for _, match := range found {
		if strings.HasPrefix(match[1], "GET /docs/") {
			continue // parts of the page
		}
		if !strings.Contains(string(text), "`"+match[1]+"`") {
			t.Errorf("docs/api.md does not have `%s`", match[1])
		}
	}
	for _, code := range []string{
		"invalid_argument", "unauthenticated", "permission_denied", "not_found", "method_not_allowed", "request_timeout", "already_exists", "conflict",
		"too_large", "unsupported_media_type", "unprocessable", "resource_exhausted", "internal", "unimplemented", "unavailable", "insufficient_space", "bad_gateway", "gateway_timeout",
	} {
		if !strings.Contains(string(text), "`"+code+"`") {
			t.Errorf("docs/api.md does not have the code %s", code)
		}
	}
}
