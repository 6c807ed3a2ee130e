package protection_test

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

const variable = "SANDKASTEN_TEST_WEAKEN"

// TestOff runs in both builds: without the tag no setting has an effect.
func TestOff(t *testing.T) {
	t.Setenv(variable, "seccomp,owner,")
	tagged := os.Getenv("WEAKEN_ON") != ""
	for p, off := range map[protection.Protection]bool{protection.Seccomp: true, protection.Owner: true, protection.Landlock: false, "": false} {
		if got := protection.Off(p); got != (off && tagged) {
			t.Errorf("Off(%q) = %t", p, got)
		}
	}
	if named := protection.Named(); tagged != slices.Equal(named, []protection.Protection{protection.Seccomp, protection.Owner}) {
		t.Errorf("named %q", named)
	}
	if env := protection.Environ(); tagged != slices.Equal(env, []string{variable + "=seccomp,owner,"}) {
		t.Errorf("environment %q", env)
	}
}

func TestWithTag(t *testing.T) {
	if os.Getenv("WEAKEN_ON") != "" {
		return
	}
	compiler, err := exec.LookPath("go")
	if err != nil {
		testenv.Unsupported(t, "building with a tag needs Go: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), compiler, "test", "-tags=weaken", "-run=^TestOff$", ".")
	cmd.Env = append(os.Environ(), "WEAKEN_ON=1", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// A release must not know how its protections are taken away. The runner with
// the tag is built to see that the search finds what it looks for.
func TestReleaseHasNoneOfIt(t *testing.T) {
	for _, c := range []struct {
		pkg   string
		tags  []string
		found bool
	}{
		{"./cmd/sandkasten", nil, false},
		{"./cmd/runner", nil, false},
		{"./cmd/runner", []string{"weaken"}, true},
	} {
		program, err := os.ReadFile(testenv.Build(t, c.pkg, c.tags...))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(program, []byte(variable)) != c.found {
			t.Errorf("%s with tags %q: %s found: %t", c.pkg, c.tags, variable, !c.found)
		}
	}
}
