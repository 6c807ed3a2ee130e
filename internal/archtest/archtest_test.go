package archtest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandkasten/sandkasten/internal/archtest"
)

// load parses a repository given as file names and their texts.
func load(t *testing.T, files map[string]string) *archtest.Repo {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	repo, err := archtest.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// want compares findings with the beginnings of those that are expected, in
// any order.
func want(t *testing.T, got []string, starts ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(starts)
	if !slices.EqualFunc(got, starts, strings.HasPrefix) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(starts, "\n\t"))
	}
}

func imports(pkg string, targets ...string) string {
	text := "package " + pkg + "\n"
	for _, target := range targets {
		text += fmt.Sprintf("import %q\n", target)
	}
	return text
}

func TestImports(t *testing.T) {
	const module = archtest.Module
	repo := load(t, map[string]string{
		"a/a.go":      imports("a", "os", module+"/b", "example.org/lib/sub"),
		"a/a_test.go": imports("a", module+"/c", module+"/env", "example.org/other"),
		"b/b.go":      imports("b", "net/http", module+"/a", module+"/env", "example.org/library"),
		"c/c.go":      imports("c"),
		"env/env.go":  imports("env", "net/http"),
		"env2/env.go": imports("env2", module+"/env"),
		"x/go.mod":    "module x",
		"x/x.go":      imports("x", module+"/a"), // another module
	})
	rules := map[string]archtest.Rule{
		"a":    {Ours: []string{"b", "unused"}, Libraries: []string{"example.org/lib"}},
		"b":    {Libraries: []string{"example.org/lib"}, Not: []string{"net/http"}},
		"env":  {TestOnly: true},
		"env2": {TestOnly: true, Ours: []string{"env"}},
		"gone": {},
	}
	want(t, repo.Imports(rules),
		"b/b.go:2: b imports net/http: its rule keeps that out",
		"b/b.go:3: b imports "+module+"/a: not in its rule",
		"b/b.go:4: b imports "+module+"/env: it is for tests only",
		"b/b.go:5: b imports example.org/library: not in its rule",
		"c: has no rule",
		"rules.go: a -> unused is not needed",
		"rules.go: b -> example.org/lib is not needed",
		"rules.go: gone is not needed",
	)
}

func TestGoroutines(t *testing.T) {
	const module = archtest.Module
	repo := load(t, map[string]string{
		"main/main.go":  imports("main", module+"/a", module+"/guard", "os"),
		"a/a.go":        imports("a", module+"/b", "sync", "time") + "var w sync.WaitGroup\nvar m sync.Mutex\nfunc f() { time.AfterFunc(1, f) }\n",
		"a/a_test.go":   imports("a") + "func g() { go g() }\n",
		"b/b.go":        imports("b") + "func f() { go f() }\n",
		"guard/go.go":   imports("guard") + "func f() { go f() }\n",
		"other/free.go": imports("other") + "func f() { go f() }\n",
	})
	want(t, repo.Goroutines("main", "guard"),
		"a/a.go:5: sync.WaitGroup in main, where a panic ends a sandbox: use guard",
		"a/a.go:7: time.AfterFunc in main",
		"b/b.go:2: a go statement in main",
	)
}

func TestDrivers(t *testing.T) {
	const module = archtest.Module
	repo := load(t, map[string]string{
		"run/run.go":       imports("run") + "const Native = `native`\n",
		"run/one/one.go":   imports("one", module+"/run", module+"/run/one/sub", module+"/run/join"),
		"run/one/sub/s.go": imports("sub"),
		"run/two/two.go":   imports("two", module+"/run/one/sub"),
		"run/join/j.go":    imports("join"),
		"table/table.go":   imports("table", module+"/run/one", module+"/run/two") + "const name = `two`\n",
		"plain/p.go":       imports("plain", module+"/run/two", module+"/run") + "const a, b = `two`, `two of them`\nvar c = runtime.Native\n",
		"plain/p_test.go":  imports("plain") + "const d = `two`\n",
		"plain/sub/s.go":   imports("sub") + "const e = \"one\"\n",
		"free/f.go":        imports("free") + "const f = `one`\n",
	})
	rules := archtest.DriverRules{Contract: "run", Shared: []string{"join"}, Names: []string{"one", "two"}, Table: "table", Neutral: []string{"plain"}}
	want(t, repo.Drivers(rules),
		"plain/p.go:2: imports the driver two, which is for table alone",
		"plain/p.go:4: names the driver two: ask table",
		"plain/p.go:5: names the driver native",
		"plain/sub/s.go:2: names the driver one",
		"run/two/two.go:2: imports the driver one, which is for table alone",
	)
}

