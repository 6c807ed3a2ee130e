package linux

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// docs/security.md names a test behind each claim. Those tests exist, and each
// escape test is behind a claim.
func TestSecurityClaimsHaveTests(t *testing.T) {
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	const here = "internal/runtime/linux"
	claimed := map[string]bool{}
	for _, m := range regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(text), -1) {
		pkg := m[1]
		if pkg == "" {
			pkg = here
		}
		claimed[pkg+"."+m[2]] = true
		if m[2] != "TestEscape" && !testsOf(t, filepath.Join(root, pkg))[m[2]] {
			t.Errorf("docs/security.md names %s, which is not a test of %s", m[2], pkg)
		}
	}
	if len(claimed) < 40 {
		t.Errorf("only %d tests are named", len(claimed))
	}
	for name := range testsOf(t, filepath.Join(root, here)) {
		if strings.HasPrefix(name, "TestEscape_") && !claimed[here+"."+name] {
			t.Errorf("docs/security.md has no claim for %s", name)
		}
	}
}

// testsOf returns the names of the tests in a directory.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
	}
	return names
}
