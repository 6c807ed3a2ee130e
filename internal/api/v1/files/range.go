package files

import (
	"errors"
	"strconv"
	"strings"

	"github.com/sandkasten/sandkasten/internal/api"
)

// byteRange is what a Range header asks for.
type byteRange struct {
	offset int64
	bytes  int64 // 0 is to the end
	last   bool  // the last bytes of the file, until it is resolved
}

// resolve finds where the last bytes of a file of that size begin.
func (b *byteRange) resolve(size int64) {
	if b.last {
		b.offset, b.last = max(0, size-b.bytes), false
	}
}

// parseRange reads a Range header. Without one, or with one in a unit other
// than bytes, which the standard says to ignore, it returns nil.
func parseRange(header string) (*byteRange, error) {
	ranges, ok := strings.CutPrefix(header, "bytes=")
	if !ok {
		return nil, nil
	}
	from, to, ok := strings.Cut(strings.TrimSpace(ranges), "-")
	if !ok || from == "" && to == "" {
		return nil, api.BadRange("Range must be one range of bytes, like bytes=0-1023, bytes=1024- or bytes=-1024")
	}
	if from == "" {
		n, err := number(to)
		if err != nil || n == 0 {
			return nil, api.BadRange("Range must end in a number of bytes: bytes=-1024 is the last 1024")
		}
		return &byteRange{bytes: n, last: true}, nil
	}
	first, err := number(from)
	if err != nil {
		return nil, api.BadRange("Range must begin with a number of bytes")
	}
	if to == "" {
		return &byteRange{offset: first}, nil
	}
	last, err := number(to)
	if err != nil || last < first {
		return nil, api.BadRange("Range must be one range, and end at or behind its first byte")
	}
	return &byteRange{offset: first, bytes: last - first + 1}, nil
}

// number reads decimal digits and nothing else. One can be added to it: what is larger is
// behind the end of every file, wherever exactly.
func number(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 62)
	if errors.Is(err, strconv.ErrRange) {
		err = nil
	}
	return int64(n), err
}

// rangeError says that no byte of a file of this size was asked for.
type rangeError struct {
	error
	size int64
}

func newRangeError(size int64) error {
	return &rangeError{api.BadRange("Range begins behind the end: the file has %d bytes", size), size}
}

func (e *rangeError) Unwrap() error { return e.error }
