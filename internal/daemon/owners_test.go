package daemon

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// The daemon's own key and those of api_keys, configured and in files, are
// known with their owners; a wrong one stops the daemon without being told.
func TestKeys(t *testing.T) {
	cfg := testConfig(t)
	if err := os.Mkdir(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	bobs := filepath.Join(t.TempDir(), "bob")
	cfg.APIKeys = []config.APIKey{{Owner: "alice", Key: "sk_alice_key_of_16"}, {Owner: "bob", KeyFile: bobs}, {Owner: auth.Admin, Key: "sk_second_key_of_16"}}
	var log bytes.Buffer
	d := &Daemon{cfg: cfg, log: NewLog(config.Log{Level: "info", Format: "text"}, &log)}
	keys, err := d.keys()
	if err != nil {
		t.Fatal(err)
	}
	key := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	for shown, want := range map[string]string{
		key(cfg.KeyFile()): auth.Admin, "sk_second_key_of_16": auth.Admin, "sk_alice_key_of_16": "alice", key(bobs): "bob", "sk_mallory": "",
	} {
		if p, err := keys.Authenticate(t.Context(), shown); p.Owner != want || p.Has(auth.ScopeDaemon) != (want == auth.Admin) || (err == nil) != (want != "") {
			t.Errorf("%+v, %v; want %q", p, err, want)
		}
	}
	if strings.Contains(log.String(), key(bobs)) || !strings.Contains(log.String(), "owner=bob") {
		t.Errorf("log: %s", &log)
	}

	for want, edit := range map[string]func(*config.Config){
		"the same API key": func(c *config.Config) { c.APIKeys[1] = config.APIKey{Owner: "bob", Key: key(cfg.KeyFile())} },
		"of bob: is too short": func(*config.Config) {
			if err := os.WriteFile(bobs, []byte("sk_short"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"chmod 600": func(*config.Config) {
			if err := os.Chmod(bobs, 0o644); err != nil {
				t.Fatal(err)
			}
		},
	} {
		broken := cfg
		broken.APIKeys = []config.APIKey{{Owner: "alice", Key: "sk_alice_is_long_enough"}, {Owner: "bob", KeyFile: bobs}}
		edit(&broken)
		if _, err := (&Daemon{cfg: broken, log: silent}).keys(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk_") {
			t.Errorf("%s: %v", want, err)
		}
		if err := os.Chmod(bobs, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// An owner's limits are theirs alone, and what tells of all is the daemon's.
func TestOwners(t *testing.T) {
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	cfg.APIKey = "sk_own"
	cfg.APIKeys = []config.APIKey{{Owner: "alice", Key: "sk_alice_key_of_16", MaxSessions: 7, RequestsPerSecond: 0.001, Burst: 7}, {Owner: "bob", Key: "sk_bob_key_of_16_c"}}
	d, _ := start(t, cfg)
	for _, tt := range []struct {
		key, path string
		status    int
		body      string
	}{
		{"sk_own", "/metrics", http.StatusOK, "sandkasten_sessions"},
		{"sk_own", "/v1/pool/status", http.StatusOK, "enabled"},
		{"sk_own", "/v1/host/history", http.StatusOK, "samples"},
		{"sk_alice_key_of_16", "/metrics", http.StatusForbidden, "owner is admin"},
		{"sk_alice_key_of_16", "/v1/pool/status", http.StatusForbidden, "owner is admin"},
		{"sk_alice_key_of_16", "/v1/host/history", http.StatusForbidden, "owner is admin"},
		{"sk_alice_key_of_16", "/v1/host/findings", http.StatusForbidden, "owner is admin"},
		{"sk_alice_key_of_16", "/v1/info", http.StatusOK, `"sessions_per_key":7`},
		{"sk_alice_key_of_16", "/v1/sessions", http.StatusOK, "[]"},
		{"sk_alice_key_of_16", "/v1/sessions", http.StatusOK, "[]"},
		{"sk_alice_key_of_16", "/v1/sessions", http.StatusTooManyRequests, "0.001 requests per second for this key"},
		{"sk_bob_key_of_16_c", "/v1/sessions", http.StatusOK, "[]"},
		{"sk_mallory", "/v1/sessions", http.StatusUnauthorized, ""},
	} {
		if status, body := get(t, d.URL()+tt.path, tt.key); status != tt.status || !strings.Contains(body, tt.body) {
			t.Errorf("%s at %s: %d %s", tt.key, tt.path, status, body)
		}
	}
	if _, body := get(t, d.URL()+"/v1/info", "sk_bob_key_of_16_c"); strings.Contains(body, "sessions_per_key") {
		t.Errorf("bob has alice's limit: %s", body)
	}
}
