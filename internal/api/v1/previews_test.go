package v1_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/api/v1/users"
)

const previewDomain = "preview.test"

func withDomain(o *setup) { o.preview.Domain = previewDomain }

func noKey(r *http.Request) { r.Header.Del("Authorization") }

// preview makes a token for a port.
func (s *server) preview(t *testing.T, path, port string, edits ...edit) v1.Preview {
	t.Helper()
	var p v1.Preview
	s.do(t, "POST", path+"/previews", `{"port":`+port+`}`, edits...).into(t, 201, &p)
	return p
}

func TestPreviewTokens(t *testing.T) {
	s := start(t)
	path, other := s.create(t), s.create(t)
	port, second := inside(t, mirror), inside(t, mirror)
	p := s.preview(t, path, port)
	base := path + "/ports/" + port + "/"
	if left := time.Until(p.ExpiresAt); p.URL != s.URL+base+"?preview_token="+p.Token || left > time.Hour || left < 50*time.Minute {
		t.Errorf("%+v", p)
	}
	token := header("X-Preview-Token", p.Token)
	for _, show := range []struct {
		query string
		edit  edit
	}{{"", token}, {"?preview_token=" + p.Token, noKey}, {"", header("Cookie", "a=b; sandkasten_preview=old; sandkasten_preview="+p.Token)}} {
		var got mirrored
		s.do(t, "POST", base+show.query, "", noKey, show.edit).into(t, 200, &got)
	}
	changed := strings.Replace(p.Token, "skp_", "skp_A", 1)
	for name, tt := range map[string]struct{ method, path, token string }{
		"another port":      {"GET", path + "/ports/" + second + "/", p.Token},
		"another session":   {"GET", other + "/ports/" + port + "/", p.Token},
		"forged":            {"GET", base, changed[:len(p.Token)]},
		"empty":             {"GET", base, ""},
		"the session":       {"GET", path, p.Token},
		"its end":           {"DELETE", path, p.Token},
		"its commands":      {"POST", path + "/exec", p.Token},
		"its ports":         {"GET", path + "/ports", p.Token},
		"another token":     {"POST", path + "/previews", p.Token},
		"a raw connection":  {"GET", path + "/tunnel?port=" + port, p.Token},
		"all sessions":      {"GET", "/v1/sessions", p.Token},
		"as an API key":     {"GET", "/v1/info", p.Token},
		"the daemon's info": {"GET", "/metrics", p.Token},
	} {
		t.Run(name, func(t *testing.T) {
			for _, show := range []edit{
				header("X-Preview-Token", tt.token), header("Cookie", "sandkasten_preview="+tt.token), header("Authorization", "Bearer "+tt.token),
			} {
				s.do(t, tt.method, tt.path, "", noKey, show).wantError(t, 401, "unauthenticated", "")
			}
		})
	}
	// An old cookie does not lock a key out, a wrong token does.
	s.do(t, "GET", base, "", header("Cookie", "sandkasten_preview=old")).into(t, 200, &mirrored{})
	s.do(t, "GET", base, "", header("X-Preview-Token", "old")).wantError(t, 401, "unauthenticated", "")
	s.do(t, "DELETE", path, "")
	s.do(t, "GET", base, "", noKey, token).wantError(t, 409, "conflict", "")
}

// A token, and a cookie that it has become, end with the key that made it.
func TestPreviewEndsWithItsKey(t *testing.T) {
	s := start(t)
	s.do(t, "POST", "/v1/users", `{"name":"dora"}`).into(t, 201, &users.User{})
	var key users.NewKey
	s.do(t, "POST", "/v1/keys", `{"user":"dora"}`).into(t, 201, &key)
	dora := header("Authorization", "Bearer "+key.Text)
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", "{}", dora).into(t, 201, &made)
	path := "/v1/sessions/" + string(made.ID)
	port := inside(t, mirror)
	p := s.preview(t, path, port, dora)
	at := path + "/ports/" + port + "/"
	shown := []edit{header("X-Preview-Token", p.Token), header("Cookie", "sandkasten_preview="+p.Token)}
	for _, show := range shown {
		s.do(t, "GET", at, "", noKey, show).into(t, 200, &mirrored{})
	}
	s.do(t, "DELETE", "/v1/keys/"+key.ID, "").into(t, 200, &struct{ OK bool }{})
	for _, show := range shown {
		s.do(t, "GET", at, "", noKey, show).wantError(t, 401, "unauthenticated", "")
	}
}

