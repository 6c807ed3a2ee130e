package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// maxLine bounds a line: an entry has some hundred bytes.
const maxLine = 64 << 10

// Files are the files of a log, the oldest first. A directory without any has none.
func Files(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "audit-*.log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	switch _, err := os.Stat(filepath.Join(dir, current)); {
	case err == nil:
		files = append(files, filepath.Join(dir, current))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return files, nil
}

// Line is an entry as it was read.
type Line struct {
	Seq  int64
	Time time.Time
	Entry
	Text []byte // as it stands in the file, valid until the next one
}

// Report is what Verify has found.
type Report struct {
	Lines    int64
	First    int64     // number of the first line; more than 1 if older files are gone
	From, To time.Time // of the first and the last line
	Last     string    // hash of the last line
	Cut      int       // lines that a crash of the host has cut, each followed by one that says so
}

// BrokenError says where a chain breaks.
type BrokenError struct {
	File   string
	Line   int // in the file, from 1
	Reason string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s:%d: the line %s", e.File, e.Line, e.Reason)
}

// Verify reads files, the oldest first, and returns a *BrokenError at the first
// line that is not as it was written. on, which may be nil, gets every line
// before that.
func Verify(files []string, on func(Line) error) (Report, error) {
	c := chain{on: on}
	for _, file := range files {
		if err := c.read(file); err != nil {
			return c.Report, err
		}
	}
	if c.pending != nil {
		return c.Report, c.pending
	}
	return c.Report, nil
}

// chain is the state of a verification.
type chain struct {
	Report
	on      func(Line) error
	seq     int64
	pending *BrokenError // the line before, if it is not whole: the next may say why
}

func (c *chain) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, maxLine)
	for n := 1; ; n++ {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if err := c.next(text, file, n); err != nil {
			return err
		}
	}
}

func (c *chain) next(text []byte, file string, n int) error {
	broken := func(format string, args ...any) error {
		return &BrokenError{File: file, Line: n, Reason: fmt.Sprintf(format, args...)}
	}
	of, hash, err := unseal(text)
	if err != nil {
		if c.pending != nil {
			return c.pending
		}
		c.pending = &BrokenError{File: file, Line: n, Reason: err.Error()}
		return nil
	}
	if c.pending != nil {
		if of.Event != "recovered" || bytes.HasSuffix([]byte(c.pending.Reason), []byte("another")) {
			return c.pending
		}
		c.pending = nil
		c.Cut++
	}
	switch {
	case c.Lines == 0:
		c.First, c.From = of.Seq, of.Time
	case of.Seq != c.seq+1:
		return broken("has number %d, and the one before it %d: there was something between them, or is something that was not", of.Seq, c.seq)
	case of.Prev != c.Last:
		return broken("was not written behind the one before it")
	}
	c.Lines++
	c.seq, c.Last, c.To = of.Seq, hash, of.Time
	if c.on == nil {
		return nil
	}
	return c.on(Line{Seq: of.Seq, Time: of.Time, Entry: of.Entry, Text: text})
}

// end is where a log ends.
type end struct {
	seq  int64
	hash string
	torn bool // the last line has no end
}

// lastOf reads the end of the newest file that has a whole line.
func lastOf(dir string) (end, error) {
	files, err := Files(dir)
	if err != nil {
		return end{}, err
	}
	var torn bool
	for _, file := range slices.Backward(files) {
		found, cut, err := lastIn(file)
		if err != nil {
			return end{}, err
		}
		torn = torn || cut
		if found.hash != "" {
			return end{seq: found.seq, hash: found.hash, torn: torn}, nil
		}
	}
	return end{torn: torn}, nil
}

// lastIn is the last whole line of a file, and whether something is behind it.
func lastIn(file string) (found end, cut bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return end{}, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return end{}, false, err
	}
	tail := make([]byte, min(info.Size(), 2*maxLine))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return end{}, false, err
	}
	for len(tail) > 0 {
		at := bytes.LastIndexByte(tail[:len(tail)-1], '\n') + 1
		if of, hash, err := unseal(tail[at:]); err == nil {
			return end{seq: of.Seq, hash: hash}, cut, nil
		}
		cut = true
		tail = tail[:at]
	}
	return end{}, cut, nil
}
