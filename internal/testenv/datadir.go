package testenv

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// DirVar is the environment variable that says where DataDir makes its
// directories, for machines whose /var/tmp is no good.
const DirVar = "SANDKASTEN_TEST_DIR"

// Magic numbers of statfs(2) for file systems that live in memory: sparse
// images on them use up the machine, and some refuse what disks allow.
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

// DataDir returns a new directory, mode 0700, on a disk file system, where
// t.TempDir is often a tmpfs. Its path is short enough for unix sockets below
// it. It is removed when the test ends, and what cannot be removed (a mount,
// an immutable file) fails the test.
func DataDir(t testing.TB) string {
	t.Helper()
	for _, base := range []string{os.Getenv(DirVar), "/var/tmp", "/var/lib"} {
		if base == "" || !onDisk(base) {
			continue
		}
		dir, err := os.MkdirTemp(base, dataDirPrefix)
		if err != nil {
			t.Logf("no data directory in %s: %v", base, err)
			continue
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Errorf("remove the test's data directory: %v", err)
			}
		})
		return dir
	}
	Unsupported(t, "no writable directory on a disk; set %s to one", DirVar)
	return ""
}

// dataDirPrefix starts the name of every data directory; the leak check finds
// loop devices and mounts by it.
const dataDirPrefix = "sandkasten-test-"

func onDisk(dir string) bool {
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Clean(dir), &st); err != nil {
		return false
	}
	return st.Type != tmpfsMagic && st.Type != ramfsMagic
}
