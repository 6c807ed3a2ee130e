package sandkasten_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var program = regexp.MustCompile("(?s)```go\n(.*?)```\n\n```text\n(.*?)```")

// TestReadme runs the README's programs as a user's, in a module beside this one.
func TestReadme(t *testing.T) {
	needDaemon(t)
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	programs := program.FindAllStringSubmatch(string(text), -1)
	if n := strings.Count(string(text), "```go\n"); n != len(programs) || n == 0 {
		t.Fatalf("%d of %d programs say what they print", len(programs), n)
	}
	for _, p := range programs {
		dir := newModule(t)
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(p[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := runGo(t, dir, "run", "."); got != p[2] {
			t.Errorf("a program of the README prints\n%s, not\n%s", got, p[2])
		}
	}
}

func TestExamples(t *testing.T) {
	needDaemon(t)
	const want = "seed 0: 4\nseed 1: 2\nseed 2: 1\nseed 3: 2\n"
	if got := runGo(t, ".", "run", "./examples/parallel"); got != want {
		t.Errorf("it prints\n%s", got)
	}
}

// newModule makes a module that uses this one.
func newModule(t *testing.T) string {
	t.Helper()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	const sdk = "github.com/sandkasten/sandkasten/sdk/go"
	dir := t.TempDir()
	runGo(t, dir, "mod", "init", "example.org/program")
	runGo(t, dir, "mod", "edit", "-require="+sdk+"@v0.0.0", "-replace="+sdk+"="+here)
	return dir
}

// runGo returns what the go command prints, which must succeed.
func runGo(t *testing.T, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}
