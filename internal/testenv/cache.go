package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CacheVar is the environment variable that says where fixtures are kept
// between runs: root file systems, an image store and builds. By default that is
// /var/cache/sandkasten-test for root, and the user's cache directory for
// others. Everything in it can be deleted while no test runs.
const CacheVar = "SANDKASTEN_TEST_CACHE"

// Fixture returns the directory of that name in the cache. All tests of this machine
// share it and must not write to it. If it is missing, create makes a directory at the
// path that it gets. The name must change when the contents do, or else tests keep
// the old ones.
func Fixture(name string, create func(dir string) error) (string, error) {
	base, err := cacheBase()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", err
	}
	dir := filepath.Join(base, name)
	unlock, err := lockFile(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	// Made beside its place and renamed when whole: a killed test leaves a
	// directory that the next one clears away, never half a fixture.
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := create(partial); err != nil {
		return "", fmt.Errorf("create the fixture %s: %w", name, err)
	}
	return dir, os.Rename(partial, dir)
}

// lockCache makes the directory name in the cache and holds it against other
// test binaries until unlock is called.
func lockCache(name string) (dir string, unlock func(), err error) {
	base, err := cacheBase()
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(base, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	unlock, err = lockFile(filepath.Join(dir, ".lock"))
	return dir, unlock, err
}

// lockFile makes the file and holds its lock until unlock is called.
func lockFile(name string) (unlock func(), err error) {
	lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { lock.Close() }, nil // closing frees the lock
}

func cacheBase() (string, error) {
	if dir := os.Getenv(CacheVar); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		return "/var/cache/sandkasten-test", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "sandkasten-test"), nil
}
