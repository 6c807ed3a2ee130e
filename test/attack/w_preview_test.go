package attack

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// previewDomain gives previews hosts of their own.
const previewDomain = "preview: {domain: preview.localhost}"

// serve runs a Python program in the session and returns when it listens on the
// port.
func (b *target) serve(t testing.TB, port int, program string) {
	t.Helper()
	file := fmt.Sprintf("/workspace/server-%d.py", port)
	b.put(t, file, program)
	b.do(t, "POST", b.at("/processes"), map[string]any{"cmd": []string{"python3", file}, "background": true}).refused(t, "start a server", 201)
	for deadline := time.Now().Add(paced(20 * time.Second)); ; time.Sleep(20 * time.Millisecond) {
		if strings.Contains(b.do(t, "GET", b.at("/ports"), nil).body, fmt.Sprintf(`"port":%d,`, port)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing listens on %d: %s", port, b.do(t, "GET", b.at("/processes"), nil).body)
		}
	}
}

// mirror is a server that answers with the request as it came, and appends it
// to a file.
const mirror = `
import socketserver
class H(socketserver.StreamRequestHandler):
    def handle(self):
        text = b""
        while True:
            line = self.rfile.readline()
            text += line
            if line in (b"\r\n", b""): break
        open("/workspace/requests", "ab").write(text)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
class S(socketserver.ThreadingTCPServer): allow_reuse_address = True
S(("127.0.0.1", 8000), H).serve_forever()`

// preview is a token for a port, and the address that it opens.
func (b *target) preview(t testing.TB, port int) (token string, address *url.URL) {
	t.Helper()
	var made struct{ Token, URL string }
	b.do(t, "POST", b.at("/previews"), map[string]any{"port": port}).into(t, &made)
	address, err := url.Parse(made.URL)
	if err != nil {
		t.Fatal(err)
	}
	return made.Token, address
}

// W13: a preview is a port of its own session, by its number and nothing else,
// for who has its key or token.
func TestW13_PreviewTargets(t *testing.T) {
	t.Parallel()
	s := stage(t, previewDomain)
	b, other := s.a.session(t, nil), s.b.session(t, nil)
	b.serve(t, 8000, mirror)
	token, address := b.preview(t, 8000)
	for _, port := range []string{"0", "65536", "-1", "99999999999", "80@evil", "8000@127.0.0.1", "x", "08000", "8000.0", "0x1f40", "+8000", "8000%20", "%38%30%30%30x", "http", "127.0.0.1:8000", "..", "%2e%2e"} {
		s.a.do(t, "GET", b.at("/ports/"+port+"/"), nil).refused(t, "port "+port, 400, 404, 301, 307)
	}
	for _, body := range []string{`{"port":0}`, `{"port":65536}`, `{"port":-1}`, `{"port":"8000"}`, `{"port":8000,"host":"169.254.169.254"}`, `{"port":8000.5}`, `{}`} {
		s.a.do(t, "POST", b.at("/previews"), body).refused(t, body, 400)
	}
	_, own, _ := strings.Cut(strings.TrimPrefix(s.d.URL, "http://"), ":")
	for _, port := range []string{own, "22", "111", fmt.Sprint(s.port)} {
		s.a.do(t, "GET", b.at("/ports/"+port+"/"), nil).refused(t, "the host's port "+port, 502)
	}
	nobody := as(t, s.d, "")
	show := header("X-Preview-Token", token)
	nobody.do(t, "GET", b.at("/ports/8000/"), nil, show).refused(t, "with its token", 200)
	for what, a := range map[string]reply{
		"without one": nobody.do(t, "GET", b.at("/ports/8000/"), nil), "another port": nobody.do(t, "GET", b.at("/ports/8001/"), nil, show),
		"the session": nobody.do(t, "GET", b.at(""), nil, show), "a command": nobody.do(t, "POST", b.at("/exec"), `{"cmd":"true"}`, show), "its ports": nobody.do(t, "GET", b.at("/ports"), nil, show),
		"another's session": nobody.do(t, "GET", other.at("/ports/8000/"), nil, show), "as a key": nobody.do(t, "GET", "/v1/sessions", nil, header("Authorization", "Bearer "+token)),
		"changed": nobody.do(t, "GET", b.at("/ports/8000/"), nil, header("X-Preview-Token", changedEnd(token))), "a tunnel": nobody.do(t, "GET", b.at("/tunnel?port=8000"), nil, show),
		"a new token": nobody.do(t, "POST", b.at("/previews"), `{"port":8000}`, show), "its host, without": nobody.do(t, "GET", "/", nil, toHost(address.Host)),
	} {
		a.refused(t, what, 401)
	}
	s.b.do(t, "GET", b.at("/ports/8000/"), nil).refused(t, "another owner's key", 404)
	s.b.do(t, "GET", "/", nil, toHost(address.Host)).refused(t, "another owner's key at its host", 404)
	for _, host := range []string{
		"0-" + b.id, "65536-" + b.id, "08000-" + b.id, "8000-" + b.id[:25], "8000-" + strings.ToUpper(b.id) + "x", "8000@evil-" + b.id, "8000-" + b.id + ".x", "-1-" + b.id, "8000-..", b.id,
	} {
		s.a.do(t, "GET", "/", nil, toHost(host+".preview.localhost")).refused(t, "host "+host, 400, 403)
	}
	b.end(t)
	nobody.do(t, "GET", b.at("/ports/8000/"), nil, show).refused(t, "after its end", 404, 409)
}

