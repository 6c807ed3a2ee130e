package failpoint_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestHit runs in both builds: without the tag no setting has an effect.
func TestHit(t *testing.T) {
	t.Setenv("SANDKASTEN_FAILPOINT", "a=error;b=sleep:1ns;c=nonsense;d=sleep:soon")
	for name, fails := range map[string]bool{"a": true, "b": false, "c": true, "d": true, "e": false, "": false} {
		err := failpoint.Hit(name)
		if (err != nil) != (fails && os.Getenv("FAILPOINT_ON") != "") {
			t.Errorf("Hit(%q) = %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "failpoint "+name) {
			t.Errorf("%v does not name the point", err)
		}
	}
}

// TestKill ends the process that TestWithTag starts for it.
func TestKill(t *testing.T) {
	if err := failpoint.Hit("kill"); err != nil {
		t.Error(err)
	}
}

func TestWithTag(t *testing.T) {
	if os.Getenv("FAILPOINT_ON") != "" {
		return
	}
	compiler, err := exec.LookPath("go")
	if err != nil {
		testenv.Unsupported(t, "building with failpoints needs Go: %v", err)
	}
	binary := filepath.Join(t.TempDir(), "failpoint.test")
	run := func(ctx context.Context, name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = append(os.Environ(), "FAILPOINT_ON=1", "SANDKASTEN_FAILPOINT=kill=kill9", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
		text, err := cmd.CombinedOutput()
		t.Logf("%s", text)
		return err
	}
	if err := run(t.Context(), compiler, "test", "-c", "-trimpath", "-tags=failpoint", "-o", binary, "."); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), binary, "-test.run=TestHit"); err != nil {
		t.Error(err)
	}
	err = run(t.Context(), binary, "-test.run=TestKill")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("not killed: %v", err)
	}
}
