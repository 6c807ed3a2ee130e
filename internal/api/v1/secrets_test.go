package v1_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
)

const aSecret = `{"hosts":["api.example.org"],"header":"Authorization","value":"Bearer of-great-worth"}`

func TestSecrets(t *testing.T) {
	s := start(t)
	var made, got v1.Secret
	s.do(t, "PUT", "/v1/secrets/git.hub_1-a", aSecret).into(t, http.StatusOK, &made)
	if made.Name != "git.hub_1-a" || len(made.Hosts) != 1 || made.Header != "Authorization" || made.Query != "" || made.Shared || made.CreatedAt.IsZero() {
		t.Errorf("made %+v", made)
	}
	s.do(t, "PUT", "/v1/secrets/git.hub_1-a", `{"hosts":["*.example.org"],"query":"key","value":"another-of-worth"}`).into(t, 200, &got)
	if got.Query != "key" || got.Header != "" || got.CreatedAt != made.CreatedAt || got.Hosts[0] != "*.example.org" {
		t.Errorf("replaced by %+v", got)
	}
	s.do(t, "PUT", "/v1/secrets/first", aSecret).into(t, 200, &made)
	var list v1.Secrets
	s.do(t, "GET", "/v1/secrets", "").into(t, 200, &list)
	if len(list.Secrets) != 2 || list.Secrets[0].Name != "first" || list.Secrets[1].Name != "git.hub_1-a" {
		t.Errorf("list %+v", list)
	}
	revealed, err := s.secrets.Reveal(t.Context(), "alice", "git.hub_1-a")
	if err != nil || revealed.Value != "another-of-worth" || revealed.Query != "key" {
		t.Errorf("a session gets %+v, %v", revealed, err)
	}
	s.do(t, "DELETE", "/v1/secrets/first", "").into(t, 200, &v1.OK{})
	s.do(t, "DELETE", "/v1/secrets/git.hub_1-a", "").into(t, 200, &v1.OK{})
	s.do(t, "DELETE", "/v1/secrets/first", "").wantError(t, 404, "not_found", "")
	if a := s.do(t, "GET", "/v1/secrets", ""); strings.TrimSpace(string(a.body)) != `{"secrets":[]}` {
		t.Errorf("in the end: %s", a.body)
	}
}

func TestSecretMistakes(t *testing.T) {
	s := start(t)
	const value = "a-value-of-worth"
	tests := []struct{ name, body, field string }{
		{"a%20b", aSecret, "name"},
		{strings.Repeat("x", 65), aSecret, "name"},
		{"x", `{"header":"A","value":"a-value-of-worth"}`, "hosts"},
		{"x", `{"hosts":[],"header":"A","value":"a-value-of-worth"}`, "hosts"},
		{"x", `{"hosts":null,"header":"A","value":"a-value-of-worth"}`, "hosts"},
		{"x", `{"hosts":["a.example:443"],"header":"A","value":"a-value-of-worth"}`, "hosts"},
		{"x", `{"hosts":["192.0.2.1"],"header":"A","value":"a-value-of-worth"}`, "hosts"},
		{"x", `{"hosts":["a.example"],"value":"a-value-of-worth"}`, "header"},
		{"x", `{"hosts":["a.example"],"header":"A","query":"b","value":"a-value-of-worth"}`, "header"},
		{"x", `{"hosts":["a.example"],"header":"Host","value":"a-value-of-worth"}`, "header"},
		{"x", `{"hosts":["a.example"],"header":"A"}`, "value"},
		{"x", `{"hosts":["a.example"],"header":"A","value":"short"}`, "value"},
		{"x", `{"hosts":["a.example"],"header":"A","value":["a-value-of-worth"]}`, "value"},
		{"x", `{"hosts":["a.example"],"header":"A","value":"a-value-of-worth\n"}`, "value"},
		{"x", `{"hosts":["a.example"],"header":"A","value":"a-value-of-worth","shared":"a-value-of-worth"}`, "shared"},
		{"x", `{"hosts":["a.example"],"header":"A","value":"a-value-of-worth","name":"y"}`, "name"},
		{"x", `{"hosts":["a.example"],"header":"A","value":"` + strings.Repeat("a-value-of-worth", 1025) + `"}`, "value"},
	}
	for _, tt := range tests {
		a := s.do(t, "PUT", "/v1/secrets/"+tt.name, tt.body)
		a.wantError(t, 400, "invalid_argument", tt.field)
		if bytes.Contains(a.body, []byte(value)) {
			t.Errorf("%s is answered with the value: %s", tt.body, a.body)
		}
	}
	if a := s.do(t, "PUT", "/v1/secrets/x", `{"hosts":["a.example"],"value":"a-value-of-worth`); a.status != 400 || bytes.Contains(a.body, []byte(value)) {
		t.Errorf("half a body is answered with %d %s", a.status, a.body)
	}
	if a := s.do(t, "GET", "/v1/secrets", ""); !strings.Contains(string(a.body), `[]`) {
		t.Errorf("a mistake made one: %s", a.body)
	}
}

