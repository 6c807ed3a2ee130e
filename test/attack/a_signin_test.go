package attack

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const userPassword = "canary-password-of-a-user-4711"

// visitor is a browser of a user who has signed in, on a daemon of the case's own.
type visitor struct {
	*caller

	cookie, token string
}

// newUser makes a user with userPassword. Names differ, for the daemon counts the
// failures of each.
func (s *scene) newUser(t testing.TB, name string) {
	t.Helper()
	s.admin(t).do(t, "POST", "/v1/users", map[string]any{"name": name, "password": userPassword}).refused(t, "make a user", 201)
}

// admin has the daemon's own key.
func (s *scene) admin(t testing.TB) *caller { return as(t, s.d, s.d.Key) }

// signIn signs a user in.
func (s *scene) signIn(t testing.TB, name string) visitor {
	t.Helper()
	a := as(t, s.d, "").do(t, "POST", "/v1/auth/sign-in", map[string]any{"name": name, "password": userPassword})
	var in struct {
		Token string `json:"csrf_token"`
	}
	a.into(t, &in)
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	if in.Token == "" || cookie == "" {
		t.Fatalf("signed in with %q and %s", a.header["Set-Cookie"], a.body)
	}
	return visitor{as(t, s.d, ""), cookie, in.Token}
}

// shows is what the browser sends by itself, sends what a page of ours adds.
func (v visitor) shows(r *http.Request) { r.Header.Set("Cookie", v.cookie) }

func (v visitor) sends(r *http.Request) {
	v.shows(r)
	r.Header.Set("X-CSRF-Token", v.token)
}

const anyDaemon = "log: {level: debug, format: json}\naudit: {enabled: true}"

// A16: who guesses a password or key has to wait, for a user that there is and one that
// there is not, from one address or many; the wait ends, and what is right does not tell.
func TestA16_GuessingPasswords(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon)
	s.newUser(t, "guessed")
	nobody := as(t, s.d, "")
	try := func(name, password string) reply {
		return nobody.do(t, "POST", "/v1/auth/sign-in", map[string]any{"name": name, "password": password})
	}
	for _, name := range []string{"guessed", "nobody"} {
		heard := 0
		for i := range 12 {
			a := try(name, "guess number "+strconv.Itoa(i))
			a.refused(t, name, 401, 429)
			if a.status == 401 {
				heard++
			} else if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n < 1 {
				t.Errorf("%s: wait for %q", name, a.header.Get("Retry-After"))
			}
		}
		if heard < 5 || heard > 8 {
			t.Errorf("%s: %d of 12 guesses were heard", name, heard)
		}
	}
	for i := 0; ; i++ { // until the wait is longer than what comes next can take
		a := try("guessed", "guess again")
		if n, err := strconv.Atoi(a.header.Get("Retry-After")); a.status == 429 && err == nil && n > 2 {
			break
		}
		if i == 12 {
			t.Fatal("guesses go on")
		}
		time.Sleep(500 * time.Millisecond)
	}
	try("guessed", userPassword).refused(t, "the password, while guessing has to wait", 429)
	for range 30 {
		a := nobody.do(t, "POST", "/v1/auth/sign-in", `{"api_key":"sk_wrong"}`)
		if a.refused(t, "a wrong key", 401, 429); a.status == 429 {
			return
		}
	}
	t.Error("30 wrong keys of one address were heard")
}

// A17: a cookie that was stolen opens nothing once its user has signed out, has another
// password or is disabled, and what it holds open ends; it never leads into a sandbox.
func TestA17_StolenCookies(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon)
	for name, end := range map[string]func(v visitor, name string){
		"signs-out": func(v visitor, _ string) {
			v.do(t, "POST", "/v1/auth/sign-out", nil, v.sends).refused(t, "sign out", 200)
		},
		"signs-out-elsewhere": func(_ visitor, name string) {
			other := s.signIn(t, name)
			other.do(t, "POST", "/v1/auth/sign-out?everywhere=true", nil, other.sends).refused(t, "sign out", 200)
		},
		"has-another-password": func(_ visitor, name string) {
			s.admin(t).do(t, "PATCH", "/v1/users/"+name, `{"password":"another password"}`).refused(t, "change it", 200)
		},
		"is-disabled": func(_ visitor, name string) {
			s.admin(t).do(t, "PATCH", "/v1/users/"+name, `{"state":"disabled"}`).refused(t, "disable", 200)
		},
	} {
		s.newUser(t, name)
		v := s.signIn(t, name)
		b := v.session(t)
		v.do(t, "GET", b+"/ports/80/", nil, v.shows).refused(t, name+": the cookie at a port", 401)
		v.do(t, "GET", b+"/ports/80/", nil, v.sends, header("Origin", s.d.URL)).refused(t, name+": the cookie at a port, from a page of ours", 401)
		stream := make(chan time.Time, 1)
		go func() {
			v.try(t, "POST", b+"/exec/stream", `{"cmd":"sleep 100"}`, v.sends)
			stream <- time.Now()
		}()
		for deadline := time.Now().Add(paced(10 * time.Second)); !strings.Contains(v.do(t, "GET", b+"/execs", nil, v.shows).body, "running"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nothing runs")
			}
		}
		end(v, name)
		select {
		case <-stream:
		case <-time.After(paced(10 * time.Second)):
			t.Errorf("%s, and the stream goes on", name)
		}
		v.do(t, "GET", "/v1/me", nil, v.shows).refused(t, name+": the cookie", 401)
		v.do(t, "POST", b+"/exec", `{"cmd":"true"}`, v.sends).refused(t, name+": the cookie and its token", 401)
		s.admin(t).do(t, "DELETE", "/v1/users/"+name, nil).refused(t, "delete the user", 200)
	}
}

