// Package web holds the console to what it promises, in a real browser, against a real
// daemon. Each *.test.mjs drives a browser.
package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestConsole runs the scripts, each with a daemon of its own.
func TestConsole(t *testing.T) {
	scripts, err := filepath.Glob("*.test.mjs")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(script, ".test.mjs"), func(t *testing.T) { run(t, script) })
	}
}

// picturesVar is the environment variable that says where TestPictures writes.
const picturesVar = "SANDKASTEN_TEST_PICTURES"

// TestPictures makes the pictures of the documentation anew.
func TestPictures(t *testing.T) {
	if os.Getenv(picturesVar) == "" {
		t.Skipf("makes pictures for the documentation where %s says", picturesVar) //nolint:forbidigo // it tests nothing that CI must not skip
	}
	run(t, "pictures.mjs")
}

// run runs a script. A line `daemon kill` or `daemon start` of it asks for that, and is
// answered by a line.
func run(t *testing.T, script string) {
	t.Helper()
	d := blackbox.Start(t, blackbox.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Env = append(os.Environ(), "SANDKASTEN_URL="+d.URL, "SANDKASTEN_API_KEY="+d.Key, fmt.Sprintf("SANDKASTEN_TEST_PID=%d", d.PID()))
	if os.Getenv("SANDKASTEN_TEST_SHOTS") == "" {
		cmd.Env = append(cmd.Env, "SANDKASTEN_TEST_SHOTS="+t.TempDir())
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); line {
		case "daemon kill":
			d.Kill()
			answer(t, in)
		case "daemon start":
			d.Start()
			answer(t, in)
		default:
			t.Log(line)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, errs.String())
	}
}

func answer(t *testing.T, in io.Writer) {
	t.Helper()
	if _, err := fmt.Fprintln(in, "done"); err != nil {
		t.Error(err)
	}
}
