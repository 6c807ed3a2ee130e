package v1_test

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/api/v1/users"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

const (
	doraName     = "dora"
	doraPassword = "correct horse battery"
)

// visitor is a browser.
type visitor struct{ cookie, token string }

// shows sends what a browser sends by itself.
func (b visitor) shows(r *http.Request) {
	r.Header.Del("Authorization")
	r.Header.Set("Cookie", b.cookie)
}

// sends is shows with what a page of ours adds.
func (b visitor) sends(r *http.Request) {
	b.shows(r)
	r.Header.Set("X-CSRF-Token", b.token)
}

func (s *server) newDora(t *testing.T) {
	t.Helper()
	s.do(t, "POST", "/v1/users", `{"name":"`+doraName+`","email":"dora@example.org","password":"`+doraPassword+`"}`).into(t, 201, &users.User{})
}

func (s *server) signIn(t *testing.T, body string, edits ...edit) visitor {
	t.Helper()
	a := s.do(t, "POST", "/v1/auth/sign-in", body, append([]edit{header("Authorization", "")}, edits...)...)
	var in users.SignedIn
	a.into(t, 200, &in)
	set := (&http.Response{Header: a.header}).Cookies()
	if len(set) != 1 || !set[0].HttpOnly || set[0].SameSite != http.SameSiteStrictMode || set[0].Path != "/" || set[0].Domain != "" || set[0].MaxAge <= 0 {
		t.Fatalf("the cookies are %q", a.header["Set-Cookie"])
	}
	if strings.Contains(string(a.body), set[0].Value) || in.CSRFToken == "" || in.Me == nil {
		t.Errorf("the answer is %s", a.body)
	}
	return visitor{set[0].Name + "=" + set[0].Value, in.CSRFToken}
}

const asDora = `{"name":"dora","password":"correct horse battery"}`

func TestSignInWithCookie(t *testing.T) {
	s := start(t)
	s.newDora(t)
	b := s.signIn(t, asDora)
	var me users.Me
	s.do(t, "GET", "/v1/me", "", b.shows).into(t, 200, &me)
	if me.Owner != "dora" || me.Admin || me.User == nil || me.Key != nil {
		t.Errorf("me is %+v", me)
	}
	var in users.SignedIn
	s.do(t, "GET", "/v1/auth/session", "", b.shows).into(t, 200, &in)
	if !in.SignedIn || in.CSRFToken != b.token {
		t.Errorf("the session is %+v", in)
	}
	in = users.SignedIn{}
	s.do(t, "GET", "/v1/auth/session", "", header("Authorization", "")).into(t, 200, &in)
	if in.SignedIn || in.CSRFToken != "" || len(in.Ways) != 2 {
		t.Errorf("without a cookie: %+v", in)
	}
	s.do(t, "POST", "/v1/keys", `{"name":"x"}`, b.sends).into(t, 201, &users.NewKey{})
	s.do(t, "POST", "/v1/auth/sign-out?everywhere=true", "", b.sends).into(t, 200, &v1.OK{})
	s.do(t, "GET", "/v1/me", "", b.shows).wantError(t, 401, "unauthenticated", "")
}

func TestSignInIsRefused(t *testing.T) {
	s := start(t)
	s.newDora(t)
	nobody := header("Authorization", "")
	for _, body := range []string{`{"name":"dora","password":"wrong password"}`, `{"name":"nobody","password":"wrong password"}`, `{"api_key":"sk_wrong"}`} {
		s.do(t, "POST", "/v1/auth/sign-in", body, nobody).wantError(t, 401, "unauthenticated", "")
	}
	s.do(t, "POST", "/v1/auth/sign-in", `{}`, nobody).wantError(t, 400, "invalid_argument", "name")
	s.do(t, "POST", "/v1/auth/sign-in", `{"name":"dora","password":"x","api_key":"y"}`, nobody).wantError(t, 400, "invalid_argument", "api_key")
	s.do(t, "POST", "/v1/auth/sign-in", asDora, nobody, header("Origin", "https://evil.example")).wantError(t, 403, "permission_denied", "")
	s.do(t, "POST", "/v1/auth/sign-in", asDora, nobody, header("Content-Type", "text/plain")).wantError(t, 415, "unsupported_media_type", "")
	for range 4 {
		s.do(t, "POST", "/v1/auth/sign-in", `{"name":"dora","password":"wrong password"}`, nobody)
	}
	a := s.do(t, "POST", "/v1/auth/sign-in", asDora, nobody)
	a.wantError(t, 429, "resource_exhausted", "")
	if a.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
}

