// Package runnerbin carries the runner's binary inside the daemon's, so that
// the two never differ in version. It holds bytes; what to do with them is the
// drivers' business.
package runnerbin

import (
	"embed"
	"errors"
	"io/fs"
)

// bin holds a placeholder, and the runner once `go tool task build` has put it
// there.
//
//go:embed all:bin
var bin embed.FS

// ErrMissing means that the program was built without `go tool task build`.
var ErrMissing = errors.New("this build has no runner in it: build with `go tool task build`")

// Bytes returns the runner's static binary, or ErrMissing.
func Bytes() ([]byte, error) {
	b, err := bin.ReadFile("bin/runner")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	}
	return b, err
}
