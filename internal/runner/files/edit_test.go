package files_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runner/files"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestEdit(t *testing.T) {
	for name, tc := range map[string]struct {
		old, before, after string
		count              int
		want, code         string
	}{
		"one word":            {"a\nb\nc\n", "b", "B", 1, "a\nB\nc\n", ""},
		"several":             {"x x\nx\n", "x", "yy", 3, "yy yy\nyy\n", ""},
		"any number":          {"x x\nx\n", "x", "", 0, " \n\n", ""},
		"wrong count":         {"x x\n", "x", "y", 1, "", protocol.CodeUnprocessable},
		"absent":              {"x\n", "z", "y", 0, "", protocol.CodeUnprocessable},
		"a line goes":         {"a\nb\nc\n", "b\n", "", 1, "a\nc\n", ""},
		"lines are joined":    {"a\nb\nc\n", "\nb\n", " ", 1, "a c\n", ""},
		"lines come":          {"a\nc\n", "a\n", "a\nb\n", 1, "a\nb\nc\n", ""},
		"no newline at end":   {"a\nb", "b", "c", 1, "a\nc", ""},
		"everything":          {"a\n", "a\n", "", 1, "", ""},
		"the last newline":    {"a\nb\n", "b\n", "b", 1, "a\nb", ""},
		"overlapping":         {"aaaa\n", "aa", "b", 2, "bb\n", ""},
		"adjacent lines":      {"x\nx\nx\nq\n", "x\n", "x", 3, "xxxq\n", ""},
		"every second line":   {strings.Repeat("x\ny\n", 20), "x", "z", 20, strings.Repeat("z\ny\n", 20), ""},
		"far apart":           {"x\n" + strings.Repeat("-\n", 30) + "x\n", "x", "z\nz", 2, "z\nz\n" + strings.Repeat("-\n", 30) + "z\nz\n", ""},
		"nothing to look for": {"x\n", "", "y", 0, "", protocol.CodeInvalid},
		"no change":           {"x\n", "x", "x", 0, "", protocol.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := open(t)
			file := filepath.Join(dir, "f")
			if err := os.WriteFile(file, []byte(tc.old), 0o640); err != nil {
				t.Fatal(err)
			}
			edited, diff, err := s.Edit(protocol.Edit{Path: "f", Count: tc.count}, []byte(tc.before), []byte(tc.after))
			if tc.code != "" {
				if b, rerr := os.ReadFile(file); codeOf(err) != tc.code || rerr != nil || string(b) != tc.old {
					t.Fatalf("%v, the file is %q (%v)", err, b, rerr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(file)
			if err != nil || string(b) != tc.want || edited.Replaced < 1 || edited.DiffTruncated {
				t.Errorf("%q, want %q; %+v %v", b, tc.want, edited, err)
			}
			patched(t, tc.old, tc.want, diff)
		})
	}
}

// patched checks that patch(1), which knows what a diff is, makes want of old.
func patched(t *testing.T, old, want string, diff []byte) {
	t.Helper()
	patch, err := exec.LookPath("patch")
	if err != nil {
		return // the file was checked; only the diff was not
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/f", []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), patch, "-p1", "--fuzz=0", "--posix")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(string(diff))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "offset") {
		t.Errorf("%v\n%s\n%s", err, out, diff)
	}
	if b, err := os.ReadFile(dir + "/f"); err != nil && want != "" || string(b) != want {
		t.Errorf("patched: %q, want %q (%v)\n%s", b, want, err, diff)
	}
}

func TestEditKeepsWhatItDoesNotChange(t *testing.T) {
	s, dir := open(t)
	if err := os.WriteFile(dir+"/f", []byte("a"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", dir+"/l"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Edit(protocol.Edit{Path: "l"}, []byte("a"), []byte("b")); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(dir + "/l"); err != nil || st.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is %v, %v", st, err)
	}
	if st, err := os.Stat(dir + "/f"); err != nil || st.Mode() != 0o750 {
		t.Errorf("the file is %v, %v", st, err)
	}
}

// Edits of one file queue, also those of other processes: each finds what the others
// have made, and none is refused or lost.
func TestEditsOfOneFileQueue(t *testing.T) {
	s, dir := open(t)
	other, err := files.Open(dir, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const n = 24
	var old, want strings.Builder
	for i := range n {
		fmt.Fprintf(&old, "line %02d: old\n", i)
		fmt.Fprintf(&want, "line %02d: new\n", i)
	}
	if err := os.WriteFile(dir+"/f", []byte(old.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range n {
		by := []*files.Server{s, other}[i%2]
		wg.Go(func() {
			line := fmt.Sprintf("line %02d: ", i)
			if _, _, err := by.Edit(protocol.Edit{Path: "f", Count: 1}, []byte(line+"old"), []byte(line+"new")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b, err := os.ReadFile(dir + "/f"); err != nil || string(b) != want.String() {
		t.Errorf("%v\n%s", err, b)
	}
}

func TestEditLimits(t *testing.T) {
	s, dir := open(t)
	if err := os.WriteFile(dir+"/large", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(dir+"/large", 17<<20); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Edit(protocol.Edit{Path: "large"}, []byte("a"), []byte("b")); codeOf(err) != protocol.CodeTooLarge {
		t.Error(err)
	}
	if err := os.WriteFile(dir+"/many", []byte(strings.Repeat("a", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Edit(protocol.Edit{Path: "many"}, []byte("a"), make([]byte, 100<<10)); codeOf(err) != protocol.CodeTooLarge {
		t.Error(err)
	}
	if err := os.WriteFile(dir+"/lines", []byte(strings.Repeat(strings.Repeat("a\n", 1)+strings.Repeat("-\n", 9), 20000)), 0o644); err != nil {
		t.Fatal(err)
	}
	edited, diff, err := s.Edit(protocol.Edit{Path: "lines"}, []byte("a"), []byte("b"))
	if err != nil || !edited.DiffTruncated || len(diff) > protocol.MaxPayload || len(diff) < protocol.MaxPayload/2 || edited.Replaced != 20000 {
		t.Errorf("%+v with %d bytes of diff, %v", edited, len(diff), err)
	}
}
