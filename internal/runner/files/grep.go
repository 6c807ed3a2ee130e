package files

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of a grep.
const (
	maxMatches = 10_000
	maxContext = 100       // lines before, and after
	maxShown   = 500       // bytes of a line
	maxLine    = 256 << 10 // bytes of a line that are searched
)

// Grep returns the lines that match, by path and line.
func (s *Server) Grep(req protocol.Grep, check Check) (protocol.Matches, error) {
	g, err := newGrep(req, check)
	if err != nil {
		return protocol.Matches{}, err
	}
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return protocol.Matches{}, err
	}
	fd, err := at.open(at.rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return protocol.Matches{}, s.explain(err, req.Path)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		tree.Close(fd)
		return protocol.Matches{}, s.explain(err, req.Path)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = g.below(fd)
	} else if _, err = statRegular(fd, req.Path); err == nil {
		err = g.file(fd, "")
	} else {
		tree.Close(fd)
	}
	if err != nil && !errors.Is(err, errFull) {
		return protocol.Matches{}, s.explain(err, req.Path)
	}
	return g.found, nil
}

// grep is one Grep under way.
type grep struct {
	protocol.Grep
	re      *regexp.Regexp
	literal []byte   // every line that matches has it; may be empty
	include *pattern // nil is all
	check   Check
	in      *bufio.Reader
	found   protocol.Matches
	room    int
}

