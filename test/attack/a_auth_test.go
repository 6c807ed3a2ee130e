package attack

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// A01: nothing but one whole key, in one of its headers, is a key, and what is
// wrong with it is not told: by the answer or by its time.
func TestA01_Keys(t *testing.T) {
	s := stage(t, "")
	key := s.a.key
	nobody := as(t, s.d, "")
	set := func(name string, values ...string) edit { return func(r *http.Request) { r.Header[name] = values } }
	wrong := map[string]edit{
		"none": func(*http.Request) {}, "empty": set("Authorization", ""), "a scheme alone": set("Authorization", "Bearer"), "a scheme and a space": set("Authorization", "Bearer "),
		"another scheme": set("Authorization", "Token "+key), "digest": set("Authorization", "Digest "+key), "no scheme": set("Authorization", key),
		"two of it": set("Authorization", "Bearer "+key, "Bearer "+key), "a good one and a bad one": set("Authorization", "Bearer "+key, "Bearer x"),
		"a bad one and a good one": set("Authorization", "Bearer x", "Bearer "+key), "two in one": set("Authorization", "Bearer "+key+", Bearer "+key),
		"both headers":       func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key); r.Header.Set("X-Api-Key", key) },
		"an empty other one": func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key); r.Header.Set("X-Api-Key", "") },
		"cut":                set("Authorization", "Bearer "+key[:len(key)-1]), "longer": set("Authorization", "Bearer "+key+"a"), "before it": set("Authorization", "Bearer a"+key),
		"upper case": set("Authorization", "Bearer "+strings.ToUpper(key)), "quoted": set("Authorization", `Bearer "`+key+`"`), "two spaces": set("Authorization", "Bearer  "+key),
		"a tab": set("Authorization", "Bearer\t"+key), "basic": set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("x:"+key))),
		"long": set("Authorization", "Bearer "+strings.Repeat("k", 20000)), "a wildcard": set("Authorization", "Bearer *"), "null": set("X-Api-Key", "null"),
		"in the query": func(r *http.Request) {
			r.URL.RawQuery = "key=" + key + "&api_key=" + key + "&access_token=" + key + "&token=" + key
		},
		"in a cookie": set("Cookie", "key="+key+"; Authorization="+key+"; sandkasten_preview="+key), "in a proxy's": set("Proxy-Authorization", "Bearer "+key),
		"as a user": func(r *http.Request) { r.URL.User = url.UserPassword(key, key) }, "in the protocol": set("Sec-Websocket-Protocol", "sandkasten, sandkasten.key."+base64.RawURLEncoding.EncodeToString([]byte(key))),
		"another owner's start": set("Authorization", "Bearer "+key[:len(key)/2]+s.b.key[len(key)/2:]),
	}
	for _, path := range []string{"/v1/sessions", "/v1/info", "/metrics", "/v1/sessions/" + strings.Repeat("a", 26), "/v1/sessions/" + strings.Repeat("a", 26) + "/ports/80/"} {
		first := ""
		for name, edit := range wrong {
			a, err := nobody.try(t, "GET", path, nil, edit)
			if err != nil {
				t.Errorf("%s, %s: %v", path, name, err)
				continue
			}
			if a.refused(t, path+", "+name, 401); first == "" {
				first = a.body
			}
			if a.body != first {
				t.Errorf("%s, %s: the answer is %s, for another it was %s", path, name, a.body, first)
			}
		}
	}
	for name, line := range map[string]string{"a NUL": "Bearer " + key + "\x00", "a line": "Bearer " + key + "\r\n folded", "1 MB": "Bearer " + strings.Repeat("k", 1<<20), "CR": "Bearer " + key + "\rX: y"} {
		if status, text := nobody.bare(t, "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: "+line+"\r\n\r\n", 5*time.Second); status != 0 && status != 400 && status != 401 && status != 431 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	for _, name := range []string{"Bearer", "bearer", "BEARER"} {
		nobody.do(t, "GET", "/v1/sessions", nil, set("Authorization", name+" "+key)).refused(t, name, 200)
	}
	s.sameTime(t, nobody)
}

