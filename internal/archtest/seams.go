package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// isSurface reports whether requests come in at a package. What is below knows of
// no routes, and what is there compares no owners.
func isSurface(dir string) bool {
	return dir == "internal/api" || strings.HasPrefix(dir, "internal/api/") || dir == "internal/preview"
}

// Owners returns where a surface decides by itself whose something is: that is
// the session core's, for a principal.
func (r *Repo) Owners() []string {
	var found []string
	for _, p := range r.Packages {
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BinaryExpr:
					if isSurface(p.Dir) && (n.Op == token.EQL || n.Op == token.NEQ) && (comparesOwner(n.X, n.Y) || comparesOwner(n.Y, n.X)) {
						found = append(found, r.where(n.Pos())+": compares owners; pass the principal to the session core")
					}
				case *ast.SelectorExpr:
					if n.Sel.Name == "GetOwned" && p.Dir != "internal/session" && p.Dir != "internal/store" {
						found = append(found, r.where(n.Pos())+": reads an owner's row; that is the session core's")
					}
				}
				return true
			})
		}
	}
	return found
}

// comparesOwner reports whether x is an owner and y not the empty text, which is
// that of a request before its credential was seen.
func comparesOwner(x, y ast.Expr) bool {
	selector, ok := x.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Owner" {
		return false
	}
	literal, ok := y.(*ast.BasicLit)
	return !ok || literal.Value != `""`
}

var routeText = regexp.MustCompile(`\b(GET|HEAD|POST|PUT|PATCH|DELETE) /`)

// Routes returns the texts below the surfaces that name a route of HTTP: another
// surface has others.
func (r *Repo) Routes() []string {
	var found []string
	for _, p := range r.Packages {
		if isSurface(p.Dir) || !strings.HasPrefix(p.Dir, "internal/") || strings.HasPrefix(p.Dir, "internal/cli") {
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && routeText.MatchString(text.Value) {
					found = append(found, r.where(text.Pos())+": names a route; say what is wrong, and let the surface say where to look")
				}
				return true
			})
		}
	}
	return found
}

// Aliases returns the types of a package and its children that only give a type of
// ours another name.
func (r *Repo) Aliases(dir string) []string {
	var found []string
	for _, p := range r.Packages {
		if p.Dir != dir && !strings.HasPrefix(p.Dir, dir+"/") {
			continue
		}
		for _, f := range p.Files {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if ok && spec.Assign.IsValid() {
					if _, foreign := spec.Type.(*ast.SelectorExpr); foreign {
						found = append(found, r.where(spec.Pos())+": "+spec.Name.Name+" is another package's type; name that")
					}
				}
				return true
			})
		}
	}
	return found
}
