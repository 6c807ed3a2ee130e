package v1_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// inside starts an HTTP server in the sandbox of every session, which is the
// host itself with the local driver, and returns its port.
func inside(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// mirror answers with what it was asked.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	json.NewEncoder(w).Encode(mirrored{r.Method, r.RequestURI, r.Host, r.Header, string(body)})
}

type mirrored struct {
	Method, URI, Host string
	Header            http.Header
	Body              string
}

// raw is a server that speaks whatever it likes to one connection after the
// other. It returns its port.
func raw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestPorts(t *testing.T) {
	s := start(t)
	path := s.create(t)
	port := inside(t, mirror)
	var ports []v1.Port
	s.do(t, "GET", path+"/ports", "").into(t, 200, &ports)
	for _, p := range ports {
		if fmt.Sprint(p.Port) != port {
			continue
		}
		if want := s.URL + path + "/ports/" + port + "/"; p.URL != want || p.Address != "127.0.0.1" || !p.Loopback {
			t.Errorf("%+v, want the URL %s", p, want)
		}
		return
	}
	t.Errorf("no port %s in %+v", port, ports)
}

func TestPortProxy(t *testing.T) {
	s := start(t)
	path := s.create(t)
	base := path + "/ports/" + inside(t, mirror)
	for _, tt := range []struct{ method, path, uri, body string }{
		{"GET", "/", "/", ""},
		{"GET", "/a/b?c=d&e=%2F", "/a/b?c=d&e=%2F", ""},
		{"GET", "/a%2Fb/%C3%A4/", "/a%2Fb/%C3%A4/", ""},
		{"POST", "/x", "/x", "hello"},
		{"PUT", "/x", "/x", strings.Repeat("long ", 1<<16)},
		{"PATCH", "/x", "/x", "p"},
		{"DELETE", "/x", "/x", ""},
		{"OPTIONS", "/x", "/x", ""},
		{"PROPFIND", "/x", "/x", ""},
	} {
		var got mirrored
		s.do(t, tt.method, base+tt.path, tt.body).into(t, 200, &got)
		if got.Method != tt.method || got.URI != tt.uri || got.Body != tt.body {
			t.Errorf("%s %s: %s %s with %d bytes", tt.method, tt.path, got.Method, got.URI, len(got.Body))
		}
		if got.Header.Get("X-Forwarded-Prefix") != base || got.Header.Get("X-Forwarded-Proto") != "http" || "http://"+got.Host != s.URL {
			t.Errorf("%s at %s", got.Header, got.Host)
		}
	}
	if a := s.do(t, "HEAD", base+"/", ""); a.status != 200 || len(a.body) != 0 {
		t.Errorf("HEAD: %d with %d bytes", a.status, len(a.body))
	}
}

// TestEarlyAnswers: a server answers as soon as it has the last byte of a request,
// which may be before the proxy has seen that it was the last.
func TestEarlyAnswers(t *testing.T) {
	s := start(t, quiet)
	path := s.create(t)
	port := inside(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for range 20 {
			io.WriteString(w, "part ")
			http.NewResponseController(w).Flush()
		}
	})
	for range 1000 {
		response := s.open(t, "POST", path+"/ports/"+port+"/", strings.NewReader("the request"))
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || len(text) != 20*len("part ") {
			t.Fatalf("%q, %v", text, err)
		}
	}
}

func TestPortRefused(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for port, field := range map[string]string{"0": "port", "65536": "port", "-1": "port", "80@evil": "port", "x": "port", "080": "port"} {
		s.do(t, "GET", path+"/ports/"+port+"/", "").wantError(t, 400, "invalid_argument", field)
	}
	port := inside(t, mirror)
	base := path + "/ports/" + port + "/"
	s.do(t, "TRACE", base, "").wantError(t, 405, "method_not_allowed", "")
	s.do(t, "GET", base, "", header("Service-Worker", "script")).wantError(t, 403, "permission_denied", "")
	s.do(t, "GET", base, "", header("Authorization", "Bearer "+bobKey)).wantError(t, 404, "not_found", "")
	s.do(t, "GET", base, "", header("Authorization", "")).wantError(t, 401, "unauthenticated", "")
	s.do(t, "GET", "/v1/sessions/"+strings.Repeat("a", 26)+"/ports/80/", "").wantError(t, 404, "not_found", "")
	for _, rest := range []string{"//x", "/..%2f..%2fx"} { // which are the server's to refuse
		var got mirrored
		if s.do(t, "GET", path+"/ports/"+port+rest, "").into(t, 200, &got); got.URI != rest {
			t.Errorf("%s arrives as %s", rest, got.URI)
		}
	}
	s.do(t, "DELETE", path, "")
	s.do(t, "GET", base, "").wantError(t, 409, "conflict", "")
}

