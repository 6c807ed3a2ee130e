package tree

import (
	"bytes"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// maxScanned names are looked at in one directory. It ends the reading of one
// that somebody fills as fast as it is read.
const maxScanned = 16 << 20

// names are the next ones of a directory, in order.
type names struct {
	list []string
	rest bool // there are more behind the last
}

// readNames returns the first names of a directory behind after, in order:
// limit of them, or fewer if they are long. However many there are, it holds
// only about twice as many at once.
func readNames(fd int, after string, limit int, check func() error) (names, error) {
	c := collector{after: []byte(after), limit: limit}
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return names{}, err
	}
	buf := make([]byte, 64<<10)
	for {
		if err := check(); err != nil {
			return names{}, err
		}
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil && err != unix.ENOENT { // ENOENT: it was removed meanwhile
			return names{}, err
		}
		if n <= 0 {
			break
		}
		if err := c.entries(buf[:n]); err != nil {
			return names{}, err
		}
	}
	c.cut()
	return c.names, nil
}

// collector keeps the smallest names.
type collector struct {
	names
	after   []byte
	limit   int
	bound   string // with rest: none behind it is wanted
	bytes   int    // of list
	scanned int
}

// maxNameBytes of names are held for one directory.
const maxNameBytes = 8 << 20

// entries takes the records of one getdents64(2): inode 8, offset 8, length 2,
// type 1, then the name with its zero.
func (c *collector) entries(buf []byte) error {
	const nameAt = 19
	for len(buf) > nameAt {
		size := int(binary.NativeEndian.Uint16(buf[16:]))
		if size <= nameAt || size > len(buf) {
			return unix.EIO
		}
		name, _, _ := bytes.Cut(buf[nameAt:size], []byte{0})
		c.add(name)
		buf = buf[size:]
	}
	if c.scanned > maxScanned {
		return unix.EOVERFLOW
	}
	return nil
}

func (c *collector) add(name []byte) {
	c.scanned++
	switch {
	case string(name) == "." || string(name) == "..":
		return
	case len(c.after) > 0 && bytes.Compare(name, c.after) <= 0:
		return
	case c.rest && string(name) > c.bound:
		return
	}
	c.list = append(c.list, string(name))
	c.bytes += len(name)
	if len(c.list) > 2*c.limit || c.bytes > 2*maxNameBytes {
		c.cut()
	}
}

// cut sorts the list and drops what is over the limits.
func (c *collector) cut() {
	slices.Sort(c.list)
	c.list = slices.Compact(c.list) // a directory that changes may tell one twice
	keep, size := 0, 0
	for keep < len(c.list) && keep < c.limit && size <= maxNameBytes {
		size += len(c.list[keep])
		keep++
	}
	if keep < len(c.list) {
		c.rest = true
		clear(c.list[keep:])
		c.list = c.list[:keep]
		c.bound = c.list[keep-1]
	}
	c.bytes = size
}