// W14: a server in a session sees nothing of ours, however it came: no key,
// token or cookie, and no address that a client made up.
func TestW14_Credentials(t *testing.T) {
	t.Parallel()
	s := stage(t, previewDomain)
	b := s.a.session(t, nil)
	b.serve(t, 8000, mirror)
	token, address := b.preview(t, 8000)
	onSite, below := toHost(address.Host), b.at("/ports/8000/")
	key := s.a.key
	cookie := header("Cookie", "a=1; sandkasten_preview="+token+"; b=2")
	forged := func(r *http.Request) {
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "X_Forwarded_For", "Proxy-Connection", "X-Forwarded-Anything"} {
			r.Header.Set(name, "6.6.6.6")
		}
		r.Header.Set("Proxy-Authorization", "Basic "+key)
		r.Header.Set("X_api_key", key)
		r.Header.Set("Connection", "X-Forwarded-Prefix, X-Forwarded-Host, Authorization, X-Kept")
	}
	for name, tt := range map[string]struct {
		path  string
		edits []edit
	}{
		"a key": {below, nil}, "another header": {below, []edit{without, header("X-Api-Key", key)}}, "a token": {below, []edit{without, header("X-Preview-Token", token)}},
		"a token and a key": {below, []edit{header("X-Preview-Token", token)}}, "a query": {below + "?a=1&preview_token=" + token, []edit{without}}, "a query twice": {below + "?preview_token=" + token + "&preview_token=" + token, []edit{without}},
		"a referer": {below, []edit{header("Referer", "http://"+address.Host+"/page?x=1&preview_token="+token+"#preview_token="+token)}}, "an escaped referer": {below, []edit{header("Referer", "/page?preview%5Ftoken="+token)}},
		"an escaped query": {below + "?preview%5Ftoken=" + token + "&preview_token=" + token, []edit{without}}, "a cookie": {below, []edit{without, cookie}}, "forged": {below, []edit{forged}},
		"its host, a key": {"/", []edit{onSite}}, "its host, a cookie": {"/x?y=z", []edit{onSite, without, cookie}}, "its host, a query": {"/?preview_token=" + token, []edit{onSite, without}}, "its host, forged": {"/", []edit{onSite, forged}},
		"a WebSocket": {below, []edit{header("Connection", "Upgrade"), header("Upgrade", "websocket"), header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="), header("Sec-WebSocket-Version", "13")}},
	} {
		a := s.a.do(t, "GET", tt.path, nil, tt.edits...)
		a.refused(t, name, 200)
		for _, secret := range []string{key, token, s.b.key, "6.6.6.6", "sandkasten_preview", "preview_token", "preview%5Ftoken"} {
			if strings.Contains(a.body, secret) {
				t.Errorf("%s: the server got %q:\n%s", name, secret, a.body)
			}
		}
	}
	// Nothing of it came by another way: what programs and files are given.
	a := b.run(t, "cat requests; env; set; cat /proc/self/environ; echo END")
	for _, secret := range []string{key, token, s.b.key} {
		if strings.Contains(a.Output, secret) || !strings.Contains(a.Output, "END") {
			t.Errorf("the session has %q", secret)
		}
	}
}

// reachingServer answers with headers that reach for more than its page.
const reachingServer = `
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        for name, value in [("Set-Cookie", "a=1; Domain=.localhost; Path=/"), ("Set-Cookie", "sandkasten_preview=stolen; Path=/"), ("Set-Cookie", "=sandkasten_preview=stolen"),
            ("Set-Cookie", "b=2; Domain=127.0.0.1; Path=/v1"), ("Clear-Site-Data", '"*"'), ("Service-Worker-Allowed", "/"), ("Strict-Transport-Security", "max-age=99999; includeSubDomains"),
            ("Alt-Svc", 'h3="evil.test:443"'), ("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Credentials", "true"), ("Content-Security-Policy", "sandbox allow-same-origin allow-scripts"),
            ("X-Request-Id", "forged"), ("Public-Key-Pins", "x"), ("NEL", "{}"), ("Report-To", "{}"), ("Content-Type", "text/html")]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"<script>fetch('/v1/sessions'); navigator.serviceWorker.register('/sw.js', {scope: '/'}); parent.postMessage(document.cookie, '*')</script>")
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()`

// W15: a page sets and gets nothing beyond its own host, and below a path of
// the API it has no origin; no page of ours can be put into one of its frames.
func TestW15_ReachingPages(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"below a path": "", "at its own host": previewDomain} {
		t.Run(name, func(t *testing.T) { reachingPages(t, name, config) })
	}
}

