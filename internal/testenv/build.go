package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// BinVar is the environment variable that names a directory with the programs
// already built, for machines without Go: those of test/vm.
const BinVar = "SANDKASTEN_TEST_BIN"

// Runner returns the path of a static build of cmd/runner, the program that
// sandboxes run. The file is the caller's to read, not to change.
func Runner(t testing.TB) string {
	t.Helper()
	return Build(t, "./cmd/runner")
}

// Build returns the path of a static build of the main package at pkg, which
// is given from the root of the module ("./cmd/sandkasten"): built the way
// releases are and without -race, at most once per test binary. It is kept in
// the cache directory, where the next run finds it and links only what changed.
//
// Build tags become part of the file's name.
func Build(t testing.TB, pkg string, tags ...string) string {
	t.Helper()
	name := strings.Join(append([]string{filepath.Base(pkg)}, tags...), "-")
	if dir := os.Getenv(BinVar); dir != "" {
		return filepath.Join(dir, name)
	}
	return buildOnce(t, name, pkg, "build", "-tags="+strings.Join(tags, ","))
}

// TestBinary returns the path of a build of the tests in pkg, with build tags,
// for tests that run themselves as another process that is killed. It is kept
// as those of Build are, and built with the same flags: in other ways the
// compiler would have to compile everything that it imports once more.
func TestBinary(t testing.TB, pkg string, tags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		Unsupported(t, "building %s needs Go: %v", pkg, err)
	}
	name := strings.Join(append([]string{filepath.Base(pkg)}, tags...), "-") + ".test"
	return buildOnce(t, name, pkg, "test", "-c", "-tags="+strings.Join(tags, ","))
}

// Program returns the path of a static build of cmd/sandkasten with the runner of
// this tree in it, both with these build tags.
func Program(t testing.TB, tags ...string) string {
	t.Helper()
	if os.Getenv(BinVar) != "" {
		return Build(t, "./cmd/sandkasten", tags...)
	}
	return ProgramWith(t, Build(t, "./cmd/runner", tags...), strings.Join(append([]string{"whole"}, tags...), "-"), tags...)
}

// ProgramWith is Program with another runner, a program at that path. The build
// is kept under the name. The runner is put in by the compiler's overlay: nothing
// is written into the tree.
func ProgramWith(t testing.TB, runner, name string, tags ...string) string {
	t.Helper()
	if dir := os.Getenv(BinVar); dir != "" {
		return filepath.Join(dir, name)
	}
	root, err := ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "internal/runnerbin/bin/runner"): runner}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(name, "sandkasten") // scripts call it so
	return buildOnce(t, out, "./cmd/sandkasten", "build", "-overlay="+file, "-tags="+strings.Join(tags, ","))
}

// Tool returns the path of a build of pkg, a program of others, in the version
// that a module of ours below tools chooses ("tools/s3"). It is kept as those
// of Build are.
func Tool(t testing.TB, module, pkg string) string {
	t.Helper()
	return buildOnce(t, path.Base(pkg), pkg, "build", "-modfile="+module+"/go.mod")
}

// buildOnce runs a command of Go that builds, "build" or "test", with flags.
func buildOnce(t testing.TB, name, pkg, command string, flags ...string) string {
	t.Helper()
	// The path is in the name: the tests of two packages may have a program each
	// that is called "crash", and one of them would run the other's.
	name = filepath.Join(filepath.FromSlash(pkg), name)
	once, _ := builds.LoadOrStore(name, sync.OnceValues(func() (string, error) { return build(t, name, pkg, command, flags) }))
	out, err := once.(func() (string, error))()
	if err != nil {
		t.Fatalf("build %s: %v", pkg, err)
	}
	return out
}

// builds holds a func() (string, error) per name.
var builds sync.Map

func build(t testing.TB, name, pkg, command string, flags []string) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	// One directory per checkout, so that two of them do not take turns.
	sum := fnv.New64a()
	sum.Write([]byte(root))
	dir, unlock, err := lockCache(filepath.Join("bin", fmt.Sprintf("%016x", sum.Sum64())))
	if err != nil {
		return "", err
	}
	defer unlock()
	out := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(out), 0o700); err != nil {
		return "", err
	}
	args := slices.Concat([]string{command, "-trimpath", "-ldflags=-s -w", "-o", out}, flags, []string{pkg})
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, text)
	}
	return out, nil
}

// ModuleRoot returns the directory that holds go.mod, searching upwards from
// the working directory.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}