// To another key a secret does not exist, and both may use one name.
func TestSecretOwners(t *testing.T) {
	s := start(t)
	const path = "/v1/secrets/github"
	s.do(t, "PUT", path, aSecret).into(t, 200, &v1.Secret{})
	asBob := header("Authorization", "Bearer "+bobKey)
	s.do(t, "GET", path, "", asBob).wantError(t, 404, "not_found", "")
	s.do(t, "DELETE", path, "", asBob).wantError(t, 404, "not_found", "")
	if a := s.do(t, "GET", "/v1/secrets", "", asBob); !strings.Contains(string(a.body), `[]`) {
		t.Errorf("bob sees %s", a.body)
	}
	if got, err := s.secrets.Reveal(t.Context(), "bob", "github"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("bob's session gets %+v, %v", got, err)
	}
	s.do(t, "PUT", path, strings.Replace(aSecret, "great", "bobs", 1), asBob).into(t, 200, &v1.Secret{})
	for owner, want := range map[string]string{"alice": "Bearer of-great-worth", "bob": "Bearer of-bobs-worth"} {
		if got, err := s.secrets.Reveal(t.Context(), owner, "github"); err != nil || got.Value != want {
			t.Errorf("%s's session gets %q, %v", owner, got.Value, err)
		}
	}
	s.do(t, "DELETE", path, "", asBob).into(t, 200, &v1.OK{})
	s.do(t, "GET", path, "").into(t, 200, &v1.Secret{})
	for _, id := range []string{"unknown", "..", "%2e%2e%2fgithub", "github%00", strings.Repeat("x", 300)} {
		for _, method := range []string{"GET", "DELETE"} {
			if a := s.do(t, method, "/v1/secrets/"+id, ""); a.status < 300 || a.status >= 500 {
				t.Errorf("%s %s: %d", method, id, a.status)
			}
		}
	}
	if n := s.routesBelow(t, "/v1/secrets/{name}"); n != 3 {
		t.Errorf("%d routes of one secret, 3 of them tested here", n)
	}
}

// operators is keys, of which one is the daemon's own.
type operators struct{ keys }

func (o operators) Authenticate(ctx context.Context, key string) (auth.Principal, error) {
	if key == "operator-key" {
		return auth.Principal{Owner: auth.Admin, Scopes: auth.ScopeDaemon}, nil
	}
	return o.keys.Authenticate(ctx, key)
}

func TestSecretIsSharedByTheOperator(t *testing.T) {
	s := start(t, func(o *setup) { o.api.Authenticator = operators{} })
	body := strings.Replace(aSecret, "{", `{"shared":true,`, 1)
	s.do(t, "PUT", "/v1/secrets/common", body).wantError(t, 403, "permission_denied", "shared")
	var made v1.Secret
	s.do(t, "PUT", "/v1/secrets/common", body, header("Authorization", "Bearer operator-key")).into(t, 200, &made)
	if !made.Shared {
		t.Errorf("made %+v", made)
	}
	s.do(t, "GET", "/v1/secrets/common", "").wantError(t, 404, "not_found", "")
	if got, err := s.secrets.Reveal(t.Context(), "alice", "common"); err != nil || got.Value != "Bearer of-great-worth" {
		t.Errorf("alice's session gets %q, %v", got.Value, err)
	}
}

// No answer, line of the log or line of the audit log has a value, whatever is
// asked.
func TestSecretValueIsNowhere(t *testing.T) {
	dir := t.TempDir()
	lines, err := audit.Open(audit.Options{Dir: dir, MaxBytes: 1 << 20, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := start(t, func(o *setup) {
		o.api.Audit, o.api.Log = lines, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	const value = "of-great-worth"
	for _, r := range []struct{ method, path, body string }{
		{"PUT", "/v1/secrets/a", aSecret},
		{"PUT", "/v1/secrets/a", aSecret},
		{"GET", "/v1/secrets/a", ""},
		{"GET", "/v1/secrets", ""},
		{"PUT", "/v1/secrets/b", strings.Replace(aSecret, "{", `{"shared":true,`, 1)}, // refused
		{"PUT", "/v1/secrets/b", strings.Replace(aSecret, "worth", "worth\u007f", 1)},
		{"PUT", "/v1/secrets/b", strings.Replace(aSecret, "hosts", "host", 1)},
		{"POST", "/v1/secrets", aSecret},
		{"GET", "/metrics", ""},
		{"DELETE", "/v1/secrets/a", ""},
	} {
		if a := s.do(t, r.method, r.path, r.body); bytes.Contains(a.body, []byte(value)) {
			t.Errorf("%s %s is answered with the value: %s", r.method, r.path, a.body)
		}
	}
	s.Close()
	if log.Len() == 0 || bytes.Contains(log.Bytes(), []byte(value)) {
		t.Errorf("the log has the value, or nothing: %s", &log)
	}
	text, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil || !bytes.Contains(text, []byte(`PUT /v1/secrets/{name}`)) || !bytes.Contains(text, []byte(`"secret":"a"`)) {
		t.Errorf("the audit log lacks who set what: %s, %v", text, err)
	}
	if bytes.Contains(text, []byte(value)) {
		t.Errorf("the audit log has the value: %s", text)
	}
}

func TestWithoutSecrets(t *testing.T) {
	s := start(t, func(o *setup) { o.session.Secrets = secrets.Options{} })
	for _, r := range []struct{ method, path, body string }{
		{"PUT", "/v1/secrets/x", aSecret},
		{"GET", "/v1/secrets", ""},
		{"GET", "/v1/secrets/x", ""},
		{"DELETE", "/v1/secrets/x", ""},
	} {
		s.do(t, r.method, r.path, r.body).wantError(t, 501, "unimplemented", "")
	}
}
