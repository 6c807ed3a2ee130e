package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/files"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestListPages(t *testing.T) {
	s, dir := open(t)
	content := map[string]string{"empty/": "", "z": ""}
	for i := range 25 {
		content[fmt.Sprintf("d%d/f", i)], content[fmt.Sprintf("d%d/sub/\xff%d", i, i)] = "", ""
	}
	plant(t, dir, content)
	whole, err := s.List(protocol.List{Path: ".", Depth: -1}, always)
	if err != nil || whole.Truncated || len(whole.Entries) != 25*4+2 {
		t.Fatalf("%d entries, %v", len(whole.Entries), err)
	}
	for _, size := range []int{1, 2, 7, 1000} {
		var got []string
		var after []byte
		for more := true; more; {
			page, err := s.List(protocol.List{Path: ".", Depth: -1, Max: size, After: after}, always)
			if err != nil || len(page.Entries) == 0 {
				t.Fatalf("behind %q: %+v, %v", after, page, err)
			}
			got = append(got, names(page)...)
			more, after = page.Truncated, page.Next
		}
		if fmt.Sprint(got) != fmt.Sprint(names(whole)) {
			t.Errorf("%d at a time: %q", size, got)
		}
	}
	two, err := s.List(protocol.List{Path: ".", Depth: 2}, always)
	if err != nil || len(two.Entries) != 25*3+2 {
		t.Errorf("%d entries down to level 2, %v", len(two.Entries), err)
	}
	for _, bad := range []protocol.List{{Path: ".", Depth: -2}, {Path: ".", Max: -1}, {Path: ".", After: []byte("../x")}, {Path: ".", After: []byte("/")}, {Path: "z"}} {
		if _, err := s.List(bad, always); codeOf(err) != protocol.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// tree tells all that is below a directory, in one line.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel := strings.TrimPrefix(path, dir+"/")
		switch {
		case d.IsDir():
			rel += "/"
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel += "=" + string(b)
		case d.Type() == os.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			rel += "->" + to
		}
		out = append(out, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func TestChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		do         func(*operations) error
		want, code string
	}{
		"mkdir":                   {func(o *operations) error { return o.Mkdir(protocol.Mkdir{Path: "n"}) }, "d/ d/f=1 d/s/ f=2 l->d n/", ""},
		"mkdir of a tree":         {func(o *operations) error { return o.Mkdir(protocol.Mkdir{Path: "n/m", Parents: true}) }, "d/ d/f=1 d/s/ f=2 l->d n/ n/m/", ""},
		"mkdir without parents":   {func(o *operations) error { return o.Mkdir(protocol.Mkdir{Path: "n/m"}) }, "", protocol.CodeNotFound},
		"mkdir where one is":      {func(o *operations) error { return o.Mkdir(protocol.Mkdir{Path: "d"}) }, "", protocol.CodeExists},
		"mkdir, may be there":     {func(o *operations) error { return o.Mkdir(protocol.Mkdir{Path: "d", Parents: true}) }, "d/ d/f=1 d/s/ f=2 l->d", ""},
		"mkdir where a file is":   {func(o *operations) error { return o.Mkdir(protocol.Mkdir{Path: "f", Parents: true}) }, "", protocol.CodeInvalid},
		"mkdir outside":           {func(o *operations) error { return o.Mkdir(protocol.Mkdir{Path: "../n"}) }, "", protocol.CodeDenied},
		"mkdir of the workspace":  {func(o *operations) error { return o.Mkdir(protocol.Mkdir{Path: "."}) }, "", protocol.CodeExists},
		"mkdir with a bad mode":   {func(o *operations) error { return o.Mkdir(protocol.Mkdir{Path: "n", Mode: 1 << 20}) }, "", protocol.CodeInvalid},
		"move":                    {func(o *operations) error { return o.Move(protocol.Move{From: "f", To: "d/g"}) }, "d/ d/f=1 d/g=2 d/s/ l->d", ""},
		"move of a directory":     {func(o *operations) error { return o.Move(protocol.Move{From: "d", To: "e"}) }, "e/ e/f=1 e/s/ f=2 l->d", ""},
		"move of a link":          {func(o *operations) error { return o.Move(protocol.Move{From: "l", To: "m"}) }, "d/ d/f=1 d/s/ f=2 m->d", ""},
		"move onto a file":        {func(o *operations) error { return o.Move(protocol.Move{From: "f", To: "d/f"}) }, "", protocol.CodeExists},
		"move over a file":        {func(o *operations) error { return o.Move(protocol.Move{From: "f", To: "d/f", Overwrite: true}) }, "d/ d/f=2 d/s/ l->d", ""},
		"move over a directory":   {func(o *operations) error { return o.Move(protocol.Move{From: "d/s", To: "d", Overwrite: true}) }, "", protocol.CodeInvalid},
		"move into itself":        {func(o *operations) error { return o.Move(protocol.Move{From: "d", To: "d/s/d"}) }, "", protocol.CodeInvalid},
		"move of nothing":         {func(o *operations) error { return o.Move(protocol.Move{From: "x", To: "y"}) }, "", protocol.CodeNotFound},
		"move out":                {func(o *operations) error { return o.Move(protocol.Move{From: "f", To: "/tmp/sandkasten-f"}) }, "", protocol.CodeDenied},
		"move of the workspace":   {func(o *operations) error { return o.Move(protocol.Move{From: ".", To: "x"}) }, "", protocol.CodeInvalid},
		"remove":                  {func(o *operations) error { return o.Remove(protocol.Remove{Path: "f"}, always) }, "d/ d/f=1 d/s/ l->d", ""},
		"remove of a link":        {func(o *operations) error { return o.Remove(protocol.Remove{Path: "l", Recursive: true}, always) }, "d/ d/f=1 d/s/ f=2", ""},
		"remove, empty":           {func(o *operations) error { return o.Remove(protocol.Remove{Path: "d/s"}, always) }, "d/ d/f=1 f=2 l->d", ""},
		"remove, not empty":       {func(o *operations) error { return o.Remove(protocol.Remove{Path: "d"}, always) }, "", protocol.CodeConflict},
		"remove of a tree":        {func(o *operations) error { return o.Remove(protocol.Remove{Path: "d", Recursive: true}, always) }, "f=2 l->d", ""},
		"remove of nothing":       {func(o *operations) error { return o.Remove(protocol.Remove{Path: "x"}, always) }, "", protocol.CodeNotFound},
		"remove of the workspace": {func(o *operations) error { return o.Remove(protocol.Remove{Path: ".", Recursive: true}, always) }, "", protocol.CodeInvalid},
		"remove outside":          {func(o *operations) error { return o.Remove(protocol.Remove{Path: "../workspace"}, always) }, "", protocol.CodeInvalid},
		"copy":                    {func(o *operations) error { return o.Copy(protocol.Copy{From: "f", To: "g"}, always) }, "d/ d/f=1 d/s/ f=2 g=2 l->d", ""},
		"copy of a tree":          {func(o *operations) error { return o.Copy(protocol.Copy{From: "d", To: "e", Recursive: true}, always) }, "d/ d/f=1 d/s/ e/ e/f=1 e/s/ f=2 l->d", ""},
		"copy by a link":          {func(o *operations) error { return o.Copy(protocol.Copy{From: "l/f", To: "g"}, always) }, "d/ d/f=1 d/s/ f=2 g=1 l->d", ""},
		"copy, not recursive":     {func(o *operations) error { return o.Copy(protocol.Copy{From: "d", To: "e"}, always) }, "", protocol.CodeInvalid},
		"copy onto a file":        {func(o *operations) error { return o.Copy(protocol.Copy{From: "f", To: "d/f"}, always) }, "", protocol.CodeExists},
		"copy over a file":        {func(o *operations) error { return o.Copy(protocol.Copy{From: "f", To: "d/f", Overwrite: true}, always) }, "d/ d/f=2 d/s/ f=2 l->d", ""},
		"copy onto itself":        {func(o *operations) error { return o.Copy(protocol.Copy{From: "f", To: "f", Overwrite: true}, always) }, "d/ d/f=1 d/s/ f=2 l->d", ""},
		"copy over a link":        {func(o *operations) error { return o.Copy(protocol.Copy{From: "f", To: "l", Overwrite: true}, always) }, "d/ d/f=1 d/s/ f=2 l=2", ""},
		"copy of a tree onto one": {func(o *operations) error { return o.Copy(protocol.Copy{From: "d", To: "d/s", Recursive: true}, always) }, "", protocol.CodeExists},
		"copy of a tree over one": {func(o *operations) error {
			return o.Copy(protocol.Copy{From: "d/s", To: "d", Recursive: true, Overwrite: true}, always)
		}, "d/ d/f=1 d/s/ f=2 l->d", ""},
		"copy into the workspace": {func(o *operations) error {
			return o.Copy(protocol.Copy{From: "d", To: ".", Recursive: true, Overwrite: true}, always)
		}, "d/ d/f=1 d/s/ f=1 l->d s/", ""},
		"copy of nothing":           {func(o *operations) error { return o.Copy(protocol.Copy{From: "x", To: "y"}, always) }, "", protocol.CodeNotFound},
		"copy of what is elsewhere": {func(o *operations) error { return o.Copy(protocol.Copy{From: "/etc/passwd", To: "y"}, always) }, "", protocol.CodeDenied},
		"append":                    {func(o *operations) error { return o.put(protocol.Write{Path: "f", Append: true}) }, "d/ d/f=1 d/s/ f=2new l->d", ""},
		"append to nothing":         {func(o *operations) error { return o.put(protocol.Write{Path: "n/g", Append: true}) }, "d/ d/f=1 d/s/ f=2 l->d n/ n/g=new", ""},
		"append to a directory":     {func(o *operations) error { return o.put(protocol.Write{Path: "d", Append: true}) }, "", protocol.CodeInvalid},
		"create":                    {func(o *operations) error { return o.put(protocol.Write{Path: "g", Create: true}) }, "d/ d/f=1 d/s/ f=2 g=new l->d", ""},
		"create where a file is":    {func(o *operations) error { return o.put(protocol.Write{Path: "f", Create: true}) }, "", protocol.CodeExists},
		"create and append":         {func(o *operations) error { return o.put(protocol.Write{Path: "g", Create: true, Append: true}) }, "", protocol.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := open(t)
			plant(t, dir, map[string]string{"f": "2", "d/f": "1", "d/s/": ""})
			if err := os.Symlink("d", dir+"/l"); err != nil {
				t.Fatal(err)
			}
			if tc.code != "" {
				tc.want = tree(t, dir)
			} else {
				tc.code = "<nil>"
			}
			if err := tc.do(&operations{s}); codeOf(err) != tc.code {
				t.Errorf("%v, want %s", err, tc.code)
			}
			if got := tree(t, dir); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestMkdirSaysThatADirectoryAboveIsMissing(t *testing.T) {
	s, _ := open(t)
	err := s.Mkdir(protocol.Mkdir{Path: "n/m"})
	if err == nil || !strings.Contains(err.Error(), "above") {
		t.Error(err)
	}
}

func TestCopyIntoItself(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{"d/f": "1", "d/z/": ""})
	if err := s.Copy(protocol.Copy{From: "d", To: "d/n", Recursive: true}, always); codeOf(err) != protocol.CodeInvalid {
		t.Error(err)
	}
	if err := s.Copy(protocol.Copy{From: "d", To: "d", Recursive: true, Overwrite: true}, always); codeOf(err) != protocol.CodeInvalid {
		t.Error(err)
	}
}

func TestCopyKeeps(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{"d/f": "1", "d/sub/": ""})
	for name, mode := range map[string]uint32{"d/f": 0o4711, "d/sub": 0o1700} {
		if err := unix.Chmod(dir+"/"+name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/d/sparse", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(dir+"/d/sparse", 1<<40); err != nil {
		t.Fatal(err)
	}
	if err := s.Copy(protocol.Copy{From: "d", To: "e", Recursive: true}, always); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{"e/f": unix.S_IFREG | 0o711, "e/sub": unix.S_IFDIR | 0o1700} {
		var st unix.Stat_t
		if err := unix.Stat(dir+"/"+name, &st); err != nil || st.Mode != want {
			t.Errorf("%s has mode %o, want %o (%v)", name, st.Mode, want, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(dir+"/e/sparse", &st); err != nil || st.Size != 1<<40 || st.Blocks > 8 {
		t.Errorf("%d bytes in %d blocks, %v", st.Size, st.Blocks, err)
	}
	if err := unix.Mkfifo(dir+"/d/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Copy(protocol.Copy{From: "d", To: "g", Recursive: true}, always); codeOf(err) != protocol.CodeUnprocessable {
		t.Error(err)
	}
}

func TestChmodBelow(t *testing.T) {
	s, dir := open(t)
	outside := filepath.Dir(dir) + "/outside"
	plant(t, dir, map[string]string{"d/f": "", "d/sub/g": "", "../outside": ""})
	if err := os.Symlink(outside, dir+"/d/l"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(dir+"/d/fifo", 0o640); err != nil {
		t.Fatal(err)
	}
	if err := s.Chmod(protocol.Chmod{Path: "d", Mode: 0o711, Recursive: true}, always); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"d": 0o711, "d/f": 0o711, "d/sub": 0o711, "d/sub/g": 0o711, "d/fifo": 0o640, "../outside": 0o644} {
		if st, err := os.Stat(dir + "/" + name); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	for path, want := range map[string]string{"d/l": protocol.CodeDenied, "d/fifo": protocol.CodeInvalid, "x": protocol.CodeNotFound} {
		if err := s.Chmod(protocol.Chmod{Path: path, Mode: 0o600}, always); codeOf(err) != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func TestStat(t *testing.T) {
	s, dir := open(t)
	plant(t, dir, map[string]string{"f": "12"})
	if err := os.Symlink("f", dir+"/l"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", dir+"/out"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		req  protocol.Stat
		want string
	}{
		{protocol.Stat{Path: "f"}, "file  <nil>"},
		{protocol.Stat{Path: "l"}, "symlink f <nil>"},
		{protocol.Stat{Path: "l", Follow: true}, "file  <nil>"},
		{protocol.Stat{Path: "."}, "dir  <nil>"},
		{protocol.Stat{Path: "out"}, "symlink /etc <nil>"},
		{protocol.Stat{Path: "out", Follow: true}, "  permission_denied"},
		{protocol.Stat{Path: "/dev/null", AllowOutside: true}, "device  <nil>"},
		{protocol.Stat{Path: "/proc/self/root", AllowOutside: true, Follow: true}, "  invalid_argument"},
	} {
		i, err := s.Stat(tc.req)
		if got := fmt.Sprint(i.Type, " ", i.Target, " ", codeOf(err)); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.req, got, tc.want)
		}
	}
}

// H02: nothing recursive is led outside by somebody who swaps directories.
func TestRecursionInASwappedTree(t *testing.T) {
	s, dir := open(t)
	outside := filepath.Dir(dir) + "/outside"
	plant(t, dir, map[string]string{"a/b/c": "mine", "../outside/c": "secret", "../outside/kept/c": "secret"})
	if err := os.Symlink(outside, dir+"/l"); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default: // fails while one of them is being made again
				if err := unix.Renameat2(unix.AT_FDCWD, dir+"/a/b", unix.AT_FDCWD, dir+"/l", unix.RENAME_EXCHANGE); err != nil {
					continue
				}
			}
		}
	}()
	for i := range 200 {
		to := fmt.Sprint("copy", i)
		for _, err := range []error{
			s.Copy(protocol.Copy{From: "a", To: to, Recursive: true}, always),
			s.Chmod(protocol.Chmod{Path: "a", Mode: 0o755, Recursive: true}, always),
			s.Remove(protocol.Remove{Path: to, Recursive: true}, always),
			s.Pack(protocol.Pack{Path: "a", Format: "tar"}, notSecret{t}, always),
		} {
			if err != nil && codeOf(err) == fmt.Sprint(err) {
				t.Errorf("%v", err)
			}
		}
		found, err := s.Grep(protocol.Grep{Path: "a", Pattern: "secret"}, always)
		if err == nil && len(found.Matches) > 0 {
			t.Fatalf("%+v", found)
		}
	}
	close(stop)
	<-done
	if got := tree(t, outside); got != "c=secret kept/ kept/c=secret" {
		t.Errorf("outside there is %s", got)
	}
	if st, err := os.Stat(outside + "/c"); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("outside: %v, %v", st.Mode(), err)
	}
}

type notSecret struct{ t *testing.T }

func (n notSecret) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "secret") {
		n.t.Error("the archive has what is outside")
	}
	return len(p), nil
}

// operations is a Server with a write of a fixed text.
type operations struct{ *files.Server }

func (o *operations) put(w protocol.Write) error {
	_, err := o.Write(w, strings.NewReader("new"), 3)
	return err
}
