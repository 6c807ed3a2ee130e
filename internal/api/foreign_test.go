package api_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
)

// TestForeignPaths has a route get what is not the daemon's of its path as it came, and the
// log tell of all of it. Paths that only look alike are as strict as others.
func TestForeignPaths(t *testing.T) {
	var lines bytes.Buffer
	surface := api.Surface{Name: "s", Routes: []api.Route{
		{Pattern: "GET /v1/things", Scope: api.Public, Handler: http.NotFoundHandler()},
		{Pattern: "/v1/things/{id}/at/{path...}", Scope: api.Public, Foreign: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.PathValue("id")+" "+r.Pattern+" "+r.RequestURI)
		})},
	}}
	h := api.Handler(api.Options{Log: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))}, surface)
	for target, isForeign := range map[string]bool{
		"/v1/things/a/at/": true, "/v1/things/a/at//x/../y?q": true, "/v1/things/a/at/%2e%2e/x": true, "/v1/things/a/at/../../../things": true,
		"/v1/things/../at/x": false, "/v1/things//at/x": false, "/v1/./things/a/at/x": false, "/v1/things/a/at": false,
	} {
		lines.Reset()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+target, nil))
		got := strings.TrimPrefix(w.Body.String(), "a /v1/things/{id}/at/{path...} ")
		path, _, _ := strings.Cut(target, "?")
		if path = strings.ReplaceAll(path, "%2e", "."); isForeign != strings.HasSuffix(got, target) || !strings.Contains(lines.String(), "path="+path+" ") {
			t.Errorf("%s: %d %s\n%s", target, w.Code, got, lines.String())
		}
	}
}
