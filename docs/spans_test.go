package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	fenced = regexp.MustCompile("(?s)```.*?```")
	span   = regexp.MustCompile("`([^`\n]+)`")
)

// A kind of code span is one that a reader looks up: its looks, and whether what it
// names exists.
type kind struct {
	name   string
	looks  *regexp.Regexp
	exists func(*repository, string) bool
	least  int // spans of this kind that the pages have, so that a check that finds none fails
}

// The first that fits a span is its kind.
var kinds = []kind{
	{"Go file", regexp.MustCompile(`^\w+\.go$`), (*repository).hasGoFile, 5},
	{"configuration key", regexp.MustCompile(`^[a-z_]+\.(?:[a-z0-9_.]*[a-z0-9_]|\*)$`), (*repository).hasKey, 200},
	{"variable", regexp.MustCompile(`^SANDKASTEN_[A-Z_]+$`), (*repository).hasVariable, 5},
	{"route", regexp.MustCompile(`^(?:(?:GET|POST|PUT|PATCH|DELETE) \S+|/(?:v1|docs|healthz|readyz|metrics|openapi\.json)\b\S*|(?:fs|exec|execs|processes|image-jobs)/\S*)$`), (*repository).hasRoute, 150},
	{"path", regexp.MustCompile(`^(?:cmd|deploy|docs|images|internal|protocol|quickstart|sdk|test|tools)/[\w./-]+$`), (*repository).hasPath, 200},
	{"Go method", regexp.MustCompile(`^(?:\w+\.)?\(\*?\w+\)\.\w+$`), (*repository).hasMethod, 30},
	{"Go name", regexp.MustCompile(`^(?:[a-z]\w*\.[A-Z]\w*|[A-Z]\w*\.[A-Za-z]\w*)(?:\.[A-Za-z]\w*)?$`), (*repository).hasName, 10},
}

// exceptions look like one of the kinds and are something else.
var exceptions = []struct {
	looks  *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`\.(?:conf|db|exe|json|mjs|pem|py|work|yaml|zst|gz|log)$`), "a file of a host or of an archive"},
	{regexp.MustCompile(`^(?:cgroup|cpu|memory)\.[a-z._]+$`), "a file of a control group"},
	{regexp.MustCompile(`^(?:fs|kernel|net|user)\.[a-z._*]+$`), "a setting of the kernel"},
	{regexp.MustCompile(`^(?:sandkasten|astraforge\.sandbox)\.[a-z]+$`), "a label of the engine, or a Python module"},
	{regexp.MustCompile(`^(?:driver|manager|runner|tool)\.(?:create|exec|sandbox_exec)$`), "a span of a trace"},
	{regexp.MustCompile(`^(?:session|processes|ports|error|asyncio)\.[a-z]+$`), "a name of an SDK's language"},
	{regexp.MustCompile(`^(?:exec\.(?:started|finished|burst|cmd|shell)|network\.(?:decision|burst)|(?:workspace|pool|account)\.changed|(?:workspace|snapshot)\.deleted|snapshot\.created|image\.job)$`), "a type of event, or a field of one"},
	{regexp.MustCompile(`^(?:preview\.localhost|docker\.io|node\.place)$`), "a host, and a file of data_dir"},
	{regexp.MustCompile(`^SANDKASTEN_(?:CONFIG|URL|FAILPOINT|TEST|BASE|FLAKY_URL)$`), "a variable for other programs than the daemon"},
	{regexp.MustCompile(`^(?:sdk/go/vX\.Y\.Z|test/unit/operations\.test\.mjs)$`), "a tag, and a file of the TypeScript SDK"},
}

// TestCodeSpans holds that the keys, variables, routes, files and Go names that pages
// mention exist.
func TestCodeSpans(t *testing.T) {
	repo := readRepository(t)
	found := map[string]int{}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range span.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			text := match[1]
			k := kindOf(text)
			if k == nil {
				continue
			}
			found[k.name]++
			if !k.exists(repo, text) {
				t.Errorf("%s: there is no %s %s", page, k.name, text)
			}
		}
	}
	for _, k := range kinds {
		if found[k.name] < k.least {
			t.Errorf("pages mention %d of the kind %q; %d are expected", found[k.name], k.name, k.least)
		}
	}
}

// kindOf returns the kind of a span, or nil.
func kindOf(text string) *kind {
	for _, e := range exceptions {
		if e.looks.MatchString(text) {
			return nil
		}
	}
	for i := range kinds {
		if kinds[i].looks.MatchString(text) {
			return &kinds[i]
		}
	}
	return nil
}

// pages are those that users and contributors read.
func pages(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "decisions/*.md", "../*.md", "../protocol/*.md", "../quickstart/*.md", "../sdk/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no pages are %s: %v", pattern, err)
		}
		names = append(names, found...)
	}
	return names
}
