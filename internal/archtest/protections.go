package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// WeakenSites returns what is wrong with the places where a protection is taken
// away for the control of the attacks: each names its protection by its constant,
// each constant of the package dir has a place, table, which is the control's file
// of rows, has each of them, and there are want places in all.
func (r *Repo) WeakenSites(dir, table string, want int) []string {
	var found []string
	sites, rows := map[string]int{}, map[string]int{}
	declared := map[string]bool{}
	total := 0
	for _, p := range r.Packages {
		for _, f := range p.Files {
			switch {
			case f.Path == table:
				countNamed(f.AST, rows)
			case f.Test:
			case p.Dir == dir:
				declareConstants(f.AST, declared)
			default:
				for _, call := range weakenCalls(f.AST) {
					total++
					name := weakenName(call.Args[0])
					if name == "" {
						found = append(found, r.where(call.Pos())+": takes away a protection that is no constant of "+dir)
					}
					sites[name]++
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if sites[name] == 0 {
			found = append(found, dir+": "+name+" is taken away nowhere")
		}
		if rows[name] == 0 {
			found = append(found, table+": has no row for "+name)
		}
	}
	if total != want {
		found = append(found, fmt.Sprintf("protections are taken away in %d places, and rules.go says %d", total, want))
	}
	return found
}

// weakenCalls are the calls that ask whether a protection is off.
func weakenCalls(file *ast.File) []*ast.CallExpr {
	var calls []*ast.CallExpr
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && slices.Contains([]string{"Off", "Wider"}, weakenName(call.Fun)) && len(call.Args) > 0 {
			calls = append(calls, call)
		}
		return true
	})
	return calls
}

// weakenName is X of an expression protection.X, or "".
func weakenName(e ast.Expr) string {
	if generic, ok := e.(*ast.IndexExpr); ok {
		e = generic.X
	}
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if pkg, ok := s.X.(*ast.Ident); !ok || pkg.Name != "protection" {
		return ""
	}
	return s.Sel.Name
}

// countNamed counts what a file names of the package.
func countNamed(file *ast.File, named map[string]int) {
	ast.Inspect(file, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			named[weakenName(e)]++
		}
		return true
	})
}

// declareConstants adds a file's exported constants.
func declareConstants(file *ast.File, declared map[string]bool) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			constants, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for _, name := range constants.Names {
				if name.IsExported() {
					declared[name.Name] = true
				}
			}
		}
	}
}
