package files_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/files"
	"github.com/sandkasten/sandkasten/protocol"
)

// tagOf is the tag that reading a file tells, which describing it must tell, too.
func tagOf(t *testing.T, s *files.Server, path string) string {
	t.Helper()
	f, err := s.Read(protocol.Read{Path: path, Tag: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	i, err := s.Stat(protocol.Stat{Path: path, Follow: true, Tag: true})
	if err != nil || i.Tag != f.Info.Tag {
		t.Fatalf("stat tells the tag %s, read %s (%v)", i.Tag, f.Info.Tag, err)
	}
	if i.Tag == "" || strings.HasPrefix(i.Tag, "W/") {
		t.Fatalf("the tag of a file at rest is %q", i.Tag)
	}
	return i.Tag
}

// replaceMatched replaces a file that has the tag, with size bytes of content.
func replaceMatched(s *files.Server, path, content string, tags ...string) (string, error) {
	i, err := s.Write(protocol.Write{Path: path, IfMatch: tags, Tag: true}, strings.NewReader(content), int64(len(content)))
	return i.Tag, err
}

func TestEveryChangeChangesTheTag(t *testing.T) {
	s, dir := open(t)
	name := dir + "/f"
	plant(t, dir, map[string]string{"f": "one", "g": "one"})
	changes := map[string]func() error{
		"in place, of the same size": func() error { return os.WriteFile(name, []byte("two"), 0o644) },
		"in place, with the old time": func() error {
			st, err := os.Stat(name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
				return err
			}
			return os.Chtimes(name, st.ModTime(), st.ModTime())
		},
		"another file of the same size": func() error { return os.Rename(dir+"/g", name) },
	}
	for what, change := range changes {
		before := tagOf(t, s, "f")
		if again := tagOf(t, s, "f"); again != before {
			t.Errorf("without a change the tag %s becomes %s", before, again)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if tagOf(t, s, "f") == before {
			t.Errorf("%s: the tag stays %s", what, before)
		}
		if _, err := replaceMatched(s, "f", "mine", before); codeOf(err) != protocol.CodePrecondition {
			t.Errorf("%s: a replacement by the old tag: %v", what, err)
		}
	}
}

// A change right after a look would not show in the times, if the tag were told
// within the tick of the change before.
func TestAChangeRightAfterALookShows(t *testing.T) {
	s, dir := open(t)
	for n := range 100 {
		if err := os.WriteFile(dir+"/f", fmt.Appendf(nil, "%03d", n), 0o644); err != nil {
			t.Fatal(err)
		}
		i, err := s.Stat(protocol.Stat{Path: "f", Tag: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/f", []byte("new"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := replaceMatched(s, "f", "mine", i.Tag); codeOf(err) != protocol.CodePrecondition {
			t.Fatalf("change %d was lost: %v", n, err)
		}
	}
}

func TestTheTagOfABusyFileIsWeak(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{"f": "x"})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if err := os.WriteFile(dir+"/f", []byte("x"), 0o644); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		i, err := s.Stat(protocol.Stat{Path: "f", Tag: true})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(i.Tag, "W/") {
			continue
		}
		if _, err := replaceMatched(s, "f", "mine", i.Tag); codeOf(err) != protocol.CodePrecondition {
			t.Errorf("a weak tag matches: %v", err)
		}
		return
	}
	t.Error("a file that is written without a pause never had a weak tag")
}

func TestReplaceMatched(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{"f": "one", "d/g": "two"})
	if err := os.Symlink("d/g", dir+"/l"); err != nil {
		t.Fatal(err)
	}
	first := tagOf(t, s, "f")
	second, err := replaceMatched(s, "f", "mine", `"other"`, first)
	if err != nil || second == first || second != tagOf(t, s, "f") {
		t.Fatalf("the tag %s became %s: %v", first, second, err)
	}
	third, err := replaceMatched(s, "f", "mine again", second)
	if err != nil || third == second {
		t.Fatalf("by the tag of the replacement: %s, %v", third, err)
	}
	if _, err := replaceMatched(s, "f", "any", "*"); err != nil {
		t.Errorf("any file: %v", err)
	}
	if _, err := replaceMatched(s, "l", "by link", tagOf(t, s, "l")); err != nil {
		t.Errorf("behind a link: %v", err)
	}
	for what, path := range map[string]string{"a missing file": "x", "in a missing directory": "n/x"} {
		if _, err := replaceMatched(s, path, "new", "*"); codeOf(err) != protocol.CodePrecondition {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Write(protocol.Write{Path: "f", IfMatch: []string{"*"}, Append: true}, strings.NewReader("x"), 1); codeOf(err) != protocol.CodeInvalid {
		t.Errorf("append: %v", err)
	}
	if got, want := tree(t, dir), "d/ d/g=by link f=any l->d/g"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The content that comes may take its time: what counts is the file at its end.
func TestAChangeDuringTheTransferIsNotLost(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{"f": "one"})
	tag := tagOf(t, s, "f")
	content := readerFunc(func(p []byte) (int, error) {
		if err := os.WriteFile(dir+"/f", []byte("two"), 0o644); err != nil {
			return 0, err
		}
		return copy(p, "new"), nil
	})
	_, err := s.Write(protocol.Write{Path: "f", IfMatch: []string{tag}}, content, 3)
	if codeOf(err) != protocol.CodePrecondition {
		t.Error(err)
	}
	if got := tree(t, dir); got != "f=two" {
		t.Errorf("there is %s", got)
	}
}

// Of several who replace the same state of a file one is first, and the others
// are told so.
func TestOneOfManyReplacesAState(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{"f": "0"})
	for range 20 {
		tag := tagOf(t, s, "f")
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			all.Go(func() { _, errs[i] = replaceMatched(s, "f", fmt.Sprint(i), tag) })
		}
		all.Wait()
		done := 0
		for i, err := range errs {
			switch codeOf(err) {
			case "<nil>":
				done++
				if got := tree(t, dir); got != fmt.Sprint("f=", i) {
					t.Errorf("%d replaced it, and there is %s", i, got)
				}
			case protocol.CodePrecondition:
			default:
				t.Error(err)
			}
		}
		if done != 1 {
			t.Fatalf("%d replaced the same state", done)
		}
	}
}

func TestALockedFileIsNotReplacedByTag(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{"f": "one"})
	tag := tagOf(t, s, "f")
	f, err := os.Open(dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := replaceMatched(s, "f", "mine", tag); codeOf(err) != protocol.CodeConflict || time.Since(begin) > 20*time.Second {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
	if got := tree(t, dir); got != "f=one" {
		t.Errorf("there is %s", got)
	}
}