// A25: a key does not change how its user signs in, where signing in opens more than the
// key or lives longer; nor does one that ends give anybody else a password, an address, a
// role or a key that outlives it.
func TestA25_CredentialsThatGrow(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon)
	admin := s.admin(t)
	admin.do(t, "POST", "/v1/users", map[string]any{"name": "boss", "role": "admin", "password": userPassword}).refused(t, "make an admin", 201)
	s.newUser(t, "friend")
	key := func(by *caller, body string) *caller {
		var made struct{ Key string }
		by.do(t, "POST", "/v1/keys", body).into(t, &made)
		return as(t, s.d, made.Key)
	}
	run := key(admin, `{"user":"boss","scope":"run"}`)
	ends := key(admin, `{"user":"boss","scope":"admin","ttl_seconds":60}`)
	child := key(key(admin, `{"user":"friend"}`), `{}`)
	const mine = `"password":"a password of the attacker"`
	for name, try := range map[string]reply{
		"a run key sets its admin's password":     run.do(t, "PATCH", "/v1/users/boss", "{"+mine+"}"),
		"a run key sets its admin's address":      run.do(t, "PATCH", "/v1/users/boss", `{"email":"eve@example.org"}`),
		"with a guess":                            run.do(t, "PATCH", "/v1/users/boss", `{"current_password":"a guess",`+mine+"}"),
		"a key that ends sets its own password":   ends.do(t, "PATCH", "/v1/users/boss", "{"+mine+"}"),
		"a child sets its user's password":        child.do(t, "PATCH", "/v1/users/friend", "{"+mine+"}"),
		"a key that ends sets another's password": ends.do(t, "PATCH", "/v1/users/friend", "{"+mine+"}"),
		"a key that ends makes another an admin":  ends.do(t, "PATCH", "/v1/users/friend", `{"role":"admin"}`),
		"a key that ends makes an admin":          ends.do(t, "POST", "/v1/users", `{"name":"eve","role":"admin"}`),
		"a key that ends makes a user to sign in": ends.do(t, "POST", "/v1/users", `{"name":"eve",`+mine+"}"),
		"a key that ends makes one for ever":      ends.do(t, "POST", "/v1/keys", `{"user":"friend","ttl_seconds":3600}`),
	} {
		try.refused(t, name, 403)
	}
	s.signIn(t, "boss")
	s.signIn(t, "friend")
	b := key(admin, `{"user":"friend"}`).session(t, nil)
	short := key(admin, `{"user":"friend"}`)
	var preview struct{ Token string }
	short.do(t, "POST", b.at("/previews"), `{"port":8000}`).into(t, &preview)
	var me struct{ Key struct{ ID string } }
	short.do(t, "GET", "/v1/me", nil).into(t, &me)
	admin.do(t, "DELETE", "/v1/keys/"+me.Key.ID, nil).refused(t, "revoke it", 200)
	as(t, s.d, "").do(t, "GET", b.at("/ports/8000/"), nil, header("X-Preview-Token", preview.Token)).refused(t, "a preview that outlives its key", 401)
	guessed := 0
	for range 12 { // which is guessing a password, too
		a := run.do(t, "PATCH", "/v1/users/boss", `{"current_password":"a guess",`+mine+"}")
		if a.refused(t, "a guess", 403, 429); a.status == 403 {
			guessed++
		}
	}
	if guessed > 8 {
		t.Errorf("%d of 12 guesses were heard", guessed)
	}
}

// session makes one and returns its path.
func (v visitor) session(t testing.TB) string {
	t.Helper()
	var made struct{ ID string }
	v.do(t, "POST", "/v1/sessions", `{}`, v.sends).into(t, &made)
	return "/v1/sessions/" + made.ID
}