func TestSizes(t *testing.T) {
	long := "package a\n\nfunc F() {\n" + strings.Repeat("\t_ = 0\n", 8) + "}\n"
	repo := load(t, map[string]string{
		"a/long.go": long,
		"b/b.go":    "package b\n\n// Comments are no code.\nfunc (x *T[K]) Short() {}\n\ntype T[K any] string\n\nconst s = `one\ntwo\n`\n",
		"b/b_test.go": "package b\n\nvar x = 1\n" +
			strings.Repeat("// none\n", 100),
	})
	budgets := archtest.Budgets{Func: 9, FuncP90: 100, File: 11, Package: 7, TestRatio: 0.1}
	want(t, repo.Sizes(budgets, nil),
		"a/long.go:F: 10 lines, budget 9",
		"a/long.go: 12 lines, budget 11",
		"a: 11 lines, budget 7",
	)
	want(t, repo.Large(archtest.Budgets{Review: 11}))
	want(t, repo.Large(archtest.Budgets{Review: 5}), "a: 11 lines, to be looked at from 5", "b: 6 lines, to be looked at from 5")
	budgets.Exceptions = map[string]string{"a/long.go:F": "r", "a/long.go": "r", "a": "r", "b": "r"}
	want(t, repo.Sizes(budgets, nil), "b: has an exception that it does not need")
	want(t, repo.Sizes(archtest.Budgets{Func: 10, FuncP90: 9, File: 12, Package: 11, TestRatio: 0.1}, nil))
	want(t, repo.Sizes(archtest.Budgets{Func: 10, FuncP90: 0, File: 12, Package: 11, TestRatio: 0.2}, nil),
		"nine functions in ten: 1 lines, budget 0",
		"2 lines of tests for 17 of code are 0.12, budget 0.20",
	)
	own := archtest.Budgets{Func: 10, FuncP90: 9, File: 12, Package: 7, TestRatio: 0.1, Larger: map[string]int{"a": 11, "b": 9}}
	want(t, repo.Sizes(own, nil), "b: has a budget of its own that it does not need")
	own.Larger = map[string]int{"a": 10}
	want(t, repo.Sizes(own, nil), "a: 11 lines, budget 10")
	rules := map[string]archtest.Rule{"a": {TestOnly: true}}
	want(t, repo.Sizes(archtest.Budgets{Func: 10, FuncP90: 9, File: 12, Package: 11, TestRatio: 3}, rules),
		"13 lines of tests for 6 of code are 2.17, budget 3.00",
	)
}

func TestPackageComments(t *testing.T) {
	good := "// Package %s holds one thing that is described here at some length. What is not\n// that thing belongs elsewhere.\npackage %[1]s\n"
	doc := func(name string) string { return fmt.Sprintf(good, name) }
	want(t, load(t, map[string]string{
		"good/a.go":       doc("good"),
		"good/b.go":       "// +build comment\n\npackage good\n",
		"none/a.go":       "package none\n",
		"two/a.go":        doc("two"),
		"two/b.go":        doc("two"),
		"short/a.go":      "// Package short is short.\npackage short\n",
		"other/a.go":      "// This holds one thing that is described here at some length. What is not is elsewhere.\npackage other\n",
		"cmd/x/main.go":   strings.Replace(doc("main"), "Package main", "Command x", 1),
		"cmd/y/main.go":   doc("main"),
		"tests/a_test.go": "package tests_test\n",
	}).PackageComments(),
		"none: 0 package comments", "two: 2 package comments", "short: its comment does not say",
		"other: its comment does not start", "cmd/y: its comment does not start",
	)
}

