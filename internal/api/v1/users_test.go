package v1_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/api/v1/users"
	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// bearer sends the text of a key.
func bearer(text string) edit { return header("Authorization", "Bearer "+text) }

// newUser makes a user, as alice, who is the daemon's operator.
func (s *server) newUser(t *testing.T, name, role string) {
	t.Helper()
	s.do(t, "POST", "/v1/users", fmt.Sprintf(`{"name":%q,"role":%q}`, name, role)).into(t, 201, &users.User{})
}

func (s *server) newKey(t *testing.T, body string, edits ...edit) users.NewKey {
	t.Helper()
	var made users.NewKey
	s.do(t, "POST", "/v1/keys", body, edits...).into(t, 201, &made)
	return made
}

func TestUsersAndKeys(t *testing.T) {
	s := start(t)
	var u users.User
	s.do(t, "POST", "/v1/users", `{"name":"dora","email":"dora@example.org","password":"a-good-password"}`).into(t, 201, &u)
	if u.Name != "dora" || u.Email != "dora@example.org" || u.Role != "user" || u.State != "active" || !u.HasPassword || u.CreatedAt.IsZero() {
		t.Errorf("made %+v", u)
	}
	s.do(t, "POST", "/v1/users", `{"name":"dora"}`).wantError(t, 409, "already_exists", "name")
	s.do(t, "POST", "/v1/users", `{"name":"bob"}`).wantError(t, 409, "already_exists", "name") // of the configuration
	u = users.User{}
	s.do(t, "PATCH", "/v1/users/dora", `{"email":"","password":""}`).into(t, 200, &u)
	if u.Email != "" || u.HasPassword {
		t.Errorf("changed to %+v", u)
	}
	k := s.newKey(t, `{"user":"dora","name":"laptop","ttl_seconds":3600}`)
	if !strings.HasPrefix(k.Text, "sk_") || k.User != "dora" || k.Name != "laptop" || k.Scope != "run" || k.ExpiresAt == nil || k.ParentID != "" {
		t.Errorf("made %+v", k)
	}
	asDora := bearer(k.Text)
	var me users.Me
	s.do(t, "GET", "/v1/me", "", asDora).into(t, 200, &me)
	if me.Owner != "dora" || me.Admin || me.User == nil || me.Key == nil || me.Key.ID != k.ID || me.Key.LastUsedAt == nil {
		t.Errorf("me %+v", me)
	}
	child := s.newKey(t, `{"scope":"read"}`, asDora)
	if child.ParentID != k.ID || child.Scope != "read" || !child.ExpiresAt.Equal(*k.ExpiresAt) {
		t.Errorf("child %+v", child)
	}
	var list users.Keys
	s.do(t, "GET", "/v1/keys?user=dora", "").into(t, 200, &list)
	if len(list.Keys) != 2 || list.Keys[0].ID != k.ID || list.Keys[1].ID != child.ID {
		t.Errorf("list %+v", list)
	}
	s.do(t, "POST", "/v1/sessions", `{}`, bearer(child.Text)).wantError(t, 403, "permission_denied", "")
	s.do(t, "GET", "/v1/sessions", "", bearer(child.Text)).into(t, 200, &json.RawMessage{})

	s.do(t, "DELETE", "/v1/keys/"+k.ID, "", asDora).into(t, 200, &v1.OK{}) // itself
	for _, text := range []string{k.Text, child.Text} {
		s.do(t, "GET", "/v1/me", "", bearer(text)).wantError(t, 401, "unauthenticated", "")
	}
	s.do(t, "DELETE", "/v1/users/dora", "").into(t, 200, &v1.OK{})
	s.do(t, "GET", "/v1/users/dora", "").wantError(t, 404, "not_found", "")
	if a := s.do(t, "GET", "/v1/users", ""); strings.TrimSpace(string(a.body)) != `{"users":[]}` {
		t.Errorf("in the end: %s", a.body)
	}
	if a := s.do(t, "GET", "/v1/keys", ""); strings.TrimSpace(string(a.body)) != `{"keys":[]}` {
		t.Errorf("in the end: %s", a.body)
	}
}

