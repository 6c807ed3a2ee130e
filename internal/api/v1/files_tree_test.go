package v1_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
)

// change sends a request to change files and returns its answer.
func (s *server) change(tb testing.TB, path, what string, body any) answer {
	tb.Helper()
	return s.do(tb, "POST", path+"/fs/"+what, js(tb, body))
}

type object map[string]any

func TestStat(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "mkdir d; printf abc > d/a; chmod 4750 d/a; ln -s d/a l; ln -s nowhere broken; mkfifo p")
	for _, tt := range []struct{ query, path, name, kind, mode, target string }{
		{"path=d/a", "/workspace/d/a", "a", "file", "4750", ""},
		{"path=/workspace/d", "/workspace/d", "d", "dir", "", ""},
		{"path=.", "/workspace", "workspace", "dir", "", ""},
		{"path=l", "/workspace/l", "l", "symlink", "0777", "d/a"},
		{"path=l&follow=true", "/workspace/l", "l", "file", "4750", ""},
		{"path=broken", "/workspace/broken", "broken", "symlink", "0777", "nowhere"},
		{"path=p", "/workspace/p", "p", "fifo", "", ""},
	} {
		var got files.Stat
		s.do(t, "GET", path+"/fs/stat?"+tt.query, "").into(t, 200, &got)
		if got.Path != tt.path || got.Name != tt.name || got.Type != tt.kind || got.Target != tt.target || tt.mode != "" && got.Mode != tt.mode || got.ModifiedAt.IsZero() {
			t.Errorf("%s: %+v", tt.query, got)
		}
	}
	s.do(t, "GET", path+"/fs/stat?path=broken&follow=true", "").wantError(t, 404, "not_found", "")
	s.do(t, "GET", path+"/fs/stat?path=missing", "").wantError(t, 404, "not_found", "")
}

func TestChanges(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "printf one > a; printf two > b; mkdir full; printf x > full/x; mkdir empty; ln -s a link")
	steps := []struct {
		what   string
		body   object
		status int
		code   string
		check  string // a command that succeeds behind it
	}{
		{"mkdir", object{"path": "d"}, 200, "", "test $(stat -c %a d) = 755"},
		{"mkdir", object{"path": "d"}, 409, "already_exists", ""},
		{"mkdir", object{"path": "d", "parents": true}, 200, "", ""},
		{"mkdir", object{"path": "x/y/z", "mode": "0700"}, 404, "not_found", "test ! -e x"},
		{"mkdir", object{"path": "x/y/z/", "mode": "0700", "parents": true}, 200, "", "test $(stat -c %a x/y/z) = 700"},

		{"copy", object{"from": "a", "to": "c"}, 200, "", "test $(cat c) = one"},
		{"copy", object{"from": "b", "to": "c"}, 409, "already_exists", "test $(cat c) = one"},
		{"copy", object{"from": "b", "to": "c", "overwrite": true}, 200, "", "test $(cat c) = two"},
		{"copy", object{"from": "full", "to": "full2", "recursive": true}, 200, "", "test $(cat full2/x) = x"},
		{"copy", object{"from": "link", "to": "link2"}, 200, "", "test -e link2"},
		{"copy", object{"from": "missing", "to": "c2"}, 404, "not_found", "test ! -e c2"},

		{"move", object{"from": "c", "to": "x/c"}, 200, "", "test ! -e c && test -e x/c"},
		{"move", object{"from": "a", "to": "b"}, 409, "already_exists", "test $(cat b) = two"},
		{"move", object{"from": "a", "to": "b", "overwrite": true}, 200, "", "test $(cat b) = one && test ! -e a"},
		{"move", object{"from": "a", "to": "c"}, 404, "not_found", ""},
		{"move", object{"from": "full", "to": "full3"}, 200, "", "test -e full3/x"},

		{"chmod", object{"path": "b", "mode": "0600"}, 200, "", "test $(stat -c %a b) = 600"},
		{"chmod", object{"path": "b", "mode": "000"}, 200, "", "test $(stat -c %a b) = 0"},
		{"chmod", object{"path": "full3", "mode": "0700", "recursive": true}, 200, "", "test $(stat -c %a full3/x) = 700"},
		{"chmod", object{"path": "missing", "mode": "0600"}, 404, "not_found", ""},

		{"delete", object{"path": "link"}, 200, "", "test ! -L link"},
		{"delete", object{"path": "b"}, 200, "", "test ! -e b"},
		{"delete", object{"path": "b"}, 404, "not_found", ""},
		{"delete", object{"path": "empty"}, 200, "", "test ! -e empty"},
		{"delete", object{"path": "full3", "recursive": true}, 200, "", "test ! -e full3"},
	}
	for i, step := range steps {
		name := fmt.Sprint(i, " ", step.what, " ", step.body)
		a := s.change(t, path, step.what, step.body)
		if step.code == "" {
			a.into(t, 200, &v1.OK{})
		} else {
			t.Log(name)
			a.wantError(t, step.status, step.code, "")
		}
		if step.check != "" {
			if r := s.exec(t, path, step.check); r.ExitCode != 0 {
				t.Errorf("%s: %s fails", name, step.check)
			}
		}
	}
	for _, refused := range []struct {
		what string
		body object
	}{
		{"mkdir", object{"path": "full2/x", "parents": true}},            // it is a file
		{"delete", object{"path": "full2"}},                              // it has entries
		{"copy", object{"from": "full2", "to": "d2"}},                    // it is a directory
		{"copy", object{"from": "x", "to": "x/y/in", "recursive": true}}, // into itself
		{"move", object{"from": "x", "to": "x/y/in"}},
		{"move", object{"from": "d", "to": "full2", "overwrite": true}}, // it has entries
	} {
		if a := s.change(t, path, refused.what, refused.body); a.status < 400 || a.status >= 500 || a.status == 404 {
			t.Errorf("%s %v: %d %s", refused.what, refused.body, a.status, a.body)
		}
	}
}

