package fault

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// elsewhere are the faults without a test in this package: where theirs is, or
// why there is none.
var elsewhere = map[string]string{
	"F13": "no feature: there is no store but SQLite",
	"F24": "no feature: there is no driver for Kubernetes",
	"F27": "internal/blob/s3 has a server that fails in each of these ways",
	"F32": "no feature: sandboxes have no network but loopback, so there is no egress proxy",
	"F35": "a test with two builds: test/e2e",
}

// faults is how many the specification has.
const faults = 37

// Every fault has a test or a reason, and no test is of a fault that there is
// not.
func TestEveryFaultIsTestedOrExplained(t *testing.T) {
	tested := map[string]bool{}
	id := regexp.MustCompile(`^Test(F\d\d)_`)
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				if m := id.FindStringSubmatch(f.Name.Name); m != nil {
					tested[m[1]] = true
				}
			}
		}
	}
	for n := range faults {
		name := fmt.Sprintf("F%02d", n+1)
		if tested[name] == (elsewhere[name] != "") {
			t.Errorf("%s: tested here %v, and said about it: %q", name, tested[name], elsewhere[name])
		}
		delete(tested, name)
	}
	if len(tested) > 0 {
		t.Errorf("tests of unknown faults: %v", slices.Sorted(maps.Keys(tested)))
	}
}