// An answer of 200 says that all is gone. What takes longer is 202, and the user is there.
func TestUserIsAcceptedForDeletion(t *testing.T) {
	gone := make(chan struct{})
	s := start(t, func(o *setup) {
		o.removeOwned = func(ctx context.Context, _ string) error {
			select {
			case <-gone:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	s.newUser(t, "dora", "user")
	s.do(t, "DELETE", "/v1/users/dora", "").into(t, 202, &v1.OK{})
	var left users.User
	if s.do(t, "GET", "/v1/users/dora", "").into(t, 200, &left); left.State != "deleting" {
		t.Errorf("meanwhile she is %+v", left)
	}
	close(gone)
	testenv.Eventually(t, "she is gone", func() bool { return s.do(t, "GET", "/v1/users/dora", "").status == 404 })
}

// To a user others do not exist, with the same text as if they never were.
func TestUsersOfOthers(t *testing.T) {
	s := start(t)
	s.newUser(t, "dora", "user")
	s.newUser(t, "emil", "user")
	emils := s.newKey(t, `{"user":"emil"}`)
	asDora := bearer(s.newKey(t, `{"user":"dora"}`).Text)
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/v1/users/%s", ""},
		{"GET", "/v1/users/%s/usage", ""},
		{"PATCH", "/v1/users/%s", `{"email":"a@example.org"}`},
		{"PATCH", "/v1/users/%s", `{"role":"admin"}`},
		{"DELETE", "/v1/users/%s", ""},
		{"GET", "/v1/keys?user=%s", ""},
	} {
		theirs := s.do(t, r.method, fmt.Sprintf(r.path, "emil"), r.body, asDora)
		theirs.wantError(t, 404, "not_found", "")
		nobodys := s.do(t, r.method, fmt.Sprintf(r.path, "nobody"), r.body, asDora)
		nobodys.wantError(t, 404, "not_found", "")
	}
	s.do(t, "POST", "/v1/keys", `{"user":"emil"}`, asDora).wantError(t, 404, "not_found", "")
	s.do(t, "DELETE", "/v1/keys/"+emils.ID, "", asDora).wantError(t, 404, "not_found", "")
	s.do(t, "POST", "/v1/users", `{"name":"x"}`, asDora).wantError(t, 403, "permission_denied", "")
	for _, path := range []string{"/v1/users", "/v1/keys"} {
		if a := s.do(t, "GET", path, "", asDora); a.status != 200 || strings.Contains(string(a.body), "emil") {
			t.Errorf("dora sees %s", a.body)
		}
	}
	for _, path := range []string{"/v1/pool/status", "/v1/host/history", "/v1/host/findings"} {
		s.do(t, "GET", path, "", asDora).wantError(t, 403, "permission_denied", "")
	}
	if n := s.routesBelow(t, "/v1/users/{name}") + s.routesBelow(t, "/v1/keys/{id}"); n != 5 {
		t.Errorf("%d routes of one user or key, 5 of them tested here", n)
	}
}

func TestAdminUserSeesEverything(t *testing.T) {
	s := start(t)
	s.newUser(t, "root", "admin")
	s.newUser(t, "dora", "user")
	asRoot := bearer(s.newKey(t, `{"user":"root","scope":"admin"}`).Text)
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{}`, bearer(s.newKey(t, `{"user":"dora"}`).Text)).into(t, 201, &made)
	s.do(t, "GET", "/v1/sessions/"+string(made.ID), "").wantError(t, 404, "not_found", "") // alice only operates
	s.do(t, "GET", "/v1/sessions/"+string(made.ID), "", asRoot).into(t, 200, &v1.Session{})
	s.do(t, "GET", "/v1/sessions/"+string(made.ID), "", bearer(s.newKey(t, `{"user":"root"}`).Text)).wantError(t, 404, "not_found", "")
	s.do(t, "PATCH", "/v1/users/root", `{"role":"user"}`, asRoot).wantError(t, 409, "conflict", "")
	s.do(t, "DELETE", "/v1/users/root", "", asRoot).wantError(t, 409, "conflict", "")
	s.do(t, "DELETE", "/v1/sessions/"+string(made.ID), "", asRoot).into(t, 200, &v1.OK{})
}

// What follows a session's events ends with the key within a second.
func TestStreamEndsWithItsKey(t *testing.T) {
	s := start(t)
	s.newUser(t, "dora", "user")
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{}`, bearer(s.newKey(t, `{"user":"dora"}`).Text)).into(t, 201, &made)
	session := "/v1/sessions/" + string(made.ID)
	port := inside(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begun and goes on")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/exec/stream", `{"cmd":"echo begun and goes on; sleep 60"}`},
		{"GET", "/fs/watch?path=.", ""},
		{"GET", "/ports/" + port + "/", ""},
	} {
		k := s.newKey(t, `{"user":"dora"}`)
		r, err := http.NewRequestWithContext(t.Context(), tt.method, s.URL+session+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		bearer(k.Text)(r)
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		revoked := time.Now()
		s.do(t, "DELETE", "/v1/keys/"+k.ID, "").into(t, 200, &v1.OK{})
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Logf("%s ends with %v", tt.path, err)
		}
		if took := time.Since(revoked); took > 10*time.Second {
			t.Errorf("%s goes on for %v", tt.path, took)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWebSocketEndsWithItsKey(t *testing.T) {
	s := start(t)
	s.newUser(t, "dora", "user")
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{}`, bearer(s.newKey(t, `{"user":"dora"}`).Text)).into(t, 201, &made)
	port := raw(t, func(c net.Conn) {
		io.WriteString(c, "hello")
		io.Copy(c, c)
	})
	for _, path := range []string{"/terminal", "/tunnel?port=" + port} {
		k := s.newKey(t, `{"user":"dora"}`)
		ws, _, err := s.dial(t, "/v1/sessions/"+string(made.ID)+path, header("X-API-Key", k.Text))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ws.Read(t.Context()); err != nil { // it has begun
			t.Fatal(err)
		}
		revoked := time.Now()
		s.do(t, "DELETE", "/v1/keys/"+k.ID, "").into(t, 200, &v1.OK{})
		for err == nil {
			_, _, err = ws.Read(t.Context())
		}
		if took := time.Since(revoked); took > 10*time.Second {
			t.Errorf("%s goes on for %v", path, took)
		}
	}
}

// No answer but that of create-key, line of the log or line of the audit log has a
// key or a password, whatever is asked.
func TestKeysAndPasswordsAreNowhere(t *testing.T) {
	dir := t.TempDir()
	lines, err := audit.Open(audit.Options{Dir: dir, MaxBytes: 1 << 20, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := start(t, func(o *setup) {
		o.api.Audit, o.api.Log = lines, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	s.newUser(t, "dora", "user")
	k := s.newKey(t, `{"user":"dora"}`)
	const password = "horse-battery"
	secrets := []string{password, k.Text, strings.TrimPrefix(k.Text, "sk_"), "argon2id"}
	clean := func(where string, text []byte) {
		t.Helper()
		for _, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has %s: %s", where, secret, text)
			}
		}
	}
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/v1/users", `{"name":"emil","password":"horse-battery"}`},
		{"POST", "/v1/users", `{"name":"emil","password":"horse-battery"}`},
		{"POST", "/v1/users", `{"name":"fred","password":"horse-battery","more":1}`},
		{"POST", "/v1/users", `{"name":"fred","password":["horse-battery"]}`},
		{"POST", "/v1/users", `{"name":"fred","password":"horse-battery`},
		{"PATCH", "/v1/users/emil", `{"password":"horse-battery"}`},
		{"GET", "/v1/users/emil", ""},
		{"GET", "/v1/users", ""},
		{"GET", "/v1/keys", ""},
		{"DELETE", "/v1/keys/" + k.ID, ""},
		{"GET", "/v1/me", ""},
	} {
		for _, as := range []string{aliceKey, k.Text} {
			clean(r.method+" "+r.path, s.do(t, r.method, r.path, r.body, bearer(as)).body)
		}
	}
	s.Close()
	clean("the log", log.Bytes())
	text, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil || !bytes.Contains(text, []byte(`POST /v1/keys`)) || !bytes.Contains(text, []byte(k.ID)) {
		t.Errorf("the audit log lacks who made what: %s, %v", text, err)
	}
	clean("the audit log", text)
}

func TestWithoutAccounts(t *testing.T) {
	s := start(t)
	h := &users.Handlers{}
	s.Config.Handler = api.Handler(api.Options{}, v1.New(v1.Options{Manager: s.manager}))
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/v1/users", `{"name":"x"}`},
		{"GET", "/v1/users", ""},
		{"GET", "/v1/users/x", ""},
		{"PATCH", "/v1/users/x", `{}`},
		{"DELETE", "/v1/users/x", ""},
		{"POST", "/v1/keys", `{}`},
		{"GET", "/v1/keys", ""},
		{"DELETE", "/v1/keys/x", ""},
	} {
		s.do(t, r.method, r.path, r.body).wantError(t, 501, "unimplemented", "")
	}
	var me users.Me
	s.do(t, "GET", "/v1/me", "").into(t, 200, &me)
	if _, err := h.Me(t.Context(), nil); err != nil || !me.Admin || me.User != nil {
		t.Errorf("me %+v, %v", me, err)
	}
}