func reachingPages(t *testing.T, name, config string) {
	s := stage(t, config)
	b := s.a.session(t, nil)
	b.serve(t, 8000, reachingServer)
	var edits []edit
	path := b.at("/ports/8000/")
	if config != "" {
		_, address := b.preview(t, 8000)
		path, edits = "/", []edit{toHost(address.Host)}
	}
	a := s.a.do(t, "GET", path, nil, edits...)
	a.refused(t, name, 200)
	for _, gone := range []string{"Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "Alt-Svc", "Access-Control-Allow-Credentials", "Public-Key-Pins", "NEL", "Report-To"} {
		if value := a.header.Get(gone); value != "" {
			t.Errorf("%s: %s: %s", name, gone, value)
		}
	}
	for _, cookie := range a.header["Set-Cookie"] {
		if strings.Contains(strings.ToLower(cookie), "domain") || strings.Contains(cookie, "sandkasten_preview") || config == "" && !strings.Contains(cookie, "Path="+path) {
			t.Errorf("%s: cookie %s", name, cookie)
		}
	}
	policy := a.header["Content-Security-Policy"]
	if last := policy[len(policy)-1]; config == "" && (!strings.HasPrefix(last, "sandbox") || strings.Contains(last, "same-origin")) {
		t.Errorf("%s: policy %q", name, policy)
	}
	if a.header.Get("X-Request-Id") == "forged" {
		t.Errorf("%s: the server chooses the request's id", name)
	}
	// Browsers ask for a worker's script with this header.
	s.a.do(t, "GET", path, nil, append(edits, header("Service-Worker", "script"))...).refused(t, name+": a service worker", map[bool]int{true: 403, false: 200}[config == ""])
	docs := s.a.do(t, "GET", "/docs/", nil)
	if !strings.Contains(docs.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Errorf("pages of ours can be framed: %v", docs.header)
	}
}

