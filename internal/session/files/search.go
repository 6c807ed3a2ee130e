package files

import (
	"context"
	"path"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of what one answer about many files has.
const (
	MaxListed  = 10_000 // entries of a listing or a glob
	MaxMatches = 1000   // of a grep
	MaxContext = 50     // lines around each, on either side
)

// ListFiles returns a directory's entries, sorted by name, at most l.Max of
// those behind l.After, and whether there are more. It asks the runner as often
// as it takes to fill the page.
func (f *Files[ID]) ListFiles(ctx context.Context, id ID, l protocol.List) (list protocol.Entries, err error) {
	switch {
	case l.Max < 1 || l.Max > MaxListed:
		return list, errdefs.Invalid("limit", "must be from 1 to %d", MaxListed)
	case l.Depth < -1:
		return list, errdefs.Invalid("depth", "must be at least 1, or -1 for all")
	case len(l.After) > 0 && !isBelow(string(l.After)):
		return list, errdefs.Invalid("cursor", "must be next_cursor of an answer to this listing")
	}
	if l.Path, err = f.Directory(id, l.Path); err != nil {
		return list, err
	}
	l.AllowOutside = f.opts.Anywhere(id)
	err = f.on(ctx, id, l.User, func(c *runnerclient.Client) error {
		for {
			page, err := c.List(ctx, l)
			if err != nil {
				return err
			}
			list.Entries = append(list.Entries, page.Entries...)
			list.Truncated, list.Next = page.Truncated, page.Next
			l.Max -= len(page.Entries)
			if !page.Truncated || l.Max == 0 || len(page.Entries) == 0 || len(page.Next) == 0 {
				return nil
			}
			l.After = page.Next
		}
	})
	return list, err
}

// isBelow reports whether name is a clean path below a directory. It need not
// be UTF-8: it is not a name from a client, but one that a listing had.
func isBelow(name string) bool {
	return len(name) <= protocol.MaxPath && !strings.ContainsRune(name, 0) && !path.IsAbs(name) && path.Clean(name) == name &&
		name != "." && name != ".." && !strings.HasPrefix(name, "../")
}

// GlobFiles returns the files that match a pattern, at most g.Max.
func (f *Files[ID]) GlobFiles(ctx context.Context, id ID, g protocol.Glob) (list protocol.Entries, err error) {
	if g.Max < 1 || g.Max > MaxListed {
		return list, errdefs.Invalid("limit", "must be from 1 to %d", MaxListed)
	}
	if err := checkPattern("pattern", g.Pattern); err != nil {
		return list, err
	}
	if g.Path, err = f.Directory(id, g.Path); err != nil {
		return list, err
	}
	g.AllowOutside = f.opts.Anywhere(id)
	err = f.on(ctx, id, g.User, func(c *runnerclient.Client) (err error) {
		list, err = c.Glob(ctx, g)
		return err
	})
	return list, err
}

// GrepFiles returns the lines that match a pattern, at most g.Max.
func (f *Files[ID]) GrepFiles(ctx context.Context, id ID, g protocol.Grep) (found protocol.Matches, err error) {
	switch {
	case g.Max < 1 || g.Max > MaxMatches:
		return found, errdefs.Invalid("limit", "must be from 1 to %d", MaxMatches)
	case g.Before < 0 || g.Before > MaxContext:
		return found, errdefs.Invalid("before", "must be from 0 to %d", MaxContext)
	case g.After < 0 || g.After > MaxContext:
		return found, errdefs.Invalid("after", "must be from 0 to %d", MaxContext)
	}
	if err := checkPattern("pattern", g.Pattern); err != nil {
		return found, err
	}
	if !g.Literal {
		if _, err := syntax.Parse(g.Pattern, syntax.Perl); err != nil {
			return found, errdefs.Invalid("pattern", "must be a regular expression in RE2's syntax, or literal must be set: %v", err)
		}
	}
	if g.Include != "" {
		if err := checkPattern("include", g.Include); err != nil {
			return found, err
		}
	}
	if g.Path, err = f.Directory(id, g.Path); err != nil {
		return found, err
	}
	g.AllowOutside = f.opts.Anywhere(id)
	err = f.on(ctx, id, g.User, func(c *runnerclient.Client) (err error) {
		found, err = c.Grep(ctx, g)
		return err
	})
	return found, err
}

func checkPattern(field, pattern string) error {
	switch {
	case pattern == "":
		return errdefs.Invalid(field, "must not be empty")
	case len(pattern) > protocol.MaxPattern:
		return errdefs.OverLimit(field, protocol.MaxPattern)
	case strings.ContainsRune(pattern, 0) || !utf8.ValidString(pattern):
		return errdefs.Invalid(field, "must be valid UTF-8 without NUL bytes")
	}
	return nil
}
