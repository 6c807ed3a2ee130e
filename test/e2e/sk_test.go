package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// startScript runs ./sk on a host whose go and uname say what they are told, and
// returns what it says. Its go builds nothing: it notes how it was called.
func startScript(t *testing.T, version, machine string, args ...string) (said, calls string, first time.Duration) {
	t.Helper()
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	programs := map[string]string{
		"uname": "case $1 in -m) echo " + machine + ";; *) echo Linux;; esac",
		"go": "case \"$1\" in\nversion) echo go version go" + version + " linux/amd64;;\n" +
			"env) echo local;;\n*) echo \"$GOTOOLCHAIN $*\" >>" + log + "; exit 1;;\nesac",
	}
	if version == "" {
		delete(programs, "go")
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "sk"), args...)
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + t.TempDir()}
	began := time.Now()
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if first == 0 {
			first = time.Since(began)
		}
		all.WriteString(lines.Text() + "\n")
	}
	if err := cmd.Wait(); err == nil {
		t.Errorf("%q succeeded with a go that builds nothing", args)
	}
	called, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return all.String(), string(called), first
}

// TestStartScript holds what ./sk tells before anything is built.
func TestStartScript(t *testing.T) {
	for name, test := range map[string]struct {
		version, machine string
		args             []string
		says             []string
		calls            string
	}{
		"new enough":   {"1.99.0", "x86_64", []string{"build"}, []string{"Building bin/sandkasten", "that failed"}, " build "},
		"old":          {"1.22.2", "x86_64", []string{"build"}, []string{"Go 1.22 is here, and downloads go1."}, "auto build "},
		"too old":      {"1.19.8", "x86_64", []string{"build"}, []string{"cannot download", "without root", "~/.local"}, ""},
		"another host": {"1.99.0", "aarch64", nil, []string{"Starting Sandkasten", "amd64 only", "the SDKs work here"}, ""},
		"unknown":      {"1.99.0", "x86_64", []string{"nonsense"}, []string{"./sk build"}, ""},
	} {
		said, calls, first := startScript(t, test.version, test.machine, test.args...)
		for _, want := range test.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s: it does not say %q:\n%s", name, want, said)
			}
		}
		if test.calls == "" && calls != "" || !strings.Contains(calls, test.calls) {
			t.Errorf("%s: go was called with %q", name, calls)
		}
		if first > 5*time.Second {
			t.Errorf("%s: it was silent for %s", name, first)
		}
	}
}

// TestPreremoveAsksTheProgram holds that the packages do not read the configuration
// by themselves: data_dir may be quoted, commented or a variable.
func TestPreremoveAsksTheProgram(t *testing.T) {
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	for _, name := range []string{"sandkasten", "systemctl", "sed"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho "+name+" \"$@\" >>"+log+"\n"), 0o755); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	for argument, want := range map[string]bool{"remove": true, "0": true, "upgrade": false, "1": false} {
		if err := os.WriteFile(log, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(root, "deploy/package/preremove.sh"), argument)
		cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", argument, err, out)
		}
		calls, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(calls), "sandkasten daemon --stop-sessions\n"); got != want || strings.Contains(string(calls), "sed ") {
			t.Errorf("%s: it calls\n%s", argument, calls)
		}
	}
}
