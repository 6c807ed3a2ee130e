package files

import (
	"errors"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Glob returns the files of every kind that match a pattern, by name.
func (s *Server) Glob(req protocol.Glob, check Check) (protocol.Entries, error) {
	if req.Max < 0 {
		return protocol.Entries{}, protocol.Refuse(protocol.CodeInvalid, "max must not be negative")
	}
	p, err := compilePattern(req.Pattern, req.Hidden)
	if err != nil {
		return protocol.Entries{}, err
	}
	w, err := s.walk(req.Path, reach(req.AllowOutside), tree.Wide, check)
	if err != nil {
		return protocol.Entries{}, err
	}
	defer w.Close()
	list := newListing(req.Max)
	err = eachBelow(w, func(e *tree.Entry) (bool, error) {
		if p.matches(w.Path()) && !list.add(w, e) {
			return false, errFull
		}
		return p.enters(e.Name, w.Depth()), nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return protocol.Entries{}, s.explain(err, req.Path)
	}
	return list.Entries, nil
}
