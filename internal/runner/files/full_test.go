package files

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestIsFull(t *testing.T) {
	for name, c := range map[string]struct {
		fs   unix.Statfs_t
		want bool
	}{
		"room":                          {unix.Statfs_t{Bsize: 4096, Blocks: 8192, Bavail: 513, Files: 10, Ffree: 1}, false},
		"2 MiB":                         {unix.Statfs_t{Bsize: 4096, Blocks: 8192, Bavail: 512, Files: 10, Ffree: 1}, true},
		"nothing":                       {unix.Statfs_t{Bsize: 4096, Blocks: 8192}, true},
		"only what is kept for root":    {unix.Statfs_t{Bsize: 4096, Blocks: 8192, Bfree: 400}, true},
		"no file":                       {unix.Statfs_t{Bsize: 4096, Blocks: 8192, Bavail: 8000, Files: 10}, true},
		"files are not counted":         {unix.Statfs_t{Bsize: 4096, Blocks: 8192, Bavail: 8000}, false},
		"blocks are not counted":        {unix.Statfs_t{Bsize: 4096, Files: 10, Ffree: 1}, false},
		"nothing is counted":            {unix.Statfs_t{}, false},
		"counted in another unit":       {unix.Statfs_t{Bsize: 1 << 20, Frsize: 4096, Blocks: 8192, Bavail: 513}, false},
		"large blocks":                  {unix.Statfs_t{Bsize: 4 << 20, Blocks: 8192, Bavail: 1}, false},
		"no large block":                {unix.Statfs_t{Bsize: 4 << 20, Blocks: 8192}, true},
		"packed and only to be read":    {unix.Statfs_t{Flags: unix.ST_RDONLY, Bsize: 4096, Blocks: 8192, Files: 10}, false},
		"full, with flags of its mount": {unix.Statfs_t{Flags: unix.ST_NOSUID | unix.ST_NODEV, Bsize: 4096, Blocks: 8192}, true},
	} {
		if got := isFull(&c.fs); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The root of a test is the host's, which has room.
func TestFull(t *testing.T) {
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,nr_inodes=20"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s, err := Open(dir, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	large := filepath.Join(dir, "large")
	check := func(what string, want bool) {
		t.Helper()
		if got := s.Full(); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	check("empty", false)
	if err := os.WriteFile(large, make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	check("3 MiB left", false)
	if err := os.WriteFile(large, make([]byte, 9<<20), 0o600); err == nil {
		t.Fatal("9 MiB of 8 were written")
	}
	check("full", true)
	if err := os.Truncate(large, 0); err != nil {
		t.Fatal(err)
	}
	check("emptied", false)
	for i := 0; ; i++ {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			break
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check("without a file left", true)
}
