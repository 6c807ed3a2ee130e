package preview

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/accounts/browser"
)

func TestCleanRequest(t *testing.T) {
	ours := browser.CSRF("the token of a sign-in")
	header := http.Header{
		"Authorization": {"Bearer key"}, "X-Api-Key": {"key"}, "X-Preview-Token": {"token"},
		"Forwarded": {"for=1"}, "X-Forwarded-For": {"1"}, "X-Forwarded-Anything": {"1"}, "X-Real-Ip": {"1"},
		"X_forwarded_for": {"1"}, "X_api_key": {"key"}, "Proxy_x": {"1"},
		"Proxy-Authorization": {"1"}, "Proxy-Connection": {"1"},
		"Cookie": {
			"a=1; sandkasten_preview=token; b=2", "sandkasten_preview=token", " sandkasten_preview = token ;c",
			`d="x;sandkasten_preview=token"`,
			"csrftoken=" + ours + "; e=1; csrftoken=of-the-program", `csrftoken="` + ours + `"`, "other=" + ours,
		},
		"Sec-Websocket-Protocol": {"chat,sandkasten.key.c2s", "sandkasten.key.c2s", "sandkasten, superchat"},
		"Accept":                 {"*/*"}, "X-Forward": {"kept"},
		"Referer": {"https://box.example/a/b?x=1&" + tokenParam + "=secret&y=2#" + tokenParam + "=secret"},
	}
	cleanRequest(header)
	want := http.Header{
		"Accept": {"*/*"}, "X-Forward": {"kept"}, "Referer": {"https://box.example/a/b?x=1&y=2"},
		"Sec-Websocket-Protocol": {"chat", "sandkasten, superchat"},
		"Cookie":                 {"a=1; b=2", "c", `d="x`, "e=1; csrftoken=of-the-program", "other=" + ours},
	}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Error(diff)
	}
}

