package archive_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/archive"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestCopy(t *testing.T) {
	testenv.NeedsRoot(t) // owners
	from, one, two := t.TempDir(), t.TempDir(), t.TempDir()
	fill(t, from, "a/ a/f f")
	must(t, os.Symlink("../outside", from+"/a/l"))
	must(t, os.Chown(from+"/a/f", 7, 8))
	must(t, os.Truncate(from+"/f", 1<<30))
	must(t, os.Chown(from, 5, 6))
	must(t, os.Chmod(from, os.ModeSetgid|os.ModeSticky|0o770))
	must(t, archive.Copy(from, []string{one, two}))
	for _, to := range []string{one, two} {
		for _, name := range []string{"", "/a", "/a/f", "/a/l", "/f"} {
			var want, got unix.Stat_t
			must(t, unix.Lstat(from+name, &want))
			must(t, unix.Lstat(to+name, &got))
			if got.Mode != want.Mode || got.Uid != want.Uid || got.Gid != want.Gid || name == "/f" && (got.Size != want.Size || got.Blocks > 2048) {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
	}
}

// What cannot be copied is an error that says why.
func TestCopyFails(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(from+strings.Repeat("/d", 140), 0o755)) // deeper than an archive may be
	for _, c := range []struct{ from, to, want string }{
		{from, to, "directories deep"}, {from + "/no", to, "no such file"}, {from, to + "/no", "no such file"},
	} {
		if err := archive.Copy(c.from, []string{c.to}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