func TestPreviewsRefused(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for body, field := range map[string]string{
		`{}`: "port", `{"port":0}`: "port", `{"port":65536}`: "port", `{"port":80,"ttl_seconds":-1}`: "ttl_seconds",
		`{"port":80,"ttl_seconds":86401}`: "ttl_seconds", `{"port":80,"ttl_seconds":9300000000}`: "ttl_seconds",
	} {
		s.do(t, "POST", path+"/previews", body).wantError(t, 400, "invalid_argument", field)
	}
}

// TestCredentialsStayOutside is W14: a server inside sees nothing that would
// let it act for its visitor.
func TestCredentialsStayOutside(t *testing.T) {
	s := start(t, withDomain)
	path := s.create(t)
	port := inside(t, mirror)
	p := s.preview(t, path, port)
	onSite := host(parseURL(t, p.URL).Host)
	for name, tt := range map[string]struct {
		path  string
		edits []edit
	}{
		"a key":              {path + "/ports/" + port + "/", nil},
		"another key header": {path + "/ports/" + port + "/", []edit{noKey, header("X-Api-Key", aliceKey)}},
		"a token":            {path + "/ports/" + port + "/", []edit{header("X-Preview-Token", p.Token)}},
		"a token in a query": {path + "/ports/" + port + "/?a=1&preview_token=" + p.Token + "&preview%5Ftoken=" + p.Token, nil},
		"a cookie":           {path + "/ports/" + port + "/", []edit{header("Cookie", "a=1; sandkasten_preview="+p.Token)}},
		"a subprotocol": {path + "/ports/" + port + "/", []edit{
			header("Sec-WebSocket-Protocol", "sandkasten, sandkasten.key."+base64.RawURLEncoding.EncodeToString([]byte(aliceKey))),
		}},
		"a site's key":    {"/", []edit{onSite}},
		"a site's cookie": {"/", []edit{onSite, noKey, header("Cookie", "sandkasten_preview="+p.Token)}},
		"named in Connection": {path + "/ports/" + port + "/", []edit{
			header("Connection", "X-Forwarded-Prefix, X-Forwarded-Host"), header("X-Forwarded-Host", "evil.test"), header("X-Forwarded-For", "6.6.6.6"),
			header("Forwarded", "for=6.6.6.6"), header("Proxy-Authorization", "Basic "+aliceKey), header("X-Real-Ip", "6.6.6.6"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.do(t, "GET", tt.path, "", tt.edits...)
			var got mirrored
			a.into(t, 200, &got)
			for _, secret := range []string{aliceKey, base64.RawURLEncoding.EncodeToString([]byte(aliceKey)), p.Token, "6.6.6.6", "evil.test"} {
				if strings.Contains(string(a.body), secret) {
					t.Errorf("%s went in: %s", secret, a.body)
				}
			}
			if got.Header.Get("X-Forwarded-Host") == "" || got.Header.Get("X-Forwarded-For") != "" {
				t.Errorf("forwarded: %v", got.Header)
			}
		})
	}
}

// hostile answers as a page does that wants more than its own origin.
func hostile(w http.ResponseWriter, _ *http.Request) {
	for name, values := range map[string][]string{
		"Set-Cookie":                       {"a=1; Domain=preview.test; Path=/", "sandkasten_preview=stolen"},
		"Clear-Site-Data":                  {`"*"`},
		"Service-Worker-Allowed":           {"/"},
		"Strict-Transport-Security":        {"max-age=99"},
		"Alt-Svc":                          {`h3="evil.test:443"`},
		"Access-Control-Allow-Origin":      {"*"},
		"Access-Control-Allow-Credentials": {"true"},
		"X-Request-Id":                     {"forged"},
		"Content-Security-Policy":          {"sandbox allow-same-origin"},
		"Cache-Control":                    {"max-age=5"},
	} {
		w.Header()[name] = values
	}
	fmt.Fprint(w, "<script>fetch('/v1/sessions')</script>")
}

// TestPreviewAnswersAreConfined is W15.
func TestPreviewAnswersAreConfined(t *testing.T) {
	s := start(t, withDomain)
	path := s.create(t)
	port := inside(t, hostile)
	base := path + "/ports/" + port
	for name, tt := range map[string]struct {
		answer   answer
		cookie   string
		policies string
	}{
		"below a path": {
			s.do(t, "GET", base+"/", ""), "a=1; Path=" + base + "/",
			"sandbox allow-same-origin sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts",
		},
		"at its own host": {s.do(t, "GET", "/", "", host(parseURL(t, s.preview(t, path, port).URL).Host)), "a=1; Path=/", "sandbox allow-same-origin"},
	} {
		h := tt.answer.header
		for _, gone := range []string{"Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Alt-Svc", "Access-Control-Allow-Credentials"} {
			if h.Get(gone) != "" {
				t.Errorf("%s: %s came out: %s", name, gone, h.Get(gone))
			}
		}
		if got := strings.Join(h["Set-Cookie"], " "); got != tt.cookie {
			t.Errorf("%s: cookies %q, want %q", name, got, tt.cookie)
		}
		if got := strings.Join(h["Content-Security-Policy"], " "); got != tt.policies {
			t.Errorf("%s: policy %q, want %q", name, got, tt.policies)
		}
		if ids := h["X-Request-Id"]; len(ids) != 1 || ids[0] == "forged" {
			t.Errorf("%s: request ids %q", name, ids)
		}
		if cache := h["Cache-Control"]; len(cache) != 1 || cache[0] != "max-age=5" {
			t.Errorf("%s: cache %q", name, cache)
		}
	}
}

// TestPreviewHosts: a preview's host serves the preview and nothing of the API,
// and no other host is let in for its sake.
func TestPreviewHosts(t *testing.T) {
	s := start(t, withDomain)
	path := s.create(t)
	port := inside(t, mirror)
	p := s.preview(t, path, port)
	u := parseURL(t, p.URL)
	_, own, _ := strings.Cut(s.URL, "://127.0.0.1")
	id := strings.TrimPrefix(path, "/v1/sessions/")
	if want := port + "-" + id + "." + previewDomain + own; u.Host != want {
		t.Errorf("host %s, want %s", u.Host, want)
	}
	for _, target := range []string{"/", "//two//slashes", "/v1/sessions", "/healthz", "/metrics", "/docs", "/../up", "/%2e%2e/up"} {
		var got mirrored
		s.do(t, "GET", target, "", host(u.Host), func(r *http.Request) { r.URL.Opaque = "" }).into(t, 200, &got)
		if want := parseURL(t, s.URL+target).EscapedPath(); got.URI != want || got.Host != "localhost:"+port || got.Header.Get("X-Forwarded-Host") != u.Host || got.Header.Get("X-Forwarded-Prefix") != "" {
			t.Errorf("%s: %s at %s, %v", target, got.URI, got.Host, got.Header)
		}
	}
	for _, name := range []string{
		"x." + u.Host, previewDomain, "evil.test", "0-" + id + "." + previewDomain, "99999-" + id + "." + previewDomain,
		port + "-" + id + ".evil.test", port + "-short." + previewDomain,
	} {
		s.do(t, "GET", "/", "", host(name)).wantError(t, 403, "permission_denied", "")
	}
	s.do(t, "GET", "/", "", host(u.Host), noKey).wantError(t, 401, "unauthenticated", "")
	s.do(t, "GET", "/", "", host(u.Host), header("Authorization", "Bearer "+bobKey)).wantError(t, 404, "not_found", "")
	s.do(t, "TRACE", "/", "", host(u.Host)).wantError(t, 405, "method_not_allowed", "")
}

// Development servers refuse hosts and origins that they do not know, so they see their
// own, and a redirect there leads the browser back to the preview.
func TestPreviewsOfServersThatCheckTheirHost(t *testing.T) {
	picky := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(r.Host, ":")
		if origin := r.Header.Get("Origin"); name != "localhost" || origin != "" && origin != "http://"+r.Host {
			http.Error(w, "Blocked request. "+r.Host+" "+origin, http.StatusForbidden)
			return
		}
		if r.URL.Path == "/go" {
			http.Redirect(w, r, "http://"+r.Host+"/there?a=1", http.StatusFound)
			return
		}
		io.WriteString(w, "app")
	})
	for _, original := range []bool{false, true} {
		s := start(t, withDomain, func(o *setup) { o.preview.KeepHost = original })
		path := s.create(t)
		u := parseURL(t, s.preview(t, path, inside(t, picky.ServeHTTP)).URL)
		s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		at := []edit{host(u.Host), header("Origin", "http://"+u.Host), header("Sec-Fetch-Site", "same-origin")}
		if a := s.do(t, "POST", "/", "x", at...); (a.status == 200) == original {
			t.Errorf("original %v: %d %s", original, a.status, a.body)
		}
		if a := s.do(t, "GET", "/go", "", host(u.Host)); !original && a.header.Get("Location") != "http://"+u.Host+"/there?a=1" {
			t.Errorf("redirect: %d %v", a.status, a.header)
		}
	}
}

