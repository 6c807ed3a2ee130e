// Package smallfile reads files that fit into a page or two, such as those of
// /proc and our own small ones, with a fraction of os.ReadFile's system calls:
// that asks the runtime's poller about each file, and for files of /proc wakes up a
// thread by it.
package smallfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// first is how much is read at once.
const first = 4096

// Read returns what the file at path holds. Its errors are *os.PathError, as
// os.ReadFile's are.
func Read(path string) ([]byte, error) {
	fd, err := retryInterrupted(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, 0, first)
	for {
		n, err := retryInterrupted(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return text, nil
		}
		if text = text[:len(text)+n]; len(text) == cap(text) {
			text = append(text, make([]byte, len(text))...)[:len(text)]
		}
	}
}

// retryInterrupted makes a call until no signal interrupts it.
func retryInterrupted(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
