package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func write(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestCpNames is which path the copy gets, in both directions.
func TestCpNames(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	here := t.TempDir()
	file, dir := filepath.Join(here, "f"), filepath.Join(here, "dir")
	write(t, file, "file", 0o640)
	write(t, filepath.Join(dir, "a"), "a", 0o755)
	tm.want("exec", id, "mkdir there")
	for _, tt := range []struct{ from, to, made string }{
		{file, "", "f"},
		{file, "/workspace/", "f"},
		{file, "new", "new"},
		{file, "there", "there/f"},
		{file, "there/", "there/f"},
		{file, "deep/er/", "deep/er/f"},
		{file, "/workspace/there/g", "there/g"},
		{dir, "", "dir/a"},
		{dir + "/", "", "dir/a"},
		{dir, "other", "other/a"},
		{dir, "there", "there/dir/a"},
		{dir, "x/y/z", "x/y/z/a"},
		{dir, "other/", "other/dir/a"},
	} {
		tm.want("cp", tt.from, id+":"+tt.to)
		want := "file"
		if strings.HasPrefix(tt.from, dir) {
			want = "a"
		}
		if got := tm.want("exec", id, "cat "+tt.made+"; rm "+tt.made); got != want {
			t.Errorf("cp %s to %q: %s has %q", tt.from, tt.to, tt.made, got)
		}
	}
	tm.want("exec", id, "mkdir -p in/sub; printf file > in/f; printf a > in/sub/a; chmod 750 in/sub/a; ln -s a in/sub/l; ln -s /etc in/out; mkfifo in/p")
	for _, tt := range []struct{ from, to, made string }{
		{"in/f", here + "/new", "new"},
		{"in/f", here, "f"},
		{"/workspace/in/f", dir + "/", "dir/f"},
		{"in/sub", here, "sub/a"},
		{"in/sub/", here + "/named", "named/a"},
		{"in/sub", dir, "dir/sub/a"},
	} {
		tm.want("cp", id+":"+tt.from, tt.to)
		want := "file"
		if strings.HasSuffix(tt.made, "/a") {
			want = "a"
		}
		if got := content(t, filepath.Join(here, tt.made)); got != want {
			t.Errorf("cp %s to %s: %s has %q", tt.from, tt.to, tt.made, got)
		}
	}
	info, err := os.Stat(filepath.Join(here, "sub", "l"))
	if err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the link and its file: %v, %v", info, err)
	}
	r := tm.run("cp", id+":in", filepath.Join(here, "whole"))
	if _, err := os.Lstat(filepath.Join(here, "whole", "out")); r.code != 0 || err == nil || !strings.Contains(r.errOut, "left out") {
		t.Errorf("a link that leads out: %+v, %v", r, err)
	}
}

// TestCpKeepsTimesAndNames copies files whose names are no UTF-8 there and back, alone and
// in a directory: they and their directories keep their times, of which none is rounded up.
func TestCpKeepsTimesAndNames(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	here := t.TempDir()
	old := time.Unix(1_000_000_000, 789_123_456)
	const odd = "f\xfe"
	write(t, filepath.Join(here, odd), "alone", 0o640)
	write(t, filepath.Join(here, "src", "sub", odd), "in a directory", 0o640)
	paths := []string{odd, "src/sub/" + odd, "src/sub", "src"}
	for _, name := range paths {
		if err := os.Chtimes(filepath.Join(here, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	tm.want("cp", filepath.Join(here, odd), id+":")
	tm.want("cp", filepath.Join(here, "src"), id+":")
	if got := tm.want("exec", id, `stat -c %.9Y $'f\xfe' $'src/sub/f\xfe' src/sub src`); got != strings.Repeat("1000000000.789123456\n", 4) {
		t.Errorf("times inside: %s", got)
	}
	back := t.TempDir()
	tm.want("cp", id+":"+odd, back)
	tm.want("cp", id+":src", back)
	for _, name := range paths {
		info, err := os.Stat(filepath.Join(back, name))
		if err != nil {
			t.Fatal(err)
		}
		// The API tells of times in full milliseconds.
		if at := info.ModTime(); at.After(old) || at.Before(old.Truncate(time.Millisecond)) {
			t.Errorf("%q is of %v here, want %v", name, at.UTC(), old.UTC())
		}
	}
	if got := content(t, filepath.Join(back, odd)); got != "alone" {
		t.Errorf("%q", got)
	}
	if got := tm.want("fs", "cat", id, odd); got != "alone" {
		t.Errorf("fs cat: %q", got)
	}
	tm.want("fs", "mv", id, odd, "g\xfd")
	tm.want("fs", "rm", id, "g\xfd")
	if got := tm.want("exec", id, "ls"); got != "src\n" {
		t.Errorf("after the removal: %q", got)
	}
}

func TestCpStandard(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	if r := tm.runCtx(t.Context(), "piped \x00\xff", "cp", "-", id+":f"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if out := tm.want("cp", id+":f", "-"); out != "piped \x00\xff" {
		t.Errorf("it came back as %q", out)
	}
	tm.want("exec", id, "mkdir d")
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"cp", "-", id + ":"}, "has no name"},
		{[]string{"cp", id + ":d", "-"}, "is a directory"},
		{[]string{"cp", id + ":missing", "-"}, "missing"},
		{[]string{"cp", "-", "-"}, "SESSION:PATH"},
		{[]string{"cp", "/nonexistent", id + ":"}, "no such file"},
		{[]string{"cp", "/dev/null", id + ":x"}, "not a regular file"},
	} {
		code := cli.ExitFailed
		if tt.says == "has no name" || tt.says == "SESSION:PATH" {
			code = cli.ExitUsage
		}
		if r := tm.run(tt.args...); r.code != code || r.out != "" || !strings.Contains(r.errOut, tt.says) {
			t.Errorf("%q = %+v, want %q", tt.args, r, tt.says)
		}
	}
}

// What is no file is filled, not replaced: /dev/null of a host is one.
func TestCpIntoWhatIsNoFile(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	tm.want("exec", id, "printf text > f")
	dir := t.TempDir()
	pipe, link, real := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "real")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(real, nil, 0o600), os.Symlink("real", link)); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		text, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		read <- string(text)
	}()
	tm.want("cp", id+":f", pipe)
	tm.want("cp", id+":f", link)
	if text := <-read; text != "text" {
		t.Errorf("the pipe has %q", text)
	}
	text, err := os.ReadFile(real)
	if info, linkErr := os.Lstat(link); err != nil || linkErr != nil || info.Mode()&os.ModeSymlink == 0 || string(text) != "text" {
		t.Errorf("behind the link there is %q, %v, %v", text, err, linkErr)
	}
}

