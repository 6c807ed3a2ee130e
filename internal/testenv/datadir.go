package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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
	dir, err := MakeDataDir()
	if err != nil {
		Unsupported(t, "%v", err)
	}
	t.Cleanup(func() {
		ClaimNode(nodesIn(dir)...) // their control groups may outlive the directory
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the test's data directory: %v", err)
		}
	})
	return dir
}

// MakeDataDir is DataDir for what outlives a test. The caller removes it.
func MakeDataDir() (string, error) {
	var errs []error
	for _, base := range dataDirBases() {
		if !onDisk(base) {
			continue
		}
		dir, err := os.MkdirTemp(base, Mark())
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(append(errs, fmt.Errorf("no writable directory on a disk; set %s to one", DirVar))...)
}

// dataDirBases are the directories that MakeDataDir tries.
func dataDirBases() []string {
	bases := []string{"/var/tmp", "/var/lib"}
	if dir := os.Getenv(DirVar); dir != "" {
		bases = append([]string{dir}, bases...)
	}
	return bases
}

// markPrefix starts the name of everything that tests make on the host.
const markPrefix = "sandkasten-test-"

// Mark starts the name of everything that this process makes on the host: data
// directories, and control groups of tests. By it the leak check tells this
// process's mounts, loop devices and groups from those of tests that run
// beside it, and Stale finds what a process that has ended left behind.
func Mark() string { return fmt.Sprintf("%s%d-", markPrefix, os.Getpid()) }

// markOf finds the process in a path or a line that has a mark in it.
var markOf = regexp.MustCompile(markPrefix + `(\d+)-`)

// Own reports whether a path or a line has the mark of this process.
func Own(text string) bool { return strings.Contains(text, Mark()) }

func onDisk(dir string) bool {
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Clean(dir), &st); err != nil {
		return false
	}
	return st.Type != tmpfsMagic && st.Type != ramfsMagic
}
