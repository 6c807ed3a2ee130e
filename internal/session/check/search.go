package check

import (
	"regexp/syntax"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of what one answer about many files has.
const (
	MaxListed  = 10_000 // entries of a listing or a glob
	MaxMatches = 1000   // of a grep
	MaxContext = 50     // lines around each, on either side
)

// List refuses a listing that no runner can be asked for.
func List(l protocol.List) error {
	switch {
	case l.Max < 1 || l.Max > MaxListed:
		return errdefs.Invalid("limit", "must be from 1 to %d", MaxListed)
	case l.Depth < -1:
		return errdefs.Invalid("depth", "must be at least 1, or -1 for all")
	case len(l.After) > 0 && !IsBelow(string(l.After)):
		return errdefs.Invalid("cursor", "must be next_cursor of an answer to this listing")
	}
	return nil
}

// Glob refuses a search for names that no runner can be asked for.
func Glob(g protocol.Glob) error {
	if g.Max < 1 || g.Max > MaxListed {
		return errdefs.Invalid("limit", "must be from 1 to %d", MaxListed)
	}
	return Pattern("pattern", g.Pattern)
}

// Grep refuses a search for lines that no runner can be asked for.
func Grep(g protocol.Grep) error {
	switch {
	case g.Max < 1 || g.Max > MaxMatches:
		return errdefs.Invalid("limit", "must be from 1 to %d", MaxMatches)
	case g.Before < 0 || g.Before > MaxContext:
		return errdefs.Invalid("before", "must be from 0 to %d", MaxContext)
	case g.After < 0 || g.After > MaxContext:
		return errdefs.Invalid("after", "must be from 0 to %d", MaxContext)
	}
	if err := Pattern("pattern", g.Pattern); err != nil {
		return err
	}
	if !g.Literal {
		if _, err := syntax.Parse(g.Pattern, syntax.Perl); err != nil {
			return errdefs.Invalid("pattern", "must be a regular expression in RE2's syntax, or literal must be set: %v", err)
		}
	}
	if g.Include != "" {
		return Pattern("include", g.Include)
	}
	return nil
}
