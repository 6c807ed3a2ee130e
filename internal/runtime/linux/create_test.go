package linux

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
)

// What a host has no more of is not our fault, and its client can do something
// about it.
func TestWhatAHostIsShortOfHasACode(t *testing.T) {
	for _, test := range []struct {
		err  error
		want errdefs.Code
	}{
		{&os.PathError{Op: "write", Err: unix.ENOSPC}, errdefs.InsufficientSpace},
		{unix.EDQUOT, errdefs.InsufficientSpace},
		{unix.EAGAIN, errdefs.Unavailable},
		{unix.EMFILE, errdefs.Unavailable},
		{unix.EROFS, errdefs.Unavailable},
		{unix.EIO, errdefs.Unavailable},
		{&ids.ExhaustedError{}, errdefs.Unavailable},
		{unix.EINVAL, errdefs.Internal},
	} {
		got := classify(fmt.Errorf("step: %w", test.err))
		if !errors.Is(got, test.err) || errdefs.CodeOf(got) != test.want {
			t.Errorf("%v: %s, want %s", test.err, errdefs.CodeOf(got), test.want)
		}
	}
}