// TestListPages is a property: whatever the tree, the depth and the size of
// pages, the pages together have each entry exactly once, in order.
func TestListPages(t *testing.T) {
	s := start(t)
	path := s.create(t)
	random := rand.New(rand.NewPCG(1, 2))
	var script strings.Builder
	names := []string{"a", "a.b", "a-b", "A", "ä", "日本", "-rf", "$(x)", "with space", "with\nnewline", "\x1b[2J", "\\", "'", `"`, "~", ".hidden", strings.Repeat("n", 255)}
	dirs := []string{"."}
	for i := range 150 {
		dir := dirs[random.IntN(len(dirs))]
		name := dir + "/" + names[random.IntN(len(names)-1)] + fmt.Sprint(i)
		if i == 0 {
			name = dir + "/" + names[len(names)-1]
		}
		if random.IntN(4) == 0 && len(name) < 1000 {
			dirs = append(dirs, name)
			fmt.Fprintf(&script, "mkdir -p -- %s\n", shellQuote(name))
		} else {
			fmt.Fprintf(&script, ": > %s\n", shellQuote(name))
		}
	}
	// Names that are not UTF-8 are escaped in an answer.
	script.WriteString(`for i in 376 377 300 277; do : > "$(printf "\\$i")"; : > "$(printf "\\$i")z"; done` + "\n")
	if r := s.exec(t, path, script.String()); r.ExitCode != 0 {
		t.Fatal(r.Output)
	}
	for _, depth := range []int{1, 2, 3, -1} {
		whole := s.pages(t, path, depth, 10_000)
		names := slices.Sorted(slices.Values(whole))
		if len(names) != len(slices.Compact(slices.Clone(names))) {
			t.Fatalf("depth %d: %d entries, some of them twice", depth, len(whole))
		}
		if depth == -1 {
			found := s.exec(t, path, "find . -mindepth 1 -printf x")
			if len(found.Output) != len(whole) {
				t.Errorf("%d entries, and find has %d", len(whole), len(found.Output))
			}
		}
		for _, limit := range []int{1, 2, 7, len(whole) - 1, len(whole)} {
			if got := s.pages(t, path, depth, limit); !slices.Equal(got, whole) {
				t.Errorf("depth %d in pages of %d: %d entries instead of %d", depth, limit, len(got), len(whole))
			}
		}
	}
}

// pages lists the workspace, page by page.
func (s *server) pages(t *testing.T, path string, depth, limit int) []string {
	t.Helper()
	var names []string
	query := url.Values{"depth": {fmt.Sprint(depth)}, "limit": {fmt.Sprint(limit)}}
	for {
		var page files.List
		s.do(t, "GET", path+"/fs/list?"+query.Encode(), "").into(t, 200, &page)
		for _, e := range page.Entries {
			names = append(names, e.Name)
		}
		if len(page.Entries) > limit || page.Truncated != (page.NextCursor != "") || page.Truncated && len(page.Entries) != limit {
			t.Fatalf("a page of %d with %d entries, truncated %v, cursor %q", limit, len(page.Entries), page.Truncated, page.NextCursor)
		}
		if !page.Truncated {
			return names
		}
		query.Set("cursor", page.NextCursor)
	}
}

