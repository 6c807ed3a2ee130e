package files_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/files"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

func open(t *testing.T) (*files.Server, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := files.Open(dir, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

// always is the check of a connection that stays.
func always() error { return nil }

func TestOpenRefuses(t *testing.T) {
	for _, dir := range []string{"relative", "/does/not/exist", "/etc/passwd"} {
		if s, err := files.Open(dir, -1, ""); err == nil {
			t.Errorf("%s was opened: %v", dir, s.Close())
		}
	}
}

// H02: while a directory is swapped for a link to the outside and back, no
// request gets there.
func TestSwappedDirectory(t *testing.T) {
	s, dir := open(t)
	outside := filepath.Dir(dir)
	canary := filepath.Join(outside, "canary")
	if err := os.WriteFile(canary, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
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
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/l", unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	seen := map[string]int{}
	for begin := time.Now(); time.Since(begin) < 500*time.Millisecond || seen["permission_denied"] == 0 && time.Since(begin) < 20*time.Second; {
		for _, path := range []string{"d/canary", "l/canary", "d/../d/canary"} {
			f, err := s.Read(protocol.Read{Path: path})
			if err == nil {
				b, rerr := io.ReadAll(f)
				if string(b) == "secret" {
					t.Fatalf("%s led outside (%v, %v)", path, rerr, f.Close())
				}
				err = f.Close()
			}
			seen[codeOf(err)]++
			_, err = s.Write(protocol.Write{Path: path}, strings.NewReader("overwritten"), 11)
			seen[codeOf(err)]++
		}
	}
	close(stop)
	<-done
	if b, err := os.ReadFile(canary); err != nil || string(b) != "secret" {
		t.Errorf("the canary is %q, %v", b, err)
	}
	if seen["permission_denied"] == 0 {
		t.Errorf("the link was never met: %v", seen)
	}
	left, err := filepath.Glob(outside + "/.sandkasten-*")
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files outside: %v, %v", left, err)
	}
}

// Whatever the names are, an answer fits into a frame's header.
// A file of procfs may be the runner's own: a link that leads there is no way to
// write to it.
func TestAppendToProcfs(t *testing.T) {
	s, dir := open(t)
	if err := os.Symlink("/proc/thread-self/comm", dir+"/log"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Write(protocol.Write{Path: "log", Append: true, AllowOutside: true}, strings.NewReader("x"), 1)
	if codeOf(err) != protocol.CodeUnprocessable {
		t.Error(err)
	}
}

func TestListFitsIntoAHeader(t *testing.T) {
	for _, unit := range []string{"x", "\x01", "\xff", "<", "\u2028", "\""} {
		s, dir := open(t)
		for i := range 1500 {
			name := fmt.Sprintf("%04d%s", i, strings.Repeat(unit, 240/len(unit)))
			if err := os.Symlink(strings.Repeat("\\", 100), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		e, err := s.List(protocol.List{Path: "."}, always)
		if err != nil || len(e.Entries) < 50 || len(e.Entries) < 1500 && !e.Truncated {
			t.Fatalf("%q: %d entries, truncated %v, %v", unit, len(e.Entries), e.Truncated, err)
		}
		fits(t, e)
	}
}

func fits(t *testing.T, answer any) {
	t.Helper()
	b, err := json.Marshal(answer)
	if err != nil || len(b) > protocol.MaxHeader-100 {
		t.Errorf("an answer of %d bytes, %v", len(b), err)
	}
}

func TestContentErrorsAreReturned(t *testing.T) {
	s, dir := open(t)
	broken := errors.New("broken")
	_, err := s.Write(protocol.Write{Path: "f"}, io.MultiReader(strings.NewReader("ab"), errReader{broken}), 10)
	if !errors.Is(err, broken) {
		t.Errorf("%v, want the reader's error", err)
	}
	if _, err := s.Write(protocol.Write{Path: "f"}, strings.NewReader("short"), 10); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want io.EOF", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestRoomIsTakenBeforeTheContentComes(t *testing.T) {
	s, dir := open(t)
	const size = 4 << 20
	probe, err := os.OpenFile(filepath.Join(t.TempDir(), "probe"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	if err := unix.Fallocate(int(probe.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size); errors.Is(err, unix.EOPNOTSUPP) {
		testenv.Unsupported(t, "the file system takes no room in advance")
	}
	taken := int64(-1)
	zeros := strings.NewReader(strings.Repeat("\x00", size))
	_, err = s.Write(protocol.Write{Path: "f"}, readerFunc(func(p []byte) (int, error) {
		if taken < 0 {
			taken = bytesBelow(t, dir)
		}
		return zeros.Read(p)
	}), size)
	if err != nil || taken < size {
		t.Errorf("%d bytes of %d were taken, %v", taken, size, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "f")); err != nil || info.Size() != size {
		t.Errorf("%v, %v", info, err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// bytesBelow is what the files of a directory take on the disk.
func bytesBelow(t *testing.T, dir string) int64 {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, entry := range entries {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, entry.Name()), &st); err != nil {
			t.Fatal(err)
		}
		sum += st.Blocks * 512
	}
	return sum
}

func TestDeepPaths(t *testing.T) {
	s, dir := open(t)
	path := strings.Repeat("d/", 1500) + "f"
	if _, err := s.Write(protocol.Write{Path: path}, strings.NewReader("deep"), 4); err != nil {
		t.Fatal(err)
	}
	f, err := s.Read(protocol.Read{Path: dir + "/" + path})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || !bytes.Equal(b, []byte("deep")) || f.Close() != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// Git does not see the directory for what is not the user's work, however it comes
// to be, and sees what the user has put beside it.
func TestGitDoesNotSeeOurDirectory(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		testenv.Unsupported(t, "no git here: %v", err)
	}
	for name, make := range map[string]func(*files.Server) error{
		"create": func(s *files.Server) error {
			f, err := s.Create(".sandkasten/output-1.txt", false)
			if err != nil {
				return err
			}
			return f.Close()
		},
		"write": func(s *files.Server) error {
			_, err := s.Write(protocol.Write{Path: ".sandkasten/a/b"}, strings.NewReader("x"), 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := open(t)
			run := func(args ...string) string {
				c := exec.CommandContext(t.Context(), git, append([]string{"-C", dir}, args...)...)
				c.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_NOSYSTEM=1")
				out, err := c.CombinedOutput()
				if err != nil {
					t.Fatalf("git %v: %v: %s", args, err, out)
				}
				return string(out)
			}
			run("init", "-q")
			if err := make(s); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(protocol.Write{Path: "work/mine"}, strings.NewReader("x"), 1); err != nil {
				t.Fatal(err)
			}
			if out := run("status", "--porcelain"); out != "?? work/\n" {
				t.Errorf("git sees %q", out)
			}
		})
	}
}
