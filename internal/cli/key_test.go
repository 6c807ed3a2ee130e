package cli

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A stored key is for the daemon that stored it. Whoever names another with
// --url must bring a key.
func TestStoredKeyGoesToItsOwnDaemonOnly(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sandkasten.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:9\ndata_dir: "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "api_key"), []byte("sk_stored\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{"": "sk_stored", "http://127.0.0.1:9/": "sk_stored", "http://127.0.0.1:10": ""} {
		a := &App{Err: io.Discard, Flags: Flags{Config: file, URL: url}}
		_, key, err := a.daemonOf()
		if err != nil || key != want {
			t.Errorf("key for %q = %q, %v; want %q", url, key, err, want)
		}
	}
}
