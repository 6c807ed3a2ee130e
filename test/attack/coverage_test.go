package attack

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/test/attack/coverage"
)

// sections are those of the list that the battery has so far.
const sections = "KPHTRESNWACID"

// Each case of the list has a test here, or a reason in coverage, and no test
// is for a case that is not on the list.
func TestCoverage(t *testing.T) {
	tests := caseTests(t)
	listed := slices.Concat(coverage.Starred, coverage.Others)
	for _, id := range listed {
		reason, excused := coverage.Without[id]
		switch {
		case len(tests[id]) > 0 && excused:
			t.Errorf("%s has the test %s, and a reason to have none: %s", id, tests[id][0], reason)
		case excused && len(reason) < 20:
			t.Errorf("%s: that is no reason: %q", id, reason)
		case len(tests[id]) == 0 && !excused && strings.Contains(sections, id[:1]):
			t.Errorf("%s has neither a test nor a reason", id)
		}
	}
	for id, names := range tests {
		if !slices.Contains(listed, id) {
			t.Errorf("%s is for a case that is not on the list", names[0])
		}
	}
	for id := range coverage.Without {
		if !slices.Contains(listed, id) {
			t.Errorf("%s has a reason and is not on the list", id)
		}
	}
}

// caseTests are the names of this package's tests by their cases: TestK01_Name.
func caseTests(t *testing.T) map[string][]string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string][]string{}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			rest, ok := strings.CutPrefix(fn.Name.Name, "Test")
			if id, _, named := strings.Cut(rest, "_"); ok && named && len(id) == 3 {
				tests[id] = append(tests[id], fn.Name.Name)
			}
		}
	}
	return tests
}
