package attack

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/test/attack/coverage"
)

// driverTests is where the cases of the level driver have their tests.
const driverTests = "../../internal/runtime/linux"

// Each case of the list has a test at its level, or a reason to have none, and no
// test is for a case that is not on the list.
func TestCoverage(t *testing.T) {
	tests := map[coverage.Level]map[string][]string{coverage.API: caseTests(t, "."), coverage.Driver: caseTests(t, driverTests)}
	previous := ""
	for _, c := range listedCases(t) {
		names := tests[c.Level][c.ID]
		delete(tests[c.Level], c.ID)
		switch {
		case c.ID <= previous:
			t.Errorf("%s comes behind %s", c.ID, previous)
		case c.Level != coverage.API && c.Level != coverage.Driver:
			t.Errorf("%s is of the level %s", c.ID, c.Level)
		case len(c.Holds) < 20:
			t.Errorf("%s does not say what must hold: %q", c.ID, c.Holds)
		case len(names) > 0 && c.Without != "":
			t.Errorf("%s has the test %s, and a reason to have none: %s", c.ID, names[0], c.Without)
		case len(names) == 0 && len(c.Without) < 20:
			t.Errorf("%s has neither a test nor a reason: %q", c.ID, c.Without)
		}
		previous = c.ID
	}
	for level, left := range tests {
		for _, names := range left {
			t.Errorf("%s is for a case of the level %s that is not on the list", names[0], level)
		}
	}
}

// listedCases are the cases of docs/attacks.md.
func listedCases(t *testing.T) []coverage.Case {
	t.Helper()
	cases, err := coverage.Cases()
	if err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	return cases
}

// caseTests are the names of a directory's tests by their cases: TestK01_Name.
func caseTests(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string][]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
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
