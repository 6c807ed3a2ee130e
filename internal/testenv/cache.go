package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// CacheVar is the environment variable that says where fixtures are kept
// between runs: root file systems and builds. By default that is
// /var/cache/sandkasten-test for root, and the user's cache directory for
// others. Everything in it can be deleted while no test runs.
const CacheVar = "SANDKASTEN_TEST_CACHE"

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
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, err
	}
	for {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		lock.Close()
		return "", nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return dir, func() { lock.Close() }, nil // closing frees the lock
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
