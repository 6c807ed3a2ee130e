// Package dirlock gives a data directory to one process at a time. The lock
// is the kernel's and ends with the process, however it ends.
package dirlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// file in the directory that carries the lock and the holder's process id.
const file = "lock"

// Open file description locks: two holders in one process exclude each other
// too, and looking (getLock) takes nothing. The syscall package has no names
// for them.
const (
	getLock = 36 // F_OFD_GETLK
	setLock = 37 // F_OFD_SETLK
)

// HeldError says who holds the lock.
type HeldError struct {
	Dir string
	PID int // 0 when the holder has not written it yet
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is in use by process %d", e.Dir, e.PID)
}

// Lock is held until Release or the end of the process.
type Lock struct{ f *os.File }

// Acquire locks dir, which must exist, and writes our process id into it. It
// does not wait: when another holds the lock the error is a *HeldError.
func Acquire(dir string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	whole := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), setLock, &whole); err != nil {
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
			pid := holder(dir)
			return nil, errors.Join(&HeldError{Dir: dir, PID: pid}, f.Close())
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	if err := note(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Lock{f}, nil
}

// note writes our process id over what an earlier holder left. The number is for
// people: a full disk, which has no room for it, is no reason to go without a lock.
func note(f *os.File) error {
	const size = 20 // one number is not the end of a longer one
	_, err := f.WriteAt(fmt.Appendf(nil, "%-*d\n", size, os.Getpid()), 0)
	if err == nil {
		err = f.Truncate(size + 1)
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("note lock holder: %w", err)
	}
	return nil
}

// Release gives the directory free. The file stays: removing it would let two
// processes lock two files of one name.
func (l *Lock) Release() error { return l.f.Close() }

// Holder says whether some process holds dir's lock, and which. It takes
// nothing, so it cannot stand in the way of one that is just starting.
func Holder(dir string) (pid int, held bool, err error) {
	f, err := os.Open(filepath.Join(dir, file))
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("open lock: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	whole := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), getLock, &whole); err != nil {
		return 0, false, fmt.Errorf("look at lock of %s: %w", dir, err)
	}
	if whole.Type == syscall.F_UNLCK {
		return 0, false, nil
	}
	return holder(dir), true, nil
}

func holder(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
