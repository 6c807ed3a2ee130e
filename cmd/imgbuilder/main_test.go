package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// It passes its arguments on, and its caller sees sandkasten's output and exit
// code.
func TestImgbuilder(t *testing.T) {
	program, err := os.ReadFile(testenv.Build(t, "./cmd/imgbuilder"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	imgbuilder := filepath.Join(dir, "imgbuilder")
	if err := os.WriteFile(imgbuilder, program, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func() (string, int) {
		cmd := exec.CommandContext(t.Context(), imgbuilder, "build", "base", "--x=a b")
		cmd.Env = []string{"PATH=" + filepath.Join(dir, "path")}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	install := func(name, says string) {
		name = filepath.Join(dir, name)
		script := "#!/bin/sh\nprintf '" + says + "'\nprintf '<%s>' \"$@\"\nexit 7\n"
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, code := run(); code != 1 || !strings.Contains(out, "sandkasten image") {
		t.Errorf("without sandkasten: %d, %q", code, out)
	}
	install("path/sandkasten", "path ")
	if out, code := run(); code != 7 || out != "path <image><build><base><--x=a b>" {
		t.Errorf("with sandkasten in PATH: %d, %q", code, out)
	}
	install("sandkasten", "beside ")
	if out, code := run(); code != 7 || out != "beside <image><build><base><--x=a b>" {
		t.Errorf("with sandkasten beside it: %d, %q", code, out)
	}
}
