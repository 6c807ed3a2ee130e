package attack

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/docs"
	"github.com/sandkasten/sandkasten/internal/api/console"
	"github.com/sandkasten/sandkasten/internal/api/site"
)

// otherPages is what a browser says of requests that other pages than the console's make
// it send with the console's cookie. A port beside ours and a preview are of the same
// site, so that for them SameSite keeps no cookie back.
func (s *scene) otherPages(preview string) map[string][]edit {
	from := func(origin, site, mode string) []edit {
		return []edit{header("Origin", origin), header("Sec-Fetch-Site", site), header("Sec-Fetch-Mode", mode)}
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(s.d.URL, "http://"), ":")
	return map[string][]edit{
		"a fetch of another site":                from("https://evil.test", "cross-site", "cors"),
		"a fetch of text":                        append(from("https://evil.test", "cross-site", "no-cors"), header("Content-Type", "text/plain")),
		"a form of another site":                 append(from("https://evil.test", "cross-site", "navigate"), header("Content-Type", "application/x-www-form-urlencoded")),
		"a sandboxed page":                       from("null", "cross-site", "cors"),
		"a page that hides its origin":           {header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors")},
		"a port beside ours":                     from("http://"+host+":1", "same-site", "cors"),
		"a preview":                              from(preview, "same-site", "cors"),
		"a browser that tells the origin only":   {header("Origin", "https://evil.test")},
		"a name that begins with ours":           {header("Origin", s.d.URL+".evil.test")},
		"another scheme, which a preview may be": from("https://"+host, "cross-site", "cors"),
	}
}

// briefly is the visitor with a client that gives up on what does not end, as a stream
// that was opened.
func (v visitor) briefly() visitor {
	short, client := *v.caller, *v.http
	client.Timeout = paced(3 * time.Second)
	short.http = &client
	return visitor{&short, v.cookie, v.token}
}

// upgrade asks for a WebSocket.
func upgrade(r *http.Request) {
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} {
		r.Header.Set(name, value)
	}
}

// socket is the bare request for a WebSocket by a page of an origin. The client of the
// others waits for the end of one that is opened.
func (v visitor) socket(path, origin string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(v.d.URL, "http://") + "\r\nCookie: " + v.cookie + "\r\nOrigin: " + origin +
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
}

// A22: no page but the console's own reads or steers with its cookie, and none signs a
// browser in or out: by a form, a fetch, a stream or a socket, even if it knows the token.
func TestA22_ForeignPages(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon+"\n"+previewDomain)
	s.newUser(t, "seen")
	s.newUser(t, "thief")
	v := s.signIn(t, "seen").briefly()
	b := v.session(t)
	preview := "http://8000-" + path.Base(b) + ".preview.localhost"
	own := []edit{v.shows, header("Origin", s.d.URL), header("Sec-Fetch-Site", "same-origin")}
	for page, edits := range s.otherPages(preview) {
		for _, with := range []edit{v.shows, v.sends} {
			if !v.wantNothing(t, b, page, append([]edit{with}, edits...)) {
				return // what was opened takes its time
			}
		}
	}
	for _, try := range []struct{ method, path, body string }{
		{"POST", b + "/exec", `{"cmd":"touch forged"}`},
		{"POST", "/v1/auth/sign-out", ""},
		{"GET", b + "/exec/stream?cmd=touch+forged", ""},
	} {
		v.do(t, try.method, try.path, try.body, v.shows).refused(t, "what says nothing of its page, "+try.path, 403)
	}
	v.do(t, "GET", b+"/fs/read?path=forged", nil, v.shows).refused(t, "what was forged", 404)
	v.do(t, "GET", "/v1/auth/session", nil, own...).refused(t, "the console", 200)
	v.do(t, "GET", "/v1/events", nil, own...).refused(t, "the console's stream", 200)
	if status, text := v.bare(t, v.socket(b+"/terminal", s.d.URL), paced(10*time.Second)); status != 101 {
		t.Errorf("the console's terminal: %d %s", status, text)
	}
	v.do(t, "DELETE", b, nil, append(own, v.sends)...).refused(t, "what the console sends", 200)
	for _, name := range []string{"seen", "thief"} {
		s.admin(t).do(t, "DELETE", "/v1/users/"+name, nil).refused(t, "delete the user", 200)
	}
}

