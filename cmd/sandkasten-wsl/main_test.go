package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What goes through wsl.exe is tested in internal/wsl, where its stand-in is.
func TestCommands(t *testing.T) {
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ready.Close()
	program := filepath.Join(t.TempDir(), "sandkasten")
	if err := os.WriteFile(program, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		says string
		err  string // a part of it; empty: none
	}{
		{"the program is missing", []string{"install", "--binary", program + ".gone"}, "", "say where it is with --binary"},
		{"WSL is missing", []string{"install", "--binary", program, "--wsl", "no-such-wsl.exe"}, "Installing the distribution Debian.", "wsl --install"},
		{"it runs already", []string{"start", "--url", ready.URL}, "is running already at " + ready.URL + "\n", ""},
		{"nothing is installed", []string{"status", "--wsl", "no-such-wsl.exe", "-d", "Ubuntu"}, "distribution  Ubuntu: not installed\n", "executable file not found"},
		{"no command", nil, "", "expected one of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), &out, tt.args)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || !strings.Contains(out.String(), tt.says) {
				t.Errorf("got %v, and it said %q", err, out.String())
			}
		})
	}
}
