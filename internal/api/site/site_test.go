package site_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sandkasten/sandkasten/docs"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/site"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// nobody has a key.
type nobody struct{}

func (nobody) Authenticate(context.Context, string) (auth.Principal, error) {
	return auth.Principal{}, errdefs.New(errdefs.Unauthenticated, "no")
}

// get asks for a page as a browser does, which has no key.
func get(t *testing.T, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+target, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestServed holds that pages need no key and may load their own files only.
func TestServed(t *testing.T) {
	h := api.Handler(api.Options{Authenticator: nobody{}}, site.New(docs.FS, site.Options{}))
	for target, want := range map[string]string{
		"/docs/":                       "text/html; charset=utf-8",
		"/docs/quickstart.html":        "text/html; charset=utf-8",
		"/docs/decisions/":             "text/html; charset=utf-8",
		"/docs/decisions/index.html":   "text/html; charset=utf-8",
		"/docs/site.css":               "text/css; charset=utf-8",
		"/docs/theme.css":              "text/css; charset=utf-8",
		"/docs/icon.svg":               "image/svg+xml",
		"/docs/theme.js":               "text/javascript; charset=utf-8",
		"/docs/page.js":                "text/javascript; charset=utf-8",
		"/docs/reference.js":           "text/javascript; charset=utf-8",
		"/docs/try.js":                 "text/javascript; charset=utf-8",
		"/docs/calls.json":             "application/json",
		"/docs/pictures/sessions.webp": "image/webp",
		"/docs/search.js":              "text/javascript; charset=utf-8",
		"/docs/search.json":            "application/json",
	} {
		w := get(t, h, target)
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != want || w.Body.Len() == 0 {
			t.Errorf("%s: %d %s", target, w.Code, got)
		}
		csp := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: Content-Security-Policy %q has no %s", target, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || w.Header().Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", target, w.Header())
		}
	}
	if w := get(t, h, "/docs"); w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != "/docs/" {
		t.Errorf("/docs: %d %v", w.Code, w.Header())
	}
	for target, want := range map[string]string{"/docs/quickstart": "/docs/quickstart.html", "/docs/decisions": "/docs/decisions/"} {
		if w := get(t, h, target); w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != want {
			t.Errorf("%s: %d %v, want %s", target, w.Code, w.Header(), want)
		}
	}
	for _, target := range []string{"/docs/absent.html", "/docs/page.html", "/docs/absent", "/docs/quickstart.html.html"} {
		if w := get(t, h, target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}

var (
	attribute = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	id        = regexp.MustCompile(` id="([^"]*)"`)
)

// TestLinks follows every link of every page.
func TestLinks(t *testing.T) {
	files, err := site.Build(docs.FS, site.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for name, content := range files {
		for _, m := range id.FindAllSubmatch(content, -1) {
			ids[name+"#"+string(m[1])] = true
		}
	}
	followed := 0
	for name, content := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, m := range attribute.FindAllSubmatch(content, -1) {
			target, anchor, _ := strings.Cut(string(m[1]), "#")
			if strings.Contains(target, "://") || target == "../openapi.json" {
				continue
			}
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if files[file] == nil || anchor != "" && !ids[file+"#"+anchor] {
				t.Errorf("%s links to %s", name, m[1])
			}
			followed++
		}
	}
	if followed < 1000 {
		t.Errorf("followed %d links only", followed)
	}
}

// TestPagesLoadNothing holds that a page works offline, and that nothing in it
// runs but its own scripts, which make no markup of what they read.
func TestPagesLoadNothing(t *testing.T) {
	files, err := site.Build(docs.FS, site.Options{})
	if err != nil {
		t.Fatal(err)
	}
	loads := regexp.MustCompile(`<(?:script|link|img|iframe|style|form|object)\b[^>]*`)
	own := regexp.MustCompile(`^<img src="pictures/[a-z]+\.webp" alt="[^"]+"$|^<link rel="icon" href="(?:\.\./)?icon\.svg"$|^<(?:link rel="stylesheet" href|script src)="(?:\.\./)?(?:(?:theme|site)\.css|(?:theme|page|search|reference|try)\.js)"(?: defer)?$`)
	for name, content := range files {
		switch path.Ext(name) {
		case ".html":
			for _, element := range loads.FindAllString(string(content), -1) {
				if !own.MatchString(element) {
					t.Errorf("%s has %s", name, element)
				}
			}
		case ".js", ".css":
			for _, bad := range []string{"://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "onclick"} {
				if strings.Contains(string(content), bad) {
					t.Errorf("%s has %s", name, bad)
				}
			}
		}
	}
}

// TestSearchIndex looks for something of a heading, a table and a code block.
func TestSearchIndex(t *testing.T) {
	files, err := site.Build(docs.FS, site.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var entries []struct {
		Path, Page, Heading, Text string
		Record                    bool
	}
	if err := json.Unmarshal(files["search.json"], &entries); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Record != strings.HasPrefix(e.Path, "decisions/") {
			t.Errorf("%s is a record: %t", e.Path, e.Record)
		}
	}
	for _, want := range []struct{ path, text string }{
		{"configuration.html#keys", "snapshots.encryption_key_file"},
		{"quickstart.html#a-session", "echo $answer in $PWD"},
		{"api.html#post-v1sessionsidexec", "persistent shell"},
	} {
		found := false
		for _, e := range entries {
			found = found || e.Path == want.path && strings.Contains(e.Text, want.text)
		}
		if !found {
			t.Errorf("%s does not have %q", want.path, want.text)
		}
	}
}

// TestBuild makes the site of testdata/good.txtar.
func TestBuild(t *testing.T) {
	source, _ := pages(t, "testdata/good.txtar")
	files, err := site.Build(source, site.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, wants := range map[string][]string{
		"one.html": {
			"<title>One &amp; only - Sandkasten</title>", `<h2 id="a_b--c-d">`, `<h2 id="a_b--c-d-1">`, `href="more/index.html"`,
			`href="https://github.com/sandkasten/sandkasten/blob/main/LICENSE"`, `href="https://example.org/x"`,
			`<a class="anchor" href="#a_b--c-d-1"`, `<div class="wide">`, `<li class="inner"><a href="#inner">Inner</a></li>`,
			"<div class=\"languages\">\n<section data-language=\"cli\">\n<h4>Command line</h4>\n<pre><code class=\"language-sh\">sandkasten ls\n</code></pre>\n</section>\n<section data-language=\"python\">\n<h4>Python</h4>",
			`<p>Python:</p>`, `<p>Rust:</p>`,
			`<a href="one.html" aria-current="page">One</a>`, `<li><a href="#a_b--c-d-1">A_b / c-d</a></li>`,
		},
		"more/index.html": {`href="../one.html#a_b--c-d"`, `<a href="../one.html">One</a>`, `href="../more/two.html"`, `href="../site.css"`},
	} {
		for _, want := range wants {
			if !strings.Contains(string(files[name]), want) {
				t.Errorf("%s has no %s:\n%s", name, want, files[name])
			}
		}
	}
	if strings.Contains(string(files["one.html"]), "alert") {
		t.Error("HTML of the source is in the page")
	}
}

// TestOptions holds that only a daemon's pages send requests to it, and that only with
// the console they lead to it.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		options         site.Options
		daemon, console bool
	}{
		{site.Options{}, false, false},
		{site.Options{Daemon: true}, true, false},
		{site.Options{Daemon: true, Console: true}, true, true},
	} {
		files, err := site.Build(docs.FS, c.options)
		if err != nil {
			t.Fatal(err)
		}
		page := string(files["reference.html"])
		if strings.Contains(page, ` data-daemon=`) != c.daemon || strings.Contains(page, ` data-console=`) != c.console || strings.Contains(page, `class="console" href="/"`) != c.console {
			t.Errorf("%+v: %s", c.options, page)
		}
	}
}