// sameTime compares the time of a key that differs in its last character with
// that of one that differs in all. It finds a comparison that takes
// milliseconds; that there is none at all, internal/auth holds.
func (s *scene) sameTime(t *testing.T, nobody *caller) {
	t.Helper()
	key := s.a.key
	near, far := "Bearer "+key[:len(key)-1]+"0", "Bearer "+strings.Repeat("0", len(key))
	took := map[string][]time.Duration{}
	for range 200 {
		for _, value := range []string{near, far} {
			took[value] = append(took[value], nobody.do(t, "GET", "/v1/info", nil, header("Authorization", value)).took)
		}
	}
	quick := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/10] } // load only ever adds
	if a, b := quick(took[near]), quick(took[far]); max(a, b)-min(a, b) > paced(2*time.Millisecond) {
		t.Errorf("a key that is nearly right takes %s, one that is all wrong %s", a, b)
	}
}

// A08: what the page of another site makes a browser send is refused, and so is
// what was sent to another name than ours: the page cannot read or do anything.
func TestA08_Browsers(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	b := s.a.session(t, nil)
	address := strings.TrimPrefix(s.d.URL, "http://")
	_, port, _ := strings.Cut(address, ":")
	for name, edits := range map[string][]edit{
		"another origin": {header("Origin", "https://evil.test")}, "no origin's": {header("Origin", "null")}, "another port": {header("Origin", "http://127.0.0.1:1")},
		"another scheme and host": {header("Origin", "https://localhost")}, "a name like ours": {header("Origin", "http://"+address+".evil.test")},
		"two": {func(r *http.Request) { r.Header["Origin"] = []string{"http://" + address, "https://evil.test"} }}, "no URL": {header("Origin", "evil")},
		"another site": {header("Sec-Fetch-Site", "cross-site")}, "a sister": {header("Sec-Fetch-Site", "same-site")}, "an unknown one": {header("Sec-Fetch-Site", "x")},
		"a link that is none": {header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Upgrade", "websocket"), header("Connection", "Upgrade")},
	} {
		for _, try := range []struct{ method, path, body string }{
			{"GET", "/v1/sessions", ""},
			{"POST", "/v1/sessions", "{}"},
			{"POST", b.at("/exec"), `{"cmd":"touch done"}`},
			{"DELETE", b.at(""), ""},
			{"GET", b.at("/exec/stream?cmd=touch+done"), ""},
			{"GET", b.at("/fs/watch"), ""},
			{"PUT", b.at("/fs/raw?path=done"), "x"},
			{"GET", "/metrics", ""},
			{"OPTIONS", "/v1/sessions", ""},
		} {
			a := s.a.do(t, try.method, try.path, try.body, edits...)
			a.refused(t, try.method+" "+try.path+" from "+name, 403, 405)
			a.wantNoCORS(t, name)
		}
	}
	for _, origin := range []string{"https://evil.test", "null", "http://evil.test:" + port} {
		upgrade := []edit{header("Connection", "Upgrade"), header("Upgrade", "websocket"), header("Sec-WebSocket-Version", "13"), header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="), header("Origin", origin)}
		for _, path := range []string{b.at("/terminal"), b.at("/tunnel?port=80"), b.at("/ports/80/")} {
			s.a.do(t, "GET", path, nil, upgrade...).refused(t, "a WebSocket from "+origin, 403)
		}
		a := s.a.do(t, "OPTIONS", b.at("/exec"), nil, without, header("Origin", origin), header("Access-Control-Request-Method", "POST"), header("Access-Control-Request-Headers", "authorization"))
		a.wantNoCORS(t, "a preflight")
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		s.a.do(t, "POST", b.at("/exec"), `{"cmd":"touch done"}`, header("Content-Type", kind)).refused(t, "a form as "+kind, 415, 400)
	}
	for _, host := range []string{
		"evil.test", "evil.test:" + port, "127.0.0.1.nip.io:" + port, "localhost.evil.test", "evil.localhost:" + port, "localhost.:" + port, "127.0.0.1.:" + port,
		"10.0.0.1", "169.254.169.254", "[::2]:" + port, "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "user@localhost", "localhost@evil.test", "metadata.google.internal", "localhost%00.evil.test",
	} {
		for _, path := range []string{"/v1/sessions", "/healthz", "/docs/", b.at("/ports/80/")} {
			a, err := s.a.try(t, "GET", path, nil, toHost(host))
			if err != nil {
				continue // no request can have it
			}
			a.refused(t, path+" of "+host, 400, 403, 421)
			a.wantNoCORS(t, host)
		}
	}
	// Nothing of this was done, and a program's request still is.
	if got := b.sh(t, "ls"); got != "" {
		t.Errorf("a page has made %q", got)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]:" + port, "LOCALHOST:" + port} {
		s.a.do(t, "GET", "/v1/info", nil, toHost(host)).refused(t, "its own name "+host, 200)
	}
}

// wantNoCORS fails the test for an answer that a page may read.
func (a reply) wantNoCORS(t testing.TB, what string) {
	t.Helper()
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s: %s: %s", what, name, a.header.Get(name))
		}
	}
}

