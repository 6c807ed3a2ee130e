package archtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/archtest"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestRepository applies every rule to the repository itself.
func TestRepository(t *testing.T) {
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	repo, err := archtest.Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	gomod := string(text)
	for _, large := range repo.Large(archtest.Limits) {
		t.Log(large)
	}
	for name, rule := range map[string]func() ([]string, error){
		"imports":          func() ([]string, error) { return repo.Imports(archtest.Rules), nil },
		"sizes":            func() ([]string, error) { return repo.Sizes(archtest.Limits, archtest.Rules), nil },
		"package comments": func() ([]string, error) { return repo.PackageComments(), nil },
		"names":            func() ([]string, error) { return repo.Names(), nil },
		"claims have tests": func() ([]string, error) {
			return repo.TestNames("docs/security.md")
		},
		"protections are taken away in few places": func() ([]string, error) {
			return repo.WeakenSites("internal/protection", "test/attack/control/table.go", archtest.WeakenSites), nil
		},
		"what ends has a row and a test": func() ([]string, error) { return repo.Ends(archtest.Ends) },
		"limits have tests":              func() ([]string, error) { return repo.TestNames("docs/limits.md") },
		"links":                          repo.Links,
		"drivers":                        func() ([]string, error) { return repo.Drivers(archtest.Drivers), nil },
		"owners":                         func() ([]string, error) { return repo.Owners(), nil },
		"routes":                         func() ([]string, error) { return repo.Routes(), nil },
		"aliases":                        func() ([]string, error) { return repo.Aliases("internal/session"), nil },
		"goroutines":                     func() ([]string, error) { return repo.Goroutines("cmd/runner", "internal/guard"), nil },
		"tasks":                          repo.Tasks,
		"foreign paths":                  repo.ForeignPaths,
		"script skips":                   repo.ScriptSkips,
		"sleeps":                         func() ([]string, error) { return repo.Sleeps(archtest.TestSleeps) },
		"requirements":                   func() ([]string, error) { return repo.Requirements(gomod), nil },
		"toolchain":                      func() ([]string, error) { return one(archtest.Toolchain(gomod)), nil },
		"SQLite's libc": func() ([]string, error) {
			problem, err := archtest.SQLiteLibc(t.Context(), gomod)
			return one(problem), err
		},
		"README and CI agree": func() ([]string, error) { return readmeAndCI(root) },
	} {
		t.Run(name, func(t *testing.T) {
			found, err := rule()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				t.Error(f)
			}
		})
	}
}

func one(problem string) []string {
	if problem == "" {
		return nil
	}
	return []string{problem}
}

// readmeAndCI sees to it that CI runs what the README tells people to run.
func readmeAndCI(root string) ([]string, error) {
	const command = "go tool task test"
	var found []string
	for _, name := range []string{"README.md", filepath.Join(".ci", "run")} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if !strings.Contains(string(text), command+"\n") {
			found = append(found, name+": does not call "+command)
		}
	}
	return found, nil
}