// TestBrokenServers: whatever a server in a sandbox does, the client gets an
// answer that says whose fault it is.
func TestBrokenServers(t *testing.T) {
	s := start(t)
	path := s.create(t)
	// readHead waits for the request, so that what follows is an answer.
	readHead := func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			t.Error(err)
		}
	}
	says := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			readHead(c)
			io.WriteString(c, text)
		}
	}
	endless := func(first, again string) func(net.Conn) {
		return func(c net.Conn) {
			readHead(c)
			_, err := io.WriteString(c, first)
			for err == nil {
				_, err = io.WriteString(c, again)
			}
		}
	}
	for name, tt := range map[string]struct {
		serve  func(net.Conn)
		status int
		code   string
	}{
		"closes at once":       {func(net.Conn) {}, 502, "bad_gateway"},
		"closes after reading": {readHead, 502, "bad_gateway"},
		"speaks no HTTP":       {says("220 smtp\r\n"), 502, "bad_gateway"},
		"half a header":        {says("HTTP/1.1 200 OK\r\nA: "), 502, "bad_gateway"},
		"switches unasked":     {says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), 502, "bad_gateway"},
		"two lengths":          {says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), 502, "bad_gateway"},
		"negative length":      {says("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nxx"), 502, "bad_gateway"},
		"endless header":       {endless("HTTP/1.1 200 OK\r\n", "A: "+strings.Repeat("x", 1000)+"\r\n"), 502, "bad_gateway"},
		"endless header line":  {endless("HTTP/1.1 200 OK\r\nA: ", strings.Repeat("x", 1000)), 502, "bad_gateway"},
		"endless 1xx":          {endless("", "HTTP/1.1 103 Early Hints\r\nSet-Cookie: a=b\r\n\r\n"), 502, "bad_gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.do(t, "GET", path+"/ports/"+raw(t, tt.serve)+"/", "")
			a.wantError(t, tt.status, tt.code, "")
		})
	}
	a := s.do(t, "GET", fmt.Sprintf("%s/ports/%d/", path, testenv.UnusedPort(t)), "")
	a.wantError(t, 502, "bad_gateway", "")
	if !strings.Contains(string(a.body), "nothing listens") {
		t.Errorf("%s", a.body)
	}
}

func TestSilentServers(t *testing.T) {
	s := start(t, func(o *setup) { o.preview.AnswerTimeout = 50 * time.Millisecond })
	path := s.create(t)
	port := raw(t, func(c net.Conn) { io.Copy(io.Discard, c) }) // until the daemon gives up
	s.do(t, "GET", path+"/ports/"+port+"/", "").wantError(t, 504, "gateway_timeout", "")

	s = start(t, func(o *setup) { o.preview.IdleTimeout = 2 * time.Second })
	path = s.create(t)
	port = raw(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nbegun") // unasked, which changes nothing
		io.Copy(io.Discard, c)
	})
	response := s.open(t, "GET", path+"/ports/"+port+"/", nil)
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("an answer without an end has one: %q", body)
	}
}

// TestBrokenBodies: an answer that is cut off is not a whole one.
func TestBrokenBodies(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nshort\r\n",
	} {
		port := raw(t, func(c net.Conn) {
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, text)
		})
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path+"/ports/"+port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-Key", aliceKey)
		response, err := s.Client().Do(r)
		if err != nil {
			continue // it broke off before anything was sent
		}
		if body, err := io.ReadAll(response.Body); err == nil {
			t.Errorf("%q: whole, with %q", text, body)
		}
		response.Body.Close()
	}
}

// TestSmuggling sends requests that two parsers may cut differently. Whatever
// the daemon makes of them, the server inside sees one request for each, for
// none of its connections is used twice.
func TestSmuggling(t *testing.T) {
	s := start(t)
	path := s.create(t)
	var seen atomic.Int32
	port := inside(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/smuggled" {
			t.Error("a smuggled request arrived")
		}
		if r.Header.Get("Transfer-Encoding") != "" || r.Header.Get("Keep-Alive") != "" || !r.Close {
			t.Errorf("hop-by-hop headers arrived: %v", r.Header)
		}
		seen.Add(1)
		io.Copy(io.Discard, r.Body)
	})
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	head := fmt.Sprintf("POST %s/ports/%s/ HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\nConnection: close\r\n", path, port, s.Listener.Addr(), aliceKey)
	for name, rest := range map[string]string{
		"length and chunks":    fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", len(smuggled)+5, smuggled),
		"two lengths":          fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n%s", len(smuggled), smuggled),
		"space before colon":   "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"two encodings":        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + smuggled,
		"odd encoding":         "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
		"folded":               "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"named in Connection":  "Connection: X-Api-Key, Content-Length\r\nContent-Length: 0\r\n\r\n" + smuggled,
		"an upgrade to HTTP/2": "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nContent-Length: 0\r\n\r\n" + smuggled,
	} {
		t.Run(name, func(t *testing.T) {
			before := seen.Load()
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, head+rest); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(c)
			if err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
				t.Error(err)
			}
			if n := strings.Count(string(answer), "HTTP/1.1 "); n != 1 {
				t.Errorf("%d answers: %q", n, answer)
			}
			if n := seen.Load() - before; n > 1 {
				t.Errorf("%d requests arrived", n)
			}
		})
	}
}