func newGrep(req protocol.Grep, check Check) (*grep, error) {
	switch {
	case req.Max < 0 || req.Before < 0 || req.After < 0:
		return nil, protocol.Refuse(protocol.CodeInvalid, "max, before and after must not be negative")
	case req.Before > maxContext || req.After > maxContext:
		return nil, protocol.Refuse(protocol.CodeInvalid, "before and after are limited to %d lines", maxContext)
	case req.Pattern == "" || len(req.Pattern) > protocol.MaxPattern:
		return nil, badPattern("it must have 1 to %d bytes", protocol.MaxPattern)
	}
	if req.Max == 0 || req.Max > maxMatches {
		req.Max = maxMatches
	}
	g := &grep{Grep: req, check: check, room: maxListing, in: bufio.NewReaderSize(nil, maxLine)}
	g.found.Matches = []protocol.Match{}
	expr := req.Pattern
	if req.Literal {
		expr = regexp.QuoteMeta(expr)
	}
	if req.IgnoreCase {
		expr = "(?i)" + expr
	}
	var err error
	if g.re, err = regexp.Compile(expr); err != nil {
		return nil, badPattern("%v", err)
	}
	prefix, _ := g.re.LiteralPrefix()
	g.literal = []byte(prefix)
	if req.Include != "" {
		if g.include, err = compilePattern(req.Include, req.Hidden); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// below searches the files below a directory, which it owns.
func (g *grep) below(dir int) error {
	w, err := tree.NewWalk(dir, tree.Wide, g.check)
	if err != nil {
		return err
	}
	defer w.Close()
	return eachBelow(w, func(e *tree.Entry) (bool, error) {
		if !g.Hidden && e.Name[0] == '.' && (g.include == nil || !g.include.dotted) {
			return false, nil
		}
		if e.Type() == unix.S_IFDIR {
			return g.include == nil || g.include.enters(e.Name, w.Depth()), nil
		}
		path := w.Path()
		if e.Type() != unix.S_IFREG || g.include != nil && !g.include.matches(path) {
			return false, nil
		}
		fd, _, err := tree.OpenFile(w.Dir(), e.Name)
		if err != nil {
			return false, nil // another file by now, or not ours to read
		}
		return false, g.file(fd, path)
	})
}

// file searches an open file, which it owns, until it turns out to be binary.
func (g *grep) file(fd int, path string) error {
	f := os.NewFile(uintptr(fd), "file")
	defer f.Close()
	g.in.Reset(f)
	g.found.Files++
	s := search{grep: g, path: protocol.EscapeName(path), first: len(g.found.Matches), room: g.room}
	for {
		if s.line++; s.line%256 == 0 {
			if err := g.check(); err != nil {
				return err
			}
		}
		line, err := g.in.ReadSlice('\n')
		if bytes.IndexByte(line, 0) >= 0 {
			s.undo()
			return nil
		}
		if err == nil || len(line) > 0 && (errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull)) {
			if err := s.take(bytes.TrimRight(line, "\r\n")); err != nil {
				return err
			}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			err = g.skipLine()
		}
		if err != nil { // its end, or a part that cannot be read
			return nil
		}
	}
}

// skipLine drops the rest of a line that is longer than the buffer.
func (g *grep) skipLine() error {
	for {
		_, err := g.in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if err := g.check(); err != nil {
			return err
		}
	}
}

// search is one file of a grep.
type search struct {
	*grep
	path   string
	line   int
	first  int      // of its matches in all
	room   int      // before it
	before []string // the last lines
	open   int      // matches at the end of the list that may get lines after them
	full   bool     // no match more is taken
}

// undo forgets the file: it is binary.
func (s *search) undo() {
	s.found.Matches = s.found.Matches[:s.first]
	s.found.Binary++
	s.grep.room = s.room
}

// take looks at the next line. It returns errFull when the answer is complete.
func (s *search) take(line []byte) error {
	text := ""
	if s.open > 0 || s.Before > 0 {
		text = shown(line)
	}
	s.lineAfter(text)
	if s.full && s.open == 0 {
		return errFull
	}
	var at []int
	if !s.full && (len(s.literal) == 0 || bytes.Contains(line, s.literal)) {
		at = s.re.FindIndex(line)
	}
	if at != nil {
		m := protocol.Match{Path: s.path, Line: s.line, Column: at[0] + 1, Text: shownAt(line, at[0])}
		m.Before = append(m.Before, s.before...)
		if !s.add(m) {
			s.full, s.found.Truncated = true, true
			if s.open == 0 {
				return errFull
			}
		}
	}
	if s.Before > 0 {
		if len(s.before) == s.Before {
			s.before = s.before[1:]
		}
		s.before = append(s.before, text)
	}
	return nil
}

// lineAfter adds a line to the matches that want it.
func (s *search) lineAfter(text string) {
	ms := s.found.Matches
	for i := len(ms) - s.open; i < len(ms); i++ {
		s.grep.room -= 3 + jsonSize(text)
		if s.grep.room < 0 {
			s.full, s.found.Truncated, s.open = true, true, 0
			return
		}
		ms[i].After = append(ms[i].After, text)
		if len(ms[i].After) == s.After {
			s.open--
		}
	}
}

// add takes a match if there is room for it.
func (s *search) add(m protocol.Match) bool {
	size := 120 + jsonSize(m.Path) + jsonSize(m.Text)
	for _, l := range m.Before {
		size += 3 + jsonSize(l)
	}
	if len(s.found.Matches) == s.Max || s.grep.room < size {
		return false
	}
	s.grep.room -= size
	s.found.Matches = append(s.found.Matches, m)
	if s.After > 0 {
		s.open++
	}
	return true
}

// ellipsis is where a line is cut.
const ellipsis = "\u2026"

// shown is as much of a line as an answer has of it.
func shown(line []byte) string { return shownAt(line, 0) }

// shownAt is as much of a line as an answer has of it, with what is at a place.
func shownAt(line []byte, at int) string {
	if len(line) <= maxShown {
		return string(line)
	}
	const room = maxShown - 2*len(ellipsis) - utf8.UTFMax
	from := wholeFrom(line, min(max(at-room/4, 0), len(line)-room))
	to := len(line)
	if to-from >= room+utf8.UTFMax {
		to = wholeFrom(line, from+room)
	}
	text := string(line[from:to])
	if from > 0 {
		text = ellipsis + text
	}
	if to < len(line) {
		text += ellipsis
	}
	return text
}

// wholeFrom is a place or up to three bytes before it, where a character begins.
func wholeFrom(line []byte, at int) int {
	for back := range utf8.UTFMax {
		if i := at - back; i <= 0 || i >= len(line) || utf8.RuneStart(line[i]) {
			return max(i, 0)
		}
	}
	return at
}
