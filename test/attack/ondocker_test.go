package attack

import (
	"flag"
	"fmt"
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

var update = flag.Bool("update", false, "rewrite the table of cases in docs/docker.md")

const (
	dockerPage = "../../docs/docker.md"
	tableBegin = "<!-- cases: written by go test ./test/attack -run=TestDockerTable -update -->\n"
	tableEnd   = "<!-- end of the cases -->\n"
)

// docs/docker.md has each case of D02 with its test or the reason for none, and a
// case is said to be otherwise there if its test asks where it is.
func TestDockerTable(t *testing.T) {
	tests, asking := caseTests(t, "."), askingTests(t)
	var table strings.Builder
	table.WriteString("| case | test | tried in | otherwise in containers |\n| --- | --- | --- | --- |\n")
	runs := dockerRuns(t)
	listed := listedCases(t)
	for _, c := range listed {
		id := c.ID
		if !strings.Contains(coverage.DockerSections, id[:1]) {
			continue
		}
		names, said := tests[id], coverage.OnDocker[id]
		asks := slices.ContainsFunc(names, func(name string) bool { return asking[name] })
		switch {
		case asks != (said != ""):
			t.Errorf("%s: its test asks whether it is in a container: %v; coverage.OnDocker says %q", id, asks, said)
		case (runs[id] == "") != (len(names) == 0):
			t.Errorf("%s has the tests %q and is tried in %q; coverage has it in one group if it has a test", id, names, runs[id])
		case len(names) == 0:
			fmt.Fprintf(&table, "| %s | none: %s | | |\n", id, c.Without)
		default:
			fmt.Fprintf(&table, "| %s | `%s` | %s | %s |\n", id, strings.Join(names, "`, `"), runs[id], said)
		}
	}
	for id := range coverage.OnDocker {
		if !slices.ContainsFunc(listed, func(c coverage.Case) bool { return c.ID == id }) || !strings.Contains(coverage.DockerSections, id[:1]) {
			t.Errorf("%s is no case that is run in containers", id)
		}
	}
	for id := range runs {
		if !slices.ContainsFunc(listed, func(c coverage.Case) bool { return c.ID == id }) || !strings.Contains(coverage.DockerSections, id[:1]) {
			t.Errorf("%s is in a group, and no case that is run in containers", id)
		}
	}
	compareTable(t, table.String())
}

// dockerRuns says of each case that is tried in containers in which runs it is.
func dockerRuns(t *testing.T) map[string]string {
	t.Helper()
	runs := map[string]string{}
	for run, groups := range map[string][]coverage.Group{"every run": coverage.DockerEveryRun, "the long tier": coverage.DockerLongTier} {
		for _, g := range groups {
			if len(g.Why) < 20 {
				t.Errorf("%v have no reason: %q", g.Cases, g.Why)
			}
			for _, id := range g.Cases {
				if runs[id] != "" {
					t.Errorf("%s is in two groups", id)
				}
				runs[id] = run
			}
		}
	}
	return runs
}

// compareTable wants the table in the page, or puts it there.
func compareTable(t *testing.T, table string) {
	t.Helper()
	text, err := os.ReadFile(dockerPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	want := before + tableBegin + table + tableEnd + after
	switch {
	case !begins || !ends:
		t.Fatalf("%s has no place for the table of cases", dockerPage)
	case *update:
		if err := os.WriteFile(dockerPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case want != string(text):
		t.Errorf("%s is behind the tests; run go test ./test/attack -run=TestDockerTable -update", dockerPage)
	}
}

// askingTests are the tests that ask whether they are in a container.
func askingTests(t *testing.T) map[string]bool {
	t.Helper()
	asking := map[string]bool{}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		asks := map[string]bool{} // functions of the file that do
		for range 2 {             // those that call one that does
			for _, decl := range file.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil && asksIn(fn, asks) {
					asks[fn.Name.Name] = true
				}
			}
		}
		for name := range asks {
			asking[name] = true
		}
	}
	return asking
}

// asksIn reports whether a function calls the battery's contained, or one of others.
func asksIn(fn *ast.FuncDecl, others map[string]bool) bool {
	found := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "contained" || others[s.Sel.Name]) {
			found = true
		}
		return !found
	})
	return found
}
