package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerbin"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var silent = slog.New(slog.DiscardHandler)

func testConfig(t *testing.T) config.Config {
	t.Helper()
	c := config.Default(drivers.Names())
	c.Listen = "127.0.0.1:0"
	c.DataDir = filepath.Join(testenv.DataDir(t), "data")
	c.DBPath = filepath.Join(c.DataDir, "sandkasten.db")
	c.Snapshots.Dir = filepath.Join(c.DataDir, "snapshots")
	c.Audit.Dir = filepath.Join(c.DataDir, "audit")
	return c
}

func TestSecondDaemonOnADirectoryIsTurnedAway(t *testing.T) {
	cfg := testConfig(t)
	if err := os.Mkdir(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := dirlock.Acquire(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(t.Context(), cfg, Options{Log: silent})
	if want := fmt.Sprintf("process %d", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("New = %v, want %q in it", err, want)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

func TestAddressInUseFreesTheDirectory(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	cfg := testConfig(t)
	cfg.Listen = other.Addr().String()
	if _, err := New(t.Context(), cfg, Options{Log: silent}); err == nil || !strings.Contains(err.Error(), "choose another for listen") {
		t.Errorf("New = %v", err)
	}
	if _, held, err := dirlock.Holder(cfg.DataDir); held || err != nil {
		t.Errorf("the directory is still held: %v, %v", held, err)
	}
}

func TestAdmit(t *testing.T) {
	var log bytes.Buffer
	logger := NewLog(config.Log{Level: "debug", Format: "json"}, &log)
	warned := []doctor.Finding{
		{Check: "a", Status: doctor.OK, Found: "fine"},
		{Check: "b", Status: doctor.Warn, Found: "weak", Mend: "mend b"},
	}
	if err := admit(t.Context(), logger, warned); err != nil {
		t.Errorf("admit refused warnings: %v", err)
	}
	if !strings.Contains(log.String(), `"level":"WARN"`) || !strings.Contains(log.String(), "mend b") {
		t.Errorf("log = %s", log.String())
	}
	failed := append(warned, doctor.Finding{Check: "c", Status: doctor.Fail, Found: "broken", Mend: "mend c"}, doctor.Finding{Check: "d", Status: doctor.Fail, Found: "gone"})
	err := admit(t.Context(), logger, failed)
	if err == nil || !strings.Contains(err.Error(), "c: broken: mend c\nd: gone") {
		t.Errorf("admit = %v", err)
	}
}

// A pool has a reserve of its own, and no more than it can spare.
func TestReserve(t *testing.T) {
	for _, c := range []struct {
		poolMB, diskReserveMB int64
		dir                   string
		disk, pool            int64 // in MiB
	}{
		{0, 512, "", 512, 0},
		{2048, 512, "", 512, 0}, // of another driver's
		{10_000, 512, "/pool", 512, 512},
		{1024, 512, "/pool", 512, 128},
		{1024, 0, "/pool", 0, 0},
	} {
		cfg := config.Default(drivers.Names())
		cfg.Disk.PoolMB, cfg.Admission.DiskReserveMB = c.poolMB, c.diskReserveMB
		got := admissionReserve(cfg, admission.Host{PoolDir: c.dir})
		if got.DiskBytes != c.disk<<20 || got.PoolBytes != c.pool<<20 || got.MemoryBytes == 0 || got.Pids == 0 {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestNewLog(t *testing.T) {
	for format, wantJSON := range map[string]bool{"auto": true, "json": true, "text": false} {
		var out bytes.Buffer
		log := NewLog(config.Log{Level: "warn", Format: format}, &out)
		log.Info("left out")
		log.Warn("said")
		if strings.Contains(out.String(), "left out") || !strings.Contains(out.String(), "said") {
			t.Errorf("%s: %s", format, out.String())
		}
		if got := json.Valid(out.Bytes()); got != wantJSON {
			t.Errorf("%s: JSON is %v: %s", format, got, out.String())
		}
	}
}

// start makes a daemon and runs it. What it warns of is told with the test.
func start(t *testing.T, cfg config.Config) (d *Daemon, stop func() error) {
	t.Helper()
	return startWith(t, cfg, Options{Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
}

func startWith(t *testing.T, cfg config.Config, o Options) (d *Daemon, stop func() error) {
	t.Helper()
	if _, err := runnerbin.Bytes(); errors.Is(err, runnerbin.ErrMissing) {
		testenv.Unsupported(t, "%v", err)
	}
	o.Version = "test"
	d, err := New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- d.Run(ctx) }()
	stopped := false
	stop = func() error {
		stopped = true
		cancel(errors.New("the test stops it"))
		return errors.Join(<-ran, d.Close())
	}
	t.Cleanup(func() {
		if stopped {
			return
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return d, stop
}

func get(t *testing.T, url, key string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestDaemonServesWithItsOwnKeyAndStops(t *testing.T) {
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	cfg.Sessions.OnExpiry = "stop"
	d, stop := start(t, cfg)
	if status, body := get(t, d.URL()+"/healthz", ""); status != http.StatusOK || !strings.Contains(body, `"ok"`) {
		t.Errorf("/healthz = %d %s", status, body)
	}
	if status, _ := get(t, d.URL()+"/v1/sessions", ""); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", status)
	}
	info, err := os.Stat(cfg.KeyFile())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("key file: %v, %v", info, err)
	}
	key, err := os.ReadFile(cfg.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/sessions", "/v1/info", "/metrics", "/openapi.json", "/docs"} {
		if status, body := get(t, d.URL()+path, strings.TrimSpace(string(key))); status != http.StatusOK {
			t.Errorf("%s = %d %s", path, status, body)
		}
	}
	if _, body := get(t, d.URL()+"/v1/info", strings.TrimSpace(string(key))); !strings.Contains(body, `"on_expiry":"stop"`) {
		t.Errorf("the configuration's sessions.on_expiry is not in %s", body)
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, held, err := dirlock.Holder(cfg.DataDir); held || err != nil {
		t.Errorf("the directory is still held: %v, %v", held, err)
	}
	// The same key serves the next daemon.
	d, _ = start(t, cfg)
	if status, _ := get(t, d.URL()+"/v1/sessions", strings.TrimSpace(string(key))); status != http.StatusOK {
		t.Errorf("the key has changed: %d", status)
	}
}

func TestUsersOutliveTheDaemon(t *testing.T) {
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	d, stop := start(t, cfg)
	operator := auth.Principal{Owner: auth.Admin, ID: "api_key", Scopes: auth.ScopeDaemon}
	if _, err := d.accounts.CreateUser(t.Context(), operator, accounts.UserRequest{Name: "dora"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.accounts.CreateUser(t.Context(), operator, accounts.UserRequest{Name: auth.Admin}); !errdefs.Is(err, errdefs.AlreadyExists) {
		t.Errorf("a user has the name of the daemon's owner: %v", err)
	}
	key, err := d.accounts.CreateKey(t.Context(), operator, accounts.KeyRequest{User: "dora"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/me", "/v1/sessions"} {
		if status, body := get(t, d.URL()+path, key.Text); status != http.StatusOK {
			t.Errorf("%s = %d %s", path, status, body)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	d, _ = start(t, cfg)
	if status, body := get(t, d.URL()+"/v1/me", key.Text); status != http.StatusOK || !strings.Contains(body, `"last_used_at"`) {
		t.Errorf("/v1/me of the next daemon = %d %s", status, body)
	}
	testenv.Eventually(t, "the sessions of the last run are taken up", d.manager.Ready)
	if _, err := d.accounts.DeleteUser(t.Context(), operator, "dora"); err != nil {
		t.Fatal(err)
	}
	if status, _ := get(t, d.URL()+"/v1/me", key.Text); status != http.StatusUnauthorized {
		t.Errorf("after the user's end: %d", status)
	}
}