// TestPreviewOrigins: a page cannot use the cookie of another preview, though
// browsers take the two for one site.
func TestPreviewOrigins(t *testing.T) {
	s := start(t, withDomain)
	path := s.create(t)
	port := inside(t, wsEcho)
	p := s.preview(t, path, port)
	u := parseURL(t, p.URL)
	neighbour := parseURL(t, s.preview(t, s.create(t), port).URL)
	visitor := []edit{noKey, host(u.Host), header("Cookie", "sandkasten_preview="+p.Token)}
	for name, tt := range map[string]struct {
		edits  []edit
		status int
	}{
		"its own page":          {[]edit{header("Origin", "http://"+u.Host), header("Sec-Fetch-Site", "same-origin")}, 426},
		"a program":             {nil, 426},
		"a link":                {[]edit{header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate")}, 426},
		"a neighbour's request": {[]edit{header("Origin", "http://"+neighbour.Host)}, 403},
		"a neighbour's image":   {[]edit{header("Sec-Fetch-Site", "same-site"), header("Sec-Fetch-Mode", "no-cors")}, 403},
		"a sandboxed page":      {[]edit{header("Origin", "null")}, 403},
	} {
		if a := s.do(t, "GET", "/", "", append(visitor, tt.edits...)...); a.status != tt.status {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	// The same for WebSockets, which no browser asks about first.
	for origin, allowed := range map[string]bool{u.Host: true, neighbour.Host: false, "evil.test": false} {
		ws, response, err := s.dialHost(t, u.Host, "/", header("Cookie", "sandkasten_preview="+p.Token), header("Origin", "http://"+origin))
		if allowed && err != nil || !allowed && (err == nil || response.StatusCode != 403) {
			t.Errorf("from %s: %v", origin, err)
		}
		if err == nil {
			say(t, ws, websocket.MessageText, "hello")
			screen(t, ws, "hello")
		}
	}
}

// TestPreviewLink: a browser that follows a link with a token has it in a
// cookie afterwards, and in no address.
func TestPreviewLink(t *testing.T) {
	for name, options := range map[string][]func(*setup){
		"below a path": nil, "at its own host": {withDomain}, "with TLS": {withDomain, func(o *setup) { o.preview.HTTPS = true }},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, options...)
			path := s.create(t)
			p := s.preview(t, path, inside(t, mirror))
			u := parseURL(t, p.URL)
			s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			follow := []edit{host(u.Host), noKey, header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Site", "cross-site")}
			a := s.do(t, "GET", u.Path+"deep/page?a=1&preview_token="+p.Token, "", follow...)
			cookies := a.header["Set-Cookie"]
			if a.status != 303 || a.header.Get("Location") != u.Path+"deep/page?a=1" || len(cookies) != 1 {
				t.Fatalf("%d %v", a.status, a.header)
			}
			secure := strings.HasPrefix(name, "with")
			for attribute, want := range map[string]bool{
				"; Path=" + u.Path + ";": true, "; HttpOnly": true, "; SameSite=Lax": true, "; Max-Age=3": true, "Domain": false, "; Secure": secure,
			} {
				if strings.Contains(cookies[0], attribute) != want {
					t.Errorf("%q in %q is not %v", attribute, cookies[0], want)
				}
			}
			cookie, _, _ := strings.Cut(cookies[0], ";")
			s.do(t, "GET", u.Path, "", append(follow, header("Cookie", cookie))...).into(t, 200, &mirrored{})
			if a := s.do(t, "GET", u.Path+"?preview_token="+p.Token+"x", "", follow...); a.status != 401 || a.header.Get("Set-Cookie") != "" {
				t.Errorf("a wrong token: %d %v", a.status, a.header)
			}
		})
	}
	// The way there is never the way to somebody else.
	s := start(t, withDomain)
	u := parseURL(t, s.preview(t, s.create(t), inside(t, mirror)).URL)
	s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, target := range []string{"//evil.test/", "/%5C/evil.test", "/\\evil.test"} {
		a := s.do(t, "GET", target+"?"+u.RawQuery, "", host(u.Host), noKey, header("Sec-Fetch-Mode", "navigate"))
		location := a.header.Get("Location")
		if a.status != 303 || strings.HasPrefix(location, "//") || strings.HasPrefix(location, `/\`) {
			t.Errorf("%s: %d to %q", target, a.status, location)
		}
	}
}

// rawServer answers with the request lines that it got, and with 101 to who asks for it.
func rawServer(t *testing.T) (port string) {
	return raw(t, func(c net.Conn) {
		from := bufio.NewReader(c)
		line, err := from.ReadString('\n')
		upgrade := false
		for err == nil {
			var field string
			if field, err = from.ReadString('\n'); strings.TrimSpace(field) == "" {
				break
			}
			upgrade = upgrade || strings.HasPrefix(strings.ToLower(field), "upgrade:")
		}
		line = strings.TrimSpace(line)
		if upgrade {
			fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Line: %s\r\n\r\n", line)
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Line: %s\r\nContent-Length: 0\r\n\r\n", line)
	})
}

// TestPathsAndQueriesPassAsTheyCame has a server inside see what its client wrote, below a
// path and at a host of its own, with and without a WebSocket.
func TestPathsAndQueriesPassAsTheyCame(t *testing.T) {
	s := start(t, withDomain)
	path := s.create(t)
	port := rawServer(t)
	p := s.preview(t, path, port)
	for _, target := range []string{
		"/", "/x?flag&style=a;b&import", "/a%2Fb?", "/%zz", "/100%", "/a//b", "//a/{b}/%zz?x", "/a/../../../../b/./c", "/%2e%2e/x", "/{a}|b?c={d}&%zz", "/ä",
	} {
		for name, at := range map[string]struct{ host, prefix string }{
			"by path": {parseURL(t, s.URL).Host, path + "/ports/" + port}, "by host": {parseURL(t, p.URL).Host, ""},
		} {
			for kind, more := range map[string]string{"request": "", "WebSocket": "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
				line := "GET " + target + " HTTP/1.1"
				query := "?"
				if strings.Contains(target, "?") {
					query = "&"
				}
				for _, credential := range []struct{ header, query string }{{"X-Preview-Token: " + p.Token + "\r\n", ""}, {"", query + "preview_token=" + p.Token}} {
					if strings.HasSuffix(target, "?") && credential.query != "" {
						continue
					}
					head := "GET " + at.prefix + target + credential.query + " HTTP/1.1\r\nHost: " + at.host + "\r\n" + credential.header + more + "\r\n"
					answer := s.say(t, head)
					if got := answer.Header.Get("X-Line"); got != line {
						t.Errorf("%s, %s: %q arrives as %q, with status %d", name, kind, line, got, answer.StatusCode)
					}
				}
			}
		}
	}
}

// say sends a request as it is written, and returns the head of its answer.
func (s *server) say(t *testing.T, head string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer
}

// TestOnlyWhatIsBehindAPortIsLeftAlone: the daemon's own paths are as strict as ever.
func TestOnlyWhatIsBehindAPortIsLeftAlone(t *testing.T) {
	s := start(t)
	path := s.create(t)
	port := rawServer(t)
	for _, target := range []string{
		"/v1/../v1/info", "/v1//info", "/v1/%zz", "/v1/sessions/../ports/80/x", "/v1/sessions//ports/80/x", path + "/ports/" + port + "/../x/", path + "/./ports/" + port + "/x/",
		path + "/ports/../ports/" + port + "/x",
	} {
		answer := s.say(t, "GET "+target+" HTTP/1.1\r\nHost: "+parseURL(t, s.URL).Host+"\r\nAuthorization: Bearer "+aliceKey+"\r\n\r\n")
		isBehind := strings.HasPrefix(target, path+"/ports/"+port+"/")
		if line := answer.Header.Get("X-Line"); isBehind != (line != "") || !isBehind && answer.StatusCode != 404 && answer.StatusCode != 400 {
			t.Errorf("%s: %d, and the server inside sees %q", target, answer.StatusCode, line)
		}
	}
	// A link with a token is not followed out of the prefix.
	p := s.preview(t, path, port)
	for rest, want := range map[string]string{"/a": path + "/ports/" + port + "/a", "/../../../x": "", "/%2e%2e/x": ""} {
		answer := s.say(t, "GET "+path+"/ports/"+port+rest+"?preview_token="+p.Token+" HTTP/1.1\r\nHost: "+parseURL(t, s.URL).Host+"\r\nSec-Fetch-Mode: navigate\r\n\r\n")
		if got := answer.Header.Get("Location"); got != want {
			t.Errorf("a link to %s leads to %q", rest, got)
		}
	}
}
