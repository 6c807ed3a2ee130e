package wsl_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/wsl"
)

// windows is a host whose wsl.exe is the stand-in, and the directory that is
// its distribution's root. Its list is what --list --verbose prints; without one
// nothing is installed.
func windows(t *testing.T, list string) (h wsl.Host, root string, out *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, out = t.TempDir(), new(bytes.Buffer)
	t.Setenv("WSL_STANDIN", root)
	for _, dir := range []string{"usr/local/bin", "run", "var/log"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if list != "" {
		if err := os.WriteFile(filepath.Join(root, "list"), []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return wsl.Host{Exe: exe, Distribution: "Debian", URL: "http://127.0.0.1:0", Out: out}, root, out
}

func TestDistributionsAreReadInAnyLanguage(t *testing.T) {
	tests := []struct {
		name, list string
		want       []wsl.Distribution
	}{
		{"English", heading + debian, []wsl.Distribution{{"Debian", "Stopped", "2"}}},
		{"German", german, []wsl.Distribution{{"Ubuntu-22.04", "Wird ausgeführt", "2"}, {"docker-desktop", "Beendet", "2"}}},
		{"with a mark", "\ufeff" + heading + debianOld, []wsl.Distribution{{"Debian", "Stopped", "1"}}},
		{"headings alone", heading, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _, _ := windows(t, tt.list)
			got, err := h.Distributions(t.Context())
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestEnsure(t *testing.T) {
	tests := []struct {
		name, list, distribution string
		says                     string // a part of the error; empty: none
	}{
		{"none is installed", "", "Debian", ""},
		{"another is installed", german, "Debian", ""},
		{"it is installed", heading + debian, "debian", ""},
		{"WSL 1", heading + debianOld, "Debian", `"wsl --set-version Debian 2"`},
		{"unknown", "", "Nonesuch", "Invalid distribution name: 'Nonesuch'"},
		{"never launched", heading + debian, "Half", `"wsl --install Half"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _, out := windows(t, tt.list)
			h.Distribution = tt.distribution
			err := h.Ensure(t.Context())
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want an error with %q", err, tt.says)
			}
			if said, installs := out.String(), !strings.Contains(strings.ToLower(tt.list), strings.ToLower(tt.distribution)); strings.Contains(said, "Installing") != installs {
				t.Errorf("it said %q", said)
			}
		})
	}
}

func TestWithoutWSL(t *testing.T) {
	h := wsl.Host{Exe: "no-such-wsl.exe", Distribution: "Debian", Out: io.Discard}
	if err := h.Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "wsl --install") {
		t.Errorf("got %v, want a hint", err)
	}
}