// endless is n bytes.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	z.left -= n
	return int(n), nil
}

// TestBigBodies: they go through in constant memory, in both directions.
func TestBigBodies(t *testing.T) {
	const size, most = 100 << 20, 40 << 20
	s := start(t)
	path := s.create(t)
	port := inside(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if r.Method == "POST" {
			fmt.Fprint(w, n, err)
			return
		}
		io.Copy(w, &zeros{size})
	})
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	grown := func() {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		if now.HeapAlloc > before.HeapAlloc+most {
			t.Errorf("%d MiB of memory for one body", (now.HeapAlloc-before.HeapAlloc)>>20)
		}
	}
	began := time.Now()
	up := s.open(t, "POST", path+"/ports/"+port+"/", &zeros{size})
	told, err := io.ReadAll(up.Body)
	if err := firstOf(err, up.Body.Close()); err != nil || string(told) != fmt.Sprint(int64(size), " <nil>") {
		t.Errorf("up: %q, %v", told, err)
	}
	t.Logf("up: %.0f MB/s", size/1e6/time.Since(began).Seconds())
	grown()
	began = time.Now()
	down := s.open(t, "GET", path+"/ports/"+port+"/", nil)
	defer down.Body.Close()
	var got int64
	for {
		n, err := io.CopyN(io.Discard, down.Body, 10<<20)
		got += n
		grown()
		if err != nil {
			break
		}
	}
	if got != size {
		t.Errorf("down: %d bytes", got)
	}
	t.Logf("down: %.0f MB/s", size/1e6/time.Since(began).Seconds())
}

// TestStreams: each event arrives before the next is sent.
func TestStreams(t *testing.T) {
	s := start(t)
	path := s.create(t)
	next := make(chan struct{})
	port := inside(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	})
	response := s.open(t, "GET", path+"/ports/"+port+"/events", nil)
	defer response.Body.Close()
	for i := range 3 {
		got := make([]byte, len("data: 0\n\n"))
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != fmt.Sprintf("data: %d\n\n", i) {
			t.Fatalf("%q, %v", got, err)
		}
		next <- struct{}{}
	}
}

// wsEcho sends back what it gets.
func wsEcho(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil) // checks Origin against Host, as servers do
	if err != nil {
		return
	}
	defer ws.CloseNow()
	for {
		kind, message, err := ws.Read(r.Context())
		if err != nil {
			return
		}
		if ws.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}

func TestWebSocketProxy(t *testing.T) {
	s := start(t)
	path := s.create(t)
	base := path + "/ports/" + inside(t, wsEcho)
	ws, _, err := s.dial(t, base+"/socket", header("Origin", s.URL))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"hello", strings.Repeat("x", 30_000), ""} {
		say(t, ws, websocket.MessageText, text)
		if _, got, err := ws.Read(t.Context()); string(got) != text || err != nil {
			t.Errorf("%.20q, %v", got, err)
		}
	}
	if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string]edit{
		"another origin": header("Origin", "https://evil.test"),
		"no origin's":    header("Origin", "null"),
		"another site":   header("Sec-Fetch-Site", "cross-site"),
	} {
		if _, response, err := s.dial(t, base+"/socket", edit); err == nil || response.StatusCode != 403 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProxyEndsWithTheSession: nothing goes on when the session is gone.
func TestProxyEndsWithTheSession(t *testing.T) {
	s := start(t)
	path := s.create(t)
	ws, _, err := s.dial(t, path+"/ports/"+inside(t, wsEcho)+"/")
	if err != nil {
		t.Fatal(err)
	}
	say(t, ws, websocket.MessageText, "hello")
	screen(t, ws, "hello")
	s.do(t, "DELETE", path, "")
	for err == nil {
		_, _, err = ws.Read(t.Context())
	}
}

func TestClientsThatVanish(t *testing.T) {
	s := start(t)
	path := s.create(t)
	gone := make(chan struct{})
	port := inside(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	})
	for range 5 {
		response := s.open(t, "GET", path+"/ports/"+port+"/", nil)
		response.Body.Close()
		<-gone
	}
}

func parseURL(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
