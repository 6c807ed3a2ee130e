package fault

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// faultsPage is the list of the faults.
const faultsPage = "../../docs/faults.md"

// faultRow is one of its lines: which faults, and their tests or why there are none.
var faultRow = regexp.MustCompile(`(?m)^\| ((?:F\d\d(?:, )?)+) ([^|]+) \| ([^|]+) \|$`)

// Every fault of the list has a test that the list names, or a reason, and no test
// is of a fault, or a part of one, that the list does not have.
func TestEveryFaultIsTestedOrExplained(t *testing.T) {
	text, err := os.ReadFile(faultsPage)
	if err != nil {
		t.Fatal(err)
	}
	tests, seen := faultTests(t), map[string]bool{}
	for _, row := range faultRow.FindAllStringSubmatch(string(text), -1) {
		ids, title, said := strings.Split(row[1], ", "), row[2], row[3]
		if len(title) < 10 {
			t.Errorf("%s has no title: %q", row[1], title)
		}
		for _, id := range ids {
			seen[id] = true
		}
		named := regexp.MustCompile("`(Test(F\\d\\d)_\\w+)`").FindAllStringSubmatch(said, -1)
		if len(named) == 0 && len(said) < 20 {
			t.Errorf("%s has neither a test nor a reason: %q", row[1], said)
		}
		for _, m := range named {
			if !tests[m[1]] || !slices.Contains(ids, m[2]) {
				t.Errorf("%s names %s, which is no test of it", row[1], m[1])
			}
			delete(tests, m[1])
		}
	}
	if len(tests) > 0 {
		t.Errorf("%s does not have %v", faultsPage, slices.Sorted(maps.Keys(tests)))
	}
	ids := slices.Sorted(maps.Keys(seen))
	for i, id := range ids {
		if want := fmt.Sprintf("F%02d", i+1); id != want {
			t.Fatalf("%s comes where %s should", id, want)
		}
	}
	if len(ids) == 0 {
		t.Error("the list is empty")
	}
}

// faultTests are the tests of this package that are named by a fault.
func faultTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
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
			if f, ok := d.(*ast.FuncDecl); ok && regexp.MustCompile(`^TestF\d\d_`).MatchString(f.Name.Name) {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests
}
