package orchestrator_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/api"
	surface "github.com/sandkasten/sandkasten/internal/api/orchestrator"
	"github.com/sandkasten/sandkasten/internal/auth"
)

const goodPassword = "correct horse battery"

func (s *server) newUser(name string) {
	s.t.Helper()
	_, err := s.users.CreateUser(s.t.Context(), auth.System("test"), accounts.UserRequest{Name: name, Email: name + "@example.org", Password: goodPassword})
	if err != nil {
		s.t.Fatal(err)
	}
}

// login signs in, and returns what a browser sends from then on, and the token.
func (s *server) login(name string) (cookies edit, token string) {
	s.t.Helper()
	a := s.want(200, `{"username":"`+name+`","email":"`+name+`@example.org"}`, "POST", "/api/auth/login/", `{"username":"`+name+`","password":"`+goodPassword+`"}`, header("X-Api-Key", ""))
	var pairs []string
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		pairs = append(pairs, c.Name+"="+c.Value)
		switch c.Name {
		case "sessionid":
			if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/api/" || c.Domain != "" {
				s.t.Errorf("the cookie is %s", c.Raw)
			}
		case "csrftoken":
			token = c.Value
		}
	}
	if len(pairs) != 2 || !api.IsTokenCookie("csrftoken", token) {
		s.t.Fatalf("the cookies are %q", pairs)
	}
	return func(r *http.Request) {
		r.Header.Del("X-Api-Key")
		r.Header.Set("Cookie", strings.Join(pairs, "; "))
	}, token
}

func TestLogin(t *testing.T) {
	s := start(t)
	s.newUser("dora")
	nobody := header("X-Api-Key", "")
	s.want(401, `{"detail":"Invalid credentials"}`, "POST", "/api/auth/login/", `{"username":"dora","password":"wrong password"}`, nobody)
	s.want(401, `{"detail":"Invalid credentials"}`, "POST", "/api/auth/login", `{"username":"nobody","password":"wrong password"}`, nobody)
	s.want(400, `{"password":["This field is required."],"username":["This field is required."]}`, "POST", "/api/auth/login/", `{}`, nobody)
	s.want(403, `{"detail":"Authentication credentials were not provided."}`, "GET", "/api/auth/me/", "", nobody)
	s.want(204, "", "GET", "/api/auth/csrf/", "", nobody)
	s.want(200, `{"require_approval":false,"allow_all_users":false,"waitlist_enabled":false,"self_hosted":true,"billing_enabled":false,"supported_providers":[]}`, "GET", "/api/auth/settings/", "", nobody)

	cookies, token := s.login("dora")
	s.want(200, `{"username":"dora","email":"dora@example.org"}`, "GET", "/api/auth/me/", "", cookies)
	s.want(200, `[]`, "GET", base+"/", "", cookies)
	s.want(403, `{"detail":"CSRF Failed: CSRF token missing."}`, "POST", base+"/", `{}`, cookies)
	s.want(403, `{"detail":"CSRF Failed: CSRF token missing."}`, "POST", "/api/auth/logout/", "", cookies, header("X-CSRFToken", "wrong"))
	if a := s.do("GET", "/api/auth/csrf/", "", cookies); !strings.Contains(a.header.Get("Set-Cookie"), "csrftoken="+token) {
		t.Errorf("the token's cookie is %q", a.header["Set-Cookie"])
	}
	s.want(204, "", "POST", "/api/auth/logout/", "", cookies, header("X-CSRFToken", token))
	s.want(403, `{"detail":"Authentication credentials were not provided."}`, "GET", "/api/auth/me/", "", cookies)
}

func TestLoginByForm(t *testing.T) {
	s := start(t)
	s.newUser("dora")
	s.want(200, `{"username":"dora","email":"dora@example.org"}`, "POST", "/api/auth/login/", "username=dora&password=correct+horse+battery",
		header("Content-Type", "application/x-www-form-urlencoded"), header("X-Api-Key", ""))
}

func TestAPIKeys(t *testing.T) {
	s := start(t)
	s.newUser("dora")
	s.newUser("emil")
	cookies, token := s.login("dora")
	csrf := header("X-CSRFToken", token)
	made := s.object(201, "POST", "/api/api-keys/", `{"name":"laptop"}`, cookies, csrf)
	key, id := made["key"].(string), made["id"].(string)
	if made["is_active"] != true || made["last_used_at"] != nil || made["name"] != "laptop" || len(key) < 43 {
		t.Errorf("made %v", made)
	}
	s.object(201, "POST", "/api/api-keys", "name=second", cookies, csrf, header("Content-Type", "application/x-www-form-urlencoded"))
	form := "--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nthird\r\n--x--\r\n"
	s.object(201, "POST", "/api/api-keys", form, cookies, csrf, header("Content-Type", "multipart/form-data; boundary=x"))
	a := s.do("GET", "/api/api-keys/", "", header("X-Api-Key", key))
	if a.status != 200 || strings.Contains(a.body, key) || strings.Index(a.body, "third") > strings.Index(a.body, "laptop") || strings.Count(a.body, `"id"`) != 3 {
		t.Errorf("the list: %d %s", a.status, a.body)
	}
	s.want(400, `{"name":["This field is required."]}`, "POST", "/api/api-keys/", `{}`, cookies, csrf)
	s.want(400, `{"name":["Ensure this field has no more than 255 characters."]}`, "POST", "/api/api-keys/", `{"name":"`+strings.Repeat("x", 256)+`"}`, cookies, csrf)
	s.want(405, `{"detail":"Method \"GET\" not allowed."}`, "GET", "/api/api-keys/"+id+"/", "", cookies)
	others, othersToken := s.login("emil")
	s.want(404, `{"detail":"API key not found"}`, "DELETE", "/api/api-keys/"+id+"/", "", others, header("X-CSRFToken", othersToken))
	for range 2 {
		s.want(204, "", "DELETE", "/api/api-keys/"+id+"/", "", cookies, csrf)
	}
	s.want(403, `{"detail":"Invalid API key"}`, "GET", "/api/api-keys/", "", header("X-Api-Key", key))
}

func TestRegister(t *testing.T) {
	nobody := header("X-Api-Key", "")
	closed := start(t)
	closed.want(403, `{"detail":"Registration is closed: ask an admin for a user, or set orchestrator.registration in the configuration"}`,
		"POST", "/api/auth/register/", `{"username":"dora","password":"`+goodPassword+`"}`, nobody)
	s := start(t, func(o *surface.Options) { o.Registration = true })
	s.want(400, `{"password":["Ensure this field has at least 8 characters."]}`, "POST", "/api/auth/register/", `{"username":"dora","password":"short"}`, nobody)
	s.want(201, `{"username":"dora","email":"dora@example.org"}`, "POST", "/api/auth/register/", `{"username":"dora","email":"dora@example.org","password":"`+goodPassword+`"}`, nobody)
	if a := s.do("POST", "/api/auth/register/", `{"username":"dora","password":"`+goodPassword+`"}`, nobody); a.status != 400 || !strings.HasPrefix(a.body, `{"username":["`) {
		t.Errorf("a name that is taken: %d %s", a.status, a.body)
	}
	s.login("dora")
	for body, want := range map[string]string{
		`{"username":"root","password":"` + goodPassword + `"}`:                           `{"username":["the name root is taken; choose another"]}`,
		`{"username":"eve","email":"Dora@example.org","password":"` + goodPassword + `"}`: `{"email":["another user has this e-mail address"]}`,
	} {
		s.want(400, want, "POST", "/api/auth/register/", body, nobody)
	}
}
