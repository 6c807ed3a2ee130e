package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSDKNames holds that the SDKs have the calls that sdk.md says they have.
func TestSDKNames(t *testing.T) {
	text, err := fs.ReadFile(FS, "sdk.md")
	if err != nil {
		t.Fatal(err)
	}
	_, calls, ok := strings.Cut(string(text), "## The calls\n")
	calls, _, ok2 := strings.Cut(calls, "\n## ")
	if !ok || !ok2 {
		t.Fatal("sdk.md has no section with the calls")
	}
	// How a call is declared in the language of each column.
	languages := []struct{ files, declared string }{
		{"../sdk/typescript/src/*.ts", `(?m)^\s+(?:async )?\*?%(?:<[^(]*>)?\(`},
		{"../sdk/python/src/sandkasten/_async/*.py", `(?m)^\s+(?:async )?def %\(`},
		{"../sdk/go/*.go", `(?m)^func \(\w+ \*?\w+\) %\(`},
	}
	found := 0
	row := regexp.MustCompile("(?m)^\\| (`.*`) \\| (`.*`) \\| (`[^|]*`) \\|")
	for _, match := range row.FindAllStringSubmatch(calls, -1) {
		for i, language := range languages {
			source := sources(t, language.files)
			for name := range strings.SplitSeq(match[i+1], ", ") {
				name = strings.Trim(name, "`")
				name = name[strings.LastIndexByte(name, '.')+1:] // of processes.run, run
				pattern := strings.ReplaceAll(language.declared, "%", regexp.QuoteMeta(name))
				if !regexp.MustCompile(pattern).MatchString(source) {
					t.Errorf("%s does not declare %s", language.files, name)
				}
				found++
			}
		}
	}
	if found < 100 {
		t.Errorf("sdk.md names %d calls only", found)
	}
}

func sources(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files are %s: %v", pattern, err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