// With a cookie, what acts takes its token too, and a foreign page's request is none of
// ours even with it.
func TestCookieNeedsItsToken(t *testing.T) {
	s := start(t)
	s.newDora(t)
	b := s.signIn(t, asDora)
	upgrade := []edit{header("Connection", "Upgrade"), header("Upgrade", "websocket"), header("Sec-WebSocket-Version", "13"), header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")}
	tests := []struct {
		name, method, path string
		edits              []edit
	}{
		{"no token", "POST", "/v1/sessions", []edit{b.shows}},
		{"wrong token", "POST", "/v1/sessions", []edit{b.shows, header("X-CSRF-Token", "x"+b.token)}},
		{"another header", "POST", "/v1/sessions", []edit{b.shows, header("X-CSRFToken", b.token)}},
		{"foreign origin", "POST", "/v1/sessions", []edit{b.sends, header("Origin", "https://evil.example")}},
		{"foreign page", "POST", "/v1/sessions", []edit{b.sends, header("Sec-Fetch-Site", "cross-site")}},
		{"a link that acts", "GET", "/v1/sessions/x/exec/stream?cmd=id", []edit{b.shows, header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate")}},
		{"a GET that acts", "GET", "/v1/sessions/x/exec/stream?cmd=id", []edit{b.shows}},
		{"a socket of no page", "GET", "/v1/sessions/x/terminal", append([]edit{b.shows}, upgrade...)},
		{"a foreign socket", "GET", "/v1/sessions/x/terminal", append([]edit{b.sends, header("Origin", "https://evil.example")}, upgrade...)},
		{"sign out", "POST", "/v1/auth/sign-out", []edit{b.shows}},
	}
	for _, tt := range tests {
		s.do(t, tt.method, tt.path, "", tt.edits...).wantError(t, 403, "permission_denied", "")
	}
	own := header("Origin", s.URL)
	s.do(t, "GET", "/v1/sessions/x/exec/stream?cmd=id", "", b.shows, own).wantError(t, 404, "not_found", "")
	s.do(t, "GET", "/v1/sessions/x/terminal", "", append(upgrade, b.shows, own)...).wantError(t, 404, "not_found", "")
	s.do(t, "GET", "/v1/me", "", b.shows).into(t, 200, &users.Me{})
}

// A cookie opens no port of a session, not even the owner's own, and goes into none.
func TestCookieStaysOutsideOfSandboxes(t *testing.T) {
	s := start(t)
	s.newDora(t)
	b := s.signIn(t, asDora)
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{}`, b.sends).into(t, 201, &made)
	for _, edits := range [][]edit{{b.shows}, {b.sends, header("Origin", s.URL)}} {
		s.do(t, "GET", "/v1/sessions/"+string(made.ID)+"/ports/80/", "", edits...).wantError(t, 401, "unauthenticated", "")
	}
}

func TestCookieOverTLS(t *testing.T) {
	s := start(t, func(o *setup) { o.api.HTTPS = true })
	s.newDora(t)
	a := s.do(t, "POST", "/v1/auth/sign-in", asDora, header("Authorization", ""))
	c := (&http.Response{Header: a.header}).Cookies()[0]
	if !c.Secure || c.Name != "__Host-sandkasten_session" {
		t.Errorf("the cookie is %s", c.Raw)
	}
	s.do(t, "GET", "/v1/me", "", visitor{cookie: c.Name + "=" + c.Value}.shows).into(t, 200, &users.Me{})
	for _, cookie := range []string{"sandkasten_session=" + c.Value, c.Name + "=" + c.Value + "; " + c.Name + "=x"} {
		s.do(t, "GET", "/v1/me", "", visitor{cookie: cookie}.shows).wantError(t, 401, "unauthenticated", "")
	}
}

// A key that only reads signs a browser in that only reads, and that can sign out.
func TestReadersSignOut(t *testing.T) {
	s := start(t)
	s.newDora(t)
	key := s.newKey(t, `{"user":"dora","scope":"read"}`)
	b := s.signIn(t, `{"api_key":"`+key.Text+`"}`)
	s.do(t, "POST", "/v1/sessions", `{}`, b.sends).wantError(t, 403, "permission_denied", "")
	s.do(t, "POST", "/v1/auth/sign-out", "", b.sends).into(t, 200, &v1.OK{})
	s.do(t, "GET", "/v1/me", "", b.shows).wantError(t, 401, "unauthenticated", "")
}

// What is under way in a browser ends with its sign-in.
func TestStreamEndsWithItsSignIn(t *testing.T) {
	for name, end := range map[string]func(s *server, t *testing.T, b visitor){
		"signing out": func(s *server, t *testing.T, b visitor) { s.do(t, "POST", "/v1/auth/sign-out", "", b.sends) },
		"new password": func(s *server, t *testing.T, _ visitor) {
			s.do(t, "PATCH", "/v1/users/dora", `{"password":"another good one"}`)
		},
		"disabled": func(s *server, t *testing.T, _ visitor) { s.do(t, "PATCH", "/v1/users/dora", `{"state":"disabled"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.newDora(t)
			b := s.signIn(t, asDora)
			var made v1.Session
			s.do(t, "POST", "/v1/sessions", `{}`, b.sends).into(t, 201, &made)
			ended := make(chan bool)
			go func() {
				defer close(ended)
				s.do(t, "POST", "/v1/sessions/"+string(made.ID)+"/exec/stream", `{"cmd":"sleep 60"}`, b.sends)
			}()
			testenv.Eventually(t, "the command runs", func() bool {
				return strings.Contains(string(s.do(t, "GET", "/v1/sessions/"+string(made.ID)+"/execs", "", b.shows).body), "running")
			})
			end(s, t, b)
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Error("the stream goes on")
			}
		})
	}
}

