package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Sleeps compares the places where tests sleep, in Go and in scripts, with a
// recorded number. A sleep is too long on an idle machine and too short on a busy
// one, so the number may only fall, and whoever makes it fall records that.
func (r *Repo) Sleeps(recorded int) ([]string, error) {
	var places []string
	for _, p := range r.Packages {
		for _, f := range p.Files {
			if f.Test {
				places = append(places, r.sleepsIn(f.AST)...)
			}
		}
	}
	err := r.walk(func(name string) error {
		if !slices.Contains(scriptTypes, path.Ext(name)) || !testPath.MatchString(name) {
			return nil
		}
		text, err := r.read(name)
		for i, line := range strings.Split(text, "\n") {
			for range scriptSleep.FindAllString(line, -1) {
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

// scriptTypes are the languages of test scripts.
var scriptTypes = []string{".mjs", ".ts", ".py"}

// testPath matches files of tests by a directory or by their own name.
var testPath = regexp.MustCompile(`(^|/)tests?/|(^|/)test_[^/]*$|\.test\.[a-z]+$`)

// scriptSleep is a wait of a fixed time in one of scriptTypes.
var scriptSleep = regexp.MustCompile(`\b(time|asyncio)\.sleep\(|\bsetTimeout\(`)

// sleepsIn are the calls of time.Sleep, without those in a bubble of
// testing/synctest: its clock does not wait.
func (r *Repo) sleepsIn(file *ast.File) []string {
	var places []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		switch {
		case !ok:
		case calls(call, "synctest", "Test"):
			return false
		case calls(call, "time", "Sleep"):
			places = append(places, r.where(call.Pos()))
		}
		return true
	})
	return places
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
