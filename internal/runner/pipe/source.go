package pipe

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/fds"
)

// Source is a pipe from which a shell's commands read, one after another. The
// shell opens it by path for each command: a program that makes its stdin
// non-blocking does that to no later one. Our reading end keeps the pipe alive
// between them.
type Source struct {
	fd   int    // the reading end
	proc string // where procfs is mounted
}

// NewSource makes a pipe that anybody who finds it may open. The caller closes it.
func NewSource(proc string) (*Source, error) {
	fd, err := openPipe()
	if err != nil {
		return nil, err
	}
	return &Source{fd: fd, proc: proc}, nil
}

// Path is where this process finds the pipe.
func (s *Source) Path() string { return s.proc + "/self/fd/" + strconv.Itoa(s.fd) }

// Size of a pipe, and how often one is emptied at most: somebody may go on to fill it.
const (
	pipeBytes = 64 << 10
	emptyings = 16
)

// Open drops what an earlier command left unread, and opens the pipe for
// writing. The next command sees its end when the Input is closed.
func (s *Source) Open() (*Input, error) {
	left := make([]byte, pipeBytes)
	for range emptyings {
		if n, err := unix.Read(s.fd, left); err != nil || n == 0 {
			break
		}
	}
	fd, err := unix.Open(s.Path(), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "stdin", Err: err}
	}
	return NewInput(os.NewFile(uintptr(fd), "stdin")), nil
}

// Close frees the pipe.
func (s *Source) Close() { fds.Close(s.fd) }
