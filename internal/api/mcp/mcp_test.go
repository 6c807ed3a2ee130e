package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/mcp"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// provider knows one token.
type provider struct{}

func (provider) IsToken(credential string) bool { return strings.Count(credential, ".") == 2 }

func (provider) Token(_ context.Context, token string) (auth.Principal, time.Time, error) {
	if token != "a.good.token" {
		return auth.Principal{}, time.Time{}, errdefs.New(errdefs.Unauthenticated, "not valid here")
	}
	return auth.Principal{Owner: "wanda", ID: "token", Quota: "wanda"}, time.Now().Add(time.Hour), nil
}

// answer is what a request with a credential gets.
func answer(t *testing.T, h http.Handler, method, path, credential string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestRequestsHaveNoLineInTheLog: a daemon at work has thousands of them, and what clients do
// wrong is no error of the daemon's.
func TestRequestsHaveNoLineInTheLog(t *testing.T) {
	t.Parallel()
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		var lines bytes.Buffer
		log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: level}))
		h := api.Handler(api.Options{}, mcp.New(mcp.Options{Transport: &http.Transport{}, Log: log}))
		answer(t, h, "POST", "/mcp", "").Body.Close()
		for _, body := range []string{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"method":"nothing/such"}`, `{}`} {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		if isDebug := level == slog.LevelDebug; isDebug != (lines.Len() > 0) || strings.Contains(lines.String(), "level=INFO") || strings.Contains(lines.String(), "level=ERROR") {
			t.Errorf("at %v: %s", level, lines.String())
		}
	}
}

func TestAccessTokensOpenTheToolsAlone(t *testing.T) {
	t.Parallel()
	keys, err := auth.NewKeys(auth.Key{ID: "k", Owner: "owner", Hash: auth.HashKey("the-key-of-somebody")})
	if err != nil {
		t.Fatal(err)
	}
	other := api.Surface{Name: "other", Routes: []api.Route{{
		Pattern: "POST /other", Scope: api.Key,
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}}}
	h := api.Handler(api.Options{Authenticator: keys, Tokens: provider{}},
		mcp.New(mcp.Options{Transport: &http.Transport{}, Issuer: "https://id.example.org"}), other)
	for _, c := range []struct {
		path, credential string
		want             int
	}{
		{"/mcp", "a.good.token", http.StatusOK},
		{"/mcp", "the-key-of-somebody", http.StatusOK},
		{"/mcp", "a.bad.token", http.StatusUnauthorized},
		{"/mcp", "wrong", http.StatusUnauthorized},
		{"/mcp", "", http.StatusUnauthorized},
		{"/other", "the-key-of-somebody", http.StatusOK},
		{"/other", "a.good.token", http.StatusUnauthorized},
	} {
		got := answer(t, h, http.MethodPost, c.path, c.credential)
		if got.StatusCode != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.credential, got.StatusCode, c.want)
		}
		tells := strings.Contains(got.Header.Get("WWW-Authenticate"), `resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp"`)
		if tells != (c.path == "/mcp" && c.want == http.StatusUnauthorized) {
			t.Errorf("%s with %q: %q", c.path, c.credential, got.Header.Get("WWW-Authenticate"))
		}
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		var said struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
		}
		if err := json.NewDecoder(answer(t, h, http.MethodGet, path, "").Body).Decode(&said); err != nil {
			t.Fatal(err)
		}
		if said.Resource != "http://localhost/mcp" || len(said.Servers) != 1 || said.Servers[0] != "https://id.example.org" {
			t.Errorf("%s: %+v", path, said)
		}
	}
}

// Without a provider there is nothing to tell, and a token is a wrong key.
func TestNoProvider(t *testing.T) {
	t.Parallel()
	keys, err := auth.NewKeys(auth.Key{ID: "k", Owner: "owner", Hash: auth.HashKey("the-key-of-somebody")})
	if err != nil {
		t.Fatal(err)
	}
	h := api.Handler(api.Options{Authenticator: keys}, mcp.New(mcp.Options{Transport: &http.Transport{}}))
	if got := answer(t, h, http.MethodPost, "/mcp", "a.good.token"); got.StatusCode != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%d, %q", got.StatusCode, got.Header.Get("WWW-Authenticate"))
	}
	if got := answer(t, h, http.MethodGet, "/.well-known/oauth-protected-resource", ""); got.StatusCode == http.StatusOK {
		t.Errorf("%d", got.StatusCode)
	}
}
