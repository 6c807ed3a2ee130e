// Package storetest gives tests databases that need no migration: with the race detector
// a new one takes 290 ms of a processor, a copy of one 70, and most tests of what stands
// on the store open one.
package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/store"
)

// NewDB makes a database without rows in a directory of the test's, for store.Open, and
// returns its path.
func NewDB(tb testing.TB) string {
	tb.Helper()
	data, err := empty()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// empty is the file of a database without rows. Each process makes it itself, so it
// always has the schema of the sources that are tested.
var empty = sync.OnceValues(func() (data []byte, err error) {
	dir, err := os.MkdirTemp("", "storetest-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "db")
	rows, err := store.Open(context.Background(), path) //nolint:forbidigo // for all tests of the process
	if err != nil {
		return nil, err
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
