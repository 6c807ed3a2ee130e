package v1_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session"
)

// reader only looks at things, though it sees everything.
type reader struct{}

func (reader) Authenticate(context.Context, string) (auth.Principal, error) {
	return auth.Principal{Owner: "alice", ReadOnly: true, Scopes: auth.ScopeDaemon}, nil
}

// A key that only reads is refused by every route that changes something, also by
// those whose method is GET.
func TestReadOnlyKeyOnAllRoutes(t *testing.T) {
	const id = "/v1/sessions/{id}"
	// They take no key: the one is for everybody, and the other for a browser's cookie.
	keyless := []string{"POST /v1/auth/sign-in", "POST /v1/auth/sign-out"}
	acting := []string{"GET " + id + "/exec/stream", "GET " + id + "/terminal", "GET " + id + "/tunnel"}
	surface := v1.New(v1.Options{Manager: session.New(session.Options{})})
	for i := range surface.Routes {
		surface.Routes[i].Resolve, surface.Routes[i].Ticket = nil, nil
		surface.Routes[i].Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	}
	h := api.Handler(api.Options{Authenticator: reader{}}, surface)
	variable := regexp.MustCompile(`\{\w+(\.\.\.)?\}`)
	reads := 0
	for _, route := range surface.Routes {
		if slices.Contains(keyless, route.Pattern) {
			continue
		}
		method, path, ok := strings.Cut(route.Pattern, " ")
		if !ok {
			method, path = "GET", route.Pattern // of a program in a sandbox
		}
		r := httptest.NewRequest(method, variable.ReplaceAllString(path, "1"), nil)
		r.Host = "localhost:8080"
		r.Header.Set("Authorization", "Bearer key")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want := http.StatusForbidden
		if ok && method == "GET" && !slices.Contains(acting, route.Pattern) {
			want = http.StatusTeapot
			reads++
		}
		if w.Code != want || want == http.StatusForbidden && !strings.Contains(w.Body.String(), "this key may only read") {
			t.Errorf("%s: %d %s, want %d", route.Pattern, w.Code, w.Body, want)
		}
	}
	if reads < 20 {
		t.Errorf("only %d routes can be read", reads)
	}
}