// wantPublic fails the test for the answer to a stranger that says anything of this
// daemon, or that is another for who has a key.
func (b *target) wantPublic(t testing.TB, path string, a reply) {
	t.Helper()
	a.wantNoCORS(t, path)
	if with := b.do(t, "GET", path, nil); a.status != 200 || a.body != with.body || len(a.header.Values("Set-Cookie")) > 0 {
		t.Errorf("%s: %d, and it is another with a key or sets a cookie: %v", path, a.status, a.header)
	}
	for what, secret := range map[string]string{"the key": b.key, "a session": b.id, "the address": strings.TrimPrefix(b.d.URL, "http://")} {
		if strings.Contains(a.body, secret) {
			t.Errorf("%s has %s", path, what)
		}
	}
}

// A11: headers and paths that some servers take for others are what they are,
// and nothing for debugging listens in public.
func TestA11_OddPaths(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	b := s.a.session(t, nil)
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "_method"} {
		s.a.do(t, "GET", b.at(""), nil, header(name, "DELETE")).refused(t, name, 200)
		s.a.do(t, "POST", b.at("/heartbeat"), nil, header(name, "DELETE")).refused(t, name, 200, 204)
	}
	for _, name := range []string{"X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Path", "X-Forwarded-Host", "X-Host", "Forwarded"} {
		a := as(t, s.d, "").do(t, "GET", "/healthz", nil, header(name, b.at("")))
		if a.status != 200 || strings.Contains(a.body, b.id) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	nobody := as(t, s.d, "")
	for _, path := range []string{
		"//v1/sessions", "/v1//sessions", "/v1/..;/admin", "/v1/./sessions", "/v1/sessions/", "/v1/sessions;x", "/v1%2fsessions", "/V1/sessions", "/v1/sessions.json", "/healthz/../v1/sessions",
		"/healthz/..%2fv1/sessions", "/healthz%2f..%2fv1%2fsessions", "/docs/../v1/sessions", "/docs/..%2f..%2fetc%2fpasswd", "/docs/%2e%2e/%2e%2e/etc/passwd", "/docs//etc/passwd", "/docs/index.html/../../v1/info",
	} {
		a, err := nobody.try(t, "GET", path, nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		a.refused(t, path+" without a key", 400, 401, 404) // and not sent elsewhere: who judged the path has judged that one
		if strings.Contains(a.body, "root:") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	for _, path := range []string{
		"/debug/pprof", "/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/debug/requests", "/.git/config", "/.env", "/config", "/sandkasten.yaml", "/api_key", "/admin", "/server-status", "/actuator", "/swagger.json", "/v2/", "/v1", "/assets/", "/assets/..%2findex.html", "/sessions/a/b", "/images/x", "/index.html",
	} {
		s.a.do(t, "GET", path, nil).refused(t, path, 404)
	}
	nobody.do(t, "GET", "/metrics", nil).refused(t, "/metrics without a key", 401)
	for _, path := range []string{"/docs/", "/docs/reference.html", "/docs/configuration.html", "/docs/search.json", "/docs/try.js", "/openapi.json"} {
		a := nobody.do(t, "GET", path, nil, header("Origin", "https://evil.test"), header("Cookie", "sandkasten_session=x"))
		b.wantPublic(t, path, a)
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			nobody.do(t, method, path, "{}").refused(t, method+" "+path, 401, 403, 405)
		}
	}
	for _, method := range []string{"TRACE", "CONNECT", "TRACK", "PROPFIND", "DEBUG", "get", "POST\t", strings.Repeat("M", 1000)} {
		status, rest := s.a.bare(t, fmt.Sprintf("%s /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nX-Secret: echoed\r\nConnection: close\r\n\r\n", method, s.a.key), 3*time.Second)
		if status/100 != 4 && status != 501 && status != 0 || strings.Contains(rest, "echoed") {
			t.Errorf("%.20q: %d %s", method, status, rest)
		}
	}
	if got := b.sh(t, "echo alive"); got != "alive\n" {
		t.Errorf("the session says %q", got)
	}
}