func TestNames(t *testing.T) {
	want(t, load(t, map[string]string{
		"internal/utils/a.go":    "package utils\n",
		"internal/shell/a.go":    "package shell\n",
		"internal/shell/b.go":    "package shell\nfunc init() {}\n",
		"internal/shell/c.go":    "package shell\nfunc (t T) init() {}\ntype T struct{}\n",
		"vendor/x/testdata/a.go": "not Go\n",
	}).Names(),
		"internal/utils: the name", "internal/shell/b.go: has an init function")
}

func TestTestNames(t *testing.T) {
	repo := load(t, map[string]string{
		"a/a_test.go": "package a\nfunc TestThere() {}\nfunc TestFamily_One() {}\n",
		"claims.md":   "`TestThere`, `TestThere/case`, TestFamily, TestFamily_Two, FuzzGone and TestGone. Testing is no name.\n",
	})
	found, err := repo.TestNames("claims.md")
	if err != nil {
		t.Fatal(err)
	}
	want(t, found, "claims.md: names TestFamily_Two", "claims.md: names FuzzGone", "claims.md: names TestGone")
	if _, err := repo.TestNames("no.md"); err == nil {
		t.Error("a missing file has no findings")
	}
}

// TestTexts runs the rules about text files, each on a repository with one
// fault of each kind and what is easily taken for one.
func TestTexts(t *testing.T) {
	files := map[string]string{
		"README.md": "# A `b` c\n```\n# no heading\n```\n[web](https://x.y) [file](docs/a.md) [dir](docs/) " +
			"[heading](#a-b-c) [far](docs/a.md#one-two) [gone](docs/gone.md) [lost](docs/a.md#three) [fenced](#no-heading)\n" +
			"`go tool task`, `go tool task test`, `go tool task --list`, `go tool task tset` and /workspace/\n",
		"docs/a.md":    "## One, two\n[up](../README.md)\n",
		"a/a.go":       "// Package a is told of in docs/a.md, a.md and README.md, not in NONE.md.\npackage a\n",
		"b/b.go":       "package b // see /ho" + "me/me/notes\n",
		"Taskfile.yml": "version: 3\nvars:\n  tset: 1\ntasks:\n  test:\n    cmds: [go tool task test:unit]\n  test:unit:\n    cmd: x\n",
		"test/a.txtar": "exec skip\n[!root] skip 'no root'\n",
		"test/b.txtar": "exec skip\n# skip\n",
		".git/x.md":    "[gone](gone)\n",
		"image.bin":    "\x00 /ho" + "me/me/x go tool task tset\n",
	}
	repo := load(t, files)
	for name, test := range map[string]struct {
		rule func() ([]string, error)
		want []string
	}{
		"links": {repo.Links, []string{
			"README.md: link to docs/gone.md: no such file", "README.md: link to docs/a.md#three: no such heading",
			"README.md: link to #no-heading: no such heading", "a/a.go: mentions NONE.md",
		}},
		"tasks":   {repo.Tasks, []string{`README.md: calls the task "tset"`}},
		"foreign": {repo.ForeignPaths, []string{"b/b.go: names"}},
		"skips":   {repo.ScriptSkips, []string{"test/a.txtar: skips"}},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := test.rule()
			if err != nil {
				t.Fatal(err)
			}
			want(t, found, test.want...)
		})
	}
	without := maps.Clone(files)
	delete(without, "Taskfile.yml")
	if _, err := load(t, without).Tasks(); err == nil {
		t.Error("no Taskfile.yml, and no error")
	}
}

func TestLoadRefusesWhatDoesNotParse(t *testing.T) {
	fsys := fstest.MapFS{"a/a.go": &fstest.MapFile{Data: []byte("package\n")}}
	if _, err := archtest.Load(fsys); err == nil {
		t.Error("no error")
	}
}

