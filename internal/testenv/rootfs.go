package testenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// RootfsVar is the environment variable that names a root file system to use
// instead of the one that BaseRootfs makes.
const RootfsVar = "SANDKASTEN_TEST_ROOTFS"

// rootfsName changes when rootfsArgs do, so that an old fixture is not taken
// for the new one.
const rootfsName = "rootfs-bookworm-1"

// rootfsArgs make a Debian that has what tests call: bash, coreutils, ps and
// python3 (for system calls by number). Documentation is left out for speed.
var rootfsArgs = []string{
	"--quiet", "--mode=root", "--format=directory", "--variant=minbase",
	"--include=procps,python3-minimal",
	"--dpkgopt=path-exclude=/usr/share/doc/*",
	"--dpkgopt=path-exclude=/usr/share/man/*",
	"--dpkgopt=path-exclude=/usr/share/locale/*",
	"bookworm",
}

// BaseRootfs returns the directory of a Debian root file system with bash, ps
// and python3, owned by the ids of the distribution (root is 0). It is shared
// by all tests and must not be written to. Without one in the cache it is made
// with mmdebstrap, in about half a minute. The test must have called NeedsRoot.
func BaseRootfs(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(RootfsVar); dir != "" {
		return dir
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		Unsupported(t, "no mmdebstrap to make a root file system with, and %s is not set", RootfsVar)
	}
	dir, err := baseRootfs()
	if err != nil {
		t.Fatalf("make a root file system for tests: %v", err)
	}
	return dir
}

var baseRootfs = sync.OnceValues(func() (string, error) {
	cache, unlock, err := lockCache(".")
	if err != nil {
		return "", err
	}
	defer unlock()
	dir := filepath.Join(cache, rootfsName)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	// Made beside its place and renamed when whole: a killed test leaves a
	// directory that the next one clears away, never half a fixture.
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	args := append(rootfsArgs[:len(rootfsArgs):len(rootfsArgs)], partial)
	if text, err := exec.CommandContext(ctx, "mmdebstrap", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("mmdebstrap: %w\n%s", err, text)
	}
	return dir, os.Rename(partial, dir)
})
