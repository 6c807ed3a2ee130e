package daemon

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestDebugSocket: the profiler is at its socket, for root only, and nowhere else.
func TestDebugSocket(t *testing.T) {
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	cfg.Debug.Socket = filepath.Join(t.TempDir(), "debug.sock")
	d, _ := start(t, cfg)
	info, err := os.Stat(cfg.Debug.Socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the socket: %v, %v", info, err)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", cfg.Debug.Socket)
	}}
	resp, err := (&http.Client{Transport: transport}).Get("http://debug/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("the profiler answers %s", resp.Status)
	}
	key, err := os.ReadFile(cfg.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, d.URL()+"/debug/pprof/", strings.TrimSpace(string(key))); status != http.StatusNotFound {
		t.Errorf("the API's address answers %d %s", status, body)
	}
	// A file that somebody keeps there is not removed.
	other := testConfig(t)
	other.Debug.Socket = filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(other.Debug.Socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if refused := (&Daemon{cfg: other, log: silent}).openDebug(t.Context()); refused == nil {
		t.Error("a file is taken for a socket")
	}
}