// Neither the daemon's log nor an answer has a password, a cookie or its token.
func TestSignInIsInNoLog(t *testing.T) {
	var log strings.Builder
	s := start(t, func(o *setup) {
		o.api.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	s.newDora(t)
	b := s.signIn(t, asDora)
	s.do(t, "GET", "/v1/me", "", b.sends)
	s.do(t, "POST", "/v1/auth/sign-in", `{"name":"my-password","password":"my-password"}`, header("Authorization", ""))
	s.Close()
	_, token, _ := strings.Cut(b.cookie, "=")
	for _, secret := range []string{doraPassword, token, b.token, "my-password"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q: %s", secret, log.String())
		}
	}
	if !strings.Contains(log.String(), "/v1/auth/sign-in") {
		t.Error("the log has no sign-in")
	}
}

// Two clients behind one proxy that is trusted do not wait for each other's guesses; behind
// one that is not they are one address, whatever it says.
func TestClientsBehindAProxy(t *testing.T) {
	for name, tt := range map[string]struct {
		trusted api.Proxies
		other   int
	}{
		"trusted": {api.Proxies{netip.MustParsePrefix("127.0.0.0/8")}, 401},
		"unknown": {nil, 429},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(o *setup) { o.api.Proxies = tt.trusted })
			guess := func(from string) int {
				return s.do(t, "POST", "/v1/auth/sign-in", `{"api_key":"sk_wrong"}`, noKey, header("X-Forwarded-For", from)).status
			}
			for i := 0; guess("198.51.100.9, 192.0.2.1") != 429; i++ {
				if i == 40 {
					t.Fatal("40 guesses were heard")
				}
			}
			if got := guess("192.0.2.1, 192.0.2.2"); got != tt.other {
				t.Errorf("another client: %d, want %d", got, tt.other)
			}
		})
	}
}