func TestToolchain(t *testing.T) {
	for line, ok := range map[string]bool{
		"toolchain go1.26.5":  true,
		"toolchain go1.26.10": true,
		"toolchain go1.27":    true,
		"toolchain go1.26.4":  false,
		"toolchain go1.26":    false,
		"toolchain go1.9.9":   false,
		"":                    false,
	} {
		if problem := archtest.Toolchain("module x\n\ngo 1.26\n\n" + line + "\n"); (problem == "") != ok {
			t.Errorf("%q: %q", line, problem)
		}
	}
}

func TestSQLiteLibc(t *testing.T) {
	problem, err := archtest.SQLiteLibc(t.Context(), "require (\n\tmodernc.org/libc v1.0.0 // indirect\n)\n")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(problem, "go.mod: modernc.org/libc is v1.0.0, SQLite wants") {
		t.Errorf("problem %q", problem)
	}
	if problem, err := archtest.SQLiteLibc(t.Context(), "module x\n"); problem != "" || err != nil {
		t.Errorf("without SQLite: %q, %v", problem, err)
	}
}

func TestRequirements(t *testing.T) {
	repo := load(t, map[string]string{
		"a/a.go":      imports("a", "os", "example.org/a/sub", "example.org/a/v2/x"),
		"a/a_test.go": imports("a", "example.org/test"),
	})
	want(t, repo.Requirements("module x.y/z\n\ngo 1.26\n\ntool example.org/tool/cmd/x\n\nrequire example.org/a v1.0.0\n\nrequire (\n"+
		"\texample.org/a/v2 v2.0.0 // indirect\n\texample.org/test v1.0.0-0.20200101-abc\n\texample.org/tool v1.0.0 // indirect\n"+
		"\texample.org/ab v1.0.0\n\texample.org/deep v1.0.0+incompatible // indirect\n)\n"),
		"go.mod: example.org/a/v2 is imported, and called indirect", "go.mod: nothing imports example.org/ab")
}

func TestWeakenSites(t *testing.T) {
	repo := load(t, map[string]string{
		"w/w.go":      "package w\n\nconst (\n\tA = \"a\"\n\tB = \"b\"\n\tC = \"c\"\n)\n",
		"t/table.go":  "package t\n\nvar rows = off(protection.A, protection.C)\n",
		"x/x.go":      "package x\n\nvar a, b, c = protection.Off(protection.A), protection.Wider(protection.B, 1, 2), protection.Off(p)\n",
		"x/x_test.go": "package x\n\nvar d = protection.Off(protection.C)\n",
	})
	want(t, repo.WeakenSites("w", "t/table.go", 3),
		"x/x.go:3: takes away a protection that is no constant of w",
		"t/table.go: has no row for B",
		"w: C is taken away nowhere",
	)
	want(t, repo.WeakenSites("w", "t/table.go", 4),
		"x/x.go:3: takes away a protection that is no constant of w",
		"t/table.go: has no row for B",
		"w: C is taken away nowhere",
		"protections are taken away in 3 places, and rules.go says 4",
	)
}

func TestSeams(t *testing.T) {
	repo := load(t, map[string]string{
		"internal/api/v1/a.go": `package v1
func f() bool { return s.Owner == p.Owner || s.Owner != "" }
var _ = "GET /v1/sessions"`,
		"internal/session/a.go": `package session
type Record = protocol.Record
type list = []int
func g() bool { return s.Owner == p.Owner && store.GetOwned() }
var _ = "no such session; GET /v1/sessions lists them"`,
		"internal/reaper/a.go": `package reaper
var _ = store.GetOwned`,
	})
	want(t, repo.Owners(), "internal/api/v1/a.go:2: compares owners", "internal/reaper/a.go:2: reads an owner's row")
	want(t, repo.Routes(), "internal/session/a.go:5: names a route")
	want(t, repo.Aliases("internal/session"), "internal/session/a.go:2: Record is another package's type")
}

