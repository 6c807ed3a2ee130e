package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Code spans that look like a key of the configuration, a route or a file.
var (
	keySpan   = regexp.MustCompile(`^[a-z_]+\.[a-z_.]+$`)
	routeSpan = regexp.MustCompile(`^(?:(?:GET|POST|PUT|PATCH|DELETE) )?(/v1/[^\s?]*)(?:\?\S*)?$`)
	fileSpan  = regexp.MustCompile(`^(?:cmd|deploy|docs|images|internal|protocol|quickstart|sdk|test|tools)/[\w./-]+$`)
	fenced    = regexp.MustCompile("(?s)```.*?```")
	span      = regexp.MustCompile("`([^`\n]+)`")
	braces    = regexp.MustCompile(`\{[^}]*\}`)
	listedKey = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|")
)

// others look so and are something else: files of an archive, hosts, spans of a trace,
// parts of a Python client.
var others = map[string]bool{
	"preview.localhost": true, "driver.create": true, "session.processes": true, "session.ports": true, "workspace.tar.zst": true,
	"sdk/go/vX.Y.Z": true, "test/unit/operations.test.mjs": true, // a tag, and a file of the TypeScript SDK
}

// TestCodeSpans holds that keys, routes and files that pages name exist.
func TestCodeSpans(t *testing.T) {
	keys, sections := configurationKeys(t)
	routes := documentedRoutes(t)
	checked := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range span.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			name := match[1]
			if m := routeSpan.FindStringSubmatch(name); m != nil {
				checked++
				if !routes[braces.ReplaceAllString(strings.TrimRight(m[1], "/."), "{}")] {
					t.Errorf("%s: there is no route %s", page, name)
				}
			}
			section, _, _ := strings.Cut(name, ".")
			if keySpan.MatchString(name) && !others[name] && (sections[section] || sections[section+"s"] || sections[strings.TrimSuffix(section, "s")]) {
				checked++
				if !keys[name] {
					t.Errorf("%s: the configuration has no key %s", page, name)
				}
			}
			if fileSpan.MatchString(name) && !others[name] {
				checked++
				if !inRepository(name) {
					t.Errorf("%s: there is no %s", page, name)
				}
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d spans were checked", checked)
	}
}

// pages are those that users and contributors read.
func pages(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "decisions/*.md", "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../STYLE.md", "../quickstart/*.md", "../sdk/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no pages are %s: %v", pattern, err)
		}
		names = append(names, found...)
	}
	return names
}

// configurationKeys are those of configuration.md, which a test compares with the
// code, and their first parts.
func configurationKeys(t *testing.T) (keys, sections map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	keys, sections = make(map[string]bool), make(map[string]bool)
	for _, match := range listedKey.FindAllStringSubmatch(string(text), -1) {
		keys[match[1]] = true
		section, _, nested := strings.Cut(match[1], ".")
		if nested {
			sections[section] = true
		}
	}
	return keys, sections
}

// documentedRoutes are the paths of the API, and what they begin with.
func documentedRoutes(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../internal/api/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Paths map[string]any }
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	routes := map[string]bool{"/v1": true, "/v1/sessions/{}/ports/{}": true} // the last is a proxy, and in no document
	for path := range document.Paths {
		path = braces.ReplaceAllString(path, "{}")
		for ; path != ""; path = path[:strings.LastIndexByte(path, '/')] {
			routes[path] = true
		}
	}
	return routes
}

// inRepository reports whether a file is there, or the package of internal/api.TestKeys.
func inRepository(name string) bool {
	name = strings.TrimSuffix(name, "/...")
	for _, path := range []string{name, strings.TrimSuffix(name, filepath.Ext(name))} {
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(path))); err == nil {
			return true
		}
	}
	return false
}
