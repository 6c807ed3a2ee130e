package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
)

// TestStopSessionsWhereNoDaemonRan holds that the removal of a package that was
// never used says and makes nothing, however data_dir is written.
func TestStopSessionsWhereNoDaemonRan(t *testing.T) {
	dir := t.TempDir()
	data, file := filepath.Join(dir, "the data"), filepath.Join(dir, "sandkasten.yaml")
	if err := os.WriteFile(file, []byte("data_dir: \""+data+"\"  # in quotes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: &said}
	if code := run(t.Context(), a, []string{"--config", file, "daemon", "--stop-sessions"}); code != 0 || said.Len() > 0 {
		t.Errorf("it ends with %d and says %s", code, &said)
	}
	if _, err := os.Lstat(data); !os.IsNotExist(err) {
		t.Errorf("it has made the data directory: %v", err)
	}
}