// wantNothing tries all that a page may want. It reports whether everything was refused.
func (v visitor) wantNothing(t *testing.T, b, page string, edits []edit) bool {
	t.Helper()
	thief := fmt.Sprintf(`{"name":"thief","password":%q}`, userPassword)
	socket := append(slices.Clone(edits), upgrade)
	for _, try := range []struct {
		method, path, body string
		edits              []edit
	}{
		{"GET", "/v1/events", "", edits},
		{"GET", "/v1/auth/session", "", edits},
		{"GET", b + "/exec/stream?cmd=touch+forged", "", edits},
		{"GET", b + "/fs/watch", "", edits},
		{"GET", b + "/terminal", "", socket},
		{"GET", b + "/tunnel?port=80", "", socket},
		{"POST", b + "/exec", `{"cmd":"touch forged"}`, edits},
		{"PUT", b + "/fs/raw?path=forged", "x", edits},
		{"POST", "/v1/keys", `{"name":"forged"}`, edits},
		{"PATCH", "/v1/users/seen", `{"password":"of the thief"}`, edits},
		{"DELETE", b, "", edits},
		{"POST", "/v1/auth/sign-in", thief, edits},
		{"POST", "/v1/auth/sign-out", "", edits},
		{"POST", "/v1/auth/sign-out?everywhere=true", "", edits},
	} {
		// A link may be followed, and is answered to whom it shows nothing.
		if try.method == "GET" && page == "a form of another site" && try.path != b+"/exec/stream?cmd=touch+forged" && len(try.edits) == len(edits) {
			continue
		}
		a := v.do(t, try.method, try.path, try.body, try.edits...)
		a.refused(t, try.method+" "+try.path+" by "+page, 403, 415)
		a.wantNoCORS(t, page)
		if len(a.header["Set-Cookie"]) > 0 {
			t.Errorf("%s %s by %s sets %q", try.method, try.path, page, a.header["Set-Cookie"])
		}
	}
	return !t.Failed()
}

