package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// A stored secret outlives the daemon, and its value is in no file, no line of the
// log and no line of the audit log.
func TestSecretIsInNoFile(t *testing.T) {
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	cfg.Audit.Enabled, cfg.Audit.MaxFileMB, cfg.Audit.MaxFiles = true, 1, 2
	var log bytes.Buffer
	debug := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	d, stop := startWith(t, cfg, Options{Log: debug})
	const value = "of-great-worth"
	putSecret(t, d, `{"hosts":["api.example.org"],"header":"Authorization","value":"Bearer `+value+`"}`)
	wantNoFile(t, cfg.DataDir, value) // while the database has a journal
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	wantNoFile(t, cfg.DataDir, value)
	if info, err := os.Stat(cfg.SecretsKeyFile()); err != nil || info.Mode() != 0o600 || filepath.Dir(cfg.SecretsKeyFile()) != cfg.DataDir {
		t.Errorf("the key file is %+v, %v", info, err)
	}
	if text, err := os.ReadFile(filepath.Join(cfg.Audit.Dir, "audit.log")); err != nil || !strings.Contains(string(text), "PUT /v1/secrets/{name}") {
		t.Errorf("the audit log is %s, %v", text, err)
	}

	rows, err := store.Open(t.Context(), cfg.DBPath)
	if err != nil {
		t.Fatal(err)
	}
	options, err := secretOptions(cfg, rows)
	if err != nil {
		t.Fatal(err)
	}
	got, err := secrets.New(options).Reveal(t.Context(), auth.Admin, "github")
	if err := errors.Join(err, rows.Close()); err != nil || got.Value != "Bearer "+value {
		t.Errorf("after the daemon %q, %v", got.Value, err)
	}
	if log.Len() == 0 || strings.Contains(log.String(), value) {
		t.Errorf("the log has the value, or nothing: %s", log.String())
	}
}

func putSecret(t *testing.T, d *Daemon, body string) {
	t.Helper()
	key, err := os.ReadFile(d.cfg.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, d.URL()+"/v1/secrets/github", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", resp.Status, err)
	}
}

// wantNoFile checks that no file below a directory has a text.
func wantNoFile(t *testing.T, dir, text string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files++
		if bytes.Contains(content, []byte(text)) {
			t.Errorf("%s has the value", path)
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files were read, %v", files, err)
	}
}

func TestSecretsKeyFileIsRefused(t *testing.T) {
	cfg := testConfig(t)
	cfg.Network.SecretsKeyFile = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(cfg.SecretsKeyFile(), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := secretOptions(cfg, nil); err == nil || !strings.Contains(err.Error(), "network.secrets_key_file") || strings.Contains(err.Error(), "no key") {
		t.Errorf("got %v", err)
	}
}