func shellQuote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// TestListOfMany fills pages that the runner cannot answer at once.
func TestListOfMany(t *testing.T) {
	s := start(t)
	path := s.create(t)
	const n = 5000
	s.exec(t, path, fmt.Sprintf(`for i in $(seq %d); do : > "a-name-that-takes-some-room-in-an-answer-$i"; done`, n))
	var list files.List
	s.do(t, "GET", path+"/fs/list?limit=10000", "").into(t, 200, &list)
	if len(list.Entries) != n || list.Truncated || list.NextCursor != "" {
		t.Errorf("%d entries, truncated %v", len(list.Entries), list.Truncated)
	}
	if got := s.pages(t, path, 1, 999); len(got) != n {
		t.Errorf("%d entries in pages", len(got))
	}
	var first files.List
	s.do(t, "GET", path+"/fs/list", "").into(t, 200, &first)
	if len(first.Entries) != 1000 || !first.Truncated {
		t.Errorf("without a limit: %d entries, truncated %v", len(first.Entries), first.Truncated)
	}
}

func TestEdit(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.put(t, path+"/fs/raw?path=f&mode=0755", "one\ntwo\none\n").into(t, 200, &v1.OK{})
	for _, tt := range []struct {
		body     object
		status   int
		code     string
		replaced int
		content  string
	}{
		{object{"path": "f", "old": "one", "new": "1", "count": 1}, 422, "unprocessable", 0, "one\ntwo\none\n"},
		{object{"path": "f", "old": "three", "new": "3"}, 422, "unprocessable", 0, "one\ntwo\none\n"},
		{object{"path": "f", "old": "one", "new": "1", "count": 2}, 200, "", 2, "1\ntwo\n1\n"},
		{object{"path": "f", "old": "two\n", "new": ""}, 200, "", 1, "1\n1\n"},
		{object{"path": "f", "old": "1\n1", "new": "<ä>&\n"}, 200, "", 1, "<ä>&\n\n"},
		{object{"path": "missing", "old": "a", "new": "b"}, 404, "not_found", 0, "<ä>&\n\n"},
	} {
		a := s.change(t, path, "edit", tt.body)
		if tt.code != "" {
			a.wantError(t, tt.status, tt.code, "")
		} else {
			var got files.EditResponse
			a.into(t, 200, &got)
			if got.Replaced != tt.replaced || !strings.Contains(got.Diff, "@@") || got.DiffTruncated {
				t.Errorf("%v: %+v", tt.body, got)
			}
		}
		if file, content := s.readBack(t, path, "path=f"); content != tt.content || file.Mode != "0755" {
			t.Errorf("behind %v the file has %q and mode %s", tt.body, content, file.Mode)
		}
	}
	large := strings.Repeat("x", 1<<20+1)
	s.change(t, path, "edit", object{"path": "f", "old": large, "new": ""}).wantError(t, 413, "too_large", "old")
	s.change(t, path, "edit", object{"path": "f", "old": "x", "new": large}).wantError(t, 413, "too_large", "new")
}

func TestGlob(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "mkdir -p src/deep .git; touch src/a.go src/deep/b.go src/deep/c.h .git/d.go README; ln -s / src/out")
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"pattern=*.go", []string{"src/a.go", "src/deep/b.go"}},
		{"pattern=*.go&hidden=true", []string{".git/d.go", "src/a.go", "src/deep/b.go"}},
		{"pattern=src/*.go", []string{"src/a.go"}},
		{"pattern=**/*.{go,h}&path=src", []string{"a.go", "deep/b.go", "deep/c.h"}},
		{"pattern=nothing", []string{}},
	} {
		var found files.Found
		s.do(t, "GET", path+"/fs/glob?"+tt.query, "").into(t, 200, &found)
		got := []string{}
		for _, e := range found.Entries {
			got = append(got, e.Name)
		}
		if !slices.Equal(got, tt.want) || found.Truncated || found.Entries == nil {
			t.Errorf("%s: %q, want %q", tt.query, got, tt.want)
		}
	}
	var found files.Found
	s.do(t, "GET", path+"/fs/glob?pattern=*.go&limit=1", "").into(t, 200, &found)
	if len(found.Entries) != 1 || !found.Truncated {
		t.Errorf("limit 1: %+v", found)
	}
	s.do(t, "GET", path+"/fs/glob?pattern=*&path=missing", "").wantError(t, 404, "not_found", "")
}

