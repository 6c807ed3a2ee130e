package weaken_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/internal/weaken"
)

const variable = "SANDKASTEN_TEST_WEAKEN"

// TestOff runs in both builds: without the tag no setting has an effect.
func TestOff(t *testing.T) {
	t.Setenv(variable, "seccomp,owner,")
	tagged := os.Getenv("WEAKEN_ON") != ""
	for p, off := range map[weaken.Protection]bool{weaken.Seccomp: true, weaken.Owner: true, weaken.Landlock: false, "": false} {
		if got := weaken.Off(p); got != (off && tagged) {
			t.Errorf("Off(%q) = %t", p, got)
		}
	}
	if named := weaken.Named(); tagged != slices.Equal(named, []weaken.Protection{weaken.Seccomp, weaken.Owner}) {
		t.Errorf("named %q", named)
	}
	if env := weaken.Environ(); tagged != slices.Equal(env, []string{variable + "=seccomp,owner,"}) {
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
	cmd.Env = append(os.Environ(), "WEAKEN_ON=1", "CGO_ENABLED=0", "GOFLAGS=")
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

// Each protection has a place where it is taken away, by its constant or in the
// driver's own table, by its name.
func TestEveryProtectionHasAPlace(t *testing.T) {
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	err = filepath.WalkDir(filepath.Join(root, "internal"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "weaken" {
			return err
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range constants(t) {
		if !strings.Contains(source.String(), "weaken."+name+")") && !strings.Contains(source.String(), "(weaken."+name+",") && !strings.Contains(source.String(), `leaveOut["`+value+`"]`) {
			t.Errorf("%s is taken away nowhere", name)
		}
	}
}

// constants are the protections of this package, names and values.
func constants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "weaken.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		all[spec.Names[0].Name] = value
		return true
	})
	if len(all) < 30 {
		t.Fatalf("found only %d", len(all))
	}
	return all
}