// TestCalls holds that the reference shows calls of operations that there are. That they
// make them, the tests of the SDKs and of the command line hold.
func TestCalls(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	var calls struct {
		Before, Operations map[string]map[string]string
	}
	for name, into := range map[string]any{"../v1/openapi.json": &document, "assets/calls.json": &calls} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	operations := map[string]bool{}
	for _, methods := range document.Paths {
		for _, operation := range methods {
			operations[operation.OperationID] = true
		}
	}
	for id, shown := range calls.Operations {
		if !operations[id] {
			t.Errorf("calls.json has %s, which is no operation", id)
		}
		for language, call := range shown {
			if _, ok := calls.Before[language]; !ok || call == "" {
				t.Errorf("%s has the call %q in %s", id, call, language)
			}
			if strings.Contains(call, `..."`) {
				t.Errorf("%s in %s has a value that the daemon refuses: %s", id, language, call)
			}
		}
	}
}

// TestOneRule holds that answers are shown by the rule of the console.
func TestOneRule(t *testing.T) {
	rule := regexp.MustCompile(`(?m)^(?:export )?const \w+ = (/\[\\p.*/gu);$`)
	var found []string
	for _, name := range []string{"assets/try.js", "../../../web/src/ui/text.tsx"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := rule.FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s has no rule of what is shown as a mark", name)
		}
		found = append(found, string(m[1]))
	}
	if found[0] != found[1] {
		t.Errorf("the reference marks %s, and the console %s", found[0], found[1])
	}
}

// TestMistakes builds sources that begin with the error that they are.
func TestMistakes(t *testing.T) {
	names, err := filepath.Glob("testdata/bad_*.txtar")
	if err != nil || len(names) != 4 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		source, want := pages(t, name)
		if _, err := site.Build(source, site.Options{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// pages reads an archive of pages, and the line above them.
func pages(t *testing.T, name string) (source fstest.MapFS, comment string) {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	source = fstest.MapFS{}
	for _, f := range archive.Files {
		source[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return source, strings.TrimSpace(string(archive.Comment))
}

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		if _, err := site.Build(docs.FS, site.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