func TestGrep(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, `mkdir src; printf 'one\nTwo (2)\nthree\n' > src/a.txt; printf 'two\n' > src/b.c; printf 'two\0\n' > src/binary; mkfifo src/p`)
	for _, tt := range []struct {
		query string
		want  []files.Match
	}{
		{"pattern=t[wh]", []files.Match{{Path: "src/a.txt", Line: 3, Column: 1, Text: "three"}, {Path: "src/b.c", Line: 1, Column: 1, Text: "two"}}},
		{"pattern=TWO&ignore_case=true&include=*.txt", []files.Match{{Path: "src/a.txt", Line: 2, Column: 1, Text: "Two (2)"}}},
		{"pattern=(2)&literal=true", []files.Match{{Path: "src/a.txt", Line: 2, Column: 5, Text: "Two (2)"}}},
		{"pattern=Two&before=1&after=1&path=src/a.txt", []files.Match{{Line: 2, Column: 1, Text: "Two (2)", Before: []string{"one"}, After: []string{"three"}}}},
		{"pattern=nothing", []files.Match{}},
	} {
		var found files.Matches
		s.do(t, "GET", path+"/fs/grep?"+tt.query, "").into(t, 200, &found)
		if got, want := js(t, found.Matches), js(t, tt.want); got != want || found.Truncated {
			t.Errorf("%s: %s, want %s", tt.query, got, want)
		}
	}
	var found files.Matches
	s.do(t, "GET", path+"/fs/grep?pattern=t&limit=1", "").into(t, 200, &found)
	if len(found.Matches) != 1 || !found.Truncated {
		t.Errorf("limit 1: %+v", found)
	}
}

// TestHostileFiles is H01 and H04 for the routes that no other test has: what
// leads out of the workspace or is no file is refused, and nothing hangs.
func TestHostileFiles(t *testing.T) {
	s := start(t)
	path := s.create(t)
	canary := t.TempDir()
	s.exec(t, path, "echo secret > "+canary+"/canary; ln -s "+canary+" out; ln -s /proc/self/root root; mkfifo p; mkdir d")
	for _, route := range []string{
		"read?path=out/canary", "read?raw=1&path=root/etc/passwd", "list?path=out", "stat?path=out/canary", "stat?follow=1&path=out",
		"glob?pattern=*&path=out", "grep?pattern=secret&path=out", "watch?path=out", "archive?path=out",
	} {
		if a := s.do(t, "GET", path+"/fs/"+route, ""); a.status < 400 || a.status >= 500 || strings.Contains(string(a.body), "secret") {
			t.Errorf("%s: %d %s", route, a.status, a.body)
		}
	}
	for what, body := range map[string]object{
		"write":  {"path": "out/canary", "text": "x"},
		"mkdir":  {"path": "out/d"},
		"move":   {"from": "out/canary", "to": "stolen"},
		"copy":   {"from": "out/canary", "to": "stolen"},
		"delete": {"path": "out/canary"},
		"chmod":  {"path": "out/canary", "mode": "0777"},
		"edit":   {"path": "out/canary", "old": "secret", "new": "x"},
	} {
		if a := s.change(t, path, what, body); a.status < 400 || a.status >= 500 {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	for _, query := range []string{"raw?path=out/canary", "archive?path=out"} {
		if a := s.put(t, path+"/fs/"+query, "x"); a.status < 400 || a.status >= 500 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	if r := s.exec(t, path, "cat "+canary+"/canary; ls "+canary+"; ls stolen 2>/dev/null"); r.Output != "secret\ncanary\n" {
		t.Errorf("outside there is %q", r.Output)
	}
	var found files.Matches
	s.do(t, "GET", path+"/fs/grep?pattern=secret", "").into(t, 200, &found)
	if len(found.Matches) != 0 {
		t.Errorf("a search went through links and pipes: %+v", found)
	}
	s.change(t, path, "copy", object{"from": "p", "to": "p2"}).wantError(t, 400, "invalid_argument", "")
}
