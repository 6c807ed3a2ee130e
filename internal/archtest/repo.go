// Package archtest holds the rules about the repository itself: who may import
// whom, how large things may grow, what has to be written down. Its tests
// apply them. A rule here can be decided from the text of the repository; what
// takes judgement is in STYLE.md, and what a linter knows in .golangci.yml.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is the path of the module whose rules these are.
const Module = "github.com/sandkasten/sandkasten"

// Repo is the parsed source of the module.
type Repo struct {
	fsys     fs.FS
	fset     *token.FileSet
	Packages []*Package // by directory
}

// Package is the Go files of one directory.
type Package struct {
	Dir   string // from the root of the module: "internal/session"
	Files []*File
}

// File is one Go file.
type File struct {
	Path  string
	AST   *ast.File
	Test  bool // its name ends in _test.go
	Lines int
	Code  int // lines that hold more than comments
}

// Load parses every Go file below fsys that belongs to the module.
func Load(fsys fs.FS) (*Repo, error) {
	r := &Repo{fsys: fsys, fset: token.NewFileSet()}
	byDir := map[string]*Package{}
	err := r.walk(func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		f, err := r.parse(name)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if byDir[dir] == nil {
			byDir[dir] = &Package{Dir: dir}
			r.Packages = append(r.Packages, byDir[dir])
		}
		byDir[dir].Files = append(byDir[dir].Files, f)
		return nil
	})
	slices.SortFunc(r.Packages, func(a, b *Package) int { return strings.Compare(a.Dir, b.Dir) })
	return r, err
}

// walk calls visit for the module's files: not for other modules below it,
// hidden directories, test data or what was built.
func (r *Repo) walk(visit func(name string) error) error {
	return fs.WalkDir(r.fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == ".git" && !d.IsDir() {
			return nil // of a work tree beside the repository
		}
		if !d.IsDir() {
			return visit(name)
		}
		if name == "." {
			return nil
		}
		base := d.Name()
		_, noModule := fs.Stat(r.fsys, path.Join(name, "go.mod"))
		if base == "testdata" || base == "bin" || base == "node_modules" || noModule == nil ||
			strings.HasPrefix(base, ".") && base != ".ci" {
			return fs.SkipDir
		}
		return nil
	})
}

func (r *Repo) parse(name string) (*File, error) {
	src, err := fs.ReadFile(r.fsys, name)
	if err != nil {
		return nil, err
	}
	tree, err := parser.ParseFile(r.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &File{
		Path:  name,
		AST:   tree,
		Test:  strings.HasSuffix(name, "_test.go"),
		Lines: strings.Count(string(src), "\n"),
		Code:  codeLines(src),
	}, nil
}

// codeLines counts the lines that hold a token, a comment not being one.
func codeLines(src []byte) int {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, src, nil, 0)
	lines, last := 0, 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // put in by the scanner
		}
		first := file.Line(pos)
		end := first + strings.Count(lit, "\n") // of a raw string
		lines += end - max(first, last+1) + 1
		last = max(last, end)
	}
}

// textFiles calls visit with the content of every text file of the module.
func (r *Repo) textFiles(visit func(name, text string)) error {
	return r.walk(func(name string) error {
		if path.Ext(name) == ".sum" {
			return nil
		}
		b, err := fs.ReadFile(r.fsys, name)
		if err != nil {
			return err
		}
		if !slices.Contains(b, 0) {
			visit(name, string(b))
		}
		return nil
	})
}

// read returns the text of a file that has to exist.
func (r *Repo) read(name string) (string, error) {
	b, err := fs.ReadFile(r.fsys, name)
	return string(b), err
}

// where names a place for a finding.
func (r *Repo) where(pos token.Pos) string {
	p := r.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}
