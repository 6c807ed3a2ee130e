package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// Budgets bound how large things may grow. They come from measuring
// repositories that are good to read.
type Budgets struct {
	Func       int            // lines of one function
	FuncP90    int            // lines of nine functions in ten
	File       int            // lines of one file
	Package    int            // lines of code in one package
	Larger     map[string]int // those of packages that were over Package when it was set; each only falls
	Review     int            // lines of code from which a package is worth a look; see Large
	TestRatio  float64        // lines of test code per line of code, at least
	Exceptions map[string]string
}

// Sizes returns what is over budget. Tests are not measured, only counted, and
// the packages that only tests use are counted among them. An exception ("internal/x/y.go", "internal/x/y.go:Func" or "internal/x") that
// is no longer needed is a finding too.
func (r *Repo) Sizes(b Budgets, rules map[string]Rule) []string {
	var found []string
	unused := maps.Clone(b.Exceptions)
	shrunk := maps.Clone(b.Larger)
	check := func(what string, size, limit int) {
		if size <= limit {
			return
		}
		if _, ok := b.Exceptions[what]; ok {
			delete(unused, what)
			return
		}
		found = append(found, fmt.Sprintf("%s: %d lines, budget %d", what, size, limit))
	}
	var funcs []int
	var code, tests int
	for _, p := range r.Packages {
		sum := 0
		for _, f := range p.Files {
			if f.Test {
				tests += f.Code
				continue
			}
			sum += f.Code
			check(f.Path, f.Lines, b.File)
			for name, lines := range r.funcs(f) {
				funcs = append(funcs, lines)
				check(f.Path+":"+name, lines, b.Func)
			}
		}
		if rules[p.Dir].TestOnly {
			tests += sum
		} else {
			code += sum
		}
		limit, larger := b.Larger[p.Dir]
		if larger && sum > b.Package {
			delete(shrunk, p.Dir)
		}
		check(p.Dir, sum, max(limit, b.Package))
	}
	if slices.Sort(funcs); len(funcs) > 0 {
		check("nine functions in ten", funcs[(len(funcs)-1)*9/10], b.FuncP90)
	}
	if ratio := float64(tests) / float64(max(code, 1)); ratio < b.TestRatio {
		found = append(found, fmt.Sprintf("%d lines of tests for %d of code are %.2f, budget %.2f", tests, code, ratio, b.TestRatio))
	}
	for _, dir := range slices.Sorted(maps.Keys(shrunk)) {
		found = append(found, dir+": has a budget of its own that it does not need")
	}
	for _, what := range slices.Sorted(maps.Keys(unused)) {
		found = append(found, what+": has an exception that it does not need")
	}
	slices.Sort(found)
	return found
}

// Large returns the packages that have more lines of code than b.Review, the
// largest first. They are for a reviewer to look at, and no findings.
func (r *Repo) Large(b Budgets) []string {
	lines := map[string]int{}
	for _, p := range r.Packages {
		for _, f := range p.Files {
			if !f.Test {
				lines[p.Dir] += f.Code
			}
		}
	}
	maps.DeleteFunc(lines, func(_ string, sum int) bool { return sum <= b.Review })
	dirs := slices.SortedFunc(maps.Keys(lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(lines[b], lines[a]), cmp.Compare(a, b))
	})
	large := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		large = append(large, fmt.Sprintf("%s: %d lines, to be looked at from %d", dir, lines[dir], b.Review))
	}
	return large
}

// funcs returns the lines of each function and method of f, by name.
func (r *Repo) funcs(f *File) map[string]int {
	lines := map[string]int{}
	for _, decl := range f.AST.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil && len(fn.Recv.List) > 0 {
			name = receiver(fn.Recv.List[0].Type) + "." + name
		}
		lines[name] = r.fset.Position(fn.End()).Line - r.fset.Position(fn.Pos()).Line + 1
	}
	return lines
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