// A18: what another site's page makes a browser send with its cookie does nothing:
// without the token, with a wrong one, by a link, a form or a socket.
func TestA18_ForgedRequests(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon)
	s.newUser(t, "victim")
	v := s.signIn(t, "victim")
	b := v.session(t)
	upgrade := func(r *http.Request) {
		for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} {
			r.Header.Set(name, value)
		}
	}
	other := s.signIn(t, "victim")
	for name, edits := range map[string][]edit{
		"no token":         {v.shows},
		"a wrong token":    {v.shows, header("X-CSRF-Token", "x")},
		"another's token":  {v.shows, header("X-CSRF-Token", other.token)},
		"two tokens":       {v.shows, func(r *http.Request) { r.Header["X-Csrf-Token"] = []string{v.token, v.token} }},
		"another origin":   {v.sends, header("Origin", "https://evil.test")},
		"no origin's":      {v.sends, header("Origin", "null")},
		"a sister's":       {v.sends, header("Sec-Fetch-Site", "same-site")},
		"a link":           {v.shows, header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate")},
		"a form":           {v.shows, header("Content-Type", "text/plain")},
		"a token's cookie": {func(r *http.Request) { r.Header.Set("Cookie", v.cookie+"; csrftoken="+v.token) }},
	} {
		for _, try := range []struct{ method, path, body string }{
			{"POST", "/v1/keys", `{"name":"stolen"}`},
			{"POST", b + "/exec", `{"cmd":"touch stolen"}`},
			{"PATCH", "/v1/users/victim", `{"password":"of the thief"}`},
			{"POST", "/v1/auth/sign-out", ""},
			{"DELETE", b, ""},
		} {
			v.do(t, try.method, try.path, try.body, edits...).refused(t, fmt.Sprintf("%s %s with %s", try.method, try.path, name), 403, 415)
		}
	}
	v.do(t, "GET", b+"/exec/stream?cmd=touch+stolen", nil, v.shows, header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate")).refused(t, "a link that runs something", 403)
	for _, path := range []string{b + "/terminal", b + "/tunnel?port=80"} {
		v.do(t, "GET", path, nil, v.shows, upgrade, header("Origin", "https://evil.test")).refused(t, "a socket of another site", 403)
		v.do(t, "GET", path, nil, v.shows, upgrade).refused(t, "a socket of no page", 403)
	}
	v.do(t, "GET", b+"/fs/read?path=stolen", nil, v.shows).refused(t, "what was forged", 404)
	v.do(t, "DELETE", b, nil, v.sends).refused(t, "what the page itself sends", 200)
	s.admin(t).do(t, "DELETE", "/v1/users/victim", nil).refused(t, "delete the user", 200)
}

// C05: a password, a key, a cookie and its token are in no line of the log or the
// audit log, and in clear text in no file of the daemon's.
func TestC05_SecretsOfUsers(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon)
	s.newUser(t, "canary")
	v := s.signIn(t, "canary")
	var key struct{ Key string }
	v.do(t, "POST", "/v1/keys", `{"name":"canary"}`, v.sends).into(t, &key)
	if key.Key == "" {
		t.Fatal("there is no key")
	}
	as(t, s.d, key.Key).do(t, "GET", "/v1/me", nil).refused(t, "the key", 200)
	as(t, s.d, "").do(t, "POST", "/v1/auth/sign-in", map[string]any{"api_key": key.Key}).refused(t, "exchange the key", 200)
	const typed = "typed-into-the-wrong-field-4711"
	as(t, s.d, "").do(t, "POST", "/v1/auth/sign-in", map[string]any{"name": typed, "password": typed + "-2"}).refused(t, "a password as a name", 401)
	v.do(t, "GET", "/v1/"+"missing", nil, v.sends).refused(t, "an error", 404)
	v.do(t, "POST", "/v1/sessions", `{"image":"missing"}`, v.sends).refused(t, "an error", 404)
	s.admin(t).do(t, "PATCH", "/v1/users/canary", map[string]any{"password": userPassword + "-second"}).refused(t, "another password", 200)
	_, cookie, _ := strings.Cut(v.cookie, "=")
	secrets := []string{userPassword, key.Key, cookie, v.token, typed}
	time.Sleep(time.Second) // for lines that are written behind
	log := s.d.Log()
	for _, secret := range secrets {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %.10s...", secret)
		}
	}
	if !strings.Contains(log, "/v1/auth/sign-in") {
		t.Error("the log has no sign-in")
	}
	s.filesTell(t, "api_key", secrets...)
	audits, err := filepath.Glob(filepath.Join(s.d.Data, "audit*", "*"))
	if err != nil || len(audits) == 0 || exec.CommandContext(t.Context(), "grep", append([]string{"-q", "POST /v1/auth/sign-in"}, audits...)...).Run() != nil {
		t.Errorf("the audit log %q has no sign-in, %v", audits, err)
	}
	s.admin(t).do(t, "DELETE", "/v1/users/canary", nil).refused(t, "delete the user", 200)
}