// floodingServer misbehaves as the path says.
const floodingServer = `
import socketserver
class H(socketserver.StreamRequestHandler):
    def handle(self):
        path = self.rfile.readline().split()[1]
        while self.rfile.readline() not in (b"\r\n", b""): pass
        w = self.wfile.write
        try:
            if path == b"/headers":
                w(b"HTTP/1.1 200 OK\r\n")
                for i in range(1000000): w(b"X-%d: y\r\n" % i)
                w(b"\r\nall")
            elif path == b"/line":
                w(b"HTTP/1.1 200 OK\r\nX: ")
                while True: w(b"x" * 65536)
            elif path == b"/early":
                while True: w(b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n")
            elif path == b"/body":
                w(b"HTTP/1.1 200 OK\r\n\r\n")
                while True: w(b"x" * 65536)
            elif path == b"/lengths": w(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx")
            elif path == b"/smtp": w(b"220 hello\r\n")
            elif path == b"/switch": w(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        except OSError: pass
class S(socketserver.ThreadingTCPServer): allow_reuse_address = True; daemon_threads = True
S(("127.0.0.1", 8000), H).serve_forever()`

// W16: requests of other origins and odd methods get nowhere in a preview, and a
// server that floods costs its own client only.
func TestW16_PreviewLimits(t *testing.T) {
	s := stage(t, previewDomain)
	b := s.a.session(t, nil)
	b.serve(t, 8000, floodingServer)
	token, address := b.preview(t, 8000)
	_, neighbour := s.a.session(t, nil).preview(t, 8000)
	visitor := []edit{without, toHost(address.Host), header("Cookie", "sandkasten_preview="+token)}
	upgrade := []edit{header("Connection", "Upgrade"), header("Upgrade", "websocket"), header("Sec-WebSocket-Version", "13"), header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")}
	for _, origin := range []string{"https://evil.test", "null", "http://" + neighbour.Host, "http://localhost"} {
		for _, more := range [][]edit{nil, upgrade, {header("Accept", "text/event-stream")}} {
			edits := append(append(visitor[:3:3], header("Origin", origin)), more...)
			s.a.do(t, "GET", "/none", nil, edits...).refused(t, "from "+origin, 403)
			s.a.do(t, "POST", "/none", "x", edits...).refused(t, "a POST from "+origin, 403)
		}
	}
	for _, method := range []string{"TRACE", "CONNECT"} {
		for _, host := range []string{"localhost", address.Host} {
			status, text := s.a.bare(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", method, map[bool]string{true: "/none", false: b.at("/ports/8000/none")}[host != "localhost"], host, s.a.key), 5*time.Second)
			if status != 405 && status != 400 {
				t.Errorf("%s at %s: %d %s", method, host, status, text)
			}
		}
	}
	before := s.memory(t)
	for _, path := range []string{"headers", "line", "early", "lengths", "smtp", "switch", "nothing"} {
		a := s.a.do(t, "GET", b.at("/ports/8000/"+path), nil)
		a.refused(t, path, 502)
		if a.took > paced(20*time.Second) {
			t.Errorf("%s took %s", path, a.took)
		}
	}
	if a := s.a.do(t, "GET", b.at("/ports/8000/body"), nil); a.status != 200 || len(a.body) != maxAnswer {
		t.Errorf("of an endless body: %d, %d bytes", a.status, len(a.body))
	}
	s.a.do(t, "GET", b.at("/ports/8000/none"), nil, header("X-Long", strings.Repeat("x", 60<<10))).refused(t, "a long header", 431)
	if now := s.memory(t); now > before+100<<20 {
		t.Errorf("the daemon had %d MiB and has %d", before>>20, now>>20)
	}
}

// changedEnd is a token with another end, which one in a thousand has already.
func changedEnd(token string) string {
	if rest, ok := strings.CutSuffix(token, "AA"); ok {
		return rest + "BA"
	}
	return token[:len(token)-2] + "AA"
}
