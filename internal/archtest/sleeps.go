package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"iter"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Sleeps compares the places where tests sleep, in Go and in scripts, with a
// recorded number. What a script runs in a sandbox may sleep: it is the subject. A sleep is too long on an idle machine and too short on a busy
// one, so the number may only fall, and whoever makes it fall records that.
func (r *Repo) Sleeps(recorded int) ([]string, error) {
	var places []string
	for _, p := range r.Packages {
		bubbles := map[string]bool{}
		for _, f := range p.Files {
			maps.Insert(bubbles, bubblesOf(f.AST))
		}
		for _, f := range p.Files {
			if f.Test {
				places = append(places, r.sleepsIn(f.AST, bubbles)...)
			}
		}
	}
	err := r.walk(func(name string) error {
		sleeps, ok := scriptSleeps[path.Ext(name)]
		if !ok || !testPath.MatchString(name) {
			return nil
		}
		text, err := r.read(name)
		for i, line := range strings.Split(text, "\n") {
			for range sleeps(line) {
				places = append(places, fmt.Sprintf("%s:%d", name, i+1))
			}
		}
		return err
	})
	switch {
	case err != nil || len(places) == recorded:
		return nil, err
	case len(places) < recorded:
		return []string{fmt.Sprintf("tests sleep in %d places, and rules.go says %d: write the lower number there", len(places), recorded)}, nil
	}
	return []string{fmt.Sprintf("tests sleep in %d places, and rules.go allows %d: wait with testenv.Eventually, for a channel, or in a bubble of testing/synctest; the places are\n\t%s",
		len(places), recorded, strings.Join(places, "\n\t"))}, nil
}

// scriptSleeps has, for each language of test scripts, how many times a line sleeps.
var scriptSleeps = map[string]func(line string) int{".mjs": webSleeps, ".ts": webSleeps, ".py": pythonSleeps, ".txtar": shellSleeps}

var (
	webSleep    = regexp.MustCompile(`\b(setTimeout|waitForTimeout)\(`)
	pythonSleep = regexp.MustCompile(`\b(time|asyncio)\.sleep\(`)
	shellSleep  = regexp.MustCompile(`\bsleep [0-9.$]`)
	inSandbox   = regexp.MustCompile(`"[^"]*"`) // of a shell's command: what it hands to sandkasten
)

func webSleeps(line string) int    { return len(webSleep.FindAllString(line, -1)) }
func pythonSleeps(line string) int { return len(pythonSleep.FindAllString(line, -1)) }

// shellSleeps counts those of the script's own shell, and none of a sandbox's.
func shellSleeps(line string) int {
	if !strings.HasPrefix(strings.TrimLeft(line, "! "), "exec sh -c ") {
		return 0
	}
	return len(shellSleep.FindAllString(inSandbox.ReplaceAllString(line, `""`), -1))
}

// testPath matches files of tests by a directory or by their own name.
var testPath = regexp.MustCompile(`(^|/)tests?/|(^|/)test_[^/]*$|\.test\.[a-z]+$`)

// sleepsIn are the calls of time.Sleep and the waits for time.After after which a
// test goes on, without those in a bubble of testing/synctest: its clock does not
// wait. bubbles are functions of the package that make one. A case of a select that ends the test is a deadline, and no sleep.
func (r *Repo) sleepsIn(file *ast.File, bubbles map[string]bool) []string {
	var places []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); calls(n, "synctest", "Test") || ok && bubbles[name.Name] {
				return false
			}
			if calls(n, "time", "Sleep") {
				places = append(places, r.where(n.Pos()))
			}
		case *ast.BlockStmt:
			for _, statement := range n.List {
				if awaitsTime(statement) {
					places = append(places, r.where(statement.Pos()))
				}
			}
		case *ast.CommClause:
			if awaitsTime(n.Comm) && len(n.Body) == 0 {
				places = append(places, r.where(n.Pos()))
			}
		}
		return true
	})
	return places
}

// bubblesOf are a file's functions that call what they are given in a bubble.
func bubblesOf(file *ast.File) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && takesFunction(fn) && makesBubble(fn) && !yield(fn.Name.Name, true) {
				return
			}
		}
	}
}

func takesFunction(fn *ast.FuncDecl) bool {
	return slices.ContainsFunc(fn.Type.Params.List, func(p *ast.Field) bool { _, ok := p.Type.(*ast.FuncType); return ok })
}

func makesBubble(fn *ast.FuncDecl) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && calls(call, "synctest", "Test")
		return !found
	})
	return found
}

// awaitsTime reports whether a statement is <-time.After.
func awaitsTime(statement ast.Stmt) bool {
	expression, ok := statement.(*ast.ExprStmt)
	if !ok {
		return false
	}
	receive, ok := expression.X.(*ast.UnaryExpr)
	if !ok || receive.Op != token.ARROW {
		return false
	}
	call, ok := receive.X.(*ast.CallExpr)
	return ok && calls(call, "time", "After")
}

// calls reports whether a call is of a package's function.
func calls(call *ast.CallExpr, pkg, name string) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != name {
		return false
	}
	from, ok := f.X.(*ast.Ident)
	return ok && from.Name == pkg
}
