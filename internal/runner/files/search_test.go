package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/protocol"
)

// plant makes files with their content; a name with a slash at its end is a
// directory.
func plant(t *testing.T, dir string, content map[string]string) {
	t.Helper()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func names(e protocol.Entries) []string {
	out := []string{}
	for _, i := range e.Entries {
		out = append(out, i.Name)
	}
	return out
}

func TestGlob(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{
		"a.go": "", "b.txt": "", ".hidden.go": "", "src/c.go": "", "src/deep/d.go": "", "src/deep/e.txt": "",
		".git/config": "", ".git/f.go": "", "src/.env": "", "sp[ace]": "", "x{y}": "", "ünï": "", "\xff.go": "", "\xe9/caf\xe9": "", "\xe9/x": "", `back\xff`: "",
	})
	if err := os.Symlink("/etc", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		pattern string
		hidden  bool
		want    string
	}{
		{"*.go", false, "a.go src/c.go src/deep/d.go \\xff.go"},
		{"*.go", true, ".git/f.go .hidden.go a.go src/c.go src/deep/d.go \\xff.go"},
		{"./*.txt", false, "b.txt src/deep/e.txt"},
		{".*", false, ".git .hidden.go src/.env"},
		{".git/*", false, ".git/config .git/f.go"},
		{"**/*.go", false, "a.go src/c.go src/deep/d.go \\xff.go"},
		{"src/*", false, "src/c.go src/deep"},
		{"src/**", false, "src/c.go src/deep src/deep/d.go src/deep/e.txt"},
		{"src/**/d.go", false, "src/deep/d.go"},
		{"**/deep/**", false, "src/deep/d.go src/deep/e.txt"},
		{"*/*.go", false, "src/c.go"},
		{"{a,b}.{go,txt}", false, "a.go b.txt"},
		{"{src/c,a}.go", false, "a.go src/c.go"},
		{"[ab].*", false, "a.go b.txt"},
		{"[!a-m].txt", false, ""},
		{"[a-c].[!g]*", false, "b.txt"},
		{"?.go", false, "a.go src/c.go src/deep/d.go \\xff.go"},
		{"ün?", false, "ünï"},
		{`sp\[ace\]`, false, "sp[ace]"},
		{`x\{y\}`, false, "x{y}"},
		{"sp[[]ace]", false, "sp[ace]"},
		{`\xff*`, false, "\\xff.go"},
		{`{\xfe,\xff}.go`, false, "\\xff.go"},
		{`[\xff].go`, false, "\\xff.go"},
		{`\xfe.go`, false, ""},
		{`\xe9/*`, false, "\\xe9/caf\\xe9 \\xe9/x"},
		{`\xe9/caf\xe9`, false, "\\xe9/caf\\xe9"},
		{`back\x5cxff`, false, `back\x5cxff`},
		{"link/*", false, ""},
		{"li*", false, "link"},
		{"nothing/**", false, ""},
		{"a.go$", false, ""},
	} {
		got, err := s.Glob(protocol.Glob{Path: ".", Pattern: tc.pattern, Hidden: tc.hidden}, always)
		if err != nil || strings.Join(names(got), " ") != tc.want {
			t.Errorf("%s (%v): %q, %v; want %q", tc.pattern, tc.hidden, names(got), err, tc.want)
		}
	}
	for _, bad := range []string{"", "/etc/*", "[a", "{a", `a\`, "[]", "[z-a]", "[a/b]", strings.Repeat("{", 9) + strings.Repeat("}", 9), strings.Repeat("a", protocol.MaxPattern+1)} {
		if got, err := s.Glob(protocol.Glob{Path: ".", Pattern: bad}, always); codeOf(err) != protocol.CodeInvalid {
			t.Errorf("%q: %v, %v", bad, names(got), err)
		}
	}
	if got, err := s.Glob(protocol.Glob{Path: ".", Pattern: "*.go", Max: 2}, always); err != nil || !got.Truncated || len(got.Entries) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A pattern that ties other matchers up takes this one no time.
func TestGlobOfAnExpensivePattern(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{strings.Repeat("a", 250): ""})
	pattern := strings.Repeat("*a", 100) + "b"
	if got, err := s.Glob(protocol.Glob{Path: ".", Pattern: pattern}, always); err != nil || len(got.Entries) > 0 {
		t.Error(names(got), err)
	}
}

func TestGrep(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{
		"a.txt":    "one\ntwo\nthree\nfour\nfive\n",
		"b.go":     "func One() {}\r\nfunc two() {}",
		".hidden":  "one\n",
		"bin":      "one\x00\n",
		"late":     "one\n" + strings.Repeat("x\n", 100) + "\x00",
		"sub/c.go": "two two",
		"long":     strings.Repeat("x", 300_000) + "one\none" + strings.Repeat("y", 600),
		"latin":    "caf\xe9 one\n",
		"dots":     "a.c\nabc\n",
	})
	if err := unix.Mkfifo(dir+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.txt", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		req  protocol.Grep
		want string
	}{
		{protocol.Grep{Pattern: "one"}, "a.txt:1:1 latin:1:6 long:2:1"},
		{protocol.Grep{Pattern: "one", Hidden: true}, ".hidden:1:1 a.txt:1:1 latin:1:6 long:2:1"},
		{protocol.Grep{Pattern: "one", IgnoreCase: true}, "a.txt:1:1 b.go:1:6 latin:1:6 long:2:1"},
		{protocol.Grep{Pattern: "two"}, "a.txt:2:1 b.go:2:6 sub/c.go:1:1"},
		{protocol.Grep{Pattern: "^two$"}, "a.txt:2:1"},
		{protocol.Grep{Pattern: "t(wo|hree)", Include: "*.txt"}, "a.txt:2:1 a.txt:3:1"},
		{protocol.Grep{Pattern: "two", Include: "*.go"}, "b.go:2:6 sub/c.go:1:1"},
		{protocol.Grep{Pattern: `\{\}$`}, "b.go:1:12 b.go:2:12"},
		{protocol.Grep{Pattern: "a.c", Literal: true}, "dots:1:1"},
		{protocol.Grep{Pattern: "a.c"}, "dots:1:1 dots:2:1"},
		{protocol.Grep{Path: "sub", Pattern: "two"}, "c.go:1:1"},
		{protocol.Grep{Path: "a.txt", Pattern: "f"}, ":4:1 :5:1"},
		{protocol.Grep{Pattern: "nowhere"}, ""},
	} {
		if tc.req.Path == "" {
			tc.req.Path = "."
		}
		got, err := s.Grep(tc.req, always)
		lines := []string{}
		for _, m := range got.Matches {
			lines = append(lines, fmt.Sprintf("%s:%d:%d", m.Path, m.Line, m.Column))
			if len(m.Text) > 500 {
				t.Errorf("%+v: a text of %d bytes", tc.req, len(m.Text))
			}
		}
		if err != nil || strings.Join(lines, " ") != tc.want || got.Truncated {
			t.Errorf("%+v: %q, %v; want %q", tc.req, lines, err, tc.want)
		}
	}
	// What it does not look into is counted.
	if got, err := s.Grep(protocol.Grep{Path: ".", Pattern: "nowhere"}, always); err != nil || got.Files != 8 || got.Binary != 2 {
		t.Errorf("%d of %d files are binary, %v; want 2 of 8", got.Binary, got.Files, err)
	}
	for name, bad := range map[string]protocol.Grep{
		"pattern":  {Path: ".", Pattern: "("},
		"empty":    {Path: ".", Pattern: ""},
		"context":  {Path: ".", Pattern: "x", Before: 101},
		"negative": {Path: ".", Pattern: "x", After: -1},
		"include":  {Path: ".", Pattern: "x", Include: "["},
		"fifo":     {Path: "fifo", Pattern: "x"},
	} {
		if _, err := s.Grep(bad, always); codeOf(err) != protocol.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGrepContext(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{"f": "1\nx2\nx3\n4\n5\nx6\n7\n8\n"})
	for _, tc := range []struct {
		before, after, limit int
		want                 string
		more                 bool
	}{
		{1, 1, 0, "[1]x2[x3] [x2]x3[4] [5]x6[7]", false},
		{2, 0, 0, "[1]x2[] [1 x2]x3[] [4 5]x6[]", false},
		{0, 3, 0, "[]x2[x3 4 5] []x3[4 5 x6] []x6[7 8]", false},
		{0, 2, 1, "[]x2[x3 4]", true},
		{0, 0, 3, "[]x2[] []x3[] []x6[]", false},
	} {
		got, err := s.Grep(protocol.Grep{Path: "f", Pattern: "x", Before: tc.before, After: tc.after, Max: tc.limit}, always)
		lines := []string{}
		for _, m := range got.Matches {
			lines = append(lines, fmt.Sprint(m.Before)+m.Text+fmt.Sprint(m.After))
		}
		if err != nil || strings.Join(lines, " ") != tc.want || got.Truncated != tc.more {
			t.Errorf("%+v: %q %v, %v", tc, lines, got.Truncated, err)
		}
	}
}

// A long line is shown where it matches, cut between characters, and with a mark where it
// is cut.
func TestGrepShowsTheMatch(t *testing.T) {
	s, dir := open(t)
	long := strings.Repeat("\u00e4", 2000)
	plant(t, dir, map[string]string{"f": long + "KEY" + long + "\nKEY" + long + "\nx" + long + "KEY\n" + strings.Repeat("z", 500) + "\nKEY"})
	got, err := s.Grep(protocol.Grep{Path: "f", Pattern: "KEY", Before: 1}, always)
	if err != nil || len(got.Matches) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []struct {
		column     int
		begin, end string
	}{{4001, "\u2026\u00e4", "\u00e4\u2026"}, {1, "KEY\u00e4", "\u00e4\u2026"}, {4002, "\u2026\u00e4", "\u00e4KEY"}, {1, "KEY", "KEY"}} {
		m := got.Matches[i]
		if m.Column != want.column || !strings.HasPrefix(m.Text, want.begin) || !strings.HasSuffix(m.Text, want.end) || !strings.Contains(m.Text, "KEY") ||
			!utf8.ValidString(m.Text) || len(m.Text) > 500 {
			t.Errorf("match %d: column %d, %q", i, m.Column, m.Text)
		}
	}
	if before := got.Matches[3].Before; len(before) != 1 || before[0] != strings.Repeat("z", 500) {
		t.Errorf("the line before: %q", before)
	}
}

// Whatever the lines are, the answer fits into a frame's header.
func TestGrepFits(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{"f": strings.Repeat(strings.Repeat("\x01", 1000)+"\n", 3000)})
	got, err := s.Grep(protocol.Grep{Path: ".", Pattern: "\x01", Before: 5, After: 5}, always)
	if err != nil || !got.Truncated || len(got.Matches) < 3 {
		t.Fatalf("%d matches, %v", len(got.Matches), err)
	}
	fits(t, got)
}

func FuzzGlobPattern(f *testing.F) {
	for _, seed := range []string{"*", "**/a", "{a,b}/[c-d]?", `\*`, "[!]]", "a{b,{c,d}}", ".*/**", "[^\\]]", "[a-]"} {
		f.Add(seed, "a/b.c")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if name == "" || len(name) > 200 || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
			return
		}
		s, dir := open(t)
		plant(t, dir, map[string]string{"top/" + name: ""})
		got, err := s.Glob(protocol.Glob{Path: ".", Pattern: pattern, Hidden: true}, always)
		if err != nil && codeOf(err) != protocol.CodeInvalid {
			t.Fatal(err)
		}
		for _, n := range names(got) {
			if !slices.Contains([]string{"top", "top/" + name}, n) {
				t.Errorf("%q is not there", n)
			}
		}
		if !utf8.ValidString(name) {
			return // no pattern has such bytes: it comes as JSON
		}
		// A name written out matches itself.
		quoted := strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`, `\`, `\\`).Replace(name)
		got, err = s.Glob(protocol.Glob{Path: "top", Pattern: quoted, Hidden: true}, always)
		if err != nil || !slices.Contains(names(got), name) {
			t.Errorf("%q does not match itself: %v, %v", name, names(got), err)
		}
	})
}
