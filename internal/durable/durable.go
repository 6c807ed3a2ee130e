// Package durable makes what was written last through a crash of the host. What has to
// last, and when, is its callers' business.
package durable

import (
	"errors"
	"os"
	"sync"
)

// Sync returns when files, and the names in directories, are on the disk. A file that was
// synced, and whose name is lost, is lost. Several are synced at once: a file system with a
// journal writes it once for all of them.
func Sync(paths ...string) error {
	errs := make([]error, len(paths))
	var all sync.WaitGroup
	for i, path := range paths[1:] {
		all.Go(func() { errs[i+1] = syncOne(path) })
	}
	errs[0] = syncOne(paths[0])
	all.Wait()
	return errors.Join(errs...)
}

func syncOne(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
