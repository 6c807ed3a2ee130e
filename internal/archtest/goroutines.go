package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Goroutines returns what starts a goroutine in a program whose panics would end
// it, and for which the package guard does that instead. The program is the
// package main and all that it imports of the module.
func (r *Repo) Goroutines(main, guard string) []string {
	packages := map[string]*Package{}
	for _, p := range r.Packages {
		packages[p.Dir] = p
	}
	var found []string
	for _, dir := range slices.Sorted(maps.Keys(reached(packages, main))) {
		if dir == guard {
			continue
		}
		for _, f := range packages[dir].Files {
			if f.Test {
				continue
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if what := startsGoroutine(n); what != "" {
					found = append(found, fmt.Sprintf("%s: %s in %s, where a panic ends a sandbox: use %s", r.where(n.Pos()), what, main, guard))
				}
				return true
			})
		}
	}
	return found
}

// startsGoroutine names what n starts a goroutine with, or returns "".
func startsGoroutine(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a go statement"
	case *ast.SelectorExpr:
		if from, ok := n.X.(*ast.Ident); ok {
			switch name := from.Name + "." + n.Sel.Name; name {
			case "sync.WaitGroup", "time.AfterFunc", "context.AfterFunc", "errgroup.Group":
				return name
			}
		}
	}
	return ""
}

// reached returns the module's packages that main imports, and main.
func reached(packages map[string]*Package, main string) map[string]bool {
	seen, next := map[string]bool{}, []string{main}
	for len(next) > 0 {
		dir := next[0]
		next = next[1:]
		if seen[dir] || packages[dir] == nil {
			continue
		}
		seen[dir] = true
		for _, f := range packages[dir].Files {
			if f.Test {
				continue
			}
			for _, spec := range f.AST.Imports {
				if target, err := strconv.Unquote(spec.Path.Value); err == nil {
					next = append(next, strings.TrimPrefix(target, Module+"/"))
				}
			}
		}
	}
	return seen
}
