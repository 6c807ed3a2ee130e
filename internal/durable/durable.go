// Package durable makes what was written last through a crash of the host.
package durable

import (
	"errors"
	"os"
)

// Names makes the names in a directory last: a file that was synced, and whose name is
// lost, is lost.
func Names(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
