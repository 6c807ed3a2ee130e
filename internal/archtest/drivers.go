package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// DriverRules say where drivers are and who may know which there are.
type DriverRules struct {
	Contract string   // the package whose subfolders are the drivers
	Shared   []string // subfolders of Contract that are none
	Names    []string // of drivers in the configuration
	Table    string   // the one package that may import drivers, and name them
	Neutral  []string // packages that name no driver, and those below them; they ask the table
}

// Drivers returns what knows a driver and should not: a driver another one, and a
// neutral package any, be it by its import or by its name.
func (r *Repo) Drivers(rules DriverRules) []string {
	driverOf := func(dir string) string {
		rest, below := strings.CutPrefix(dir, rules.Contract+"/")
		name, _, _ := strings.Cut(rest, "/")
		if !below || slices.Contains(rules.Shared, name) {
			return ""
		}
		return name
	}
	var found []string
	for _, p := range r.Packages {
		neutral := slices.ContainsFunc(rules.Neutral, func(dir string) bool { return p.Dir == dir || strings.HasPrefix(p.Dir, dir+"/") })
		for _, f := range p.Files {
			if f.Test || strings.HasPrefix(path.Base(f.Path), "_") {
				continue
			}
			for _, spec := range f.AST.Imports {
				target, err := strconv.Unquote(spec.Path.Value)
				other := driverOf(strings.TrimPrefix(target, Module+"/"))
				if err == nil && other != "" && other != driverOf(p.Dir) && p.Dir != rules.Table {
					found = append(found, fmt.Sprintf("%s: imports the driver %s, which is for %s alone", r.where(spec.Pos()), other, rules.Table))
				}
			}
			if !neutral {
				continue
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if name := namesDriver(n, rules.Names); name != "" {
					found = append(found, fmt.Sprintf("%s: names the driver %s: ask %s", r.where(n.Pos()), name, rules.Table))
				}
				return true
			})
		}
	}
	return found
}

// namesDriver returns the driver that n names, or "": in a string that is nothing
// else, or by the constant of the contract.
func namesDriver(n ast.Node, names []string) string {
	switch n := n.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && slices.Contains(names, text) {
			return text
		}
	case *ast.SelectorExpr:
		if from, ok := n.X.(*ast.Ident); ok && from.Name == "runtime" && n.Sel.Name == "Native" {
			return "native"
		}
	}
	return ""
}
