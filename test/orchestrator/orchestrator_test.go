// Package orchestrator drives the daemon's /api/sandbox with the published client of
// AstraForge's orchestrator, as it comes from PyPI.
package orchestrator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const someID = "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11"

// PythonVar is the environment variable that names a Python with the client, for
// machines without PyPI.
const PythonVar = "SANDKASTEN_TEST_TOOLKIT_PYTHON"

// python returns a Python with the client, which all tests share.
func python(t *testing.T) string {
	t.Helper()
	if name := os.Getenv(PythonVar); name != "" {
		return name
	}
	if _, err := exec.LookPath("python3"); err != nil {
		testenv.Unsupported(t, "no python3; install it")
	}
	name, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// installed makes a virtual environment with the client in the cache of the tests. pip
// takes a minute of a processor, so the environment is kept for as long as the
// requirements and the version of Python are the same.
var installed = sync.OnceValues(func() (string, error) {
	requirements := filepath.Join("testdata", "requirements.txt")
	text, err := os.ReadFile(requirements)
	if err != nil {
		return "", err
	}
	version, err := exec.Command("python3", "--version").Output()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s", version, text)
	venv, err := testenv.Fixture("toolkit-"+hex.EncodeToString(sum.Sum(nil))[:16], func(dir string) error {
		for _, args := range [][]string{
			{"python3", "-m", "venv", dir},
			{pythonOf(dir), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements},
		} {
			if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%q: %w\n%s", args, err, text)
			}
		}
		return nil
	})
	return pythonOf(venv), err
})

func pythonOf(venv string) string { return filepath.Join(venv, "bin", "python") }

// mode is a kind of sandbox that the client asks for, and the configuration that has it.
type mode struct {
	name   string
	config func(*testing.T) string
}

var (
	native = mode{"native", func(*testing.T) string { return "" }}
	// On an engine of the test's own.
	docker = mode{"docker", func(t *testing.T) string {
		t.Helper()
		return fmt.Sprintf("driver: docker\ndocker: {host: %q}\n", testenv.StartEngine(t).Host)
	}}
)

// daemon runs a daemon with the API, and returns what has the client take a step.
func daemon(t *testing.T, m mode) (d *blackbox.Daemon, step func(name string, args ...string)) {
	t.Helper()
	testenv.NeedsRoot(t)
	interpreter := python(t)
	d = blackbox.Start(t, blackbox.Options{Config: m.config(t) + "orchestrator: {enabled: true, reaper_interval_seconds: 1}\n"})
	return d, func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), interpreter, append([]string{filepath.Join("testdata", "toolkit.py"), d.URL, d.Key, m.name, name}, args...)...)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		if text, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(text), "ok\n") {
			t.Errorf("%s: %v\n%s\n%s", name, err, text, d.Log())
		}
	}
}

// TestToolkit has the client do all that it can. What it does is in the script; what
// happens to the daemon meanwhile is here.
func TestToolkit(t *testing.T) {
	t.Parallel()
	for _, m := range []mode{native, docker} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			checkToolkit(t, m)
		})
	}
}

func checkToolkit(t *testing.T, m mode) {
	t.Helper()
	d, step := daemon(t, m)
	step("life")

	step("begin", someID)
	d.Restart()
	step("again", someID)
	d.Kill()
	d.Start()
	step("again", someID)
	step("stop", someID)
	d.Restart()
	step("again", someID)

	step("stop", someID)
	archives, err := filepath.Glob(filepath.Join(d.Data, "snapshots", "snapshots_*"))
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	for _, archive := range archives {
		if err := os.Remove(archive); err != nil {
			t.Fatal(err)
		}
	}
	d.Restart()
	step("lost", someID)
}

// TestDeepAgent has an agent of deepagents work, whose model is a script.
func TestDeepAgent(t *testing.T) {
	t.Parallel()
	_, step := daemon(t, native)
	step("agent", someID)
}

// TestIdleSession lasts as long as the shortest idle timeout.
func TestIdleSession(t *testing.T) {
	t.Parallel()
	_, step := daemon(t, native)
	step("idle")
}
