package docs

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A repository is what the pages may mention.
type repository struct {
	keys   map[string]bool // of the configuration, "pool.*" for a section
	routes []string        // of the API, "{}" for a parameter
	files  map[string]bool // names of Go files without their directory
	names  map[string]bool // what Go code declares: "session.Manager", "Manager.Get", "internal/session.TestX"
	types  map[string]bool // names of Go types, and of packages
}

func readRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{keys: map[string]bool{}, files: map[string]bool{}, names: map[string]bool{}, types: map[string]bool{}}
	r.readKeys(t)
	r.readRoutes(t)
	r.readGo(t)
	return r
}

var sampleKey = regexp.MustCompile(`(?m)^( *)(?:# )?([a-z0-9_]+):(?: |$)`)

// readKeys takes the keys from the sample, which has all: internal/config compares it
// with its table.
func (r *repository) readKeys(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../sandkasten.yaml")
	if err != nil {
		t.Fatal(err)
	}
	section := ""
	for _, m := range sampleKey.FindAllStringSubmatch(string(text), -1) {
		switch key := m[2]; {
		case m[1] != "":
			r.keys[section+"."+key] = true
			r.keys[section+".*"] = true
		default:
			section = key
			r.keys[key] = true
		}
	}
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

func (r *repository) readRoutes(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../internal/api/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Paths map[string]any }
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	// These are no operations of the API, and so in no document.
	r.routes = []string{"/v1/sessions/{}/ports/{}", "/docs/reference.html", "/metrics", "/v1/auth/oidc/start", "/v1/auth/oidc/callback"}
	for path := range document.Paths {
		r.routes = append(r.routes, parameter.ReplaceAllString(path, "{}"))
	}
}

// readGo collects the declarations of the module and of the Go SDK.
func (r *repository) readGo(t *testing.T) {
	t.Helper()
	files := token.NewFileSet()
	for _, root := range []string{"../cmd", "../internal", "../protocol", "../sdk/go", "../sdk/contract", "../test", "../tools"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			r.files[entry.Name()] = true
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), ".."+string(filepath.Separator)))
			r.readFile(dir, file)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (r *repository) readFile(dir string, file *ast.File) {
	pkg := strings.TrimSuffix(file.Name.Name, "_test")
	r.types[pkg] = true
	declare := func(name string) {
		r.names[pkg+"."+name] = true
		r.names[dir+"."+name] = true
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				declare(d.Name.Name)
				continue
			}
			receiver := receiverOf(d.Recv.List[0].Type)
			declare(receiver + "." + d.Name.Name)
			r.names[receiver+"."+d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				r.readSpec(s, declare)
			}
		}
	}
}

func (r *repository) readSpec(s ast.Spec, declare func(string)) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			declare(name.Name)
		}
	case *ast.TypeSpec:
		declare(s.Name.Name)
		r.types[s.Name.Name] = true
		var members *ast.FieldList
		switch of := s.Type.(type) {
		case *ast.StructType:
			members = of.Fields
		case *ast.InterfaceType:
			members = of.Methods
		default:
			return
		}
		for _, member := range members.List {
			for _, name := range member.Names {
				declare(s.Name.Name + "." + name.Name)
				r.names[s.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// receiverOf returns the name of a receiver's type.
func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func (r *repository) hasKey(text string) bool { return r.keys[text] }

func (r *repository) hasVariable(text string) bool {
	key := strings.ToLower(strings.TrimPrefix(text, "SANDKASTEN_"))
	return r.keys[strings.Replace(key, "__", ".", 1)]
}

// hasRoute reports whether text, "POST /v1/sessions" or "fs/read?raw=1", is a route,
// the beginning of one, or a part of one.
func (r *repository) hasRoute(text string) bool {
	_, path, found := strings.Cut(text, " ")
	if !found {
		path = text
	}
	path, _, _ = strings.Cut(path, "?")
	part := strings.TrimPrefix(path, "...")
	whole := strings.HasPrefix(part, "/") && part == path
	part = "/" + strings.Trim(parameter.ReplaceAllString(part, "{}"), "/.") + "/"
	for _, route := range r.routes {
		if whole && strings.HasPrefix(route+"/", part) || !whole && strings.Contains(route+"/", part) {
			return true
		}
	}
	return false
}

// hasPath reports whether a file or directory is there, or what "internal/api.TestKeys"
// names.
func (r *repository) hasPath(text string) bool {
	text = strings.TrimSuffix(text, "/...")
	_, err := os.Stat(filepath.Join("..", filepath.FromSlash(text)))
	return err == nil || r.names[text]
}

func (r *repository) hasGoFile(text string) bool { return r.files[text] }

// hasName reports whether a name is declared. Names of other modules and languages are
// not ours to know.
func (r *repository) hasName(text string) bool {
	first, _, _ := strings.Cut(text, ".")
	return !r.types[first] || r.names[text]
}

// hasMethod reports whether "session.(*Execs).Run", as Go writes methods, is declared.
func (r *repository) hasMethod(text string) bool {
	return r.names[strings.NewReplacer("(*", "", "(", "", ")", "").Replace(text)]
}