func TestEnds(t *testing.T) {
	const page = "# Page\n\n## Ends\n\nText.\n\n| what ends | test |\n| --- | --- |\n| a session | `internal/session.TestEnds`, `TestGone` |\n| a file | none |\n| nothing | `a.TestB` |\n\n## More\n\n| x | y |\n"
	repo := load(t, map[string]string{
		"page.md": page,
		"internal/session/a.go": `package session
func (c *core) end() { c.driver.Destroy() }
func thin() { s.opts.Blobs.Delete(); rows.Delete() }
func undo() { c.driver.Destroy() }
func other() { c.headers.Delete() }`,
		"internal/session/a_test.go": `package session
func TestEnds() { d.Destroy() }`,
		"internal/cli/a.go": `package cli
func end() { c.Destroy() }`,
	})
	found, err := repo.Ends(archtest.EndRules{
		Page: "page.md", Heading: "## Ends", Calls: map[string][]string{"Destroy": nil, "Delete": {"Blobs"}},
		Rows:   map[string][]string{"internal/session.core.end": {"a session", "a lease"}, "internal/session.gone": {"a session"}, "": {"a file"}},
		Others: map[string]string{"internal/session.undo": "nobody has it"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, found,
		"page.md: has no row a lease, for internal/session.core.end", "internal/session/a.go:3: something ends in internal/session.thin: ",
		"archtest.Ends: nothing ends in internal/session.gone", "page.md, a session: internal/session has no TestGone",
		"page.md, a file: names no test", "page.md: no place belongs to the row nothing", "page.md, nothing: a has no TestB")
}

func TestSleeps(t *testing.T) {
	repo := load(t, map[string]string{
		"a/a.go": `package a
func f() { time.Sleep(1) }`, // not a test's
		"a/a_test.go": `package a
func TestA() { time.Sleep(1); clock.Sleep(1) }
func TestB() { synctest.Test(t, func() { time.Sleep(1) }) }
func TestC() { for { time.Sleep(1) } }`,
		"b/b_test.go": `package b
func TestA() { <-time.After(1) }
func TestB() { select { case <-done: case <-time.After(1): } }
func TestC() { select { case <-done: case <-time.After(1): t.Fatal("in vain") } }
func TestD() { synctest.Test(t, func() { <-time.After(1) }) }
func inBubble(t *testing.T, do func()) { synctest.Test(t, func() { do() }) }
func TestE() { inBubble(t, func() { time.Sleep(1) }) }`,
		"test/web/a.test.mjs": "await new Promise((done) => setTimeout(done, 100));\nawait page.waitForTimeout(100);\n",
		"test/e2e/a.txtar":    "exec sh -c 'until false; do sleep 0.1; done'\nexec sandkasten exec $ID 'sleep 1'\n! exec sh -c 'sandkasten run base \"sleep 1\"'\nstdin a\n-- a --\nsleep 1\n",
		"sdk/tests/test_a.py": "import time\ntime.sleep(1); await asyncio.sleep(1)\n",
		"sdk/src/a.py":        "time.sleep(1)\n",
	})
	for recorded, message := range map[int]string{9: "", 8: "tests sleep in 9 places, and rules.go allows 8: ", 10: "tests sleep in 9 places, and rules.go says 10: write the lower number there"} {
		found, err := repo.Sleeps(recorded)
		if err != nil {
			t.Fatal(err)
		}
		if message == "" {
			want(t, found)
		} else {
			want(t, found, message)
		}
	}
	found, err := repo.Sleeps(0)
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	for _, place := range []string{"a/a_test.go:2", "a/a_test.go:4", "b/b_test.go:2", "b/b_test.go:3", "test/web/a.test.mjs:1", "test/web/a.test.mjs:2", "test/e2e/a.txtar:1", "sdk/tests/test_a.py:2"} {
		if !strings.Contains(found[0], place) {
			t.Errorf("%q does not name %s", found[0], place)
		}
	}
}
