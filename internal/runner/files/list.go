package files

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of listings. The second keeps the answer below protocol.MaxHeader.
const (
	maxEntries = 10_000
	maxListing = 160 << 10
)

// Check is called often by what may take long, and ends it with its error: the
// daemon went away.
type Check func() error

// List returns a directory's entries, by name, and those of the directories
// below behind their directory's. Links are described, not followed.
func (s *Server) List(req protocol.List, check Check) (protocol.Entries, error) {
	switch {
	case req.Max < 0:
		return protocol.Entries{}, protocol.Refuse(protocol.CodeInvalid, "max must not be negative")
	case req.Depth < -1:
		return protocol.Entries{}, protocol.Refuse(protocol.CodeInvalid, "depth must be -1 for all, or the number of levels")
	}
	list := newListing(req.Max)
	w, err := s.walk(req.Path, reach(req.AllowOutside), list.limit+1, check)
	if err != nil {
		return protocol.Entries{}, err
	}
	defer w.Close()
	deeper := func(depth int) bool { return req.Depth < 0 || depth+1 < req.Depth }
	if len(req.After) > 0 {
		parts, err := afterParts(string(req.After))
		if err == nil {
			err = w.Seek(parts, deeper)
		}
		if err != nil {
			return protocol.Entries{}, s.explain(err, req.Path)
		}
	}
	err = eachBelow(w, func(e *tree.Entry) (bool, error) {
		if !list.add(w, e) {
			return false, errFull
		}
		return deeper(w.Depth()), nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return protocol.Entries{}, s.explain(err, req.Path)
	}
	if n := len(list.Entries.Entries); n > 0 && list.Truncated {
		list.Next = []byte(protocol.UnescapeName(list.Entries.Entries[n-1].Name))
	}
	return list.Entries, nil
}

func afterParts(after string) ([]string, error) {
	parts := strings.Split(after, "/")
	for _, p := range parts {
		if p == "" || p == "." || p == ".." || strings.IndexByte(p, 0) >= 0 {
			return nil, protocol.Refuse(protocol.CodeInvalid, "after must be what the answer before had as next")
		}
	}
	return parts, nil
}

// errFull ends a walk whose answer is complete.
var errFull = errors.New("enough")

// walk opens a directory to go over what is below it, limit names at a time.
func (s *Server) walk(asked string, far reach, limit int, check Check) (*tree.Walk, error) {
	at, err := s.locate(asked, far)
	if err != nil {
		return nil, err
	}
	fd, err := at.open(at.rel, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return nil, s.explain(err, asked)
	}
	w, err := tree.NewWalk(fd, limit, check)
	return w, s.explain(err, asked)
}

// eachBelow calls visit for every entry, until its first error. Whether it
// goes into a directory is what visit returns. Directories that cannot be
// opened, and what no request could name, are left out.
func eachBelow(w *tree.Walk, visit func(*tree.Entry) (enter bool, err error)) error {
	return w.Each(func(e *tree.Entry) error {
		if e.Leave || w.PathLen() > protocol.MaxPath {
			return nil
		}
		enter, err := visit(e)
		if err != nil {
			return err
		}
		if enter && e.Type() == unix.S_IFDIR {
			if err := w.Enter(); err != nil && !isUnreadable(err) {
				return err
			}
		}
		return nil
	})
}

// isUnreadable reports whether a directory could just not be entered: it is
// another file by now, forbidden, or the kernel's.
func isUnreadable(err error) bool {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.EPERM, tree.ErrKernelFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// listing is an answer that fits into a frame's header.
type listing struct {
	protocol.Entries
	limit int
	room  int
}

func newListing(limit int) *listing {
	if limit <= 0 || limit > maxEntries {
		limit = maxEntries
	}
	return &listing{limit: limit, room: protection.Wider(protection.ListingBound, maxListing, 64), Entries: protocol.Entries{Entries: []protocol.FileInfo{}}}
}

// add describes the entry. It returns false, and notes that there is more, if
// the listing is full.
func (l *listing) add(w *tree.Walk, e *tree.Entry) bool {
	i := info(protocol.EscapeName(w.Path()), &e.Stat)
	if e.Type() == unix.S_IFLNK {
		if target, err := tree.Readlink(w.Dir(), e.Name); err == nil {
			i.Target = protocol.EscapeName(target)
		}
	}
	// JSON makes up to six bytes of one, and the fields take about 160.
	l.room -= 160 + jsonSize(i.Name) + jsonSize(i.Target)
	if len(l.Entries.Entries) == l.limit || l.room < 0 {
		l.Truncated = true
		return false
	}
	l.Entries.Entries = append(l.Entries.Entries, i)
	return true
}

// jsonSize is how long s can be in JSON.
func jsonSize(s string) int {
	n := 0
	for _, b := range []byte(s) {
		if b < ' ' || b >= 0x7f || b == '<' || b == '>' || b == '&' || b == '"' || b == '\\' {
			n += 6
		} else {
			n++
		}
	}
	return n
}