func TestCleanAnswer(t *testing.T) {
	const prefix = "/v1/sessions/x/ports/80"
	tests := []struct {
		name                  string
		in, site, belowPrefix http.Header
	}{
		{
			name: "reaching too far",
			in: http.Header{
				"Clear-Site-Data": {"*"}, "Service-Worker-Allowed": {"/"}, "Strict-Transport-Security": {"max-age=1"},
				"Nel": {`{"report_to":"x","max_age":9,"include_subdomains":true}`}, "Report-To": {`{"group":"x","max_age":9}`},
				"Accept-Ch": {"Sec-CH-UA"}, "Critical-Ch": {"Sec-CH-UA"}, "Expect-Ct": {"report-uri=x"}, "Set-Login": {"logged-out"},
				"Secure-Session-Registration": {"(ES256)"}, "Sec-Session-Registration": {"(ES256)"},
				"Alt-Svc": {"h3"}, "Public-Key-Pins": {"x"}, "X-Request-Id": {"x"}, "Etag": {"x"},
			},
			site: http.Header{"Etag": {"x"}}, belowPrefix: http.Header{"Etag": {"x"}},
		},
		{
			name: "sharing with everybody",
			in:   http.Header{"Access-Control-Allow-Origin": {"*"}, "Access-Control-Allow-Credentials": {"true"}},
			site: http.Header{"Access-Control-Allow-Origin": {"*"}}, belowPrefix: http.Header{},
		},
		{
			name:        "sharing with others",
			in:          http.Header{"Access-Control-Allow-Origin": {"https://evil.test"}, "Access-Control-Allow-Credentials": {"true"}, "Access-Control-Max-Age": {"9"}},
			site:        http.Header{"Access-Control-Allow-Origin": {"https://evil.test"}, "Access-Control-Allow-Credentials": {"true"}, "Access-Control-Max-Age": {"9"}},
			belowPrefix: http.Header{},
		},
		{
			name: "cookies",
			in: http.Header{"Set-Cookie": {
				"a=1; Domain=test; Path=/", "b=2;domain = .test ;PATH=/x; HttpOnly", "c=3", "d=4; Path=relative",
				"sandkasten_preview=x", "Sandkasten_Preview=x; Path=/", "=sandkasten_preview=x", "nameless", "",
				"e=5; Path=" + prefix + "/y; SameSite=None; Secure",
			}},
			site: http.Header{"Set-Cookie": {
				"a=1; Path=/", "b=2; Path=/x; HttpOnly", "c=3", "d=4; Path=relative",
				"e=5; Path=" + prefix + "/y; SameSite=None; Secure",
			}},
			belowPrefix: http.Header{"Set-Cookie": {
				"a=1; Path=" + prefix + "/", "b=2; Path=" + prefix + "/x; HttpOnly", "c=3", "d=4; Path=relative",
				"e=5; Path=" + prefix + "/y; SameSite=None; Secure",
			}},
		},
		{
			name: "its own policy",
			in:   http.Header{"Content-Security-Policy": {"sandbox allow-same-origin"}, "X-Content-Type-Options": {"none"}},
			site: http.Header{"Content-Security-Policy": {"sandbox allow-same-origin"}, "X-Content-Type-Options": {"none"}},
			belowPrefix: http.Header{
				"Content-Security-Policy": {"sandbox allow-same-origin"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			site := tt.in.Clone()
			cleanAnswer(site, "host", "", &url.URL{Path: "/"})
			if diff := cmp.Diff(tt.site, site); diff != "" {
				t.Errorf("at a host of its own: %s", diff)
			}
			tt.belowPrefix.Add("Content-Security-Policy", sandboxPolicy)
			cleanAnswer(tt.in, "host", prefix, &url.URL{Path: "/"})
			if diff := cmp.Diff(tt.belowPrefix, tt.in); diff != "" {
				t.Errorf("below a prefix: %s", diff)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	for location, want := range map[string]string{
		"/login?a=b#c":            "/p/login?a=b#c",
		"/":                       "/p/",
		"/p/there":                "/p/there",
		"/p":                      "/p",
		"/pp":                     "/p/pp",
		"relative":                "/p/a/relative",
		"./x//y":                  "/p/a/x//y",
		"../x":                    "/p/x",
		"../../../OTHER/ports/1/": "/p/OTHER/ports/1/",
		"%2e%2E/.%2e/%2e./x%2e":   "/p/x.",
		`..\..\x`:                 "/p/a/..%5C..%5Cx",
		`/\elsewhere/x`:           "/p/%5Celsewhere/x",
		"///elsewhere/x":          "/p///elsewhere/x",
		"?a=b":                    "?a=b",
		"#b":                      "#b",
		"http://host:1/x":         "/p/x",
		"https://HOST:1/x":        "/p/x",
		"http://elsewhere/x":      "http://elsewhere/x",
		"//elsewhere/x":           "//elsewhere/x",
		"//host:1/x":              "/p/x",
		"http://host:1/../../x":   "/p/x",
		"http:../../x":            "",
		"https:x":                 "",
		"..\t/x":                  "",
		"%zz/../../x":             "",
		"/a%2Fb":                  "/p/a%2Fb",
		"/p%2F..%2F..%2Fv1/x":     "/p/p%2F..%2F..%2Fv1/x",
		"mailto:x@y":              "mailto:x@y",
		"http://host:1":           "/p/",
		"http://host:1?a=b":       "/p/?a=b",
		"http://[broken":          "",
		"/p/../../v1/sessions/id": "/p/v1/sessions/id",
		"/p/%2e%2e/v1/sessions":   "/p/v1/sessions",
	} {
		if got := below(location, "host:1", "/p", &url.URL{Path: "/a/b"}); got != want {
			t.Errorf("%q: %q, want %q", location, got, want)
		}
	}
	if got := below("https://host:443/x", "host", "/p", &url.URL{Path: "/"}); got != "/p/x" {
		t.Errorf("a port that need not be said: %q", got)
	}
}

// A page that was opened with a token in its address names that address to the
// server in the sandbox with all that it loads.
func TestRefererWithoutToken(t *testing.T) {
	for from, want := range map[string]string{
		"https://a.test/p?" + tokenParam + "=secret":                  "https://a.test/p",
		"https://a.test/p?%70review_token=secret&b=c":                 "https://a.test/p?b=c",
		"https://a.test/p?b=c":                                        "https://a.test/p?b=c",
		"https://a.test/p":                                            "https://a.test/p",
		"no URL?" + tokenParam + "=secret&" + tokenParam + "=secret2": "no URL",
		"?" + tokenParam:                                              "",
	} {
		if got := refererWithoutToken(from); got != want {
			t.Errorf("%s becomes %s, want %s", from, got, want)
		}
	}
}
