// Package tree goes over directory trees that somebody hostile changes
// meanwhile. It never follows a link, never opens what is not a directory,
// holds a bounded number of descriptors and of names however deep and wide a
// tree is, and cannot be led out of it by renames: the way up is checked
// against the way down. What is done with the files belongs to the callers.
package tree

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ErrMoved says that a directory is not where it was when it was entered.
var ErrMoved = errors.New("directories were moved while they were read")

// maxOpen is how many directories of a Chain are open at once.
const maxOpen = 32

// Chain is a way down from one directory, the top, to the current one. Only
// the last directories of a long way are held open; on the way back the others
// are opened again, and must be the same ones.
type Chain struct {
	links []link // the first is the top
	low   int    // links[low:] are open, and the top
}

type link struct {
	fd       int
	dev, ino uint64
}

// NewChain returns a Chain whose top is the directory fd. It owns fd, also
// when it fails.
func NewChain(fd int) (*Chain, error) {
	l, err := identify(fd)
	if err != nil {
		Close(fd)
		return nil, err
	}
	return &Chain{links: []link{l}}, nil
}

func identify(fd int) (link, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return link{}, os.NewSyscallError("fstat", err)
	}
	return link{fd: fd, dev: st.Dev, ino: st.Ino}, nil
}

// Dir is a descriptor of the current directory, valid until it is left or
// another one entered.
func (c *Chain) Dir() int { return c.links[len(c.links)-1].fd }

// Depth is how far the current directory is below the top.
func (c *Chain) Depth() int { return len(c.links) - 1 }

// Is reports whether the current directory is the one of st.
func (c *Chain) Is(st *unix.Stat_t) bool {
	l := c.links[len(c.links)-1]
	return l.dev == st.Dev && l.ino == st.Ino
}

// Enter goes into the directory name of the current one. A link is not one.
func (c *Chain) Enter(name string) error {
	fd, err := OpenDir(c.Dir(), name)
	if err != nil {
		return err
	}
	l, err := identify(fd)
	if err != nil {
		Close(fd)
		return err
	}
	c.links = append(c.links, l)
	if c.low = max(c.low, 1); len(c.links)-c.low > maxOpen {
		Close(c.links[c.low].fd)
		c.links[c.low].fd = -1
		c.low++
	}
	return nil
}

// Leave goes back up. After an error the Chain can only be closed.
func (c *Chain) Leave() error {
	last, up := len(c.links)-1, len(c.links)-2
	if want := c.links[up]; want.fd < 0 {
		fd, err := OpenDir(c.Dir(), "..")
		if err != nil {
			return err
		}
		got, err := identify(fd)
		if err != nil || got.dev != want.dev || got.ino != want.ino {
			Close(fd)
			return errors.Join(ErrMoved, err)
		}
		c.links[up].fd, c.low = fd, up
	}
	Close(c.links[last].fd)
	c.links = c.links[:last]
	return nil
}

// Close frees what the Chain holds.
func (c *Chain) Close() {
	for _, l := range c.links {
		if l.fd >= 0 {
			Close(l.fd)
		}
	}
	c.links = nil
}

// OpenDir opens the directory name in dir, and nothing else.
func OpenDir(dir int, name string) (int, error) {
	return retryInterrupted(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
}

// OpenFile opens the regular file name in dir to be read. Whatever else is
// there by now is refused without harm, with ELOOP or ENXIO.
func OpenFile(dir int, name string) (int, *unix.Stat_t, error) {
	fd, err := retryInterrupted(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.ENXIO
	}
	if err != nil {
		Close(fd)
		return -1, nil, err
	}
	return fd, &st, nil
}

func retryInterrupted(open func() (int, error)) (int, error) {
	for {
		fd, err := open()
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// Readlink returns where the link name in dir leads.
func Readlink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Close closes a descriptor through which nothing was written: the error of
// such a close tells nothing.
func Close(fd int) {
	if err := unix.Close(fd); err != nil {
		return
	}
}
