// Package fds keeps account of descriptors while something is set up that takes
// several of them, of which none may be left open if it fails. What is read from
// or written to them is not its business.
package fds

import (
	"os"

	"golang.org/x/sys/unix"
)

// Close closes a descriptor on which nothing was written, or whose writes
// were all reported: the error of such a close tells nothing.
func Close(fd int) {
	if err := unix.Close(fd); err != nil {
		return
	}
}

// Set is descriptors that are closed together, but for those that are kept. After the first
// error it opens nothing more.
type Set struct {
	Err error // the first

	open []int
}

// Add takes in what a call has opened, or its error.
func (s *Set) Add(fd int, call string, err error) int {
	if err != nil {
		s.Err = os.NewSyscallError(call, err)
		return -1
	}
	s.open = append(s.open, fd)
	return fd
}

// Pipe opens both ends of a pipe.
func (s *Set) Pipe() [2]int {
	var p [2]int
	if s.Err == nil {
		err := unix.Pipe2(p[:], unix.O_CLOEXEC)
		s.Add(p[0], "pipe2", err)
		if err == nil {
			s.Add(p[1], "pipe2", nil)
		}
	}
	return p
}

// Open opens a file that exists.
func (s *Set) Open(path string, flags int) int {
	if s.Err != nil {
		return -1
	}
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	return s.Add(fd, "open "+path, err)
}

// Memory opens a memory file.
func (s *Set) Memory(name string) int {
	if s.Err != nil {
		return -1
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	return s.Add(fd, "memfd_create", err)
}

// Keep takes fd out of the set.
func (s *Set) Keep(fd int) int {
	for i, have := range s.open {
		if have == fd {
			s.open = append(s.open[:i], s.open[i+1:]...)
			break
		}
	}
	return fd
}

// Close closes what has not been kept. Closing again does nothing.
func (s *Set) Close() {
	for _, fd := range s.open {
		Close(fd)
	}
	s.open = nil
}
