package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// foreign finds an installation of a name on a registry that is not ours: on PyPI
// sandkasten is somebody else's, and the others are free to take until we publish.
var foreign = regexp.MustCompile(`\b(?:pip|pipx|uv|uvx|poetry|npm|npx|yarn|pnpm|bun|deno|go)\b[^\n` + "`" + `]*\b(?:install|add|get|i|run)\s[^\n` + "`" + `]*?` +
	`(?:["'\s])(sandkasten(?:-sdk)?|@sandkasten/sdk|npm:@sandkasten/sdk|github\.com/sandkasten/sandkasten/sdk/go)(?:[\s"'\[@=<>~!]|$)`)

// TestNoForeignNames holds that nothing tells users to install a name that is not
// ours, what the SDKs say in errors and doc comments included.
func TestNoForeignNames(t *testing.T) {
	searched := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", ".task", "bin", "node_modules", "dist", "testdata":
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".md", ".py", ".ts", ".js", ".mjs", ".go", ".sh", ".toml", ".yaml", ".yml":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		searched++
		for number, line := range strings.Split(string(text), "\n") {
			// Who is warned has to see the name.
			if m := foreign.FindStringSubmatch(line); m != nil && !strings.Contains(line, "installs something else") {
				t.Errorf("%s:%d tells to install %s, which is not ours there", path, number+1, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if searched < 300 {
		t.Errorf("%d files were searched only", searched)
	}
}