// A23: no page of another site shows one of ours in a frame, so that nobody is led to
// press what they do not see: neither the console at any of its addresses nor the
// documentation, and whatever else a browser would draw.
func TestA23_Frames(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	pages, err := site.Build(docs.FS, site.Options{})
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"/docs/", "/docs/decisions/", "/?q=a&status=running", "/sessions/x?tab=terminal"}
	for name := range pages {
		paths = append(paths, "/docs/"+name)
	}
	for _, route := range console.New(console.Built()).Routes {
		if _, pattern, _ := strings.Cut(route.Pattern, " "); !strings.HasPrefix(pattern, "/assets/") {
			paths = append(paths, strings.NewReplacer("{$}", "", "{id}", "some-session").Replace(pattern))
		}
	}
	if len(paths) < 60 {
		t.Fatalf("only %q", paths)
	}
	nobody := as(t, s.d, "")
	framed := []edit{header("Sec-Fetch-Dest", "iframe"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Site", "cross-site"), header("Referer", "https://evil.test/")}
	for _, path := range paths {
		for _, method := range []string{"GET", "HEAD"} {
			a := nobody.do(t, method, path, nil, framed...)
			a.refused(t, path, 200)
			a.wantNoFrame(t, method+" "+path)
		}
	}
	for _, path := range []string{"/nothing", "/docs/nothing.html", "/assets/nothing.js", "/v1/auth/session", "/v1/sessions", "/openapi.json", "/healthz"} {
		if a := nobody.do(t, "GET", path, nil, framed...); strings.Contains(a.header.Get("Content-Type"), "html") {
			a.wantNoFrame(t, path)
		}
	}
}

// wantNoFrame fails the test for a page that another may frame, or keep the window of.
func (a reply) wantNoFrame(t testing.TB, what string) {
	t.Helper()
	policies, options := a.header["Content-Security-Policy"], a.header["X-Frame-Options"]
	if len(policies) != 1 || !slices.Contains(strings.Split(policies[0], "; "), "frame-ancestors 'none'") || strings.Count(policies[0], "frame-ancestors") != 1 {
		t.Errorf("%s: the policies are %q", what, policies)
	}
	if !slices.Equal(options, []string{"DENY"}) {
		t.Errorf("%s: X-Frame-Options %q", what, options)
	}
	if opener := a.header.Get("Cross-Origin-Opener-Policy"); opener != "same-origin" {
		t.Errorf("%s: Cross-Origin-Opener-Policy %q", what, opener)
	}
}

// cookieServer answers with the request as it came, and tries to set our cookie.
var cookieServer = strings.Replace(mirror, `Content-Type: text/plain\r\n`,
	`Content-Type: text/plain\r\nSet-Cookie: sandkasten_session=stolen; Path=/\r\nSet-Cookie: __Host-sandkasten_session=stolen; Path=/; Secure\r\nSet-Cookie: SANDKASTEN_SESSION=stolen\r\n`, 1)

// A24: no script reads the cookie of a sign-in, no other site's page has it sent, and it
// opens no port of a session: by path or at a host of its own, as a page, a stream or a
// socket. Programs in a sandbox neither get nor set it.
func TestA24_SessionCookies(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon+"\n"+previewDomain)
	s.newUser(t, "cookies")
	signIn := map[string]any{"name": "cookies", "password": userPassword}
	first := as(t, s.d, "").do(t, "POST", "/v1/auth/sign-in", signIn)
	v := s.signIn(t, "cookies").briefly()
	first.wantCookie(t, "sign in", false)
	v.do(t, "POST", "/v1/auth/sign-in", signIn).wantCookie(t, "sign in again", false)
	s.signIn(t, "cookies").signOut(t).wantCookie(t, "sign out", true)

	var key struct{ Key string }
	s.admin(t).do(t, "POST", "/v1/keys", `{"user":"cookies"}`).into(t, &key)
	b := &target{as(t, s.d, key.Key), path.Base(v.session(t))}
	b.serve(t, 8000, cookieServer)
	_, address := b.preview(t, 8000)
	atHost, own := toHost(address.Host), []edit{header("Origin", s.d.URL), header("Sec-Fetch-Site", "same-origin")}
	for where, edits := range map[string][]edit{"/": {atHost}, b.at("/ports/8000/"): nil, b.at("/ports/8000/deep?a=b"): nil} {
		for how, more := range map[string][]edit{
			"a page": nil, "a page of ours": own, "a link": {header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Site", "none")},
			"a stream": {header("Accept", "text/event-stream")}, "a socket": {upgrade, header("Origin", map[bool]string{true: "http://" + address.Host, false: s.d.URL}[where == "/"])},
		} {
			for _, with := range []edit{v.shows, v.sends} {
				a := v.do(t, "GET", where, nil, slices.Concat([]edit{with}, edits, more)...)
				a.refused(t, where+" with the cookie, as "+how, 401, 403)
			}
		}
	}
	both := func(r *http.Request) { r.Header.Set("Cookie", "kept=1; "+v.cookie+"; __Host-"+v.cookie) }
	_, value, _ := strings.Cut(v.cookie, "=")
	for where, edits := range map[string][]edit{"/": {atHost}, b.at("/ports/8000/"): nil} {
		a := b.do(t, "GET", where, nil, append(edits, both)...)
		a.refused(t, where+" with a key", 200)
		if strings.Contains(a.body, value) || !strings.Contains(a.body, "kept=1") {
			t.Errorf("%s: the server in the sandbox gets %s", where, a.body)
		}
		if set := a.header["Set-Cookie"]; len(set) > 0 {
			t.Errorf("%s: the server in the sandbox sets %q", where, set)
		}
	}
	two := func(r *http.Request) { r.Header.Set("Cookie", v.cookie+"; sandkasten_session=of-a-neighbour") }
	v.do(t, "GET", "/v1/me", nil, two).refused(t, "a cookie beside one that a neighbour set", 401)
	v.do(t, "GET", "/v1/me", nil, v.shows).refused(t, "the cookie itself", 200)
	b.end(t)
	s.admin(t).do(t, "DELETE", "/v1/users/cookies", nil).refused(t, "delete the user", 200)
}

// signOut ends the sign-in.
func (v visitor) signOut(t testing.TB) reply {
	t.Helper()
	a := v.do(t, "POST", "/v1/auth/sign-out", nil, v.sends)
	a.refused(t, "sign out", 200)
	return a
}

// wantCookie fails the test unless the answer sets one cookie, which is for the daemon
// alone, or takes it back.
func (a reply) wantCookie(t testing.TB, what string, gone bool) {
	t.Helper()
	cookies := (&http.Response{Header: a.header}).Cookies()
	if len(cookies) != 1 {
		t.Errorf("%s: sets %q", what, a.header["Set-Cookie"])
		return
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Domain != "" || c.Path != "/" || (c.MaxAge < 0) != gone || c.MaxAge > 31*24*60*60 {
		t.Errorf("%s: the cookie is %s", what, c.Raw)
	}
}
