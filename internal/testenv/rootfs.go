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
// instead of the one that BaseRootfs makes, with MachineID or another in it.
const RootfsVar = "SANDKASTEN_TEST_ROOTFS"

// rootfsName changes when what is made does, so that an old fixture is not taken
// for the new one.
const rootfsName = "rootfs-bookworm-4"

// MachineID is what the /etc/machine-id of Rootfs says: that of a sandbox is to be
// another.
const MachineID = "0123456789abcdef0123456789abcdef"

// rootfsArgs make a Debian that has what tests call: bash, coreutils, ps and
// python3 with its library, which agent frameworks run code in, and mkfs.xfs
// where it is a host's root (test/vm). Documentation is left out for speed.
var rootfsArgs = []string{
	"--quiet", "--mode=root", "--format=directory", "--variant=minbase",
	"--include=procps,python3,python-is-python3,xfsprogs",
	"--dpkgopt=path-exclude=/usr/share/doc/*",
	"--dpkgopt=path-exclude=/usr/share/man/*",
	"--dpkgopt=path-exclude=/usr/share/locale/*",
	"bookworm",
}

// BaseRootfs returns the directory of Rootfs. The test must have called
// NeedsRoot.
func BaseRootfs(t testing.TB) string {
	t.Helper()
	dir, err := Rootfs()
	if errors.Is(err, exec.ErrNotFound) {
		Unsupported(t, "%v, and %s is not set", err, RootfsVar)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Rootfs returns the directory of a Debian root file system with bash, ps and
// python3, owned by the ids of the distribution (root is 0). It is shared by all
// tests and must not be written to. Without one in the cache it is made with
// mmdebstrap, by root, in about half a minute.
func Rootfs() (string, error) {
	if dir := os.Getenv(RootfsVar); dir != "" {
		return dir, nil
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return "", fmt.Errorf("make a root file system for tests: %w", err)
	}
	return makeRootfs()
}

var makeRootfs = sync.OnceValues(func() (string, error) {
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
	id := filepath.Join(partial, "etc/machine-id") // which mmdebstrap makes empty
	if err := os.WriteFile(id, []byte(MachineID+"\n"), 0o444); err != nil {
		return "", err
	}
	return dir, os.Rename(partial, dir)
})
