package api_test

import (
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
)

func TestOrigins(t *testing.T) {
	const app = "https://app.example"
	h := handler(t, func(o *api.Options) { o.Origins = []string{app, "http://localhost:5173"} })
	asks := func(origin string) []func(*http.Request) {
		return []func(*http.Request){set("Origin", origin), set("Access-Control-Request-Method", "POST"), set("Authorization")}
	}
	tests := []struct {
		name, method, path string
		edits              []func(*http.Request)
		status             int
		allowed            string // Access-Control-Allow-Origin
	}{
		{"a request", "POST", "/thing/1", []func(*http.Request){set("Origin", app), set("Sec-Fetch-Site", "cross-site")}, 200, app},
		{"one without a key", "POST", "/thing/1", []func(*http.Request){set("Origin", app), set("Authorization")}, 401, app},
		{"its own origin", "POST", "/thing/1", []func(*http.Request){set("Origin", "http://localhost:8080")}, 200, ""},
		{"another origin", "POST", "/thing/1", []func(*http.Request){set("Origin", "https://evil.test")}, 403, ""},
		{"one that begins so", "POST", "/thing/1", []func(*http.Request){set("Origin", app+".evil.test")}, 403, ""},
		{"two origins", "POST", "/thing/1", []func(*http.Request){set("Origin", app, app)}, 403, ""},
		{"a question", "OPTIONS", "/thing/1", asks(app), 204, app},
		{"a question of another", "OPTIONS", "/thing/1", asks("https://evil.test"), 403, ""},
		{"no question", "OPTIONS", "/thing/1", []func(*http.Request){set("Origin", app)}, 405, app},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := serve(h, request(tt.method, tt.path, tt.edits...))
			header := w.Header()
			if got := header.Get("Access-Control-Allow-Origin"); w.Code != tt.status || got != tt.allowed {
				t.Errorf("got %d for %q, want %d for %q", w.Code, got, tt.status, tt.allowed)
			}
			if got := header.Get("Access-Control-Allow-Methods"); (got != "") != (tt.status == 204) {
				t.Errorf("methods: %q", got)
			}
			if header.Get("Vary") != "Origin" || header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("header %v", header)
			}
		})
	}
}

// TestSocketKeys: the only way in which a page can say its key for a WebSocket.
func TestSocketKeys(t *testing.T) {
	key := func(k string) string {
		return "sandkasten, sandkasten.key." + base64.RawURLEncoding.EncodeToString([]byte(k))
	}
	offered := func(protocols ...string) []func(*http.Request) {
		return []func(*http.Request){set("Authorization"), set("Sec-WebSocket-Protocol", protocols...)}
	}
	tests := []struct {
		name, path string
		edits      []func(*http.Request)
		status     int
	}{
		{"a key", "/socket", offered(key(goodKey)), 200},
		{"in two headers", "/socket", offered("sandkasten", "sandkasten.key."+base64.RawURLEncoding.EncodeToString([]byte(goodKey))), 200},
		{"a wrong key", "/socket", offered(key("b-key")), 401},
		{"no base64", "/socket", offered("sandkasten.key.!"), 401},
		{"two keys", "/socket", offered(key(goodKey), key(goodKey)), 401},
		{"none", "/socket", offered("sandkasten"), 401},
		{"a header as ever", "/socket", nil, 200},
		{"both", "/socket", []func(*http.Request){set("Sec-WebSocket-Protocol", key(goodKey))}, 401},
		{"elsewhere", "/thing/1", offered(key(goodKey)), 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if w := serve(handler(t), request("GET", tt.path, tt.edits...)); w.Code != tt.status {
				t.Errorf("got %d, want %d", w.Code, tt.status)
			}
		})
	}
}