func TestFs(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	fs := func(args ...string) string {
		t.Helper()
		return tm.want(append([]string{"fs", args[0], id}, args[1:]...)...)
	}
	fs("mkdir", "-p", "d/sub", "e")
	if r := tm.runCtx(t.Context(), "one\ntwo\n", "fs", "write", id, "d/a.txt", "--mode", "0600"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := tm.runCtx(t.Context(), "three\n", "fs", "write", "-a", id, "d/a.txt"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := tm.runCtx(t.Context(), "x", "fs", "write", "--create", id, "d/a.txt"); r.code != cli.ExitFailed {
		t.Errorf("%+v", r)
	}
	if out := fs("cat", "d/a.txt", "d/a.txt"); out != "one\ntwo\nthree\none\ntwo\nthree\n" {
		t.Errorf("cat = %q", out)
	}
	if out := fs("edit", "d/a.txt", "two", "2"); !strings.Contains(out, "-two\n+2\n") {
		t.Errorf("edit = %q", out)
	}
	fs("cp", "d/a.txt", "e")
	fs("mv", "e/a.txt", "e/b.txt")
	fs("chmod", "0755", "e/b.txt")
	if out := fs("find", "*.txt"); out != "d/a.txt\ne/b.txt\n" {
		t.Errorf("find = %q", out)
	}
	if out := fs("grep", "-A", "1", "^2", "d"); out != "a.txt:2:2\na.txt-3-three\n--\n" {
		t.Errorf("grep = %q", out)
	}
	if r := tm.run("fs", "grep", id, "nothing"); r.code != cli.ExitFailed || r.out != "" {
		t.Errorf("grep of nothing = %+v", r)
	}
	if out := fs("ls", "-r"); !strings.Contains(out, "d/a.txt") || !strings.Contains(out, "0600") {
		t.Errorf("ls = %s", out)
	}
	var entries []sandkasten.Entry
	if err := json.Unmarshal([]byte(fs("ls", "--json", "e")), &entries); err != nil || len(entries) != 1 || entries[0].Name != "b.txt" || entries[0].Mode != "0755" {
		t.Errorf("ls --json = %+v, %v", entries, err)
	}
	if out := fs("stat", "e/b.txt"); !strings.Contains(out, "/workspace/e/b.txt") || !strings.Contains(out, "0755") {
		t.Errorf("stat = %s", out)
	}
	archive := fs("tar", "--format", "tar.zst", "d")
	if r := tm.runCtx(t.Context(), archive, "fs", "untar", id, "again", "--format", "tar.zst"); r.code != 0 || !strings.Contains(r.out, "files") {
		t.Errorf("untar = %+v", r)
	}
	if out := fs("cat", "again/a.txt"); out != "one\n2\nthree\n" {
		t.Errorf("there and back: %q", out)
	}
	fs("rm", "e/b.txt")
	fs("rm", "-r", "d", "again")
	if out := fs("ls"); strings.Contains(out, "again") {
		t.Errorf("ls = %s", out)
	}
	if r := tm.run("fs", "rm", id, "missing", "e"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, `"missing" does not exist`) {
		t.Errorf("rm = %+v", r)
	}
}

func TestFsShowsControlCharacters(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	tm.want("exec", id, `printf 'a\033]0;title\007\n' > "$(printf 'n\033[2Jame')"`)
	for _, args := range [][]string{{"fs", "ls", id}, {"fs", "find", id, "*"}, {"fs", "grep", id, "title"}} {
		if out := tm.want(args...); strings.ContainsAny(out, "\x1b\a") || !strings.Contains(out, `n\x1b[2Jame`) {
			t.Errorf("%q = %q", args, out)
		}
	}
}
