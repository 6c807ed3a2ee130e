package api_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
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
		{"no origin's", "POST", "/thing/1", []func(*http.Request){set("Origin", "null")}, 403, ""},
		{"another scheme", "POST", "/thing/1", []func(*http.Request){set("Origin", "http://app.example")}, 403, ""},
		{"another port", "POST", "/thing/1", []func(*http.Request){set("Origin", "http://localhost:5174")}, 403, ""},
		{"the usual port", "POST", "/thing/1", []func(*http.Request){set("Origin", app+":443")}, 403, ""},
		{"another case", "POST", "/thing/1", []func(*http.Request){set("Origin", "https://APP.example")}, 403, ""},
		{"a final dot", "POST", "/thing/1", []func(*http.Request){set("Origin", app+".")}, 403, ""},
		{"a site below it", "POST", "/thing/1", []func(*http.Request){set("Origin", "https://a.app.example")}, 403, ""},
		{"two in one", "POST", "/thing/1", []func(*http.Request){set("Origin", app+", https://evil.test")}, 403, ""},
		{"a star", "POST", "/thing/1", []func(*http.Request){set("Origin", "*")}, 403, ""},
		{"an empty one", "POST", "/thing/1", []func(*http.Request){set("Origin", "")}, 403, ""},
		{"its origin in Referer only", "POST", "/thing/1", []func(*http.Request){set("Referer", app+"/"), set("Sec-Fetch-Site", "cross-site")}, 403, ""},
		{"a question of no origin", "OPTIONS", "/thing/1", asks("null"), 403, ""},
		{"a question about a path that is not there", "OPTIONS", "/nowhere", asks(app), 204, app},
		{"under another name", "POST", "/thing/1", []func(*http.Request){set("Origin", app), func(r *http.Request) { r.Host = "evil.test" }}, 403, ""},
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
			// Before the checks of a Host that is not ours nothing is said of origins.
			if vary := header.Get("Vary"); vary != "Origin" && tt.name != "under another name" || header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("header %v", header)
			}
		})
	}
}

// TestOriginsHaveNoCookies: a page that is allowed to call the API has what its own
// key opens, not what its visitor's cookies do.
func TestOriginsHaveNoCookies(t *testing.T) {
	const app = "https://app.example"
	ticket := func(r *http.Request) (p auth.Principal, shown bool, err error) {
		return auth.Principal{Owner: "alice"}, len(r.CookiesNamed("ticket")) > 0, nil
	}
	route := api.Route{Pattern: "GET /port", Scope: api.Key, Ticket: ticket, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.WriteJSON(w, r, http.StatusOK, r.Header["Cookie"])
	})}
	h := api.Handler(api.Options{Authenticator: keys{}, Origins: []string{app}}, api.Surface{Name: "test", Routes: []api.Route{route}})
	cookie, noKey := set("Cookie", "ticket=1; own=2"), set("Authorization")
	if w := serve(h, request("GET", "/port", cookie, noKey)); w.Code != http.StatusOK {
		t.Errorf("the visitor's own: %d", w.Code)
	}
	if w := serve(h, request("GET", "/port", cookie, noKey, set("Origin", app))); w.Code != http.StatusUnauthorized {
		t.Errorf("the page's, with a cookie only: %d", w.Code)
	}
	if w := serve(h, request("GET", "/port", cookie, set("Origin", app))); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "=") {
		t.Errorf("the page's, with its key: %d %s", w.Code, w.Body)
	}
}

// TestOriginsAreOfTheAPI: a host that is a site of its own says by itself who may
// call it, and nobody beside it gets in.
func TestOriginsAreOfTheAPI(t *testing.T) {
	const app = "https://app.example"
	site := &api.Route{Pattern: "site", Scope: api.Key, Handler: http.NotFoundHandler()}
	h := handler(t, func(o *api.Options) {
		o.Origins = []string{app}
		o.Site = func(host string) *api.Route {
			if host == "site.test" {
				return site
			}
			return nil
		}
	})
	for _, method := range []string{"GET", "OPTIONS"} {
		w := serve(h, request(method, "/", set("Origin", app), set("Access-Control-Request-Method", "GET"), func(r *http.Request) { r.Host = "site.test" }))
		if w.Code != http.StatusForbidden || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, %v", method, w.Code, w.Header())
		}
	}
}

// TestNoOriginsNoCORS: without any configured, nothing is said of them at all.
func TestNoOriginsNoCORS(t *testing.T) {
	w := serve(handler(t), request("OPTIONS", "/thing/1", set("Origin", "https://app.example"), set("Access-Control-Request-Method", "POST")))
	if w.Code != http.StatusForbidden || len(w.Header()["Vary"]) != 0 || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
}

// TestSocketKeysAreNotTold: neither the log nor an answer repeats a key, whatever
// comes of the request that shows it.
func TestSocketKeysAreNotTold(t *testing.T) {
	for _, key := range []string{goodKey, "sk-wrong"} {
		encoded := base64.RawURLEncoding.EncodeToString([]byte(key))
		for _, path := range []string{"/socket", "/thing/1", "/nowhere", "/internal", "/panic", "/late-panic"} {
			var log bytes.Buffer
			h := handler(t, func(o *api.Options) {
				o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			edits := []func(*http.Request){set("Sec-WebSocket-Protocol", "sandkasten, sandkasten.key."+encoded)}
			if path == "/socket" {
				edits = append(edits, set("Authorization"))
			}
			w := httptest.NewRecorder()
			func() {
				defer func() {
					if p := recover(); p != nil && p != http.ErrAbortHandler {
						t.Errorf("%s: %v", path, p)
					}
				}()
				h.ServeHTTP(w, request("GET", path, edits...))
			}()
			if log.Len() == 0 {
				t.Errorf("%s: nothing is logged", path)
			}
			told := log.String() + w.Body.String() + fmt.Sprint(w.Header())
			if strings.Contains(told, encoded) || strings.Contains(told, key) {
				t.Errorf("%s tells the key: %s", path, told)
			}
		}
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
		{"an empty one", "/socket", offered("sandkasten.key."), 401},
		{"with padding", "/socket", offered("sandkasten.key." + base64.URLEncoding.EncodeToString([]byte("sk-good"+"x"))), 401},
		{"another case", "/socket", offered("Sandkasten.Key." + base64.RawURLEncoding.EncodeToString([]byte(goodKey))), 401},
		{"a very long one", "/socket", offered(key(goodKey + strings.Repeat(" ", 4096))), 401},
		{"where pages are shown", "/page", offered(key(goodKey)), 401},
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
